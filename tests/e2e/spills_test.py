#!/usr/bin/env python3
"""Innermost loops of the recipe's kernels keep vectors in registers: none is moved to or from the stack there.

    spills_test.py --corrloom PATH

Emits assembly for `spills/kernels.loom` at shapes of networks and images and looks at every loop that has no loop inside. Runs where the
processor has 32 vector registers; the last line is `N passed, N failed`.
"""
import argparse
import pathlib
import platform
import re
import subprocess
import sys

FILE = pathlib.Path(__file__).parent / "spills" / "kernels.loom"
SHAPES = [
    ("gemm", "A=f32[64,64] B=f32[64,64]"),
    ("gemm", "A=f32[512,768] B=f32[768,1000]"),
    ("gemm", "A=f32[257,129] B=f32[129,513]"),
    ("gemm", "A=f32[2048,2048] B=f32[2048,2048]"),
    ("gemm", "A=f32[17,65] B=f32[65,33]"),
    ("gemm_f64", "A=f64[300,300] B=f64[300,300]"),
    ("gemm_i8", "A=i8[512,512] B=i8[512,512]"),
    ("linear", "X=f32[64,784] W=f32[256,784] b=f32[256]"),
    ("linear", "X=f32[512,768] W=f32[3072,768] b=f32[3072]"),
    ("conv", "X=f32[1,64,56,56] K=f32[64,64,3,3]"),
    ("conv", "X=f32[2,128,28,28] K=f32[128,128,3,3]"),
    ("conv", "X=f32[1,512,7,7] K=f32[512,512,3,3]"),
    ("conv_s2", "X=f32[1,3,224,224] K=f32[64,3,7,7]"),
    ("depthwise", "X=f32[1,144,56,56] K=f32[144,1,3,3]"),
    ("depthwise", "X=f32[1,32,112,112] K=f32[32,1,3,3]"),
    ("depthwise", "X=f32[1,512,14,14] K=f32[512,1,3,3]"),
    ("depthwise", "X=f32[1,960,7,7] K=f32[960,1,3,3]"),
    ("dilated", "X=f32[1,144,56,56] K=f32[144,1,3,3]"),
    ("corr2d", "X=f32[1920,1080] K=f32[3,3]"),
    ("corr2d", "X=f32[1920,1080] K=f32[7,7]"),
    ("corr2d", "X=f32[1920,1080] K=f32[31,31]"),
    ("corr2d", "X=f32[333,517] K=f32[5,5]"),
    ("corr2d_u8", "X=u8[1920,1080] K=i8[3,3]"),
    ("maxpool", "X=f32[64,112,112]"),
    ("box", "X=f32[1920,1080]"),
    ("sobel", "X=f32[1920,1080]"),
]


def innermost_loops(assembly):
    """The lines of each loop without another one inside; a loop is what a jump back leaps over."""
    lines = assembly.splitlines()
    labels = {m[1]: n for n, line in enumerate(lines) if (m := re.match(r"(\.L\w+):", line))}
    loops = set()
    for n, line in enumerate(lines):
        jump = re.match(r"\s+j\w+\s+(\.L\w+)", line)
        if jump and labels.get(jump[1], n + 1) <= n:
            loops.add((labels[jump[1]], n))
    inner = [a for a in loops if not any(b != a and b[0] >= a[0] and b[1] <= a[1] for b in loops)]
    return [lines[begin : end + 1] for begin, end in sorted(inner)]


def moves_through_stack(line):
    return re.search(r"%[xyz]mm", line) and re.search(r"\(%rsp\)", line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corrloom", required=True)
    args = parser.parse_args()
    cpu = pathlib.Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not cpu.exists() or " avx512vl" not in cpu.read_text():
        print(f"skipped: no 32 vector registers\n0 passed, 0 failed, {len(SHAPES)} skipped")
        return
    failed = 0
    for op, shapes in SHAPES:
        command = [args.corrloom, "emit", f"{FILE}:{op}", *shapes.split(), "--stage", "asm"]
        done = subprocess.run(command, capture_output=True, text=True)
        loops = innermost_loops(done.stdout)
        spills = [line.strip() for loop in loops for line in loop if moves_through_stack(line)]
        fault = done.stderr.strip() if done.returncode else "no loops found" if not loops else ""
        if spills:
            fault = f"{len(spills)} moves through the stack in innermost loops, the first `{spills[0]}`"
        if fault:
            failed += 1
            print(f"{op} {shapes}: {fault}")
    print(f"{len(SHAPES) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
