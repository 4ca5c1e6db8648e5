#!/usr/bin/env python3
"""Rewrites the CHECK lines of golden files from what their RUN line prints now. Review the difference before keeping it.

    tests/update_golden.py [--bin build/bin] FILE...

Each graph, function or schedule of the output becomes CHECK lines above the item of the same name in the file (for a `.loom`
file: above the op), below the comment that says what the case is about. Only files whose first line is
`RUN: COMMAND | FileCheck %s` can be rewritten; files with a few hand-written CHECK lines are not meant for it.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ITEM = re.compile(r"^(?:(?:graph|func|schedule) @|op )([\w.]+)")
SOURCE_ITEM = re.compile(r"^(?:(?:graph|func|schedule) @([\w.]+)|op (\w+))")


def check_lines(item, comment):
    """An output item as CHECK lines. FileCheck reads `[[` and `{{` as its own."""
    escaped = [re.sub(r"\[\[|\{\{", lambda found: "{{" + re.escape(found.group()) + "}}", line) for line in item]
    width = len("CHECK-LABEL: ")
    keys = ["CHECK-LABEL: "] + ["CHECK-NEXT:".ljust(width)] * (len(escaped) - 1)
    return [f"{comment} {key}{line}".rstrip() for key, line in zip(keys, escaped)]


def items_of(output):
    """The items of a text in their order: (name, lines)."""
    items = []
    for line in output.splitlines():
        found = ITEM.match(line)
        if found:
            items.append((found.group(1), []))
        if items and line.strip():
            items[-1][1].append(line)
    return items


def update(path, bin_folder):
    lines = path.read_text().splitlines()
    comment = "#" if path.suffix == ".loom" else "//"
    run = re.match(re.escape(comment) + r" RUN: (.*) \| FileCheck %s$", lines[0])
    if not run:
        sys.exit(f"{path}: the first line is not `{comment} RUN: COMMAND | FileCheck %s`")
    command = run.group(1).replace("%corrloom", str(bin_folder / "corrloom")).replace("%s", str(path))
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{path}: {command} ended with {done.returncode}:\n{done.stderr}")
    outputs = items_of(done.stdout)
    kept = [line for line in lines if not line.startswith(comment + " CHECK")]
    written = []
    for line in kept:
        found = SOURCE_ITEM.match(line)
        name = found and (found.group(1) or found.group(2))
        for _, item in [output for output in outputs if output[0] == name]:
            written += check_lines(item, comment)
        outputs = [output for output in outputs if output[0] != name]
        written.append(line)
    if outputs:
        sys.exit(f"{path}: the output has items that the file has not: {', '.join(name for name, _ in outputs)}")
    path.write_text("\n".join(written) + "\n")


def main():
    parser = argparse.ArgumentParser(description="Rewrites the CHECK lines of golden files.")
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"), help="folder of corrloom and corrloom-opt")
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    args = parser.parse_args()
    for path in args.files:
        update(path, args.bin.resolve())


if __name__ == "__main__":
    main()
