#!/usr/bin/env python3
"""Measures the workloads of workloads.json with one thread and with several, in turns, and prints what the threads bring.

    threads.py --corrloom build/bin/corrloom [--threads 2] [--only REGEX] [--rounds 2] [--quick] [--out FILE.json]

Each figure is the least median of its rounds: whatever else runs on the machine only takes threads away. Ratios of 1 are those
of ops whose work is too little, or of one block. Nothing here passes or fails on a time.
"""
import argparse
import json
import pathlib
import re
import sys

from compare import HERE, Corrloom, time_text


def measure(workload, tools, rounds):
    """Microseconds by number of threads, in turns so that a slow minute meets all of them."""
    best = {}
    for _ in range(rounds):
        for threads, tool in tools.items():
            line = tool.bench(workload, tool.arguments(workload, None, None))
            best[threads] = min(best.get(threads, float("inf")), line["median_us"])
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corrloom", required=True, help="the command")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="workloads whose name this expression finds")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="the small workloads, a few runs each: sees that everything runs")
    parser.add_argument("--out", help="where the rows are written as JSON")
    options = parser.parse_args()
    tools = {threads: Corrloom(options.corrloom, threads, 3 if options.quick else 0) for threads in {1, options.threads}}
    rows = []
    print(f"{'workload':<22}{'1 thread':>11}{f'{options.threads} threads':>11}{'ratio':>9}")
    for workload in json.loads((HERE / "workloads.json").read_text()):
        if not re.search(options.only, workload["name"]) or (options.quick and not workload["quick"]):
            continue
        us = measure(workload, tools, 1 if options.quick else options.rounds)
        ratio = us[1] / us[options.threads]
        rows.append({"workload": workload["name"], "threads": options.threads, "one_us": us[1], "several_us": us[options.threads], "ratio": ratio})
        print(f"{workload['name']:<22}{time_text(us[1]):>11}{time_text(us[options.threads]):>11}{ratio:>7.2f} x", flush=True)
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps({"threads": options.threads, "rows": rows}, indent=1) + "\n")
    sys.exit(0 if rows else 1)


if __name__ == "__main__":
    main()
