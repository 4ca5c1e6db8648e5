#!/usr/bin/env python3
"""Sums the single tests in the log of a ctest run: gtest and unittest cases, lit files, checks of the Python runners.

    count_results.py LOG CTEST_STATUS

Prints what was skipped and what failed, and last the line `N passed, N failed`, with `, N skipped` when some were. Exit 0 when nothing failed.
"""
import pathlib
import re
import sys

# Whole lines of the summaries that the runners print.
GTEST = {"passed": r"^\[  PASSED  \] (\d+) tests?\.$", "failed": r"^ *\[?  ?FAILED  ?\]? (\d+) tests?, listed below:$",
         "skipped": r"^\[  SKIPPED \] (\d+) tests?, listed below:$"}
LIT = {"passed": r"^ +Passed +: +(\d+) ", "failed": r"^ +(?:Failed|Unresolved|Unexpectedly Passed|Timed Out) *: +(\d+) ",
       "skipped": r"^ +(?:Unsupported|Skipped|Expectedly Failed) *: +(\d+) "}
RUNNER = {"passed": r"^(\d+) passed, \d+ failed", "failed": r"^\d+ passed, (\d+) failed", "skipped": r"^\d+ passed, \d+ failed, (\d+) skipped"}


def counted(text, patterns):
    """Numbers of passed, failed and skipped tests that one kind of summary tells; all 0 when there is none."""
    return {kind: sum(int(n) for n in re.findall(pattern, text, re.M)) for kind, pattern in patterns.items()}


def counted_unittest(text):
    """The same for Python's unittest, which tells how many ran and what was not well."""
    ran = sum(int(n) for n in re.findall(r"^Ran (\d+) tests? in ", text, re.M))
    last = " ".join(re.findall(r"^(?:OK|FAILED)(?: \((.*)\))?$", text, re.M))
    failed, skipped = (sum(int(n) for n in re.findall(rf"\b(?:{words})=(\d+)", last)) for words in ("failures|errors|unexpected successes", "skipped|expected failures"))
    return {"passed": ran - failed - skipped, "failed": failed, "skipped": skipped}


def tests_of(log):
    """(name, output, passed) of each ctest test in the log."""
    for block in re.split(r"^-{58}$(?=\n+\d+/\d+ Testing: )", log, flags=re.M)[1:]:
        name = re.search(r"^\d+/\d+ Testing: (.*)$", block, re.M).group(1)
        output = re.search(r"^Output:\n-+\n(.*?)^<end of output>$", block, re.M | re.S)
        yield name, output.group(1) if output else "", re.search(r"^Test Pass(?:ed\.| Reason:)$", block, re.M) is not None


def count(name, output, passed):
    """The single tests of one ctest test. One that has no summary counts as one; one that fails without a failed test (a crash, a timeout) as one failure."""
    summaries = [counted(output, patterns) for patterns in (GTEST, LIT, RUNNER)] + [counted_unittest(output)]
    total = {kind: sum(summary[kind] for summary in summaries) for kind in GTEST}
    if not any(total.values()):
        total["passed" if passed else "failed"] = 1
    elif not passed and total["failed"] == 0:
        total["failed"] = 1
    if total["failed"]:
        print(f"failed: {name}: {total['failed']}")
    for line in sorted(set(re.findall(r"^.*(?:\bskipped: |\[SKIP\]).*$", output, re.M))):
        print(f"{name}: {line.strip()}")
    return total


def main():
    path, status = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    log = path.read_text(errors="replace") if path.exists() else ""
    sums = {kind: 0 for kind in GTEST}
    for test in tests_of(log):
        for kind, number in count(*test).items():
            sums[kind] += number
    if status != 0 and sums["failed"] == 0:
        print(f"failed: ctest ended with {status}")
        sums["failed"] = 1
    if not any(sums.values()):
        print("failed: no test ran")
        sums["failed"] = 1
    skipped = f", {sums['skipped']} skipped" if sums["skipped"] else ""
    print(f"{sums['passed']} passed, {sums['failed']} failed{skipped}")
    return 1 if sums["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
