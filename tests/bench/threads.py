#!/usr/bin/env python3
"""Measures the workloads of workloads.json with one thread and with several, in turns, and prints what the threads bring.

    threads.py --corrloom build/bin/corrloom [--threads 2] [--only REGEX] [--rounds 2] [--quick] [--workloads FILE.json] [--out FILE.json]

Each figure is that of the fastest run: whatever else the machine does takes threads away, so that a median says more about the
others than about the op. The last column is what the threads bring to the machine's own limit of that op, measured beside it:
memory that all share gives less than twice as much to twice as many. Ratios of 1 are those of ops whose work is too little, or of
one block. Nothing here passes or fails on a time.
"""
import argparse
import json
import pathlib
import re
import sys

from compare import WORKLOADS, Corrloom, time_text


def measure(workload, tools, rounds):
    """By number of threads the fastest run and the least limit, in turns so that a slow minute meets all of them."""
    best = {}
    for _ in range(rounds):
        for threads, tool in tools.items():
            line = tool.bench(workload, tool.arguments(workload, None, None))
            before = best.get(threads, line)
            best[threads] = {"limited_by": line["limited_by"]} | {key: min(line[key], before[key]) for key in ("min_us", "limit_us")}
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corrloom", required=True, help="the command")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="workloads whose name this expression finds")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workloads", default=WORKLOADS, type=pathlib.Path, help="another list; its ops are in the file beside it that ends in .loom")
    parser.add_argument("--quick", action="store_true", help="the small workloads, a few runs each: sees that everything runs")
    parser.add_argument("--out", help="where the rows are written as JSON")
    options = parser.parse_args()
    tools = {threads: Corrloom(options.corrloom, options.workloads, threads, 3 if options.quick else 0) for threads in {1, options.threads}}
    rows = []
    print(f"{'workload':<30}{'1 thread':>11}{f'{options.threads} threads':>11}{'ratio':>8}  {'limited by':<11}{'its ratio':>9}")
    for workload in json.loads(options.workloads.read_text()):
        if not re.search(options.only, workload["name"]) or (options.quick and not workload["quick"]):
            continue
        best = measure(workload, tools, 1 if options.quick else options.rounds)
        one, several = best[1], best[options.threads]
        ratio, of_limit = (one[key] / several[key] for key in ("min_us", "limit_us"))
        rows.append({"workload": workload["name"], "threads": options.threads, "one_us": one["min_us"], "several_us": several["min_us"],
                     "ratio": ratio, "limited_by": several["limited_by"], "limit_ratio": of_limit})
        print(f"{workload['name']:<30}{time_text(one['min_us']):>11}{time_text(several['min_us']):>11}{ratio:>6.2f} x"
              f"  {several['limited_by']:<11}{of_limit:>7.2f} x", flush=True)
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps({"threads": options.threads, "rows": rows}, indent=1) + "\n")
    sys.exit(0 if rows else 1)


if __name__ == "__main__":
    main()
