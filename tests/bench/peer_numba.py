"""Numba as a peer: the loops that one writes by hand. Sums may be reordered, as the other compilers' are."""
import math

import numba
import numpy
from numba import prange

THREADS = 1
ZERO = numpy.float32(0)


def version():
    return numba.__version__


def set_threads(threads):
    global THREADS
    THREADS = threads
    numba.set_num_threads(threads)


def gemm(A, B, Y):
    for i in prange(A.shape[0]):
        for j in range(B.shape[1]):
            Y[i, j] = 0
        for k in range(A.shape[1]):
            a = A[i, k]
            for j in range(B.shape[1]):
                Y[i, j] += a * B[k, j]


def depthwise(X, K, stride, pad, Y):
    for c in prange(Y.shape[1]):
        for i in range(Y.shape[2]):
            for j in range(Y.shape[3]):
                Y[0, c, i, j] = 0
            for p in range(K.shape[2]):
                y = i * stride + p - pad
                if 0 <= y < X.shape[2]:
                    for q in range(K.shape[3]):
                        first = max(0, (pad - q + stride - 1) // stride)
                        last = min(Y.shape[3], (X.shape[3] - 1 + pad - q) // stride + 1)
                        for j in range(first, last):
                            Y[0, c, i, j] += X[0, c, y, j * stride + q - pad] * K[c, 0, p, q]


def corr2d(X, K, Y):
    for i in prange(Y.shape[0]):
        for j in range(Y.shape[1]):
            Y[i, j] = 0
        for p in range(K.shape[0]):
            for q in range(K.shape[1]):
                for j in range(Y.shape[1]):
                    Y[i, j] += X[i + p, j + q] * K[p, q]


def corr2d_u8(X, K, Y):
    for i in prange(Y.shape[0]):
        for j in range(Y.shape[1]):
            Y[i, j] = 0
        for p in range(K.shape[0]):
            for q in range(K.shape[1]):
                weight = numpy.int32(K[p, q])
                for j in range(Y.shape[1]):
                    Y[i, j] += numpy.int32(X[i + p, j + q]) * weight


def blur(X, Y):
    quarter, half = numpy.float32(0.25), numpy.float32(0.5)
    for i in prange(Y.shape[0]):
        row = numpy.empty(X.shape[1], numpy.float32)
        for j in range(X.shape[1]):
            row[j] = quarter * X[i, j] + half * X[i + 1, j] + quarter * X[i + 2, j]
        for j in range(Y.shape[1]):
            Y[i, j] = quarter * row[j] + half * row[j + 1] + quarter * row[j + 2]


def add_relu(A, B, Y):
    for i in prange(Y.shape[0]):
        Y[i] = max(A[i] + B[i], ZERO)


def gelu_bias(X, b, Y):
    for n in prange(X.shape[0]):
        for d in range(X.shape[1]):
            x = X[n, d] + b[d]
            Y[n, d] = numpy.float32(0.5) * x * (numpy.float32(1) + math.erf(x * numpy.float32(0.5**0.5)))


def total(A, Y):
    sum_of_all = ZERO
    for i in prange(A.shape[0]):
        sum_of_all += A[i]
    Y[0] = sum_of_all


def softmax(X, Y):
    for n in prange(X.shape[0]):
        top = X[n, 0]
        for d in range(X.shape[1]):
            top = max(top, X[n, d])
        sum_of_row = ZERO
        for d in range(X.shape[1]):
            Y[n, d] = math.exp(X[n, d] - top)
            sum_of_row += Y[n, d]
        for d in range(X.shape[1]):
            Y[n, d] /= sum_of_row


def layernorm(X, g, b, Y):
    count = numpy.float32(X.shape[1])
    for n in prange(X.shape[0]):
        mean = ZERO
        for d in range(X.shape[1]):
            mean += X[n, d]
        mean /= count
        spread = ZERO
        for d in range(X.shape[1]):
            spread += (X[n, d] - mean) * (X[n, d] - mean)
        scale = numpy.float32(1) / math.sqrt(spread / count + numpy.float32(1e-5))
        for d in range(X.shape[1]):
            Y[n, d] = (X[n, d] - mean) * scale * g[d] + b[d]


def transposed(X, Y):
    """In tiles that stay in the caches."""
    tile = 32
    for block in prange((X.shape[0] + tile - 1) // tile):
        for first in range(0, X.shape[1], tile):
            for j in range(first, min(first + tile, X.shape[1])):
                for i in range(block * tile, min(block * tile + tile, X.shape[0])):
                    Y[j, i] = X[i, j]


def pooled(X, Y):
    for c in prange(Y.shape[0]):
        for i in range(Y.shape[1]):
            for j in range(Y.shape[2]):
                Y[c, i, j] = max(max(X[c, 2 * i, 2 * j], X[c, 2 * i, 2 * j + 1]), max(X[c, 2 * i + 1, 2 * j], X[c, 2 * i + 1, 2 * j + 1]))


def smaller(X, K):
    return tuple(x - k + 1 for x, k in zip(X.shape, K.shape))


def after_window(set_, X, K):
    height, width = ((X.shape[k] + 2 * set_.get("pad", 1) - K.shape[k]) // set_.get("stride", 1) + 1 for k in (2, 3))
    return (X.shape[0], K.shape[0], height, width)


# The loops and the shape of their result.
FORMS = {
    "gemm": (gemm, lambda set_, A, B: (A.shape[0], B.shape[1])),
    "gemm_f64": (gemm, lambda set_, A, B: (A.shape[0], B.shape[1])),
    "depthwise": (depthwise, after_window),
    "corr2d": (corr2d, lambda set_, X, K: smaller(X, K)),
    "corr2d_u8": (corr2d_u8, lambda set_, X, K: smaller(X, K)),
    "blur": (blur, lambda set_, X: (X.shape[0] - 2, X.shape[1] - 2)),
    "add_relu": (add_relu, lambda set_, A, B: A.shape),
    "gelu_bias": (gelu_bias, lambda set_, X, b: X.shape),
    "total": (total, lambda set_, A: (1,)),
    "rows_softmax": (softmax, lambda set_, X: X.shape),
    "rows_layernorm": (layernorm, lambda set_, X, g, b: X.shape),
    "transposed": (transposed, lambda set_, X: X.shape[::-1]),
    "pooled": (pooled, lambda set_, X: (X.shape[0], X.shape[1] // 2, X.shape[2] // 2)),
}


def prepare(workload, arrays):
    """A call without arguments, or None where no loops are written here."""
    if workload["kind"] not in FORMS:
        return None
    loops, shape_of = FORMS[workload["kind"]]
    first = next(iter(arrays.values())).dtype
    result = numpy.empty(shape_of(workload["set"], **arrays), first if first.kind == "f" else numpy.int32)
    compiled = numba.njit(parallel=THREADS > 1, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")(loops)
    options = (workload["set"].get("stride", 1), workload["set"].get("pad", 1)) if loops is depthwise else ()
    operands = (*arrays.values(), *options, result)

    def call():
        compiled(*operands)
        return result

    return call


def fetch(result):
    return result[0] if result.shape == (1,) else result
