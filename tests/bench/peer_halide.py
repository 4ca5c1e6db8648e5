"""Halide as a peer: schedules by hand for products, convolutions, correlation and a pipeline of stencils.

Shapes are constants of the generated code, as for the other compilers.
"""
import importlib.metadata
import os

import halide as hl
import numpy

VECTOR = 16
THREADS = 1


def version():
    return importlib.metadata.version("halide")


def set_threads(threads):
    """Halide reads the variable when code of it first runs in parallel; a later change has no effect in this process."""
    global THREADS
    THREADS = threads
    os.environ["HL_NUM_THREADS"] = str(threads)


def over_threads(func, var):
    if THREADS > 1:
        func.parallel(var)


def parameter(array):
    """An input of that shape, dense; Halide counts dimensions from the innermost."""
    made = hl.ImageParam(hl.Buffer(array).type(), array.ndim)
    stride = 1
    for k, extent in enumerate(reversed(array.shape)):
        made.dim(k).set_bounds(0, extent)
        made.dim(k).set_stride(stride)
        stride *= extent
    made.set(hl.Buffer(array))
    return made


def gemm(options, A, B):
    x, y, xo, yo, xi, yi = (hl.Var(name) for name in ("x", "y", "xo", "yo", "xi", "yi"))
    a, b, acc, out = parameter(A), parameter(B), hl.Func("acc"), hl.Func("out")
    zero = hl.f64(0) if A.dtype == numpy.float64 else hl.f32(0)
    vector = VECTOR * 4 // A.dtype.itemsize
    k = hl.RDom([(0, A.shape[1])])
    acc[x, y] = zero
    acc[x, y] += a[k, y] * b[x, k]
    out[x, y] = acc[x, y]
    out.tile(x, y, xo, yo, xi, yi, 4 * vector, min(A.shape[0], 6)).reorder(xi, yi, yo, xo).vectorize(xi, vector).unroll(xi).unroll(yi)
    over_threads(out, xo)
    acc.compute_at(out, yo).vectorize(x, vector).unroll(x).unroll(y)
    acc.update().reorder(x, y, k).vectorize(x, vector).unroll(x).unroll(y)
    return out, (A.shape[0], B.shape[1])


def conv(options, X, K, b):
    stride, pad = options.get("stride", 1), options.get("pad", 1)
    x, y, o, n, xo, xi, oo, oi = (hl.Var(name) for name in ("x", "y", "o", "n", "xo", "xi", "oo", "oi"))
    image, kernel, bias, acc, out = parameter(X), parameter(K), parameter(b), hl.Func("acc"), hl.Func("out")
    r = hl.RDom([(0, K.shape[3]), (0, K.shape[2]), (0, K.shape[1])])
    around = [(0, X.shape[3]), (0, X.shape[2])]
    padded = hl.BoundaryConditions.constant_exterior(image, hl.f32(0), around) if pad else image
    acc[x, y, o, n] = bias[o]
    acc[x, y, o, n] += padded[x * stride + r.x - pad, y * stride + r.y - pad, r.z, n] * kernel[r.x, r.y, r.z, o]
    out[x, y, o, n] = hl.max(acc[x, y, o, n], hl.f32(0))
    height, width = ((X.shape[k] + 2 * pad - K.shape[k]) // stride + 1 for k in (2, 3))
    lanes = VECTOR if width >= 2 * VECTOR else 8 if width >= 8 else 4
    out.split(x, xo, xi, lanes * (2 if width >= 2 * lanes else 1)).split(o, oo, oi, min(K.shape[0], 8))
    out.reorder(xi, oi, xo, y, oo, n).vectorize(xi, lanes).unroll(xi).unroll(oi)
    over_threads(out, oo)
    acc.compute_at(out, xo).vectorize(x, lanes).unroll(x).unroll(o)
    acc.update().reorder(x, y, o, r.x, r.y, r.z, n).vectorize(x, lanes).unroll(x).unroll(o)
    if pad:
        padded.compute_root().vectorize(padded.args()[0], 8)
        over_threads(padded, padded.args()[2])
    return out, (X.shape[0], K.shape[0], height, width)


def corr2d(options, X, K):
    integers = X.dtype != numpy.float32
    cast = hl.i32 if integers else (lambda value: value)
    x, y, xo, yo, xi, yi = (hl.Var(name) for name in ("x", "y", "xo", "yo", "xi", "yi"))
    image, kernel, acc, out = parameter(X), parameter(K), hl.Func("acc"), hl.Func("out")
    r = hl.RDom([(0, K.shape[1]), (0, K.shape[0])])
    acc[x, y] = hl.i32(0) if integers else hl.f32(0)
    acc[x, y] += cast(image[x + r.x, y + r.y]) * cast(kernel[r.x, r.y])
    out[x, y] = acc[x, y]
    out.tile(x, y, xo, yo, xi, yi, 4 * VECTOR, 4).vectorize(xi, VECTOR).unroll(xi).unroll(yi)
    over_threads(out, yo)
    acc.compute_at(out, xo).vectorize(x, VECTOR).unroll(x).unroll(y)
    update = acc.update().reorder(x, y, r.x, r.y).vectorize(x, VECTOR).unroll(x).unroll(y)
    if K.shape[0] <= 3:
        update.unroll(r.x).unroll(r.y)
    return out, (X.shape[0] - K.shape[0] + 1, X.shape[1] - K.shape[1] + 1)


def blur(options, X):
    x, y, yo, yi = (hl.Var(name) for name in ("x", "y", "yo", "yi"))
    image, rows, out = parameter(X), hl.Func("rows"), hl.Func("out")
    quarter, half = hl.f32(0.25), hl.f32(0.5)
    rows[x, y] = quarter * image[x, y] + half * image[x + 1, y] + quarter * image[x + 2, y]
    out[x, y] = quarter * rows[x, y] + half * rows[x, y + 1] + quarter * rows[x, y + 2]
    out.split(y, yo, yi, 64).vectorize(x, VECTOR)
    over_threads(out, yo)
    rows.store_at(out, yo).compute_at(out, yi).vectorize(x, VECTOR)
    return out, (X.shape[0] - 2, X.shape[1] - 2)


FORMS = {"gemm": gemm, "gemm_f64": gemm, "conv": conv, "corr2d": corr2d, "corr2d_u8": corr2d, "blur": blur}


def prepare(workload, arrays):
    """A call without arguments, or None where no schedule is written here."""
    form = FORMS.get(workload["kind"])
    if form is None:
        return None
    func, shape = form(workload["set"], **arrays)
    first = next(iter(arrays.values())).dtype
    result = numpy.empty(shape, dtype=first if first.kind == "f" else numpy.int32)
    buffer = hl.Buffer(result)
    target = hl.get_jit_target_from_environment()
    for feature in (hl.TargetFeature.NoAsserts, hl.TargetFeature.NoBoundsQuery):
        target = target.with_feature(feature)
    func.compile_jit(target)

    def call():
        func.realize(buffer, target)
        return result

    return call


def fetch(result):
    return result
