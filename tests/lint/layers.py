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
    "compiler/grad": ["ir"],
    "compiler/std": [],
    "compiler/frontend": ["ir", "compiler/grad", "compiler/std"],
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


def problem_of(path, own, layer, bracket, target):
    """What is wrong with one include; None when nothing is."""
    if target.startswith(("llvm/", "llvm-c/")):
        if not own.startswith("compiler/codegen/") or path.suffix != ".cpp":
            return f"{own} includes {target}: LLVM's headers belong to .cpp files of compiler/codegen"
    elif target.startswith("isl/"):
        if own != "ir/affine/integer_set.cpp":
            return f"{own} includes {target}: isl belongs to ir/affine/integer_set.cpp"
    elif layer and target.startswith(OURS):
        if not (ROOT / target).exists():
            return f"{own} includes {target}, which is not there"
        if not may_include(layer, target):
            return f"{own} includes {target}: {layer} may not depend on it"
    elif layer and bracket == '"':
        return f'{own} includes "{target}": the project\'s headers are named from its root'
    return None


def problems_of_file(path):
    own = name(path)
    return [problem_of(path, own, layer_of(own), *include) for include in INCLUDE.findall(path.read_text(errors="replace"))]


def problems_of_example(path):
    return [f"{name(path)} includes {target}: examples use <corrloom/corrloom.h> only"
            for _, target in INCLUDE.findall(path.read_text()) if target.startswith(OURS)]


def main():
    report = Report()
    for path in files(".h", ".cpp", ".def", below=["ir", "compiler", "runtime"]):
        report.judge(problems_of_file(path))
    for path in files(".h", ".cpp", below=["examples"]):
        report.judge(problems_of_example(path))
    report.finish()


if __name__ == "__main__":
    main()
