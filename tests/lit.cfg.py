# Configuration of the golden tests. CMake names the programs (-D); by hand, from the root of the project:
#
#   lit-22 -sv -Dbin=build/bin tests/golden/passes
#
# The first line of a golden file says how it is run: `// RUN: %corrloom-opt %s --pass=canonicalise | FileCheck %s`.
import os

import lit.formats

here = os.path.dirname(os.path.abspath(__file__))
bin_folder = os.path.abspath(lit_config.params.get("bin", os.path.join(here, "..", "build", "bin")))

config.name = "golden"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".loom", ".tir", ".lir", ".sched"]
config.excludes = ["Inputs", "parse"]  # the parser's trees: their unit test compares them
config.test_source_root = here
config.test_exec_root = os.path.join(bin_folder, "..", "golden")
config.environment["NO_COLOR"] = "1"
config.environment["CORRLOOM_CACHE_DIR"] = "off"
config.substitutions += [
    ("%corrloom-opt", os.path.join(bin_folder, "corrloom-opt")),
    ("%corrloom", os.path.join(bin_folder, "corrloom")),
    (r"\bFileCheck\b", lit_config.params.get("filecheck", "FileCheck-22")),
]
