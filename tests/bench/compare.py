#!/usr/bin/env python3
"""Measures the workloads of workloads.json with Corrloom and beside it with every peer that is installed.

    compare.py --corrloom build/bin/corrloom [--threads 1] [--only REGEX] [--quick] [--peers numpy,torch,halide,opencv,numba] [--out FILE.json]

A peer is a file peer_NAME.py whose import works; those that are not installed are left out. The table shows for each workload the
limit of the machine (`corrloom bench` measures it in the same run), the share of it that Corrloom and the best peer reach, and
how many times as long the best peer takes. All calls are made on the same operands, and results are compared. Operands that a
network would own (`constants`) may be packed ahead by everyone, and freed memory is kept for the next call. Nothing here passes or fails on a time.
"""
import argparse
import ctypes
import importlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
WORKLOADS = HERE / "workloads.json"
PEERS = ["numpy", "torch", "halide", "opencv", "numba"]


def installed(names, threads):
    """The peers whose import works, by name. The threads of NumPy and Halide are decided by the environment."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "HL_NUM_THREADS"):
        os.environ[name] = str(threads)
    sys.path.insert(0, str(HERE))
    found = {}
    for name in names:
        try:
            found[name] = importlib.import_module(f"peer_{name}")
            found[name].set_threads(threads)
        except ImportError as error:
            print(f"left out: {name} ({error})", file=sys.stderr)
    return found


def keep_freed_memory():
    """A peer that allocates a new result at each call must not pay for the pages of it: Corrloom keeps its blocks, too."""
    trim_threshold, mmap_threshold, most = -1, -3, 2**31 - 1
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(trim_threshold, most)
        libc.mallopt(mmap_threshold, most)
    except AttributeError:
        print("peers pay for fresh pages: this C library has no mallopt", file=sys.stderr)


def operands(workload):
    """NumPy arrays by name, the same in every run; None without NumPy."""
    try:
        import numpy
    except ImportError:
        return None
    generator = numpy.random.default_rng(1)
    made = {}
    for name, shape in workload["inputs"].items():
        dtype = numpy.dtype(workload.get("dtypes", {}).get(name, "f4"))
        bounds = (numpy.iinfo(dtype).min, numpy.iinfo(dtype).max + 1) if dtype.kind in "iu" else None
        made[name] = generator.integers(*bounds, shape, dtype) if bounds else generator.standard_normal(shape, dtype)
    return made


class Corrloom:
    def __init__(self, tool, workloads, threads, repeat):
        self.tool, self.ops, self.threads, self.repeat = tool, workloads.with_suffix(".loom"), threads, repeat

    def arguments(self, workload, arrays, folder):
        """The command line after the command: the program, its operands and attributes."""
        line = [f"{self.ops}:{workload['op']}"]
        for name, shape in workload["inputs"].items():
            if arrays is None or workload["kind"].endswith("bf16"):
                dtype = workload.get("dtypes", {}).get(name, "")
                generator = "randint(0,128)" if dtype and dtype[0] in "iu" else "randn"
                value = f"{generator}[{','.join(map(str, shape))}]"
            else:
                import numpy
                value = f"{folder}/{name}.npy"
                numpy.save(value, arrays[name])
            line.append(f"{name}={value}")
        for name, value in workload["set"].items():
            line += ["--set", f"{name}={value}"]
        return line + ["--threads", str(self.threads)]

    def run(self, command, arguments):
        done = subprocess.run([self.tool, command, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"corrloom {command} {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def bench(self, workload, arguments):
        constants = [word for name in workload["constants"] for word in ("--constant", name)]
        repeat = ["--repeat", str(self.repeat)] if self.repeat else []
        return json.loads(self.run("bench", [*arguments, *constants, *repeat, "--json"]))

    def result(self, arguments, folder):
        import numpy
        self.run("run", [*arguments, "-o", f"Y={folder}/Y.npy"])
        return numpy.load(f"{folder}/Y.npy")


def median_us(call, quick):
    """Of calls in groups long enough for the clock, over a fraction of a second."""
    start = time.perf_counter()
    call()
    group = max(1, int(50e-6 / max(time.perf_counter() - start, 1e-9)))
    samples, begin = [], time.perf_counter()
    while len(samples) < 3 or (not quick and time.perf_counter() - begin < 0.5 and len(samples) < 1000):
        start = time.perf_counter()
        for _ in range(group):
            call()
        samples.append((time.perf_counter() - start) / group * 1e6)
        if time.perf_counter() - begin > 10:
            break
    return statistics.median(samples)


def largest_error(found, wanted):
    """Relative to the largest element."""
    import numpy
    if found.shape != wanted.shape:
        return float("inf")
    found, wanted = found.astype(numpy.float64), wanted.astype(numpy.float64)
    scale = float(numpy.abs(wanted).max()) if wanted.size else 0.0
    return float(numpy.abs(found - wanted).max()) / (scale or 1.0) if wanted.size else 0.0


def measure(workload, corrloom, peers, quick):
    """One row: what everyone takes."""
    arrays = operands(workload)
    with tempfile.TemporaryDirectory() as folder:
        arguments = corrloom.arguments(workload, arrays, folder)
        ours = corrloom.bench(workload, arguments)
        row = {"workload": workload["name"], "threads": ours["threads"], "limit_us": ours["limit_us"], "limited_by": ours["limited_by"],
               "flops": ours["flops"], "bytes": ours["bytes"], "compile_ms": ours["compile_ms"],
               "corrloom": {"median_us": ours["median_us"], "share": ours["share"]}, "peers": {}}
        comparable = arrays is not None and not workload["kind"].endswith("bf16")
        result = corrloom.result(arguments, folder) if comparable else None
    for name, peer in peers.items():
        call = peer.prepare(workload, arrays) if arrays is not None else None
        if call is None:
            continue
        entry = {}
        if comparable:
            entry["difference"] = largest_error(peer.fetch(call()), result)
        entry["median_us"] = median_us(call, quick)
        entry["share"] = row["limit_us"] / entry["median_us"]
        row["peers"][name] = entry
    return row


def time_text(us):
    if us < 1:
        return f"{us * 1e3:.1f} ns"
    return f"{us:.2f} us" if us < 1e3 else f"{us / 1e3:.2f} ms"


def row_text(row):
    ours = row["corrloom"]
    text = (f"{row['workload']:<22}{time_text(row['limit_us']):>11} {row['limited_by']:<11}{time_text(ours['median_us']):>11}"
            f"{100 * ours['share']:>7.0f} %")
    if row["peers"]:
        name, best = min(row["peers"].items(), key=lambda peer: peer[1]["median_us"])
        text += f"{time_text(best['median_us']):>12}{100 * best['share']:>7.0f} % {name:<8}{best['median_us'] / ours['median_us']:>6.2f} x"
    differing = [name for name, peer in row["peers"].items() if peer.get("difference", 0) > 1e-3]
    return text + (f"   differs from {', '.join(differing)}" if differing else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corrloom", required=True, help="the command")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="workloads whose name this expression finds")
    parser.add_argument("--quick", action="store_true", help="the small workloads, a few runs each: sees that everything runs")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--out", help="where the rows are written as JSON")
    options = parser.parse_args()
    keep_freed_memory()
    peers = installed([name for name in options.peers.split(",") if name], options.threads)
    corrloom = Corrloom(options.corrloom, WORKLOADS, options.threads, 3 if options.quick else 0)
    workloads = [one for one in json.loads(WORKLOADS.read_text())
                 if re.search(options.only, one["name"]) and (one["quick"] or not options.quick)]
    print(f"{'workload':<22}{'limit':>11} {'by':<11}{'Corrloom':>11}{'share':>9}{'best peer':>12}{'share':>9} {'':<8}{'ratio':>7}")
    rows, failed = [], []
    for workload in workloads:
        try:
            rows.append(measure(workload, corrloom, peers, options.quick))
            print(row_text(rows[-1]), flush=True)
        except RuntimeError as error:
            failed.append(workload["name"])
            print(f"{workload['name']:<22}{error}", file=sys.stderr)
    if options.out:
        versions = {name: peer.version() for name, peer in peers.items()}
        pathlib.Path(options.out).write_text(json.dumps({"threads": options.threads, "peers": versions, "rows": rows}, indent=1) + "\n")
    sys.exit(1 if failed or not rows else 0)


if __name__ == "__main__":
    main()
