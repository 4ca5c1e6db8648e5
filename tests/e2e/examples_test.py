#!/usr/bin/env python3
"""Runs the example programs on small inputs.

    examples_test.py --bin FOLDER

The last line is `N passed, N failed`.
"""
import argparse
import os
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


def run(command, **environment):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **environment})


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


def devices_answers(programs, cuda):
    """What the walk over the devices prints: each question and its answer."""
    done = run([programs / "example_devices", EXAMPLES / "devices/devices.loom"], CORRLOOM_CUDA=cuda, CORRLOOM_SIM_DEVICES="2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")
    starts = [k for k, line in enumerate(lines) if line and not line.startswith((" ", "[", ")"))]
    return {lines[k]: lines[k + 1].strip() for k in starts if k + 1 < len(lines)}, done.stdout


def check_devices_without_gpu(programs, folder):
    answers, text = devices_answers(programs, "off")
    assert answers["device_count()"] == "0" and answers["try_gpu()"] == "cpu" and answers["try_all_gpus()"] == "cpu", text
    assert answers["X = ones({2, 3}, f32, try_gpu())"] == "f32[2, 3] on cpu", text
    assert answers["where the weights of its first layer are"] == "cpu", text


def check_devices_with_two_gpus(programs, folder):
    answers, text = devices_answers(programs, "sim")
    assert answers["device_count()"] == "2" and answers["try_all_gpus()"] == "cuda:0, cuda:1", text
    assert answers["try_gpu(10), which nobody has"] == "cpu", text
    assert answers["X = ones({2, 3}, f32, try_gpu())"] == "f32[2, 3] on cuda:0", text
    assert "X is on cuda:0, Y is on cuda:1" in text and "`Y.to(cuda(0))`" in text, text
    assert answers["add(Y, Z): both are there, and so is the sum"] == "f32[2, 3] on cuda:1", text
    assert answers["Z.to(try_gpu(1)) is Z: nothing moves"] == "yes", text
    assert answers["the same seed gives the same numbers on the host"] == "yes", text
    assert answers["where the weights of its first layer are"] == "cuda:0", text


def check_linear(programs, folder):
    for cuda, device in (("off", "cpu"), ("sim", "cuda:0")):
        done = run([programs / "example_linear", EXAMPLES / "linear"], CORRLOOM_CUDA=cuda)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.split("\n")
        assert lines[lines.index("the device of its weight") + 1].strip() == device, done.stdout
        assert f"f32[2, 1] on {device}" in done.stdout and f"f32[1, 3] on {device}" in done.stdout, done.stdout
        # Both rows of X are ones: each output y is the sum of the weights (b = 0), the loss y^2, and every dW = db = 2*y.
        y, loss, (dw, *others), db = (numbers_below(lines, name) for name in ("net(X)", "loss", "dW", "db"))
        assert y[0] == y[1] and abs(loss[0] - y[0] ** 2) < 1e-4 and abs(dw - 2 * y[0]) < 1e-3, done.stdout
        assert others == [dw, dw] and abs(db[0] - dw) < 1e-3, done.stdout
        assert "op loss_and_grad(" in done.stdout and "dW[o, i] = " in done.stdout, done.stdout
        assert float(re.search(r"loss after 100 steps: (\S+)", done.stdout).group(1)) < 1e-6, done.stdout
        learned = numbers_below(lines, "what it has learned of 2, -3, 0.5")
        assert all(abs(a - b) < 1e-2 for a, b in zip(learned, (2, -3, 0.5))), done.stdout


def numbers_below(lines, question):
    """The elements of the tensor that is printed below a question, whose first line is its type."""
    at, numbers = lines.index(question) + 2, []
    while at < len(lines) and re.match(r"^[ \[]*[-\d]", lines[at]):
        numbers += [float(text) for text in re.findall(r"-?\d+\.?\d*(?:e[-+]\d+)?", lines[at])]
        at += 1
    return numbers


def digits(programs, folder, *arguments, cuda="off"):
    done = subprocess.run([programs / "example_digits", EXAMPLES / "digits", folder, *arguments], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "CORRLOOM_CUDA": cuda})
    assert done.returncode == 0, done.stderr
    assert "loaded again: reads the same" in done.stdout, done.stdout
    return done.stdout


def check_digits(programs, folder):
    text = digits(programs, folder)
    assert int(re.search(r"a step is (\d+) kernels", text).group(1)) <= 40, text
    assert float(re.search(r"test accuracy ([\d.]+) %", text).group(1)) >= 98, text
    assert png_bytes(folder / "loss.png")[0][:2] == (480, 240)
    assert png_bytes(folder / "misread.png")[0][0] == 144


def check_digits_on_a_simulated_gpu(programs, folder):
    # The orders of sums differ between host and GPU, so losses near 2 may differ in the last bits: 1e-4 is a thousand of them.
    losses = [[float(text) for text in re.search(r"loss ([\d.]+) -> ([\d.]+)", digits(programs, folder, "1", "2", cuda=cuda)).groups()] for cuda in ["off", "sim"]]
    assert all(abs(a - b) <= 1e-4 for a, b in zip(*losses)), losses


def main():
    parser = argparse.ArgumentParser(description="Runs the example programs on small inputs.")
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    args = parser.parse_args()
    checks = [check_quickstart, check_quickstart_usage, check_pointwise_conv, check_correlation, check_edges, check_edges_refuses,
              check_devices_without_gpu, check_devices_with_two_gpus, check_linear, check_digits, check_digits_on_a_simulated_gpu]
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
