#!/usr/bin/env python3
"""Results larger than the caches, of odd sizes, have the same bits from two programs: one for their sizes, whose schedule streams, fuses
and copies, and one for every size, which does none of that. One thread and two give the same bits, too, and long sums have those
of the interpreter, on every device that is there.

    large_test.py --corrloom PATH

Small cases never reach such schedules. The last line is `N passed, N failed`.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

FILE = pathlib.Path(__file__).parent / "large" / "ops.loom"
CASES = [
    f"{FILE}:around X=randn[1301,3001]",
    f"{FILE}:around X=randn[3,1000003]",
    f"{FILE}:turned X=randn[1301,2003]",
    f"{FILE}:channels_last X=randn[3,3,301,1003]",
    f"{FILE}:channels_last X=randn[1,67,301,203]",
    f"{FILE}:twice X=randn[701,1003]",
    f"{FILE}:smoothed X=randn[1081,1919]",
    f"{FILE}:normalised X=randint(0,256)[1081,1917,3]:u8",
    "std:gaussian_blur X=randn[1081,1919] --set radius=4",
    "std:box_blur X=randn[3,541,961] --set window=7",
    "std:sobel X=randn[1081,1919]",
    "std:median3x3 X=randn[541,1919]",
    "std:resize_nearest X=randn[3,301,403] --set height=903 --set width=1209",
    "std:softmax X=randn[1000,5003]",
    "std:layer_norm X=randn[4001,771] gamma=rand[771] beta=rand[771]",
    "std:corr2d X=randn[1081,1919] K=randn[5,3]",
    "std:convolve2d X=randn[541,961] K=randn[5,5]",
    "std:conv2d X=randn[2,32,57,55] K=randn[48,8,3,3] b=randn[48] --set pad=1 --set groups=4",
    "std:depthwise_conv2d X=randn[1,96,113,111] K=randn[96,1,5,5] b=randn[96] --set pad=2 --set stride=2",
    "std:max_pool2d X=randn[1,64,113,111] --set window=3 --set stride=2 --set pad=1",
    "std:pixel_shuffle X=randn[1,64,113,111] --set factor=2",
    "std:flip X=randn[1301,3001]",
    "std:cumsum X=randn[1301,1003]",
    "std:arg_max X=randn[1301,3001]",
    "std:matmul_nt A=randn[517,771] B=randn[1003,771]",
    "std:attention Q=randn[5,197,64] K=randn[5,197,64] V=randn[5,197,64]",
]

SUMS = [
    f"{FILE}:total X=randn[100003]",
    f"{FILE}:total X=randn[16384]",
    f"{FILE}:total X=randn[3,111,331]",
    f"{FILE}:apart A=randn[211,305] B=randn[211,305]",
    f"{FILE}:greatest X=extremes[70001]",
    f"{FILE}:columns X=randn[71,301,3]",
    f"{FILE}:columns X=randn[4097,1,19]",
    f"{FILE}:least X=extremes[4097,19]",
    f"{FILE}:channels X=randn[5,3,7,7]",
    f"{FILE}:channels X=randn[6,2,14,5]",
    f"{FILE}:channels X=randn[3,4,1,3]",
    f"{FILE}:weighted X=randn[301,77] w=randn[77]",
]


def result_of(corrloom, case, *more):
    """The bytes of the result; fails with the program's message."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "Y.npy"
        done = subprocess.run([corrloom, "run", *case.split(), *more, "-o", f"Y={path}"], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return path.read_bytes()


def differs(corrloom, case):
    result = result_of(corrloom, case, "--threads", "1")
    for more in (["--threads", "2"], ["--dynamic"]):
        if result_of(corrloom, case, *more) != result:
            return "other bits with " + " ".join(more)
    return ""


def differs_from_interpreter(corrloom, case):
    done = subprocess.run([corrloom, "check", *case.split()], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corrloom", required=True)
    corrloom = parser.parse_args().corrloom
    failed = 0
    for case in CASES + SUMS:
        try:
            why = differs(corrloom, case) or (differs_from_interpreter(corrloom, case) if case in SUMS else "")
        except RuntimeError as error:
            why = str(error)
        if why:
            failed += 1
            print(f"FAIL {case}: {why}")
    print(f"{len(CASES) + len(SUMS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
