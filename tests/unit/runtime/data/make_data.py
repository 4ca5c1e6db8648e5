#!/usr/bin/env python3
"""Writes the files beside it that the tests of runtime/io read: made by NumPy and by hand, not by our own writers."""

import pathlib
import struct
import zlib

import numpy as np

HERE = pathlib.Path(__file__).parent


def png(name, width, height, depth, colour, rows, chunks=b"", interlace=0):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    (HERE / name).write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunks + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


def palette(colours):
    data = bytes(v for colour in colours for v in colour)
    return struct.pack(">I", len(data)) + b"PLTE" + data + struct.pack(">I", zlib.crc32(b"PLTE" + data))


np.savez_compressed(HERE / "deflated.npz", a=np.arange(6, dtype="f4").reshape(2, 3), b=np.ones(1000, "u1"))
np.savez(HERE / "stored.npz", x=np.arange(3, dtype="i8"))
np.save(HERE / "fortran.npy", np.asfortranarray(np.arange(6, dtype="i2").reshape(2, 3)))
np.save(HERE / "big_endian.npy", np.arange(4, dtype=">f8"))
np.save(HERE / "rank0.npy", np.array(2.5, dtype="f2"))
np.save(HERE / "records.npy", np.zeros(2, dtype=[("a", "i4"), ("b", "f4")]))
png("palette.png", 3, 2, 8, 3, [bytes([0, 1, 2]), bytes([2, 1, 0])], palette([(255, 0, 0), (0, 255, 0), (1, 2, 3)]))
png("grey16.png", 2, 1, 16, 0, [struct.pack(">HH", 65535, 257 * 7)])
png("one_bit.png", 9, 1, 1, 0, [bytes([0b10110000, 0b10000000])])
png("rgba.png", 1, 1, 8, 6, [bytes([1, 2, 3, 4])])
png("lying.png", 1000000, 1000000, 8, 6, [bytes(4)])
png("short.png", 4, 4, 8, 0, [bytes(4)])
