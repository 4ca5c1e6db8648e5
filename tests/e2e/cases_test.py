#!/usr/bin/env python3
"""Runs the cases of a folder through the corrloom program and compares every result with what the case expects.

    cases_test.py --corrloom PATH [--device cpu] [--filter TEXT] [--interpret] [FOLDER]

With --interpret it runs `corrloom check` on the same inputs instead, which compares the compiled op with the interpreter bit for bit.

A case is NAME.json beside NAME.loom: {"about": "...", "runs": [RUN, ...]}. A RUN has
    "op"        the op to run
    "program"   the text of a program of its own, or {"eval": EXPRESSION} of it, instead of NAME.loom; messages call it program.loom
    "in"        {"X": ARRAY or a number, ...}
    "set"       attributes
    "out"       {"Y": ARRAY, ...}: bit for bit (NaN is NaN, -0 is not +0), or within "rtol" * |expected| + "atol"
    "error"     {"exit": 1, "text": [...]} instead of "out": the exit code, and what must stand in the message
An ARRAY is {"f32": nested list} (with "shape" when it is empty; "nan", "inf", "-inf" are numbers), or {"eval": EXPRESSION} in terms of np, math,
f32(...) and the inputs. The last line is `N passed, N failed`.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

DTYPES = {"bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32,
          "u64": np.uint64, "f16": np.float16, "f32": np.float32, "f64": np.float64}
SECONDS = 120


def numbers(values):
    return [numbers(value) for value in values] if isinstance(values, list) else float(values) if isinstance(values, str) else values


def array_of(spec, inputs):
    if "eval" in spec:
        scope = {"np": np, "math": math, "f32": lambda values: np.array(values, np.float32), **inputs}
        with np.errstate(all="ignore"):
            return np.asarray(eval(spec["eval"], scope))
    dtype = next(name for name in spec if name in DTYPES)
    array = np.array(numbers(spec[dtype]), DTYPES[dtype])
    return array.reshape(spec["shape"]) if "shape" in spec else array


def same(got, want, rtol, atol):
    """Which elements agree."""
    if want.dtype.kind != "f":
        return got == want
    with np.errstate(all="ignore"):
        both_nan = np.isnan(got) & np.isnan(want)
        if rtol == 0 and atol == 0:
            return both_nan | ((got == want) & (np.signbit(got) == np.signbit(want)))
        g, w = got.astype(np.float64), want.astype(np.float64)
        return both_nan | (g == w) | (np.abs(g - w) <= atol + rtol * np.abs(w))


def difference(name, got, want, rtol, atol):
    """What is wrong with a result, in one line; nothing when it is right."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{name} is {got.dtype}{list(got.shape)}, wanted {want.dtype}{list(want.shape)}"
    wrong = np.argwhere(~np.atleast_1d(same(got, want, rtol, atol)))
    if len(wrong) == 0:
        return None
    at = tuple(wrong[0])
    return f"{name}: {len(wrong)} of {want.size} differ, first {list(map(int, at))}: {np.atleast_1d(got)[at]}, wanted {np.atleast_1d(want)[at]}"


def command_of(run, file, folder, args):
    """The command line of a run, and its input arrays; files go to `folder`."""
    program = file.with_suffix(".loom")
    if "program" in run:
        program = folder / "program.loom"
        text = run["program"]
        program.write_text(text if isinstance(text, str) else eval(text["eval"]))
    inputs, command = {}, [args.corrloom, "run", f"{program}:{run['op']}", "--device", args.device]
    for name, spec in run.get("in", {}).items():
        if isinstance(spec, dict):
            inputs[name] = array_of(spec, inputs)
            np.save(folder / f"{name}.npy", inputs[name])
            spec = folder / f"{name}.npy"
        command.append(f"{name}={spec}")
    for name in run.get("out", {}):
        command += ["-o", f"{name}={folder / f'result_{name}.npy'}"]
    for name, value in run.get("set", {}).items():
        command += ["--set", f"{name}={value}"]
    return command, inputs


def differs_from_interpreter(run, file, folder, args):
    """What `corrloom check` says about a run that has results; nothing when interpreter and compiled op agree."""
    command, _ = command_of({**run, "out": {}}, file, folder, args)
    command[1] = "check"
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, errors="replace")
    return None if done.returncode == 0 else f"exit {done.returncode}: {(done.stderr or done.stdout).strip()[:300]}"


def wrong_with(run, file, folder, args):
    """What a run shows that the case does not want; nothing when it is as it should be."""
    command, inputs = command_of(run, file, folder, args)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, errors="replace")
    except subprocess.TimeoutExpired:
        return f"no answer within {SECONDS} s"
    message = done.stderr.strip()
    if "error" in run:
        wanted = run["error"]
        if done.returncode != wanted["exit"]:
            return f"exit {done.returncode}, wanted {wanted['exit']}: {message[:300]}"
        missing = [text for text in wanted["text"] if text not in message]
        return f"{missing} not in: {message[:600]}" if missing else None
    if done.returncode != 0:
        return f"exit {done.returncode}: {message[:300]}"
    for name, spec in run["out"].items():
        wrong = difference(name, np.load(folder / f"result_{name}.npy"), array_of(spec, inputs), run.get("rtol", 0), run.get("atol", 0))
        if wrong:
            return wrong
    return None


def main():
    parser = argparse.ArgumentParser(description="Runs cases through corrloom.")
    parser.add_argument("--corrloom", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--filter", default="", help="only cases whose name has this text")
    parser.add_argument("--interpret", action="store_true", help="compare with the interpreter instead")
    parser.add_argument("folder", type=pathlib.Path, nargs="?", default=pathlib.Path(__file__).resolve().parent / "cases")
    args = parser.parse_args()
    passed = failed = 0
    for file in sorted(args.folder.glob("*.json")):
        if args.filter not in file.stem:
            continue
        for number, run in enumerate(json.loads(file.read_text())["runs"], 1):
            if args.interpret and "error" in run:
                continue
            judge = differs_from_interpreter if args.interpret else wrong_with
            with tempfile.TemporaryDirectory() as folder:
                wrong = judge(run, file, pathlib.Path(folder), args)
            passed, failed = passed + (not wrong), failed + bool(wrong)
            if wrong:
                print(f"FAIL {file.stem} run {number} ({run['op']}): {wrong}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
