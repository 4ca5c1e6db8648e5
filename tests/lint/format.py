#!/usr/bin/env python3
"""Every program that ships is in the form that `corrloom fmt` gives it.

    format.py --corrloom PATH

The last line is `N passed, N failed`.
"""
import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS_AT_LEAST = 15  # folders that are not found must not pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corrloom", required=True)
    arguments = parser.parse_args()
    programs = sorted([*(ROOT / "compiler/std").glob("*.loom"), *(ROOT / "examples").rglob("*.loom")])
    other = [program for program in programs
             if subprocess.run([arguments.corrloom, "fmt", "--check", program], capture_output=True).returncode != 0]
    for program in other:
        print(f"FAIL {program.relative_to(ROOT)} is not in canonical form: corrloom fmt -i {program.relative_to(ROOT)}")
    failed = len(other) + (1 if len(programs) < PROGRAMS_AT_LEAST else 0)
    print(f"{len(programs) - len(other)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
