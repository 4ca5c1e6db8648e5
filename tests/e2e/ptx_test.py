#!/usr/bin/env python3
"""Has ptxas assemble the PTX of every op below, for every architecture.

    ptx_test.py --corrloom PATH

The last line is `N passed, N failed`; without ptxas, or where it does not know an architecture, a line says what was skipped.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"]
CASES = "tests/e2e/cases/"

# (program, op, types and scalars, attributes): small extents with tails, and the sizes of a picture.
KERNELS = [
    ("examples/conv.loom", "corr2d", ["X=f32[3,3]", "K=f32[2,2]"], []),
    ("examples/conv.loom", "corr2d_multi_in", ["X=f32[2,5,7]", "K=f32[2,2,3]"], []),
    ("examples/conv.loom", "corr2d_multi_in_out", ["X=f32[3,1920,1080]", "K=f32[2,3,1,1]"], []),
    ("examples/conv.loom", "corr2d_multi_in_out_1x1", ["X=f32[3,1920,1080]", "K=f32[2,3,1,1]"], []),
    ("examples/conv.loom", "conv2d", ["X=f32[2,4,9,7]", "K=f32[6,2,3,3]", "b=f32[6]"], ["stride=2", "pad=1", "groups=2"]),
    ("examples/conv.loom", "dense_gelu", ["X=f32[5,37]", "W=f32[11,37]", "b=f32[11]"], []),
    ("examples/conv.loom", "softmax", ["X=f32[17,1000]"], []),
    ("examples/edges/edges.loom", "edges", ["X=u8[3,1080,1920]"], []),
    ("examples/correlation/correlation.loom", "find", ["X=f32[40,50]", "T=f32[9,9]"], []),
    (CASES + "B_blocks.loom", "totals", ["X=f32[3,0]"], []),
    (CASES + "B_blocks.loom", "truth", ["B=bool[5,67]"], []),
    (CASES + "D_extents.loom", "deep", ["X=u8[2,3,5,2,3,7]"], []),
    (CASES + "E_division.loom", "tensors", ["A=i32[7]", "B=i32[5]"], []),
    (CASES + "L_forms.loom", "scalars", ["X=f32[100]", "alpha=0.5", "beta=2"], []),
    (CASES + "M_numbers.loom", "wraps", ["A=i8[67]", "B=i8[67]"], []),
    (CASES + "M_numbers.loom", "to_integers", ["X=f32[67]"], []),
    (CASES + "M_numbers.loom", "narrows", ["X=f32[67]"], []),
    (CASES + "M_numbers.loom", "shifts", ["X=i16[67]", "U=u16[67]", "C=i16[67]"], []),
    (CASES + "M_numbers.loom", "lowest_and_highest", ["A=f32[67]", "B=f32[67]"], []),
    (CASES + "M_numbers.loom", "functions", ["X=f32[67]"], []),
    (CASES + "N_narrow_and_nan.loom", "pick", ["X=f32[6,37]"], []),
    (CASES + "N_narrow_and_nan.loom", "product", ["A=f16[17,33]", "B=f16[33,5]"], []),
    (CASES + "N_narrow_and_nan.loom", "total_bf16", ["X=f32[1024]"], []),
]


def wrong_with(kernel, target, corrloom, folder):
    """What ptxas or the compiler finds wrong; nothing when the PTX assembles."""
    program, op, arguments, attributes = kernel
    command = [corrloom, "emit", f"{ROOT / program}:{op}", *arguments, "--stage", "ptx", "--target", target]
    for attribute in attributes:
        command += ["--set", attribute]
    emitted = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if emitted.returncode != 0:
        return f"exit {emitted.returncode}: {emitted.stderr.strip()[:300]}"
    source = folder / "kernel.ptx"
    source.write_text(emitted.stdout)
    done = subprocess.run(["ptxas", f"-arch={target}", "-O0", "-o", folder / "kernel.cubin", source], capture_output=True, text=True, timeout=300)
    return None if done.returncode == 0 else f"ptxas: {(done.stderr or done.stdout).strip()[:300]}"


def knows(target, folder):
    """Whether this ptxas has the architecture."""
    source = folder / "empty.ptx"
    source.write_text(f".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry f() {{ ret; }}\n")
    return subprocess.run(["ptxas", f"-arch={target}", "-o", folder / "empty.cubin", source], capture_output=True).returncode == 0


def main():
    parser = argparse.ArgumentParser(description="Has ptxas assemble PTX.")
    parser.add_argument("--corrloom", required=True)
    args = parser.parse_args()
    if shutil.which("ptxas") is None:
        print(f"skipped: no ptxas\n0 passed, 0 failed, {len(KERNELS) * len(TARGETS)} skipped")
        return 0
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for target in TARGETS:
            if not knows(target, folder):
                print(f"skipped: this ptxas has no {target}")
                skipped += len(KERNELS)
                continue
            for kernel in KERNELS:
                wrong = wrong_with(kernel, target, args.corrloom, folder)
                passed, failed = passed + (not wrong), failed + bool(wrong)
                if wrong:
                    print(f"FAIL {kernel[0]}:{kernel[1]} {target}: {wrong}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
