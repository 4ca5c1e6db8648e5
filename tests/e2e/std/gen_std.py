#!/usr/bin/env python3
"""Writes the calls that std_test.py compares, with their results, to calls.npz: a few draws of every op's reference.

    gen_std.py [--draws N]

Needs NumPy alone; the compiler has no part in it. calls.npz has the list of calls as the text of a JSON array `calls`, and the arrays that it names."""
import argparse
import json
import pathlib

import numpy as np

from drawing import Draw
from reference import REFERENCES


def stored(arrays, name, value):
    """A value as it stands in the list: a number, or the key of an array."""
    if not isinstance(value, np.ndarray) or value.dtype == object:
        return value.item() if isinstance(value, np.generic) else value
    arrays[name] = value
    return {"array": name}


def main():
    parser = argparse.ArgumentParser(description="Writes calls.npz.")
    parser.add_argument("--draws", type=int, default=3, help="calls an op")
    args = parser.parse_args()
    calls, arrays = [], {}
    for name, draw_call in REFERENCES.items():
        for number in range(args.draws):
            call = draw_call(Draw([number, len(name), *name.encode()]))
            key = f"{name}.{number}"
            row = {"name": key, "op": call.op, "ulps": call.ulps, "scale": stored(arrays, f"{key}.scale", call.scale)}
            row["inputs"] = {one: stored(arrays, f"{key}.in.{one}", value) for one, value in call.inputs.items()}
            row["results"] = {one: stored(arrays, f"{key}.out.{one}", np.asarray(value)) for one, value in call.results.items()}
            row.update({"attributes": call.attributes} if call.attributes else {}, **({"program": call.program} if call.program else {}))
            calls.append(row)
    arrays["calls"] = np.array(json.dumps(calls))
    np.savez_compressed(pathlib.Path(__file__).resolve().parent / "calls.npz", **arrays)
    print(f"{len(calls)} calls of {len(REFERENCES)} ops and functions")


if __name__ == "__main__":
    main()
