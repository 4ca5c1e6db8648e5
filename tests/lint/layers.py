#!/usr/bin/env python3
"""Dependencies between the layers run one way: every include is checked against the table below."""
import re

from source_tree import ROOT, Report, files, name

# Layer -> the layers whose headers it may include, besides its own. The longest folder that fits names the layer.
ALLOWED = {
    "ir/base": [],
    "ir/scalar": ["ir/base"],
    "ir/affine": ["ir/base", "ir/scalar"],
    "ir/tensor": ["ir/base", "ir/scalar", "ir/affine"],
    "ir/loop": ["ir/base", "ir/scalar", "ir/affine", "ir/tensor"],
    "ir/schedule": ["ir/base", "ir/scalar", "ir/affine", "ir/tensor"],
    "ir/kernel": ["ir/base", "ir/scalar"],
    "compiler/frontend": ["ir"],
    "compiler/passes": ["ir"],
    "compiler/codegen": ["ir"],
    "compiler/driver": ["ir", "compiler/frontend", "compiler/passes", "compiler/codegen"],
    "compiler/tune": ["ir", "compiler/driver", "runtime"],
    "runtime": ["ir/base", "ir/kernel", "ir/scalar"],
    "runtime/sim": [],
    "compiler/api": ["ir", "compiler/frontend", "compiler/passes", "compiler/codegen", "compiler/driver", "compiler/tune", "runtime"],
    "compiler/tools": ["ir", "compiler/frontend", "compiler/passes", "compiler/codegen", "compiler/driver", "compiler/tune", "compiler/api", "runtime"],
}
LAYERS = sorted(ALLOWED, key=len, reverse=True)
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)
OURS = ("ir/", "compiler/", "runtime/", "tests/", "examples/")


def layer_of(path):
    return next((layer for layer in LAYERS if path.startswith(layer + "/")), None)


def may_include(layer, target):
    """Whether a file of `layer` may include the header `target`."""
    if target.startswith(layer + "/") and layer_of(target) == layer:
        return True
    if layer_of(target) == "runtime/sim":  # the simulator is loaded, never included
        return False
    return any(target.startswith(allowed + "/") for allowed in ALLOWED[layer])


def check_file(path, report):
    own = name(path)
    layer = layer_of(own)
    includes = INCLUDE.findall(path.read_text(errors="replace"))
    for bracket, target in includes:
        if target.startswith(("llvm/", "llvm-c/")):
            report.expect(own.startswith("compiler/codegen/") and path.suffix == ".cpp",
                          f"{own} includes {target}: LLVM's headers belong to .cpp files of compiler/codegen")
        elif target.startswith("isl/"):
            report.expect(own == "ir/affine/integer_set.cpp", f"{own} includes {target}: isl belongs to ir/affine/integer_set.cpp")
        elif layer and target.startswith(OURS):
            report.expect((ROOT / target).exists(), f"{own} includes {target}, which is not there")
            report.expect(may_include(layer, target), f"{own} includes {target}: {layer} may not depend on it")
        elif layer and bracket == '"':
            report.expect(False, f'{own} includes "{target}": the project\'s headers are named from its root')


def check_examples(path, report):
    for _, target in INCLUDE.findall(path.read_text()):
        report.expect(not target.startswith(OURS), f"{name(path)} includes {target}: examples use <corrloom/corrloom.h> only")


def main():
    report = Report()
    for path in files(".h", ".cpp", ".def", below=["ir", "compiler", "runtime"]):
        check_file(path, report)
    for path in files(".h", ".cpp", below=["examples"]):
        check_examples(path, report)
    report.finish()


if __name__ == "__main__":
    main()
