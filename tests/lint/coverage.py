#!/usr/bin/env python3
"""Every diagnostic code, verifier rule, pass and opcode has what belongs to it: tests, a golden file, a line in the docs."""
import re

from source_tree import ROOT, Report, files, name


def rows(path, macro):
    """The argument lists of a table's rows."""
    return re.findall(rf"^{macro}\((.*)\)$", (ROOT / path).read_text(), re.M)


def codes():
    """Every code of the table with its summary; retired ones are comments there."""
    return dict(re.match(r'(E\d{4}), "(.*)"$', row).groups() for row in rows("ir/base/diagnostic_codes.def", "CORRLOOM_CODE"))


def unless(holds, problem):
    return None if holds else problem


def check_codes(report):
    tests = [path.read_text(errors="replace") for path in files(".cpp", ".h", ".loom", ".tir", ".lir", ".sched", ".json", ".py", ".tree", below=["tests"])]
    index = (ROOT / "docs/errors/README.md").read_text()
    docs = {path: path.read_text() for path in files(".md", below=["docs/errors"])}
    sections = {found.group(1): (path, found.group(2), found.group(3)) for path, text in docs.items()
                for found in re.finditer(r"^## (E\d{4}): (.*)\n((?:(?!## ).*\n)*)", text, re.M)}
    for code, summary in codes().items():
        report.judge([unless(any(code in text for text in tests), f"{code} appears in no test"),
                      unless(sections.get(code, ("", ""))[1] == summary, f"docs/errors has no section `## {code}: {summary}`")])
    for code, (path, summary, body) in sections.items():
        example, _, mend = body.partition("\nMended")
        report.judge([unless(code in codes(), f"{name(path)} explains {code}, which is not in the table of codes"),
                      unless(f"| [{code}]({path.name}) | {summary} |\n" in index, f"docs/errors/README.md has no row for {code}"),
                      unless(re.search(rf"^```(loom|tir)\b.* error={code}|^```(loom|tir) error={code}|error\[{code}\]", example, re.M),
                             f"{name(path)}: {code} has no example that a test compiles"),
                      unless(re.search(r"^```(loom|tir|console)(?!.*error=)", mend, re.M), f"{name(path)}: {code} has no mend that a test compiles")])


def check_rules(report):
    readme = (ROOT / "ir/README.md").read_text()
    unit = "\n".join(path.read_text() for path in files(".cpp", below=["tests/unit/ir"]))
    for letter, source, suffix in (("T", "ir/tensor/verify.cpp", ".tir"), ("L", "ir/loop/verify.cpp", ".lir")):
        used = set(re.findall(rf'"({letter}\d+)"', (ROOT / source).read_text()))
        listed = set(re.findall(rf"^- ({letter}\d+): ", readme, re.M))
        for rule in sorted(used | listed, key=lambda text: int(text[1:])):
            report.judge([unless(rule in used, f"{rule} is listed in ir/README.md, but {source} never names it"),
                          unless(rule in listed, f"{rule} of {source} is not listed in ir/README.md"),
                          unless((ROOT / f"tests/golden/verify/{rule}{suffix}").exists(), f"{rule} has no file in tests/golden/verify"),
                          unless(re.search(rf'"{rule}"', unit), f"{rule} has no unit test")])


def check_passes(report):
    names = re.findall(r'^    \{"(\w+)", \w+, ', (ROOT / "compiler/passes/pipeline.cpp").read_text(), re.M)
    report.judge([unless(len(names) >= 10, "compiler/passes/pipeline.cpp: its table of passes is not found")])
    for one in names:
        golden = [ROOT / f"tests/golden/passes/{one}{suffix}" for suffix in (".tir", ".lir")]
        report.judge([unless(any(path.exists() for path in golden), f"the pass {one} has no golden file"),
                      unless((ROOT / f"compiler/passes/{one}.cpp").exists(), f"the pass {one} has no file of its name")])
    for path in files(".tir", ".lir", below=["tests/golden/passes"]):
        report.judge([unless(re.sub(r"_errors$", "", path.stem) in names, f"{name(path)} is named after no pass")])


def check_opcodes(report):
    docs = (ROOT / "docs/ir.md").read_text()
    for row in rows("ir/scalar/opcodes.def", "CORRLOOM_OPCODE"):
        text = re.search(r'"([^"]+)"', row).group(1)
        report.judge([unless(f"| `{text}` |" in docs, f"the opcode {text} has no line in docs/ir.md")])


def main():
    report = Report()
    check_codes(report)
    check_rules(report)
    check_passes(report)
    check_opcodes(report)
    report.finish()


if __name__ == "__main__":
    main()
