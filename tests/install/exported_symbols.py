#!/usr/bin/env python3
"""exported_symbols.py NM LIBRARY: what a shared library defines for others is corrloom's, or a weak one of the C++ runtime."""
import subprocess
import sys

PREFIXES = ("corrloom::", "typeinfo for corrloom::", "typeinfo name for corrloom::", "vtable for corrloom::")


def main():
    nm, library = sys.argv[1:]
    lines = subprocess.run([nm, "-D", "-C", "--defined-only", library], check=True, capture_output=True, text=True).stdout.splitlines()
    wrong, own = [], []
    for line in lines:
        kind, name = line.split(maxsplit=2)[1:]
        # A return type stands in front of the name of a template's instance.
        is_own = name.startswith(PREFIXES) or (" corrloom::" in name and kind in "WV")
        is_weak_runtime = kind in "WVu" and (name.startswith(("std::", "typeinfo for std::", "typeinfo name for std::", "vtable for std::")))
        if is_own:
            own.append(name)
        elif not is_weak_runtime:
            wrong.append(line)
    hidden = [name for name in own if name.startswith(("corrloom::frontend::", "corrloom::passes::", "corrloom::codegen::", "corrloom::driver::", "corrloom::tensor::"))]
    for line in wrong + hidden:
        print("exported by mistake:", line)
    if not any(name.startswith("corrloom::Library::load") for name in own):
        print("corrloom::Library::load is not exported")
        return 1
    print(f"{len(own)} names of corrloom, {len(lines) - len(own)} others")
    return 1 if wrong or hidden else 0


if __name__ == "__main__":
    sys.exit(main())
