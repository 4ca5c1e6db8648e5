#!/usr/bin/env python3
"""Compares the standard library with references made by NumPy.

    std_test.py --corrloom PATH [--device cpu] [--filter TEXT] [--fuzz SEED] [--draws N] [--jobs N]

Without --fuzz it runs the calls of calls.npz, and every op of the library has to be among them; with it, --draws new calls of each op. A result
is right when its dtype and shape are, and each element has the bits of the reference's, or is off by no more than the call's `ulps` units in the
last place of its dtype at |element| + `scale` (what is counted is said where a reference sets them). The last line is `N passed, N failed`."""
import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent
LIBRARY = FOLDER.parents[2] / "compiler" / "std"
SECONDS = 120


def stored_calls():
    with np.load(FOLDER / "calls.npz") as archive:
        arrays = {key: archive[key] for key in archive.files}
    value_of = lambda value: arrays[value["array"]] if isinstance(value, dict) else value
    for row in json.loads(str(arrays["calls"])):
        yield {**row, "scale": value_of(row["scale"]), "inputs": {name: value_of(value) for name, value in row["inputs"].items()},
               "results": {name: value_of(value) for name, value in row["results"].items()}}


def drawn_calls(seed, draws):
    from drawing import Draw  # pylint: disable=import-outside-toplevel
    from reference import REFERENCES  # pylint: disable=import-outside-toplevel
    for name, draw_call in REFERENCES.items():
        for number in range(draws):
            call = draw_call(Draw([seed, number, *name.encode()]))
            yield {**vars(call), "name": f"{name}, seed {seed}, draw {number}"}


def is_right(got, want, ulps, scale):
    """Which elements are."""
    if want.dtype.kind != "f":
        return got == want
    with np.errstate(all="ignore"):
        bound = ulps * np.finfo(want.dtype).eps * (np.abs(want.astype(np.float64)) + scale)
        # Below the normal numbers, the last place is the smallest of all.
        bound = np.maximum(bound, ulps * float(np.finfo(want.dtype).smallest_subnormal)) if ulps else np.zeros(want.shape)
        near = np.abs(got.astype(np.float64) - want.astype(np.float64)) <= bound
        return (got == want) | (np.isnan(got) & np.isnan(want)) | near


def difference(name, got, want, call):
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{name} is {got.dtype}{list(got.shape)}, wanted {want.dtype}{list(want.shape)}"
    scale = call["scale"] if np.shape(call["scale"]) in ((), want.shape) else np.broadcast_to(call["scale"], want.shape)
    wrong = np.argwhere(~np.atleast_1d(is_right(got, want, call["ulps"], scale)))
    if len(wrong) == 0:
        return None
    at = tuple(wrong[0])
    return f"{name}: {len(wrong)} of {want.size} differ, first {list(map(int, at))}: {np.atleast_1d(got)[at]!r}, wanted {np.atleast_1d(want)[at]!r}"


def text_of(value):
    return str(value).lower() if isinstance(value, bool) else repr(value)


def wrong_with(call, args):
    """What is wrong with a call, in a line; nothing when it is right."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = "std"
        if call.get("program"):
            program = folder / "program.loom"
            program.write_text(call["program"])
        command = [args.corrloom, "run", f"{program}:{call['op']}", "--device", args.device]
        for one, value in call["inputs"].items():
            if isinstance(value, np.ndarray):
                np.save(folder / f"{one}.npy", value)
                value = folder / f"{one}.npy"
            command.append(f"{one}={value if isinstance(value, pathlib.Path) else text_of(value)}")
        for one, value in call.get("attributes", {}).items():
            command += ["--set", f"{one}={text_of(value)}"]
        for one in call["results"]:
            command += ["-o", f"{one}={folder / f'result_{one}.npy'}"]
        shapes = ", ".join(f"{one}: {value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else f"{one} = {value}"
                           for one, value in [*call["inputs"].items(), *call.get("attributes", {}).items()])
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, errors="replace")
        except subprocess.TimeoutExpired:
            return f"({shapes}) no answer within {SECONDS} s"
        if done.returncode != 0:
            return f"({shapes}) exit {done.returncode}: {done.stderr.strip()[:600]}"
        for one, want in call["results"].items():
            wrong = difference(one, np.load(folder / f"result_{one}.npy"), np.asarray(want), call)
            if wrong:
                return f"({shapes}) {wrong}"
    return None


def names_of_library():
    """The ops of the library, and its functions of floats that are documented with a source."""
    for file in sorted(LIBRARY.glob("*.loom")):
        text = file.read_text()
        yield from re.findall(r"^op (\w+)", text, re.M)
        if file.stem == "activations":
            yield from re.findall(r"^fn (\w+)", text, re.M)


def main():
    parser = argparse.ArgumentParser(description="Compares the standard library with NumPy.")
    parser.add_argument("--corrloom", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--filter", default="", help="only calls whose name begins so")
    parser.add_argument("--fuzz", type=int, help="new calls from this seed")
    parser.add_argument("--draws", type=int, default=3, help="calls an op, with --fuzz")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    calls = list(stored_calls() if args.fuzz is None else drawn_calls(args.fuzz, args.draws))
    failures = [f"{name}: no call of it" for name in sorted(set(names_of_library()) - {re.match(r"\w+", call["name"]).group() for call in calls})]
    calls = [call for call in calls if call["name"].startswith(args.filter)]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        found = list(pool.map(lambda call: wrong_with(call, args), calls))
    failures += [f"{call['name']}: {wrong}" for call, wrong in zip(calls, found) if wrong]
    for failure in failures:
        print("FAIL", failure)
    print(f"{len(calls) - sum(map(bool, found))} passed, {len(failures)} failed")
    return 1 if failures or not calls else 0


if __name__ == "__main__":
    sys.exit(main())
