#!/usr/bin/env python3
"""Every diagnostic code, verifier rule, pass and opcode has what belongs to it: tests, a golden file, a line in the docs."""
import re

from source_tree import ROOT, Report, files, name


def rows(path, macro):
    """The argument lists of a table's rows."""
    return re.findall(rf"^{macro}\((.*)\)$", (ROOT / path).read_text(), re.M)


def codes():
    """Every code of the table; retired ones are comments there."""
    return [row.split(",")[0].strip() for row in rows("ir/base/diagnostic_codes.def", "CORRLOOM_CODE")]


def check_codes(report):
    tests = {path: path.read_text(errors="replace") for path in files(".cpp", ".h", ".loom", ".tir", ".lir", ".sched", ".json", ".py", ".tree", below=["tests"])}
    docs = (ROOT / "docs/errors.md").read_text()
    for code in codes():
        report.expect(any(code in text for text in tests.values()), f"{code} appears in no test")
        report.expect(f"## {code}:" in docs, f"{code} has no section in docs/errors.md")
    for code in re.findall(r"^## (E\d{4}):", docs, re.M):
        report.expect(code in codes(), f"docs/errors.md explains {code}, which is not in the table of codes")


def check_rules(report):
    readme = (ROOT / "ir/README.md").read_text()
    for letter, source, suffix in (("T", "ir/tensor/verify.cpp", ".tir"), ("L", "ir/loop/verify.cpp", ".lir")):
        used = set(re.findall(rf'"({letter}\d+)"', (ROOT / source).read_text()))
        listed = set(re.findall(rf"^- ({letter}\d+): ", readme, re.M))
        for rule in sorted(used | listed, key=lambda text: int(text[1:])):
            report.expect(rule in used, f"{rule} is listed in ir/README.md, but {source} never names it")
            report.expect(rule in listed, f"{rule} of {source} is not listed in ir/README.md")
            report.expect((ROOT / f"tests/golden/verify/{rule}{suffix}").exists(), f"{rule} has no file in tests/golden/verify")
        unit = "\n".join(path.read_text() for path in files(".cpp", below=["tests/unit/ir"]))
        for rule in sorted(used):
            report.expect(re.search(rf"\b{rule}\b|\b{rule}(?=[A-Z])", unit), f"{rule} has no unit test")


def check_passes(report):
    names = re.findall(r'^    \{"(\w+)", \w+, ', (ROOT / "compiler/passes/pipeline.cpp").read_text(), re.M)
    report.expect(len(names) >= 10, "compiler/passes/pipeline.cpp: its table of passes is not found")
    for one in names:
        golden = [ROOT / f"tests/golden/passes/{one}{suffix}" for suffix in (".tir", ".lir")]
        report.expect(any(path.exists() for path in golden), f"the pass {one} has no golden file")
        report.expect((ROOT / f"compiler/passes/{one}.cpp").exists(), f"the pass {one} has no file of its name")
    for path in files(".tir", ".lir", below=["tests/golden/passes"]):
        report.expect(re.sub(r"_errors$", "", path.stem) in names, f"{name(path)} is named after no pass")


def check_opcodes(report):
    docs = (ROOT / "docs/language.md").read_text() + (ROOT / "docs/ir.md").read_text()
    for row in rows("ir/scalar/opcodes.def", "CORRLOOM_OPCODE"):
        text = re.search(r'"([^"]+)"', row).group(1)
        report.expect(f"`{text}`" in docs, f"the opcode {text} is mentioned neither in docs/language.md nor in docs/ir.md")


def main():
    report = Report()
    check_codes(report)
    check_rules(report)
    check_passes(report)
    check_opcodes(report)
    report.finish()


if __name__ == "__main__":
    main()
