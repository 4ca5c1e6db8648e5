#!/usr/bin/env python3
"""Runs case files (*.json) against the corrloom command line and says which fail.

    contract_test.py [--corrloom PATH] [--device cpu|cuda] [--dynamic] [--every N] [--filter TEXT] [--verbose] FILE_OR_FOLDER...

With --dynamic every op is compiled with all dimensions open; what comes out, errors included, must be the same. --every N
takes only each Nth run.

A case file is one JSON object:

    {"id": "W7", "why": "what goes wrong elsewhere, in one sentence",
     "source": "W7.loom",                        # beside the case file
     "runs": [
       {"op": "name",                            # op in the source
        "inputs": {"X": ARRAY, ...},
        "set": {"stride": 2},                    # attributes, optional
        "devices": ["cpu", "cuda"],              # optional; default: every device
        "dynamic": true,                         # optional, says what the case is about: --dynamic runs all cases
        "expect": {"Y": ARRAY, ...},             # what must come out
        "rtol": 0, "atol": 0},                   # optional; default 0, 0: equal, NaN equal to NaN
       {"op": "name", "inputs": {...}, "set": {...},
        "expect_error": {"exit": 1, "mentions": ["W7.loom:3", "H"]}}   # all must appear on standard error
     ]}

ARRAY is one of
    {"dtype": "f32", "shape": [2, 3], "values": [..6 numbers, "nan", "inf", "-inf"..]}
    {"dtype": "f32", "shape": [2, 3], "fill": 1}          every element the same
    {"dtype": "f32", "shape": [2, 3], "arange": [start, step]}
    {"dtype": "f32", "shape": [4096], "npy": "file.npy"}   beside the case file
    a string: passed to the command line as it is (inputs only), e.g. "randn[3,5]@7"
    a number: a scalar argument (inputs only)

The last line printed is 'N passed, N failed'. Exit 0 when none failed.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

DTYPES = {"bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
          "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
          "f16": np.float16, "f32": np.float32, "f64": np.float64}


def to_array(spec, folder):
    dtype, shape = DTYPES[spec["dtype"]], tuple(spec["shape"])
    if "npy" in spec:
        array = np.load(folder / spec["npy"])
        assert array.dtype == dtype and array.shape == shape, f"{spec['npy']}: {array.dtype}{array.shape}"
        return array
    if "fill" in spec:
        return np.full(shape, float(spec["fill"]) if isinstance(spec["fill"], str) else spec["fill"], dtype)
    count = int(np.prod(shape, dtype=np.int64))
    if "arange" in spec:
        start, step = spec["arange"]
        return (start + step * np.arange(count)).astype(dtype).reshape(shape)
    values = [float(v) if isinstance(v, str) else v for v in spec["values"]]
    return np.array(values, dtype=dtype).reshape(shape)


def differs(got, want, rtol, atol):
    """None when equal within the tolerance, else what is wrong, in one line."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"got {got.dtype}{list(got.shape)}, want {want.dtype}{list(want.shape)}"
    if want.size == 0:
        return None
    if want.dtype.kind in "biu":
        bad = got != want
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            g, w = got.astype(np.float64), want.astype(np.float64)
            close = np.abs(g - w) <= atol + rtol * np.abs(w)
            bad = ~((g == w) | close | (np.isnan(g) & np.isnan(w)))
    if not bad.any():
        return None
    first = tuple(int(k) for k in np.argwhere(bad)[0]) if want.ndim else ()
    return f"{int(bad.sum())} of {want.size} wrong, first at {list(first)}: got {got[first]}, want {want[first]}"


def run_one(run, case, folder, corrloom, device, work, extra=()):
    """None when the run shows what the case asks for, else what is wrong."""
    command = [corrloom, "run", f"{folder / case['source']}:{run['op']}"]
    for name, spec in run.get("inputs", {}).items():
        if isinstance(spec, (str, int, float)):
            command.append(f"{name}={spec}")
        else:
            path = work / f"{name}.npy"
            np.save(path, to_array(spec, folder))
            command.append(f"{name}={path}")
    expected = run.get("expect", {})
    for name in expected:
        command += ["-o", f"{name}={work / f'out_{name}.npy'}"]
    for name, value in run.get("set", {}).items():
        command += ["--set", f"{name}={value}"]
    command += ["--device", device, *extra]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=run.get("timeout_s", 120))
    except subprocess.TimeoutExpired:
        return "no answer in time"
    if "expect_error" in run:
        want = run["expect_error"]
        if done.returncode != want.get("exit", 1):
            return f"exit {done.returncode}, want {want.get('exit', 1)}: {last_line(done.stderr)}"
        missing = [text for text in want.get("mentions", []) if text not in done.stderr]
        return f"the message lacks {missing}: {done.stderr.strip()[:400]}" if missing else None
    if done.returncode != 0:
        return f"exit {done.returncode}: {last_line(done.stderr)}"
    for name, spec in expected.items():
        wrong = differs(np.load(work / f"out_{name}.npy"), to_array(spec, folder), run.get("rtol", 0), run.get("atol", 0))
        if wrong:
            return f"{name}: {wrong}"
    return None


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[-1] if lines else "(nothing on standard error)")[:300]


def main():
    parser = argparse.ArgumentParser(description="Run case files against corrloom.")
    parser.add_argument("--corrloom", default=os.environ.get("CORRLOOM", "corrloom"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--filter", default="")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("paths", nargs="+")
    args = parser.parse_args()
    files = []
    for path in map(pathlib.Path, args.paths):
        files += sorted(path.rglob("*.json")) if path.is_dir() else [path]
    passed = failed = seen = 0
    extra = ["--dynamic"] if args.dynamic else []
    for file in files:
        if args.filter not in str(file):
            continue
        case = json.loads(file.read_text())
        if "runs" not in case:
            continue
        for number, run in enumerate(case["runs"], 1):
            kind = args.device.split(":")[0]
            if kind not in run.get("devices", [kind]):
                continue
            seen += 1
            if seen % args.every:
                continue
            with tempfile.TemporaryDirectory() as work:
                wrong = run_one(run, case, file.parent.resolve(), args.corrloom, args.device, pathlib.Path(work), extra)
            if wrong:
                failed += 1
                print(f"FAIL {file.stem} run {number} ({run['op']}): {wrong}")
            else:
                passed += 1
                if args.verbose:
                    print(f"ok   {file.stem} run {number} ({run['op']})")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
