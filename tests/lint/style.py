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


def problems_of_text(path):
    text = path.read_text(errors="replace")
    lines = text.count("\n")
    if lines > MOST_LINES:
        yield f"{name(path)} has {lines} lines, more than {MOST_LINES}: one subject a file"
    for pattern, what in ((MACHINE, "a path of one machine"), (UNDONE, "something left undone")):
        for found in pattern.finditer(text):
            yield f"{name(path)}:{text.count(chr(10), 0, found.start()) + 1}: {what}"
    is_data = "/data/" in name(path) or "golden/parse" in name(path)
    if text and not text.endswith("\n") and not is_data:
        yield f"{name(path)} does not end with a line end"


def main():
    report = Report()
    for path in files(*TEXT):
        if path.name != "LICENSE":
            report.judge(problems_of_text(path))
    for top in ("ir", "compiler", "runtime", "examples", "tests", "docs"):
        for folder in [ROOT / top, *(path for path in sorted((ROOT / top).rglob("*")) if path.is_dir())]:
            if is_built(folder) or not needs_readme(folder) or "unit" in folder.relative_to(ROOT).parts[1:-1]:
                continue
            report.judge([None if (folder / "README.md").exists() else f"{name(folder)} has no README.md"])
    report.finish()


if __name__ == "__main__":
    main()
