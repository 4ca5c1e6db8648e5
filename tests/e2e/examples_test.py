#!/usr/bin/env python3
"""Runs the example programs on small inputs.

    examples_test.py --bin FOLDER

The last line is `N passed, N failed`.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def png_bytes(path):
    """Width, height, bits and colour type of a PNG, and its filtered rows in one piece."""
    data = path.read_bytes()
    header, rows, at = None, b"", 8
    while at < len(data):
        length, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
        chunk = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            header = (int.from_bytes(chunk[:4], "big"), int.from_bytes(chunk[4:8], "big"), chunk[8], chunk[9])
        rows += chunk if kind == b"IDAT" else b""
        at += 12 + length
    return header, zlib.decompress(rows)


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def check_quickstart(programs, folder):
    done = run([programs / "example_quickstart", EXAMPLES / "conv.loom", "2", "24", "36"])
    assert done.returncode == 0, done.stderr
    values = [float(text) for text in re.findall(r"\d+(?:\.\d+)?", done.stdout.split("corr2d of")[1].split("corr2d_multi_in of")[0])]
    assert {19, 25, 37, 43} <= set(values), done.stdout
    assert {56, 72, 104, 120} <= set(float(text) for text in re.findall(r"\d+(?:\.\d+)?", done.stdout)), done.stdout
    assert "largest difference between the two 1x1 forms: 0\n" in done.stdout, done.stdout


def check_quickstart_usage(programs, folder):
    assert run([programs / "example_quickstart"]).returncode == 2
    missing = run([programs / "example_quickstart", folder / "missing.loom"])
    assert missing.returncode == 1 and "missing.loom" in missing.stderr, missing.stderr


def check_pointwise_conv(programs, folder):
    done = run([programs / "example_pointwise_conv", EXAMPLES / "pointwise_conv/pointwise_conv.loom"])
    assert done.returncode == 0 and "equal, bit for bit" in done.stdout, done.stdout + done.stderr


def check_correlation(programs, folder):
    done = run([programs / "example_correlation", EXAMPLES / "correlation/correlation.loom"])
    assert done.returncode == 0 and "found at [71, 133]" in done.stdout, done.stdout + done.stderr


def check_edges(programs, folder):
    """Both pictures are there, in their sizes; some of the edges are bright, most of the picture is black."""
    done = run([programs / "example_edges", EXAMPLES / "edges", folder / "edges.png", "-", "90", "160"])
    assert done.returncode == 0, done.stderr
    assert png_bytes(folder / "scene.png")[0] == (160, 90, 8, 2)
    assert png_bytes(folder / "edges.png")[0] == (160, 90, 8, 0)
    again = run([programs / "example_edges", EXAMPLES / "edges", folder / "again.png", folder / "scene.png"])
    assert again.returncode == 0 and (folder / "again.png").read_bytes() == (folder / "edges.png").read_bytes(), again.stderr


def check_edges_refuses(programs, folder):
    (folder / "broken.png").write_bytes(b"no picture")
    done = run([programs / "example_edges", EXAMPLES / "edges", folder / "edges.png", folder / "broken.png"])
    assert done.returncode == 1 and "broken.png" in done.stderr and not (folder / "edges.png").exists(), done.stderr


def main():
    parser = argparse.ArgumentParser(description="Runs the example programs on small inputs.")
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    args = parser.parse_args()
    checks = [check_quickstart, check_quickstart_usage, check_pointwise_conv, check_correlation, check_edges, check_edges_refuses]
    failed = 0
    for check in checks:
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(args.bin.resolve(), pathlib.Path(folder))
            except Exception as error:  # whatever it is, it belongs to this check
                failed += 1
                print(f"FAIL {check.__name__}: {type(error).__name__}: {error}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
