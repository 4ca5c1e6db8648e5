#!/usr/bin/env python3
"""Checks that language_contract.md names tests that exist, and says how many sentences have none.

The last line is `N passed, N failed`.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).resolve().parent / "language_contract.md"
ROW = re.compile(r"^\| (.+?) \| (.+) \|$", re.M)
SENTENCES_AT_LEAST = 60  # a table that is not found must not pass


def unit_tests():
    text = "\n".join(path.read_text() for path in (ROOT / "tests/unit").rglob("*.cpp"))
    return {f"{suite}.{test}" for suite, test in re.findall(r"^(?:TYPED_)?TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", text, re.M)}


def ops_of(case):
    path = ROOT / f"tests/e2e/cases/{case}.json"
    return {run["op"] for run in json.loads(path.read_text())["runs"]} if path.exists() else set()


def headings():
    return set(re.findall(r"^## (.+)$", (ROOT / "docs/language.md").read_text(), re.M))


def exists(test, units):
    kind, _, rest = test.partition(":")
    if kind == "unit":
        return rest in units
    if kind == "e2e":
        case, _, op = rest.partition("/")
        return op in ops_of(case)
    if kind == "golden":
        return any((ROOT / "tests/golden").glob(rest + ".*"))
    return kind == "docs" and rest in headings()


def main():
    units = unit_tests()
    rows = [row for row in ROW.findall(TABLE.read_text()) if row[0] != "sentence"]
    passed, failed, open_ones = 0, 0, 0
    if len(rows) < SENTENCES_AT_LEAST:
        print(f"FAIL {TABLE.name}: {len(rows)} sentences, wanted {SENTENCES_AT_LEAST} or more")
        failed += 1
    for sentence, tests in rows:
        if tests.startswith("- "):
            open_ones += 1
            continue
        for test in tests.split():
            if exists(test, units):
                passed += 1
            else:
                failed += 1
                print(f"FAIL {TABLE.name}: `{sentence}` names {test}, which is not there")
    print(f"{open_ones} sentences have no test")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
