"""What both test files share: running a tool in a folder of its own, and .npy files without NumPy."""
import ast
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

FORMATS = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q", "|u1": "B", "|i1": "b"}


def npy(dtype, shape, values):
    """The bytes of a .npy file."""
    return npy_header(dtype, shape) + struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values)


def npy_header(dtype, shape):
    text = str({"descr": dtype, "fortran_order": False, "shape": tuple(shape)}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def read_npy(path):
    """(dtype, shape, values) of a .npy file."""
    data = pathlib.Path(path).read_bytes()
    length = struct.unpack_from("<H", data, 8)[0]
    header = ast.literal_eval(data[10:10 + length].decode())
    code = FORMATS[header["descr"]]
    values = data[10 + length:]
    return header["descr"], header["shape"], list(struct.unpack(f"<{len(values) // struct.calcsize(code)}{code}", values))


class ToolTest(unittest.TestCase):
    """A test with an empty folder, `self.folder`, as working directory of the tool."""

    tool = ""  # the variable of the environment that names the executable
    maxDiff = None

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def run_tool(self, *arguments, **options):
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        environment = {**os.environ, **options.pop("environment", {})}
        return subprocess.run([os.environ[self.tool], *map(str, arguments)], cwd=self.folder, encoding="utf-8", errors="replace", timeout=120,
                              env=environment, **options)

    def done(self, *arguments, **options):
        """The result of a run that must succeed in silence on standard error."""
        result = self.run_tool(*arguments, **options)
        self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
        return result

    def fails(self, code, *arguments, mentions=(), **options):
        """The result of a run that must end with that code, say why on standard error alone, and not crash."""
        result = self.run_tool(*arguments, **options)
        self.assertEqual(result.returncode, code, (arguments, result.stderr[:2000]))
        self.assertEqual(result.stdout or "", "", arguments)
        self.assertTrue(result.stderr.strip(), "no message")
        self.assertNotIn("LLVM ERROR", result.stderr)
        for text in mentions:
            self.assertIn(text, result.stderr)
        return result


def main():
    """Runs the tests of the calling file; the last line is `N passed, N failed`."""
    result = unittest.main(module="__main__", exit=False).result
    failed = {str(test).split(" (")[0] + str(type(test)) for test, _ in result.failures + result.errors}
    print(f"{max(result.testsRun - len(failed), 0)} passed, {len(failed)} failed")
    sys.exit(0 if result.wasSuccessful() else 1)
