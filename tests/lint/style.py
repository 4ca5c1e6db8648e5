#!/usr/bin/env python3
"""Files are short and whole, folders say what they are, and nothing names one machine."""
import re

from source_tree import ROOT, Report, files, is_built, name

MOST_LINES = 900
TEXT = (".h", ".cpp", ".def", ".py", ".sh", ".cmake", ".loom", ".md", ".txt", ".map", ".in", "")
# Absolute paths of somebody's machine, and words that mark work left undone. Spelled so that this file passes itself.
MACHINE = re.compile(r"(?<![\w./-])/(?:home|root|work|farm|Users|" + "tmp/" + r"bash_jobs)/")
UNDONE = re.compile(r"\b(?:TO" + "DO|FIX" + "ME|XX" + r"X)\b")


def needs_readme(folder):
    """Folders with sources or documents of their own; data and golden files belong to the folder above."""
    return any(path.is_file() and path.suffix in (".h", ".cpp", ".py", ".sh") for path in folder.iterdir())


def check_text(path, report):
    text = path.read_text(errors="replace")
    report.expect(text.count("\n") <= MOST_LINES, f"{name(path)} has {text.count(chr(10))} lines, more than {MOST_LINES}: one subject a file")
    for pattern, what in ((MACHINE, "a path of one machine"), (UNDONE, "something left undone")):
        found = pattern.search(text)
        line = text.count("\n", 0, found.start()) + 1 if found else 0
        report.expect(not found, f"{name(path)}:{line}: {what}")
    report.expect(not text or text.endswith("\n") or "/data/" in name(path) or "golden/parse" in name(path), f"{name(path)} does not end with a line end")


def main():
    report = Report()
    for path in files(*TEXT):
        if path.name != "LICENSE":
            check_text(path, report)
    for top in ("ir", "compiler", "runtime", "examples", "tests", "docs"):
        for folder in [ROOT / top, *(path for path in sorted((ROOT / top).rglob("*")) if path.is_dir())]:
            if is_built(folder) or not needs_readme(folder) or "unit" in folder.relative_to(ROOT).parts[1:-1]:
                continue
            report.expect((folder / "README.md").exists(), f"{name(folder)} has no README.md")
    report.finish()


if __name__ == "__main__":
    main()
