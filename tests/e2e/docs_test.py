#!/usr/bin/env python3
"""Compiles every program in the documentation, and runs its commands.

    docs_test.py --corrloom PATH [FILE.md...]

A block ```loom has to be free of errors; a block ```loom error=E0201 has to be refused with that code and no other one. With
`with X=ones[3] ...` behind that, the block itself has to be free of errors, and the run on those values succeeds or is refused with the code.
A block ```tir is read by corrloom-opt, with `passes=NAME,...` through those passes, and `error=` means the same there.
Every op of a block of language.md is also compared with the interpreter on made-up arguments. In a block ```console the output of each line
that begins with `$ ` has to be the lines below it, where `...` stands for anything; `program.loom` is the last block above. The last line
is `N passed, N failed`.
"""
import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
BLOCK = re.compile(r"^```loom(?: error=(E\d{4}))?(?: with ([^\n]*))?\n(.*?)^```$", re.M | re.S)
OP = re.compile(r"^op (\w+)(?:<[^>]*>)?(?:\[([^\]]*)\])?", re.M)
IR_BLOCK = re.compile(r"^```tir(?: error=(E\d{4}))?(?: passes=([\w,]+))?\n(.*?)^```$", re.M | re.S)
# The language's own page: its examples run.
RUN_PAGES = {"language.md"}


def blocks_of(path):
    """(line, wanted code or nothing, values of a run or nothing, program) of each block."""
    text = path.read_text()
    for found in BLOCK.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, found.group(1), found.group(2), found.group(3)


def prepared(folder, program):
    """A folder with the program and the examples; the program's path."""
    (pathlib.Path(folder) / "examples").symlink_to(ROOT / "examples")
    file = pathlib.Path(folder) / "program.loom"
    file.write_text(program)
    return file


def wrong_with_call(command, wanted):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    codes = set(re.findall(r"error\[(E\d{4})\]", done.stderr))
    if wanted:
        return None if done.returncode == 1 and codes == {wanted} else f"exit {done.returncode}, codes {sorted(codes)}, wanted {wanted}: {done.stderr[:300]}"
    return None if done.returncode == 0 else f"exit {done.returncode}: {done.stderr[:300]}{done.stdout[-300:]}"


def wrong_with(program, wanted, values, corrloom, runs_ops):
    with tempfile.TemporaryDirectory() as folder:
        file = prepared(folder, program)
        wrong = wrong_with_call([corrloom, "check", file], None if values else wanted)
        if values and not wrong:
            wrong = wrong_with_call([corrloom, "run", file, *shlex.split(values)], wanted)
        for op, attributes in OP.findall(program) if runs_ops and not wanted else []:
            settings = [f"--set={name}=4" for name in re.findall(r"(\w+): \w+(?=,|$)", attributes)]
            wrong = wrong or wrong_with_call([corrloom, "check", f"{file}:{op}", *settings], None)
    return wrong


def ir_blocks_of(path):
    """(line, wanted code or nothing, names of passes, text) of each block of IR text."""
    text = path.read_text()
    for found in IR_BLOCK.finditer(text):
        passes = found.group(2).split(",") if found.group(2) else []
        yield text.count("\n", 0, found.start()) + 1, found.group(1), passes, found.group(3)


def wrong_with_ir(text, wanted, passes, tool):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "graph.tir"
        file.write_text(text)
        return wrong_with_call([tool, file, *(f"--pass={one}" for one in passes)], wanted)


def commands_of(path):
    """(line, command, wanted output, the last program above) of each command."""
    text = path.read_text()
    for found in CONSOLE.finditer(text):
        programs = [block.group(3) for block in BLOCK.finditer(text, 0, found.start())]
        first = text.count("\n", 0, found.start()) + 2
        lines = found.group(1).split("\n")
        starts = [k for k, line in enumerate(lines) if line.startswith("$ ")]
        for start, end in zip(starts, [*starts[1:], len(lines)]):
            yield first + start, lines[start][2:], "\n".join(lines[start + 1:end]).rstrip("\n"), programs[-1] if programs else ""


def wrong_with_command(command, wanted, program, programs):
    """Runs it in a folder that has the examples and the last program above."""
    with tempfile.TemporaryDirectory() as folder:
        prepared(folder, program)
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, cwd=folder, env=environment)
    got = (done.stdout + done.stderr).rstrip("\n")
    pattern = ".*".join(re.escape(re.sub(r" +", " ", part)) for part in wanted.split("..."))
    return None if re.fullmatch(pattern, re.sub(r" +", " ", got), re.S) else f"wanted\n{wanted}\ngot\n{got}"


def main():
    parser = argparse.ArgumentParser(description="Compiles every program in the documentation.")
    parser.add_argument("--corrloom", required=True)
    parser.add_argument("files", type=pathlib.Path, nargs="*", default=[ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])
    args = parser.parse_args()
    programs = pathlib.Path(args.corrloom).resolve().parent
    passed = failed = 0
    for path in args.files:
        found = [(line, wrong_with(program, wanted, values, args.corrloom, path.name in RUN_PAGES))
                 for line, wanted, values, program in blocks_of(path)]
        found += [(line, wrong_with_ir(text, wanted, passes, programs / "corrloom-opt")) for line, wanted, passes, text in ir_blocks_of(path)]
        found += [(line, wrong_with_command(command, wanted, program, programs)) for line, command, wanted, program in commands_of(path)]
        for line, wrong in found:
            passed, failed = passed + (not wrong), failed + bool(wrong)
            if wrong:
                print(f"FAIL {path.name}:{line}: {wrong}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
