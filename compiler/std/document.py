#!/usr/bin/env python3
"""Writes docs/std.md from the comments and signatures of the library.

    document.py [--check]     with --check it writes nothing; exit code 1 when the page is not what it would write

A file begins with its title as a comment. What is named for users has a comment above it: what it does, its formula (lines that are indented),
and `Source:`. Without a source it is a helper of others, and the page leaves it out."""
import argparse
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
PAGE = FOLDER.parents[1] / "docs" / "std.md"
FILES = ["correlation", "pooling", "matrices", "activations", "losses", "normalisation", "attention", "indexing", "shapes", "images", "generators", "optimisers"]
ITEM = re.compile(r"((?:^#.*\n)+)^(op|fn) (\w+)", re.M)
INTRODUCTION = """# The standard library

`import "std"` brings these ops and functions; a definition of the same name in the importing file wins. `corrloom run std:NAME`
runs an op without a file, and `Library::load("std")` gives them to a C++ program. This page is written from the comments of
[compiler/std](../compiler/std) by `document.py` there.

A type parameter stands for a dtype that the arguments decide: `float`, `integer`, `number` (both) or `any` of them. `...B` is any number
of dimensions. Attributes, in brackets, are given by name: `conv2d[stride = 2, pad = 1](X, K, b)`. Functions (`fn`) take numbers; in a
statement of whole tensors they apply to every element: `Y = relu(X)`. Half-precision operands are added up in f32, and rounded to
their own dtype after each operation; cast them first where that is too coarse.
"""


def signature_of(text, begin):
    """From `op` to before the body, on one line; of a function to its dtype."""
    end = text.index(" {\n", begin) if text.startswith("op", begin) else text.index(" =", text.index("->", begin))
    return re.sub(r"\(\s+", "(", re.sub(r"\s+", " ", text[begin:end]))


def items_of(text):
    """(signature, description, formula lines, source) of what has a source."""
    for found in ITEM.finditer(text):
        lines = [line[1:].removeprefix(" ") for line in found.group(1).splitlines()]
        formula = [line.strip() for line in lines if line.startswith("  ")]
        prose = " ".join(line for line in lines if not line.startswith("  "))
        description, _, source = prose.partition("Source: ")
        if source:
            yield signature_of(text, found.start(2)), description.strip(), formula, source.strip()


def page():
    parts = [INTRODUCTION]
    for stem in FILES:
        text = (FOLDER / f"{stem}.loom").read_text()
        title, _, rest = re.match(r"((?:#.*\n)+)\n", text).group(1).replace("# ", "").replace("#", "").partition("\n")
        parts.append(f"## {title.rstrip('.')}\n" + (f"\n{rest.strip()}\n" if rest.strip() else ""))
        for signature, description, formula, source in items_of(text):
            told = f"{description} `{' '.join(formula)}`" if formula else description
            parts.append(f"- `{signature}`\n  {told}\n  Source: {source}\n")
    return "\n".join(parts)


def problems():
    """What has no place on the page, or no source where one is wanted."""
    found = {path.stem for path in FOLDER.glob("*.loom")}
    yield from (f"{stem}.loom is not listed in document.py" for stem in sorted(found - set(FILES)))
    for stem in FILES:
        for line in (FOLDER / f"{stem}.loom").read_text().splitlines():
            if len(line) > 130:
                yield f"{stem}.loom: a line of {len(line)} characters: {line[:60]}"


def main():
    parser = argparse.ArgumentParser(description="Writes docs/std.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; say whether the page is up to date")
    args = parser.parse_args()
    failures = list(problems())
    text = page()
    if not args.check:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        failures.append("docs/std.md is not what compiler/std/document.py writes")
    for failure in failures:
        print("FAIL", failure)
    if args.check:
        print(f"{int(not failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
