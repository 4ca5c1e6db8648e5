#!/usr/bin/env python3
"""Compiles every program in the documentation, and runs its commands.

    docs_test.py --corrloom PATH [FILE.md...]

A block ```loom has to be free of errors; a block ```loom error=E0201 has to be refused with that code and no other one. In a block
```console the output of each line that begins with `$ ` has to be the lines below it, where `...` stands for anything. The last line is
`N passed, N failed`.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
BLOCK = re.compile(r"^```loom(?: error=(E\d{4}))?\n(.*?)^```$", re.M | re.S)


def blocks_of(path):
    """(line, wanted code or nothing, program) of each block."""
    text = path.read_text()
    for found in BLOCK.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, found.group(1), found.group(2)


def wrong_with(program, wanted, corrloom):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "program.loom"
        file.write_text(program)
        done = subprocess.run([corrloom, "check", file], capture_output=True, text=True, timeout=60)
    codes = set(re.findall(r"error\[(E\d{4})\]", done.stderr))
    if wanted:
        return None if done.returncode == 1 and codes == {wanted} else f"exit {done.returncode}, codes {sorted(codes)}, wanted {wanted}: {done.stderr[:300]}"
    return None if done.returncode == 0 else f"exit {done.returncode}: {done.stderr[:300]}"


def commands_of(path):
    """(line, command, wanted output) of each command."""
    text = path.read_text()
    for found in CONSOLE.finditer(text):
        first = text.count("\n", 0, found.start()) + 2
        lines = found.group(1).split("\n")
        starts = [k for k, line in enumerate(lines) if line.startswith("$ ")]
        for start, end in zip(starts, [*starts[1:], len(lines)]):
            yield first + start, lines[start][2:], "\n".join(lines[start + 1:end]).rstrip("\n")


def wrong_with_command(command, wanted, programs):
    """Runs it in an empty folder that has the examples."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "examples").symlink_to(ROOT / "examples")
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, cwd=folder, env=environment)
    got = (done.stdout + done.stderr).rstrip("\n")
    pattern = ".*".join(re.escape(re.sub(r" +", " ", part)) for part in wanted.split("..."))
    return None if re.fullmatch(pattern, re.sub(r" +", " ", got), re.S) else f"wanted\n{wanted}\ngot\n{got}"


def main():
    parser = argparse.ArgumentParser(description="Compiles every program in the documentation.")
    parser.add_argument("--corrloom", required=True)
    parser.add_argument("files", type=pathlib.Path, nargs="*", default=[ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
    args = parser.parse_args()
    passed = failed = 0
    for path in args.files:
        for line, wanted, program in blocks_of(path):
            wrong = wrong_with(program, wanted, args.corrloom)
            passed, failed = passed + (not wrong), failed + bool(wrong)
            if wrong:
                print(f"FAIL {path.name}:{line}: {wrong}")
        for line, command, wanted in commands_of(path):
            wrong = wrong_with_command(command, wanted, pathlib.Path(args.corrloom).resolve().parent)
            passed, failed = passed + (not wrong), failed + bool(wrong)
            if wrong:
                print(f"FAIL {path.name}:{line}: {wrong}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
