#!/usr/bin/env python3
"""`corrloom-opt` as developers and golden tests use it."""

from harness import ToolTest, main

LOOM = "op twice(X: f32[N]) -> Y: f32[N] { Y[i] = X[i] + X[i] }\n"
GRAPH = """\
graph @{name}(%X: f32[N]) -> (%Y) symbols [N] {{
  %Y: f32[N] = compute [i: N] {{
    yield add(%X[i], %X[i])
  }}
}}
"""


class OptTest(ToolTest):
    tool = "CORRLOOM_OPT"

    def test_lists_passes(self):
        text = self.done("--list-passes").stdout
        for name in ["specialise", "canonicalise", "flatten_indices"]:
            self.assertRegex(text, rf"(?m)^{name} +(tensor|loop) ")

    def test_reads_several_graphs_of_a_file(self):
        self.write("two.tir", GRAPH.format(name="a") + GRAPH.format(name="b"))
        text = self.done("two.tir").stdout
        self.assertIn("graph @a(", text)
        self.assertIn("graph @b(", text)
        self.write("again.tir", text)
        self.assertEqual(self.done("again.tir").stdout, text)

    def test_runs_passes_in_order_and_shows_the_ir_around_them(self):
        self.write("a.tir", GRAPH.format(name="a"))
        text = self.done("a.tir", "--bind", "N=3", "--pass=specialise", "--pass=name_uniquely", "--print-before=specialise",
                         "--print-after=specialise").stdout
        before, after = text.index("// before specialise"), text.index("// after specialise")
        self.assertLess(before, after)
        self.assertIn("f32[N]", text[before:after])
        self.assertNotIn("f32[N]", text[after:])
        self.assertEqual(text.count("graph @a"), 3)

    def test_lowers_a_program_to_loops(self):
        self.write("p.loom", LOOM)
        common = ["p.loom", "--op", "twice", "--bind", "N=40", "--pipeline"]
        self.assertIn("schedule @twice", self.done(*common, "--schedule").stdout)
        self.assertIn("stage mapped", self.done(*common, "--lower").stdout)
        flat = self.done(*common, "--lower", "--pass=flatten_indices", "--target", "sm_80").stdout
        self.assertIn("stage flat", flat)
        self.write("p.lir", flat)
        self.assertEqual(self.done("p.lir").stdout, flat)

    def test_uses_a_schedule_from_a_file(self):
        self.write("p.loom", LOOM)
        common = ["p.loom", "--bind", "N=40", "--pipeline"]
        self.write("s.txt", self.done(*common, "--schedule").stdout)
        self.assertEqual(self.done(*common, "--lower", "--use-schedule", "s.txt").stdout, self.done(*common, "--lower").stdout)
        self.write("s.txt", "schedule @twice target host { }")
        self.fails(1, *common, "--lower", "--use-schedule", "s.txt", mentions=["E0501"])

    def test_prints_the_syntax_tree(self):
        self.write("p.loom", LOOM)
        self.assertIn("twice", self.done("p.loom", "--parse-tree").stdout)
        self.write("p.loom", "op f(")
        self.fails(1, "p.loom", "--parse-tree", mentions=["p.loom:1"])

    def test_tells_times_on_standard_error(self):
        self.write("a.tir", GRAPH.format(name="a"))
        result = self.run_tool("a.tir", "--pass=canonicalise", "--time")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"canonicalise +\d+\.\d+ ms")
        self.assertNotIn(" ms", result.stdout)

    def test_expects_exactly_the_announced_errors(self):
        broken = "op f(X: f32[N]) -> Y: f32[N] {\n  Y[i] = Z[i]  # error[E0201]: `Z`\n}\n"
        self.write("a.loom", broken)
        self.done("a.loom", "--expect-errors")
        for wrong in [broken.replace("E0201", "E0203"), broken.replace("`Z`", "`W`"), broken.replace("Z[i]", "X[i]"),
                      "# error[E0201]: `Z`\n" + broken, broken.replace("# error[E0201]: `Z`", "")]:
            self.write("a.loom", wrong)
            self.assertNotEqual(self.run_tool("a.loom", "--expect-errors").returncode, 0, wrong)

    def test_expects_broken_rules(self):
        text = GRAPH.format(name="a").replace("yield add(%X[i], %X[i])", "yield add(%X[i], %X[i, i])")
        self.write("a.tir", text)
        message = self.fails(1, "a.tir", mentions=["rule T"]).stderr
        rule = message[message.index("rule T") + 5:].split(":")[0]
        self.write("a.tir", text.replace("compute [i: N] {", f"compute [i: N] {{ // error: {rule}"))
        self.done("a.tir", "--expect-errors")
        self.write("a.tir", "// error: " + rule + "\n" + text)
        self.fails(1, "a.tir", "--expect-errors", mentions=["did not occur", "is not announced"])

    def test_usage(self):
        self.write("a.tir", GRAPH.format(name="a"))
        for arguments, mention in [([], "file"), (["a.txt"], ".tir"), (["a.tir", "--pass=fly"], "there is no pass `fly`"),
                                   (["a.tir", "--pass=canonicalize"], "did you mean `canonicalise`?"),
                                   (["a.tir", "--pass=flatten_indices"], "--lower"), (["a.tir", "--bind", "N"], "NAME=VALUE"),
                                   (["a.tir", "--bind", "N=x"], "i64"), (["a.tir", "--parse-tree"], ".loom")]:
            with self.subTest(arguments=arguments):
                self.fails(2, *arguments, mentions=[mention])
        self.fails(3, "none.tir", mentions=["none.tir"])
        self.fails(1, "a.tir", "--target", "sm_1", mentions=["sm_80"])

    def test_broken_texts(self):
        for text in [b"", b"graph", b"\0" * 100, b"graph @a(" * 1000, GRAPH.format(name="a").encode()[:60]]:
            self.write("a.tir", text)
            self.assertIn(self.run_tool("a.tir").returncode, [0, 1])


if __name__ == "__main__":
    main()
