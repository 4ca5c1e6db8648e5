#!/usr/bin/env python3
"""The `corrloom` command as users meet it."""
import json
import os
import pty
import struct
import zlib

from harness import ToolTest, main, npy, npy_header, read_npy

OPS = """\
op corr2d(X: f32[H, W], K: f32[P, Q]) -> Y: f32[H - P + 1, W - Q + 1] {
  Y[i, j] = sum(p, q) X[i + p, j + q] * K[p, q]
}
op scaled[times: int = 2](X: f32[N], gain: f32 = 0.5) -> (Y: f32[N], Z: f32[N]) {
  Y[i] = X[i] * gain * f32(times)
  Z[i] = X[i] + 1
}
op flipped(Image: u8[H, W]) -> Y: u8[H, W] { Y[i, j] = Image[H - 1 - i, j] }
op four() -> Y: i64 { Y = 4 }
"""
ONE = "op twice(X: f32[N]) -> Y: f32[N] { Y[i] = X[i] + X[i] }\n"
COMMANDS = ["run", "bench", "explain", "emit", "check", "fmt", "grad", "devices", "cache"]


def png(width, height, pixels):
    """A grey PNG."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(pixels[k * width:(k + 1) * width]) for k in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class CorrloomTest(ToolTest):
    tool = "CORRLOOM"

    def setUp(self):
        super().setUp()
        self.write("ops.loom", OPS)
        self.write("one.loom", ONE)


class Help(CorrloomTest):
    def test_names_every_command_and_no_other(self):
        text = self.done("--help").stdout
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", text)

    def test_of_each_command_has_examples(self):
        for command in COMMANDS:
            self.assertRegex(self.done(command, "--help").stdout, rf"Examples?:\n  corrloom {command}")

    def test_version(self):
        self.assertRegex(self.done("--version").stdout, r"^corrloom \d+\.\d+\.\d+\n$")


class LargePrograms(CorrloomTest):
    """Programs as generators write them: each takes a second at most on an idle machine, and the time of a run is limited."""

    def runs(self, text, *arguments, op="f"):
        self.write("large.loom", text)
        return self.done("run", f"large.loom:{op}", *arguments).stdout

    def is_refused(self, text):
        self.write("large.loom", text)
        self.fails(1, "check", "large.loom", mentions=["error[E0104]"])

    def elementwise(self, value):
        return f"op f(X: f32[N]) -> Y: f32[N] {{\n  Y[i] = {value}\n}}\n"

    def test_wide_whole_tensor_forms(self):
        names = [f"X{k}" for k in range(600)]
        text = f"op f({', '.join(name + ': f32[3]' for name in names)}) -> Y: f32[1800] {{\n  Y = concat([{', '.join(names)}], 0)\n}}\n"
        self.assertIn("f32[1800]", self.runs(text, *(name + "=ones[3]" for name in names)))

    def test_long_and_deep_expressions(self):
        self.assertIn("[900. 900.]", self.runs(self.elementwise(" + ".join(f"X[(i + {k}) % N]" for k in range(900))), "X=ones[2]"))
        self.assertIn("[202. 202.]", self.runs(self.elementwise("-" * 200 + "X[i] + " + "(1 + " * 200 + "X[i]" + ")" * 200), "X=ones[2]"))
        self.is_refused(self.elementwise(" + ".join(["X[i]"] * 10000)))
        self.is_refused(self.elementwise("".join(f"if X[i] < {k} then {k} else " for k in range(500)) + "0"))
        self.is_refused(self.elementwise("(" * 10000 + "X[i]" + ")" * 10000))

    def test_many_values(self):
        lets = "".join(f"  let T{k}[i] = {f'T{k - 1}' if k else 'X'}[i] * 1 + 1\n" for k in range(2000))
        self.assertIn("[2001. 2001.]", self.runs(f"op f(X: f32[N]) -> Y: f32[N] {{\n{lets}  Y[i] = T1999[i]\n}}\n", "X=ones[2]"))
        sums = "".join(f"  let T{k}[i] = sum(j: N) {f'T{k - 1}' if k else 'X'}[j] / f32(N) + X[i]\n" for k in range(100))
        self.assertIn("[101. 101.]", self.runs(f"op f(X: f32[N]) -> Y: f32[N] {{\n{sums}  Y[i] = T99[i]\n}}\n", "X=ones[2]"))
        twice = "".join(f"  let T{k}[i] = {f'T{k - 1}' if k else 'X'}[i] * {f'T{k - 1}' if k else 'X'}[(i + 1) % N]\n" for k in range(60))
        self.assertIn("[1. 1.]", self.runs(f"op f(X: f32[N]) -> Y: f32[N] {{\n{twice}  Y[i] = T59[i]\n}}\n", "X=ones[2]"))

    def test_many_definitions(self):
        ops = "".join(f"op add{k}(X: f32[N]) -> Y: f32[N] {{\n  Y[i] = X[i] + {k}\n}}\n" for k in range(2000))
        self.assertIn("[1235. 1235.]", self.runs(ops, "X=ones[2]", op="add1234"))
        chain = "fn g0(x: f32) -> f32 = x\n" + "".join(f"fn g{k}(x: f32) -> f32 = g{k - 1}(x) + 1\n" for k in range(1, 2000))
        self.is_refused(chain + self.elementwise("g1999(X[i])"))
        table = ", ".join(str(k % 10) for k in range(100000))
        self.assertIn("[1. 2.]", self.runs(f"const c: f32[100000] = [{table}]\n" + self.elementwise("X[i] + (c[i] pad 0)"), "X=ones[2]"))

    def test_many_results_and_dimensions(self):
        results = ", ".join(f"Y{k}: f32[N]" for k in range(300))
        body = "".join(f"  Y{k}[i] = X[i] + {k}\n" for k in range(300))
        self.assertIn("Y299", self.runs(f"op f(X: f32[N]) -> ({results}) {{\n{body}}}\n", "X=ones[2]"))
        dims, indices = ", ".join(f"D{k}" for k in range(40)), ", ".join(f"i{k}" for k in range(40))
        self.assertIn("f32[1, 1,", self.runs(f"op f(X: f32[{dims}]) -> Y: f32[{dims}] {{\n  Y[{indices}] = X[{indices}]\n}}\n", f"X=ones[{','.join(['1'] * 40)}]"))


class StandardLibrary(CorrloomTest):
    def test_runs_without_a_file(self):
        self.done("run", "std:eye", "--set", "N=3", "-o", "Y=y.npy")
        self.assertEqual(read_npy(self.folder / "y.npy")[2], [1, 0, 0, 0, 1, 0, 0, 0, 1])

    def test_is_described(self):
        self.assertIn("needs low < high", self.done("check", "std:randint", "--set", "N=3").stdout)

    def test_an_unknown_op_gets_a_suggestion(self):
        self.fails(1, "run", "std:sofmax", "X=ones[2]", mentions=["did you mean `softmax`?"])
        self.write("uses.loom", 'import "std"\nop f(X: f32[N]) -> Y: f32[N] { Y = sofmax(X) }\n')
        self.fails(1, "check", "uses.loom", mentions=["did you mean `softmax`?"])
        self.fails(1, "run", "uses.loom:sofmax", "X=ones[2]", mentions=["did you mean `softmax`?"])


class Run(CorrloomTest):
    def test_shows_results(self):
        result = self.done("run", "ops.loom:corr2d", "X=arange[3,4]", "K=ones[2,2]")
        self.assertIn("Y: f32[2, 3] on cpu", result.stdout)
        for number in ["10", "14", "18", "26", "30", "34"]:
            self.assertIn(number, result.stdout)

    def test_takes_the_only_op(self):
        self.assertIn("Y: f32[2]", self.done("run", "one.loom", "X=ones[2]").stdout)

    def test_lists_the_ops_when_there_are_several(self):
        self.fails(2, "run", "ops.loom", "X=ones[2]", mentions=["ops.loom:corr2d", "ops.loom:scaled"])

    def test_saves_results_and_shows_none(self):
        result = self.done("run", "ops.loom:scaled", "X=arange[3]", "--set", "times=4", "-o", "Y=y.npy", "-o", "Z=z.npy")
        self.assertEqual(result.stdout, "")
        self.assertEqual(read_npy(self.folder / "y.npy"), ("<f4", (3,), [0, 2, 4]))
        self.assertEqual(read_npy(self.folder / "z.npy"), ("<f4", (3,), [1, 2, 3]))

    def test_saves_several_results_into_one_archive(self):
        self.done("run", "ops.loom:scaled", "X=arange[3]", "-o", "Y=w.npz", "-o", "Z=w.npz:other")
        self.assertIn("0", self.done("run", "one.loom", "X=w.npz:Y").stdout)
        self.assertIn("[2", self.done("run", "one.loom", "X=w.npz:other").stdout)

    def test_reads_files_and_scalars(self):
        self.write("x.npy", npy("<f4", [2], [1, 3]))
        self.done("run", "ops.loom:scaled", "X=x.npy", "gain=-1.5", "-o", "Y=y.npy")
        self.assertEqual(read_npy(self.folder / "y.npy")[2], [-3, -9])

    def test_reads_and_writes_images(self):
        self.write("i.png", png(2, 2, [1, 2, 3, 4]))
        self.done("run", "ops.loom:flipped", "Image=i.png", "-o", "Y=o.png")
        self.done("run", "ops.loom:flipped", "Image=o.png", "-o", "Y=o.npy")
        self.assertEqual(read_npy(self.folder / "o.npy"), ("|u1", (2, 2), [1, 2, 3, 4]))

    def test_needs_no_tensor(self):
        self.assertIn("4", self.done("run", "ops.loom:four", "--device", "cpu").stdout)

    def test_threads_change_no_bit(self):
        for threads in [1, 2]:
            self.done("run", "ops.loom:corr2d", "X=randn[33,65]@1", "K=randn[3,3]@2", "--threads", threads, "-o", f"Y=y{threads}.npy")
        self.assertEqual((self.folder / "y1.npy").read_bytes(), (self.folder / "y2.npy").read_bytes())

    def test_uses_a_given_schedule(self):
        shapes = ["X=f32[5,7]", "K=f32[2,3]"]
        self.write("s.txt", self.done("emit", "ops.loom:corr2d", *shapes, "--stage", "schedule").stdout)
        values = ["X=arange[5,7]", "K=ones[2,3]"]
        given = self.done("run", "ops.loom:corr2d", *values, "--schedule", "s.txt").stdout
        self.assertEqual(given, self.done("run", "ops.loom:corr2d", *values).stdout)
        self.write("s.txt", "schedule @corr2d")
        self.fails(1, "run", "ops.loom:corr2d", *values, "--schedule", "s.txt", mentions=["E04"])
        self.write("s.txt", "schedule @corr2d target host {\n  %Y root {\n" + "    p by 1\n" * 100000 + "  }\n}\n")
        self.fails(1, "run", "ops.loom:corr2d", *values, "--schedule", "s.txt", mentions=["E0501", "100000 loops"])

    def test_refuses_a_schedule_that_hands_out_an_axis_twice(self):
        # The last of the outer blocks would have as many inner ones as the others.
        self.write("twice.loom", "op z(X: f32[A]) -> Z: f32[A] {\n  Z[i] = X[i] + 1\n}\n")
        self.write("s.txt", "schedule @z target host {\n  %Z root {\n    i0 by 192 block\n    i0 by 64 block\n    i0 by 16 unroll\n"
                   "    i0 by 1 vector\n  }\n}\n")
        self.fails(1, "run", "twice.loom", "X=ones[416]", "--schedule", "s.txt", mentions=["E0501", "blocks twice"])

    def test_refuses_sweeps_that_change_bits_or_have_no_end(self):
        loops = "schedule @%s target host {\n  %%Y root {\n    i0 by 4 block\n    k0 by 1\n    i0 by %d\n%s  }\n}\n"
        self.write("lanes.loom", "op low(X: i64[A, B, C]) -> Y: i64[B] {\n  Y[b] = min(a, c) X[a, b, c]\n}\n")
        self.write("s.txt", loops % ("low", 2, "    k1 by 1 vector\n    i0 by 1 unroll\n"))
        self.fails(1, "run", "lanes.loom", "X=ones[4,3,5]:i64", "--schedule", "s.txt", mentions=["E0501", "whose order is by lanes"])
        self.write("running.loom", "op up(X: i64[A]) -> Y: i64[A] {\n  Y[a] = prod(r: 0..a + 1) (X[r] + X[a])\n}\n")
        self.write("s.txt", loops % ("up", 1, ""))
        self.fails(1, "run", "running.loom", "X=ones[5]:i64", "--schedule", "s.txt", mentions=["E0501", "whose extent is not known"])

    def test_wrong_command_lines(self):
        for arguments, mention in [
            ([], "help"),
            (["bnch"], "did you mean `bench`?"),
            (["run"], "program is required"),
            (["run", "one.loom", "X=ones[2]", "--fast"], "--fast"),
            (["run", "one.loom", "X"], "NAME=VALUE"),
            (["run", "one.loom", "=3"], "NAME=VALUE"),
            (["run", "one.loom", "X="], "NAME=VALUE"),
            (["run", "one.loom", "X=ones[2"], "ones[2"),
            (["run", "one.loom", "X=what"], "what"),
            (["run", "one.loom"], "X: f32[N]"),
            (["run", "one.loom", "X=ones[2]", "X=ones[2]"], "`X` is given twice"),
            (["run", "ops.loom:corr2d", "X=ones[2,2]", "k=ones[1,1]"], "did you mean `K`?"),
            (["run", "ops.loom:scaled", "times=3"], "--set times=3"),
            (["run", "ops.loom:scaled", "X=ones[2]", "--set", "times"], "--set ATTRIBUTE=VALUE"),
            (["run", "ops.loom:scaled", "X=ones[2]", "--set", "times=two"], "wanted an int"),
            (["run", "ops.loom:scaled", "X=ones[2]", "--set", "times=2", "--set", "times=3"], "`times` is given twice"),
            (["run", "one.loom", "X=ones[2]", "--device", "gpu"], "`gpu` is no device"),
            (["run", "one.loom", "X=ones[2]", "--threads", "0"], "--threads"),
            (["run", "one.loom", "X=ones[2]", "--threads", "many"], "--threads"),
            (["run", "one.loom", "X=ones[2]", "-o", "y.npy"], "-o NAME=PATH"),
            (["run", "one.loom", "X=ones[2]", "-o", "Y=y.txt"], ".npy"),
            (["run", "one.loom:", "X=ones[2]"], "FILE.loom:OP"),
            (["bench", "one.loom", "X=ones[2]", "--repeat", "-1"], "--repeat"),
            (["emit", "one.loom", "X=f32[2]"], "--stage"),
            (["emit", "one.loom", "X=f32[2]", "--stage", "hex"], "hex"),
            (["emit", "one.loom", "X=f32[2]", "--stage", "ptx", "--target", "sm_1"], "sm_80"),
            (["emit", "one.loom", "X=f32[2]", "--stage", "ptx", "--target", "host"], "PTX target"),
            (["emit", "one.loom", "X=f32[2]", "--stage", "ptx", "--target", ""], "wanted host or sm_XX"),
            (["emit", "one.loom", "X=f33[2]", "--stage", "tensor"], "f33"),
        ]:
            with self.subTest(arguments=arguments):
                self.fails(2, *arguments, mentions=[mention])


class WrongInputs(CorrloomTest):
    """Exit code 1: the program or what it is called with."""

    def refused(self, value, *mentions, op="one.loom", name="X"):
        return self.fails(1, "run", op, f"{name}={value}", mentions=mentions)

    def test_wrong_dtype_rank_and_extent(self):
        self.write("x.npy", npy("<f8", [2], [1, 2]))
        self.refused("x.npy", "X", "f64", "f32")
        self.refused("ones[2,2]", "X")
        self.fails(1, "run", "ops.loom:corr2d", "X=ones[2,2]", "K=ones[4,3]", mentions=["ops.loom:1"])

    def test_npy_files_that_are_none(self):
        whole = npy("<f4", [4], [1, 2, 3, 4])
        for length in [0, 1, 6, 9, 40, len(whole) - 1]:
            self.write("x.npy", whole[:length])
            self.refused("x.npy", "x.npy")
        for shape in [[2**62], [2**40, 2**40], [10**13]]:
            self.write("x.npy", npy_header("<f4", shape) + b"\0" * 64)
            self.refused("x.npy", "X: ")
        self.write("x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 10) + b"{'descr': ")
        self.refused("x.npy", "x.npy")

    def test_png_files_that_are_none(self):
        whole = png(3, 2, [1, 2, 3, 4, 5, 6])
        for content in [b"", b"not an image", whole[:20], whole[:-20], whole[:30] + b"\xff" * 10 + whole[40:], png(2**20, 2**20, [])]:
            self.write("i.png", content)
            self.refused("i.png", "i.png", op="ops.loom:flipped", name="Image")

    def test_archives_that_are_none(self):
        self.write("w.npz", b"PK\x03\x04 nothing")
        self.refused("w.npz:a", "w.npz")
        self.write("w.safetensors", struct.pack("<Q", 2**60) + b"{}")
        self.refused("w.safetensors:a", "w.safetensors")

    def test_check_fails_where_no_arguments_suit(self):
        self.write("far.loom", "op f(X: f32[N]) -> Y: f32[N] where N > 1000000, N % 7 == 3 {\n  Y[i] = X[i]\n}\n")
        checked = self.run_tool("check", "far.loom:f")
        self.assertEqual(checked.returncode, 1)
        self.assertIn("needs N > 1000000", checked.stdout)
        self.assertIn("no arguments were found that suit", checked.stderr)

    def test_numbers_that_do_not_suit(self):
        self.fails(1, "run", "ops.loom:scaled", "X=ones[2]", "gain=ones[2]", mentions=["gain"])
        self.fails(1, "run", "ops.loom:scaled", "X=ones[2]", "--set", "times=0.5", mentions=["times", "int"])
        self.fails(1, "run", "ops.loom:scaled", "X=ones[2]", "--set", "tmes=1", mentions=["did you mean `times`?"])

    def test_names_that_the_program_does_not_have(self):
        self.fails(1, "run", "ops.loom:scaled", "X=ones[2]", "times=3", mentions=["--set times=3"])
        self.fails(1, "run", "ops.loom:scaled", "X=ones[2]", "gian=3", mentions=["did you mean `gain`?"])
        self.fails(1, "emit", "one.loom", "X=f32[2]", "Z=f32[2]", "--stage", "tensor", mentions=["no parameter `Z`"])
        self.fails(1, "run", "one.loom", "X=ones[2]", "-o", "Z=y.npy", mentions=["no result `Z`"])

    def test_shapes_whose_bytes_overflow(self):
        self.refused("zeros[4611686018427387904]")
        self.refused("zeros[4294967296,4294967296]")
        self.fails(1, "emit", "one.loom", "X=f32[9223372036854775807]", "--stage", "tensor")
        self.write("outer.loom", "op outer(X: f32[N], Z: f32[M]) -> Y: f32[N, M, N, M] { Y[i, j, k, l] = X[i] * Z[j] * X[k] * Z[l] }")
        self.fails(1, "emit", "outer.loom", "X=f32[4000000000]", "Z=f32[4000000000]", "--stage", "tensor", mentions=["outer.loom:1"])

    def test_errors_of_the_program(self):
        self.write("bad.loom", "op a(X: f32[N]) -> Y: f32[N] {\n  Y[i] = Z[i]\n}\nop b(X: f32[N]) -> Y: f32[N] {\n  Y[i] = X[j]\n}\n")
        self.fails(1, "run", "bad.loom:a", "X=ones[2]", mentions=["bad.loom:2:", "bad.loom:5:", "error[E02"])

    def test_an_op_that_does_not_exist(self):
        self.fails(1, "run", "ops.loom:corr3d", "X=ones[2,2]", mentions=["did you mean `corr2d`?"])

    def test_broken_texts(self):
        for text in [b"", b"\0" * 1000, bytes(range(256)) * 4, b"op " * 30000, ONE.encode()[:30], b"\xff\xfe" + ONE.encode("utf-16-le")]:
            self.write("bad.loom", text)
            self.fails(1, "run", "bad.loom", "X=ones[2]")

    def test_deep_nesting_is_a_clear_error(self):
        for opening, closing in [("(", ")"), ("-", ""), ("if true then ", " else 0"), ("exp(", ")")]:
            self.write("deep.loom", f"op f(X: f32[N]) -> Y: f32[N] {{\n  Y[i] = {opening * 10000}X[i]{closing * 10000}\n}}\n")
            self.fails(1, "run", "deep.loom", "X=ones[2]", mentions=["deep.loom:2:", "E0104"])

    def test_a_line_of_100000_characters(self):
        line = "  Y[i] = " + " + ".join(["X[i]"] * 14000)
        self.assertGreater(len(line), 90000)
        self.write("long.loom", f"op f(X: f32[N]) -> Y: f32[N] {{\n{line}\n}}\n")
        result = self.run_tool("run", "long.loom", "X=ones[2]")
        self.assertIn(result.returncode, [0, 1], result.stderr[:500])
        self.write("long.loom", f"op f(X: f32[N]) -> Y: f32[N] {{\n  Y[i] = {'x' * 100000}\n}}\n")
        message = self.fails(1, "run", "long.loom", "X=ones[2]", mentions=["long.loom:2:"]).stderr
        self.assertLess(len(message), 4000, "a message must not repeat a huge line")


class MachineFailures(CorrloomTest):
    """Exit code 3."""

    def test_missing_files(self):
        self.fails(3, "run", "none.loom", "X=ones[2]", mentions=["none.loom"])
        self.fails(3, "run", "one.loom", "X=none.npy", mentions=["none.npy"])
        self.fails(3, "run", "one.loom", "X=ones[2]", "-o", "Y=none/y.npy", mentions=["none/y.npy"])
        self.fails(3, "run", ".", "X=ones[2]")
        self.fails(3, "fmt", "none.loom", mentions=["none.loom"])

    def test_a_device_that_is_not_there(self):
        self.fails(3, "run", "one.loom", "X=ones[2]", "--device", "cuda:7", mentions=["cuda:7"])

    def test_more_memory_than_there_is(self):
        self.fails(3, "run", "one.loom", "X=zeros[1000000000000000]")

    def test_an_output_that_is_closed(self):
        reader, writer = os.pipe()
        os.close(reader)
        result = self.run_tool("run", "one.loom", "X=ones[2]", stdout=writer)
        os.close(writer)
        self.assertEqual(result.returncode, 3)
        self.assertIn("standard output", result.stderr)

    def test_no_ptxas(self):
        self.fails(3, "emit", "one.loom", "X=f32[2]", "--stage", "cubin", environment={"PATH": str(self.folder)}, mentions=["ptxas", "PATH"])


class Outputs(CorrloomTest):
    def test_a_failed_run_leaves_the_old_file_and_nothing_else(self):
        self.write("y.npy", "old")
        before = sorted(os.listdir(self.folder))
        self.fails(1, "run", "ops.loom:corr2d", "X=ones[2,2]", "K=ones[4,3]", "-o", "Y=y.npy")
        self.write("h.loom", "op h(X: f32[N]) -> Y: bf16[N] { Y[i] = bf16(X[i]) }")
        self.fails(1, "run", "h.loom", "X=ones[2]", "-o", "Y=y.npy", mentions=["bf16"])
        os.remove(self.folder / "h.loom")
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        self.assertEqual((self.folder / "y.npy").read_text(), "old")

    def test_a_new_file_replaces_the_old_one_whole(self):
        self.write("y.npy", "old" * 1000)
        self.done("run", "one.loom", "X=ones[2]", "-o", "Y=y.npy")
        self.assertEqual(read_npy(self.folder / "y.npy")[2], [2, 2])

    def test_messages_have_colour_on_a_terminal_alone(self):
        self.write("bad.loom", "op a(X: f32[N]) -> Y: f32[N] { Y[i] = Z[i] }")
        self.assertNotIn("\x1b", self.fails(1, "run", "bad.loom", "X=ones[2]").stderr)
        for environment, colored in [({"TERM": "xterm", "NO_COLOR": ""}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False)]:
            master, terminal = pty.openpty()
            self.run_tool("run", "bad.loom", "X=ones[2]", stderr=terminal, environment=environment)
            os.close(terminal)
            shown = os.read(master, 100000).decode()
            os.close(master)
            self.assertIn("E0201", shown)
            self.assertEqual("\x1b[" in shown, colored, environment)


class Bench(CorrloomTest):
    def test_prints_one_json_object(self):
        result = self.done("bench", "ops.loom:corr2d", "X=randn[20,20]", "K=randn[3,3]", "--json", "--repeat", 3, "--threads", 1)
        self.assertEqual(result.stdout.count("\n"), 1)
        line = json.loads(result.stdout)
        self.assertEqual((line["op"], line["device"], line["threads"], line["samples"]), ("corr2d", "cpu", 1, 3))
        for key in ["median_us", "min_us", "p95_us", "compile_ms", "gflops", "gbytes_per_s"]:
            self.assertGreater(line[key], 0, key)
        self.assertLessEqual(line["min_us"], line["median_us"])
        self.assertEqual((line["flops"], line["bytes"]), (2 * 18 * 18 * 9, 4 * (400 + 9 + 18 * 18)))
        self.assertIn(line["limited_by"], ["arithmetic", "L1", "L2", "L3", "memory"])
        self.assertAlmostEqual(line["share"], line["limit_us"] / line["median_us"], delta=1e-6 * line["share"])
        self.assertAlmostEqual(line["gflops"], 2 * 18 * 18 * 9 / line["median_us"] / 1e3, delta=1e-6 * line["gflops"])
        self.assertAlmostEqual(line["gbytes_per_s"], 4 * (400 + 9 + 18 * 18) / line["median_us"] / 1e3, delta=1e-6 * line["gbytes_per_s"])

    def test_prints_a_table(self):
        text = self.done("bench", "one.loom", "X=ones[100]", "--repeat", 5).stdout
        for word in ["twice on cpu", "5 runs", "median", "min", "p95", "compile", "100 flops, at least 800 B", "GFLOP/s", "GB/s", "limit"]:
            self.assertIn(word, text)


class Explain(CorrloomTest):
    PRODUCT = "op product(A: f32[M, L], B: f32[L, N]) -> Y: f32[M, N] { Y[i, j] = sum(k) A[i, k] * B[k, j] }\n"

    def setUp(self):
        super().setUp()
        self.write("product.loom", self.PRODUCT)

    def test_tells_a_person(self):
        text = self.done("explain", "product.loom", "A=randn[48,64]", "B=randn[64,96]", "--threads", 1).stdout
        for line in [r"product on cpu, 1 thread: .* in 1 kernel\n", r"this machine, measured now: .* GFLOP/s in f32; reading .* in memory\n",
                     r"\nkernel 1 of 1: Y\n", r"\n  time +\S+ us, 100 % of all\n", r"\n  work +589\.8 K flops, at least 55\.3 KB\n",
                     r"\n  limit +\S+ us by (arithmetic|L1|L2|L3|memory): reached \d+ %\n", r"\n  parts .*arithmetic",
                     r"\n  registers .* along .*; \d+ % of the lanes are used\n", r"\n    A +12.3 KB .* (again from|read once)", r"\n    Y +18.4 KB .* written once\n",
                     r"\n  weighed    for Y, in cycles by the model of the processor:\n    taken .*\n    rejected "]:
            self.assertRegex(text, line)

    def test_tells_a_program(self):
        result = self.done("explain", "product.loom", "A=randn[48,64]", "B=randn[64,96]", "--threads", 1, "--json")
        self.assertEqual(result.stdout.count("\n"), 1)
        said = json.loads(result.stdout)
        kernel, = said["kernels"]
        self.assertEqual((kernel["computes"], kernel["flops"], kernel["least_bytes"]), ("Y", 2 * 48 * 64 * 96, 4 * (48 * 64 + 64 * 96 + 48 * 96)))
        self.assertEqual({one["tensor"]: one["use"] for one in kernel["operands"]}, {"A": "read", "B": "read", "Y": "written"})
        self.assertAlmostEqual(kernel["share"], kernel["limit_us"] / kernel["time_us"], delta=1e-6)
        weighed, = kernel["weighed"]
        self.assertEqual([one["taken"] for one in weighed["alternatives"]].count(True), 1)

    def test_counts_operations_on_integers(self):
        self.write("bytes.loom", "op bytes(A: u8[M, L], B: i8[L, N]) -> Y: i32[M, N] { Y[i, j] = sum(k) i32(A[i, k]) * i32(B[k, j]) }\n"
                   "op words(A: i32[N], B: i32[N]) -> Y: i32[N] { Y[i] = A[i] * B[i] + A[i] - 3 }\n"
                   "op largest(A: u8[N], B: u8[N]) -> Y: u8[N] { Y[i] = max(A[i], B[i]) }\n"
                   "op moved(A: i32[N], I: i64[N]) -> Y: i32[N] { Y[i] = A[I[N - 1 - i]] }\n")
        quad = json.loads(self.done("bench", "bytes.loom:bytes", "A=randint(0,9)[48,64]", "B=randint(0,9)[64,32]", "--threads", 1, "--repeat", 3, "--json").stdout)
        self.assertEqual(quad["flops"], 0)
        # The instruction works on four products; packing bytes for it, and what is taken off at the end, come on top.
        self.assertGreaterEqual(quad["integer_ops"], 2 * 48 * 64 * 32)
        self.assertLess(quad["integer_ops"], 3 * 48 * 64 * 32)
        self.assertAlmostEqual(quad["integer_gops"], quad["integer_ops"] / quad["median_us"] / 1e3, delta=1e-6 * quad["integer_gops"])
        words = ["bytes.loom:words", "A=arange[4096]", "B=arange[4096]", "--threads", 1]
        self.assertEqual(json.loads(self.done("explain", *words, "--json").stdout)["kernels"][0]["integer_ops"], 3 * 4096)
        self.assertRegex(self.done("explain", *words).stdout, r"\n  work +12\.3 K integer operations, at least 49\.2 KB\n(.*\n)*  parts .*arithmetic")
        self.assertRegex(self.done("bench", *words, "--repeat", 3).stdout, r"\n  work +12\.3 K integer operations, at least 49\.2 KB: .* integer Gop/s, .* GB/s\n")
        # Of bytes four times as many fit into a vector.
        limits = [json.loads(self.done("explain", f"bytes.loom:{op}", *values, "--threads", 1, "--json").stdout)["kernels"][0] for op, values in
                  [("largest", ["A=zeros[65536]", "B=zeros[65536]"]), ("moved", ["A=zeros[4096]", "I=zeros[4096]"])]]
        self.assertEqual([one["integer_ops"] for one in limits], [65536, 0])

    def test_tells_of_values_inside_and_outside(self):
        self.write("two.loom", "op two(X: f32[N, D]) -> (Y: f32[N, D], s: f32[N]) {\n  s[n] = sum(d) X[n, d]\n  Y[n, d] = X[n, d] / s[n]\n}\n")
        self.assertRegex(self.done("explain", "two.loom", "X=rand[40,50]").stdout, r"outside +s has a kernel of its own: it is a result of the op\n")
        self.assertIn("divisions and roots", self.done("explain", "two.loom", "X=rand[40,50]").stdout)
        text = self.done("explain", "std:softmax", "X=randn[40,50]").stdout
        self.assertRegex(text, r"computed inside\n")
        self.assertIn("a tile, computed here", text)

    def test_of_a_simulated_gpu_shows_what_was_counted(self):
        arguments = ["explain", "product.loom", "A=randn[16,16]", "B=randn[16,16]", "--device", "cuda"]
        text = self.done(*arguments, environment={"CORRLOOM_CUDA": "sim"}).stdout
        for word in ["product on cuda:0, simulated", "blocks of", "estimate", "warp inst"]:
            self.assertIn(word, text)
        said = json.loads(self.done(*arguments, "--json", environment={"CORRLOOM_CUDA": "sim"}).stdout)
        self.assertEqual(len(said["simulated_launches"]), len(said["kernels"]))

    def test_of_constants_lists_what_is_made_before_the_calls(self):
        self.write("norm.loom", "op norm(X: f32[N, D], W: f32[D, M]) -> Y: f32[N, M] {\n  let s[m] = sum(d) W[d, m] * W[d, m]\n"
                   "  Y[n, m] = s[m] * (sum(d) X[n, d] * W[d, m])\n}\n")
        arguments = ["norm.loom", "X=randn[4,8]", "W=randn[8,5]"]
        prepared = lambda *more: [one["prepares"] for one in json.loads(self.done("explain", *arguments, "--json", *more).stdout)["kernels"]]
        self.assertNotIn(True, prepared())
        of_constants = prepared("--constant", "W")
        self.assertTrue(of_constants[0])
        self.assertFalse(of_constants[-1])
        self.assertIn("of constants alone, made before the first one", self.done("explain", *arguments, "--constant", "W").stdout)
        self.done("bench", *arguments, "--constant", "W", "--repeat", 3)
        self.fails(1, "bench", *arguments, "--constant", "V", mentions=["no tensor `V`"])
        self.fails(1, "bench", *arguments, "--constant", "W,V", mentions=["no tensor `V`"])

    def test_takes_no_open_dimensions(self):
        self.fails(2, "explain", "product.loom", "A=randn[2,2]", "B=randn[2,2]", "--dynamic", mentions=["--dynamic"])

    def test_an_op_without_elements_or_tensors(self):
        self.done("explain", "product.loom", "A=randn[0,4]", "B=randn[4,3]")
        self.done("explain", "ops.loom:four")
        self.fails(2, "explain", "product.loom", "A=randn[2,2]", mentions=["B"])


class Emit(CorrloomTest):
    TYPES = ["X=f32[5,7]", "K=f32[2,3]"]

    def emit(self, stage, *arguments):
        return self.done("emit", "ops.loom:corr2d", *self.TYPES, "--stage", stage, *arguments).stdout

    def test_every_stage(self):
        for stage, target, mention in [("tensor", "host", "graph @corr2d"), ("schedule", "host", "schedule @corr2d"), ("loop", "host", "func @"),
                                       ("llvm", "host", "define"), ("asm", "host", "ret"), ("tensor", "sm_80", "graph @corr2d"),
                                       ("llvm", "sm_80", "define"), ("asm", "sm_80", ".target sm_80"), ("ptx", "sm_90a", ".target sm_90a")]:
            with self.subTest(stage=stage, target=target):
                self.assertIn(mention, self.emit(stage, "--target", target))

    def test_writes_to_a_file(self):
        self.assertEqual(self.emit("ptx", "-o", "c.ptx"), "")
        self.assertEqual((self.folder / "c.ptx").read_text(), self.emit("ptx", "--target", "sm_80"))

    def test_open_extents_stay_symbols(self):
        for stage, target, mention in [("tensor", "host", "symbols [H]"), ("schedule", "host", "schedule @corr2d"), ("loop", "host", "symbols [H]"),
                                       ("llvm", "host", "define"), ("asm", "host", "ret"), ("ptx", "sm_90a", ".target sm_90a")]:
            with self.subTest(stage=stage, target=target):
                self.assertIn(mention, self.done("emit", "ops.loom:corr2d", "X=f32[?,7]", "K=f32[2,3]", "--stage", stage, "--target", target).stdout)
        self.fails(1, "emit", "ops.loom:corr2d", "X=f32[?]", "K=f32[2,3]", "--stage", "tensor", mentions=["X"])

    def test_dimensions_may_be_left_open(self):
        arguments = ["ops.loom:corr2d", "X=randn[5,7]@1", "K=randn[2,3]@2"]
        known = self.done("run", *arguments).stdout
        for dynamic in ["--dynamic", "--dynamic=H", "--dynamic=W,Q"]:
            self.assertEqual(self.done("run", *arguments, dynamic).stdout, known)
        self.fails(1, "run", *arguments, "--dynamic=Z", mentions=["no dimension `Z`"])
        self.fails(2, "run", *arguments, "--dynamic=", mentions=["wanted names"])
        self.fails(2, "run", *arguments, "--dynamic=H,,W", mentions=["wanted names as N,H"])
        self.fails(2, "run", *arguments, "--dynamic=H,H", mentions=["`H` is named twice"])
        self.write("window.sched", self.done("emit", "ops.loom:corr2d", "X=f32[5,7]", "K=f32[2,3]", "--stage", "schedule").stdout)
        self.assertEqual(self.done("run", *arguments, "--dynamic=H,W", "--schedule", "window.sched").stdout, known)
        self.fails(1, "run", *arguments, "--dynamic", "--schedule", "window.sched", mentions=["E0501", "whose extent is not known"])
        self.fails(1, "run", "ops.loom:corr2d", "X=randn[5,1]", "K=randn[2,3]", "--dynamic", mentions=["W = 1"])
        self.assertGreater(json.loads(self.done("bench", *arguments, "--dynamic", "--repeat", "3", "--json").stdout)["flops"], 0)

    def test_scalars_may_stay_open(self):
        self.assertIn("gain", self.done("emit", "ops.loom:scaled", "X=f32[3]", "--stage", "tensor").stdout)


class Check(CorrloomTest):
    def test_shows_ranges_and_conditions(self):
        text = self.done("check", "ops.loom").stdout
        self.assertIn("op corr2d(X: f32[H, W], K: f32[P, Q])", text)
        self.assertIn("p: P, q: Q", text)
        self.assertIn("needs", text)
        self.assertIn("op four()", text)
        self.write("told.loom", """op f[a: int = 2](X: f32[...D, N], K: f32[N]) -> (Y: f32[...D], Z: f32[N]) where N > a {
  Y[...d] = sum(i: 0..N - 1, j: i..i + a) X[...d, i] * K[min(j, N - 1)]
  Z[n] = K[n]
}
""")
        self.assertEqual(self.done("check", "told.loom").stdout.splitlines()[1:], [
            "  with a = 2:",
            "  Y[...d: ...D]: f32 over i: 0..N - 1, j: i..i + 2",
            "  Z[n: N]: f32",
            "  needs N > 2"])

    def test_compares_with_the_interpreter(self):
        self.assertIn("Y: f32[4, 5] on cpu has the bits of the interpreter",
                      self.done("check", "ops.loom:corr2d", "X=randn[5,7]@1", "K=randn[2,3]@2").stdout)
        for values in [["X=randn[5,7]@1", "K=randn[2,3]@2"], []]:
            said = self.done("check", "ops.loom:corr2d", *values, environment={"CORRLOOM_CUDA": "sim"}).stdout
            self.assertIn("  cuda:0 is simulated (no GPU takes part)\n", said)
            self.assertNotIn("simulated", self.done("check", "ops.loom:corr2d", *values, "--device", "cpu").stdout)

    def test_makes_arguments_up_for_an_op_that_is_named(self):
        for op in ["corr2d", "scaled", "flipped", "four"]:
            self.assertRegex(self.done("check", f"ops.loom:{op}").stdout, r"12 made-up calls: the interpreter and cpu.* agree bit for bit")
        self.assertIn("Y is linear in K, exactly\n", self.done("check", "ops.loom:corr2d").stdout)
        self.write("in.loom", "op f(W: f32[N, M]) -> V: f32[N, M] in W { V[i, j] = W[i, j] * 2 }")
        self.done("check", "in.loom:f")

    def test_reports_errors(self):
        self.write("bad.loom", "op a(X: f32[N]) -> Y: f32[N] { Y[i] = Z[i] }")
        self.fails(1, "check", "bad.loom", mentions=["bad.loom:1:"])


class Fmt(CorrloomTest):
    UGLY = "op   f( X:f32[N] )->Y:f32[N]{Y[i]=X[i]+1}\n"

    def test_writes_canonical_text_that_stays(self):
        self.write("f.loom", self.UGLY)
        text = self.done("fmt", "f.loom").stdout
        self.assertIn("Y[i] = X[i] + 1", text)
        self.assertEqual((self.folder / "f.loom").read_text(), self.UGLY)
        self.fails(1, "fmt", "--check", "f.loom", mentions=["f.loom"])
        self.assertEqual(self.done("fmt", "-i", "f.loom").stdout, "")
        self.assertEqual((self.folder / "f.loom").read_text(), text)
        self.done("fmt", "--check", "f.loom")

    def test_leaves_a_broken_file_alone(self):
        self.write("f.loom", "op f(")
        self.fails(1, "fmt", "-i", "f.loom", mentions=["f.loom:1"])
        self.assertEqual((self.folder / "f.loom").read_text(), "op f(")


class Devices(CorrloomTest):
    def test_lists_the_host(self):
        self.assertRegex(self.done("devices").stdout, r"^cpu .*\(host\)\n")


class Cache(CorrloomTest):
    def cached(self, *arguments):
        return self.done(*arguments, environment={"CORRLOOM_CACHE_DIR": str(self.folder / "cache")}).stdout

    def test_keeps_code_between_processes(self):
        self.write("one.loom", ONE)
        self.assertRegex(self.cached("cache", "list"), r"^0 entries")
        first = self.cached("run", "one.loom", "X=arange[3]")
        entry = next((self.folder / "cache").iterdir())
        self.assertRegex(self.cached("cache", "list"), r"^twice +host .*\n1 entry")
        self.assertEqual(self.cached("run", "one.loom", "X=arange[3]"), first)
        self.assertEqual(self.cached("cache", "why", "one.loom", "X=f32[3]"), "kept: this code was taken from the cache\n")
        entry.write_bytes(entry.read_bytes()[:-1])
        self.assertEqual(self.cached("run", "one.loom", "X=arange[3]"), first)
        self.assertEqual(self.cached("cache", "clear").split(" in ")[0], "deleted 1 file")
        self.assertEqual(self.cached("cache", "why", "one.loom", "X=f32[3]"), "not kept: the cache was empty\n")

    def test_says_what_differs(self):
        self.write("one.loom", ONE)
        self.cached("run", "one.loom", "X=arange[3]")
        self.assertRegex(self.cached("cache", "why", "one.loom", "X=f32[4]"), r"(?s)\(twice, host\) differs in:\n  tensor IR\n    kept: .*f32\[3\].*\n    wanted: .*f32\[4\]")
        self.assertIn("  target\n", self.cached("cache", "why", "one.loom", "X=f32[3]", "--target", "sm_80"))

    def test_off_keeps_nothing(self):
        self.write("one.loom", ONE)
        self.done("run", "one.loom", "X=arange[3]", environment={"HOME": str(self.folder), "CORRLOOM_CACHE_DIR": "off"})
        self.assertEqual([path.name for path in self.folder.iterdir() if path.is_dir()], [])
        self.assertRegex(self.done("cache", "list", environment={"CORRLOOM_CACHE_DIR": "off"}).stdout, "^no code is kept")


class Grad(CorrloomTest):
    def test_writes_an_op_that_runs(self):
        text = self.done("grad", "ops.loom:corr2d", "--wrt", "X,K").stdout
        self.assertIn("dK[p, q] = sum(i, j) dY[i, j] * X[i + p, j + q]\n", text)
        self.write("derived.loom", text)
        shown = self.done("run", "derived.loom", "X=arange[3,4]", "K=ones[2,2]", "dY=ones[2,3]").stdout
        self.assertIn("dX: f32[3, 4]", shown)
        self.assertIn("dK: f32[2, 2]", shown)

    def test_takes_every_float_argument(self):
        self.assertIn("-> (dX: f32[N], dgain: f32)", self.done("grad", "ops.loom:scaled").stdout)
        self.assertIn("has no float argument", self.fails(1, "grad", "ops.loom:flipped").stderr)

    def test_shows_what_is_declared(self):
        self.write("declared.loom", ONE + "op slope = grad twice wrt X\n")
        shown = self.done("grad", "declared.loom").stdout
        self.assertRegex(shown, r"^op slope\(X: f32\[N\], dY: f32\[N\]\) -> dX: f32\[N\]")
        self.assertEqual(self.done("grad", "declared.loom:slope").stdout, shown)
        self.assertIn("Y: f32[2]", self.done("run", "declared.loom:twice", "X=ones[2]").stdout)
        self.assertIn("dX: f32[2]", self.done("run", "declared.loom:slope", "X=ones[2]", "dY=ones[2]").stdout)

    def test_decides_about_intermediates(self):
        self.write("soft.loom", "op soft(X: f32[N]) -> Y: f32[N] {\n  let e[i] = exp(X[i])\n  Y[i] = e[i] / sum(k) e[k]\n}\n")
        kept = self.run_tool("grad", "soft.loom", "--wrt", "X", "--explain")
        self.assertIn("let e[i] = exp(X[i])", kept.stdout)
        self.assertIn("`e` is kept: 20 additions", kept.stderr)
        again = self.run_tool("grad", "soft.loom", "--wrt", "X", "--recompute", "e", "--explain")
        self.assertNotIn("let e[", again.stdout)
        self.assertIn("`e` is computed again: as asked", again.stderr)
        self.assertEqual(self.done("grad", "soft.loom", "--wrt", "X", "--intermediates", "recompute").stdout, again.stdout)

    def test_says_what_is_wrong(self):
        self.assertIn("E0260", self.fails(1, "grad", "ops.loom:corr2d", "--wrt", "Q").stderr)
        self.fails(2, "grad", "ops.loom:corr2d", "--intermediates", "some")


if __name__ == "__main__":
    main()
