"""What the reference draws its arguments with, and the record of one call."""
import dataclasses

import numpy as np

DTYPES = {"float": ["f32", "f32", "f64", "f16"], "number": ["f32", "f32", "f64", "f16", "i32", "i64", "u8", "i16"],
          "integer": ["i64", "i32", "u8", "i16"], "any": ["f32", "f64", "i32", "u8", "bool"]}
NUMPY = {"bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u64": np.uint64,
         "f16": np.float16, "f32": np.float32, "f64": np.float64}


@dataclasses.dataclass
class Call:
    """One call of an op and its results. A result may be off by `ulps` units in the last place of its dtype at |result| + scale."""
    op: str
    inputs: dict  # tensors as arrays, scalars as Python numbers
    results: dict
    attributes: dict = dataclasses.field(default_factory=dict)
    ulps: float = 0
    scale: object = 0  # a number, or an array for each result of that shape
    program: str = ""  # the text of a program that has the op, when it is not one of the library


class Draw:
    """Random sizes, dtypes and elements."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def one_of(self, values):
        return values[int(self.rng.integers(len(values)))]

    def size(self, least=0, most=7):
        """Mostly small numbers; 0, 1 and primes are frequent."""
        return self.one_of([n for n in (0, 1, 1, 2, 3, 3, 4, 5, 5, 7, 7, 11, 13) if least <= n <= most])

    def sizes(self, count, least=0, most=7):
        return tuple(self.size(least, most) for _ in range(count))

    def batch(self, most=3):
        """The dimensions of a pack."""
        return self.sizes(self.one_of([0, 1, 1, 2]), 0, most)

    def dtype(self, kind):
        return NUMPY[self.one_of(DTYPES[kind])]

    def whole(self, shape, dtype=np.float32, most=4):
        """Small integers: sums of products of them are exact in every dtype, so results are compared bit for bit."""
        if dtype == np.bool_:
            return self.rng.integers(0, 2, shape).astype(dtype)
        least = 0 if np.dtype(dtype).kind == "u" else -most
        return np.asarray(self.rng.integers(least, most + 1, shape)).astype(dtype)

    def real(self, shape, dtype=np.float32, scale=1.0):
        return np.asarray(self.rng.standard_normal(shape) * scale).astype(dtype)

    def chance(self, probability=0.5):
        return bool(self.rng.random() < probability)


def f64(array):
    return np.asarray(array, np.float64)
