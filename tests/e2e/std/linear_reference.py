"""References of the correlation and matrix families: NumPy slices for windows, scattering for the transposed forms."""
import itertools

import numpy as np

from drawing import Call

REFERENCES = {}


def reference(draw_call):
    REFERENCES[draw_call.__name__] = draw_call
    return draw_call


def exact(dtype):
    """The dtype to compute in: floats in f64, integers as they are."""
    return np.float64 if np.dtype(dtype).kind == "f" else dtype


def windows(x, counts, window, stride, dilation):
    """(offset, the elements that lie at this offset in their windows) over the last axes of a padded x."""
    for offset in itertools.product(*map(range, window)):
        yield offset, x[(..., *(slice(o * dilation, o * dilation + (n - 1) * stride + 1, stride) if n else slice(0, 0)
                                for o, n in zip(offset, counts)))]


def padded(x, pad, rank, value=0):
    return np.pad(x, [(0, 0)] * (x.ndim - rank) + [(pad, pad)] * rank, constant_values=value)


def correlate(x, k):
    counts = [a - b + 1 for a, b in zip(x.shape, k.shape)]
    total = np.zeros(counts, exact(x.dtype))
    for offset, part in windows(x.astype(total.dtype), counts, k.shape, 1, 1):
        total = total + part * k[offset].astype(total.dtype)
    return total.astype(x.dtype)


def window_sizes(draw, rank):
    """Extents of an operand and of a window that fits, or is 1 longer, so that the result is empty."""
    window = draw.sizes(rank, 0, 3)
    return tuple(max(p + draw.size(0, 7) - (1 if draw.chance(0.1) else 0), p - 1, 0) for p in window), window


def valid_correlation(rank):
    def draw_call(draw):
        dtype = draw.dtype("number")
        size, window = window_sizes(draw, rank)
        x, k = draw.whole(size, dtype), draw.whole(window, dtype)
        return Call(f"corr{rank}d", {"X": x, "K": k}, {"Y": correlate(x, k)})
    REFERENCES[f"corr{rank}d"] = draw_call


for number_of_axes in (1, 2, 3):
    valid_correlation(number_of_axes)


@reference
def corr2d_same(draw):
    dtype = draw.dtype("number")
    x, k = draw.whole(draw.sizes(2), dtype), draw.whole(draw.sizes(2, 0, 5), dtype)
    (p, q), (h, w) = k.shape, x.shape
    larger = np.zeros((h + p, w + q), x.dtype)
    larger[p // 2:p // 2 + h, q // 2:q // 2 + w] = x
    return Call("corr2d_same", {"X": x, "K": k}, {"Y": correlate(larger, k)[:h, :w]})


def over_channels(x, k):
    """[C, H, W] and [O, C, P, Q] to [O, H - P + 1, W - Q + 1]."""
    counts = [max(a - b + 1, 0) for a, b in zip(x.shape[1:], k.shape[2:])]
    total = np.zeros((k.shape[0], *counts), exact(x.dtype))
    for offset, part in windows(x.astype(total.dtype), counts, k.shape[2:], 1, 1):
        total = total + np.tensordot(k[(..., *offset)].astype(total.dtype), part, 1)
    return total.astype(x.dtype)


@reference
def corr2d_multi_in(draw):
    dtype, channels = draw.dtype("number"), draw.size()
    size, window = window_sizes(draw, 2)
    x, k = draw.whole((channels, *size), dtype), draw.whole((channels, *window), dtype)
    return Call("corr2d_multi_in", {"X": x, "K": k}, {"Y": over_channels(x, k[None])[0]})


@reference
def corr2d_multi_in_out(draw):
    dtype, channels, out = draw.dtype("number"), draw.size(), draw.size()
    size, window = window_sizes(draw, 2)
    x, k = draw.whole((channels, *size), dtype), draw.whole((out, channels, *window), dtype)
    return Call("corr2d_multi_in_out", {"X": x, "K": k}, {"Y": over_channels(x, k)})


@reference
def corr2d_multi_in_out_1x1(draw):
    dtype, channels, out = draw.dtype("number"), draw.size(), draw.size()
    x, k = draw.whole((channels, *draw.sizes(2)), dtype), draw.whole((out, channels, 1, 1), dtype)
    return Call("corr2d_multi_in_out_1x1", {"X": x, "K": k}, {"Y": over_channels(x, k)})


def full_convolution(rank):
    def draw_call(draw):
        dtype = draw.dtype("number")
        x, k = draw.whole(draw.sizes(rank, 1), dtype), draw.whole(draw.sizes(rank, 1, 5), dtype)
        total = np.zeros([a + b - 1 for a, b in zip(x.shape, k.shape)], exact(dtype))
        for place in np.ndindex(*x.shape):
            total[tuple(slice(i, i + p) for i, p in zip(place, k.shape))] += x[place] * k.astype(total.dtype)
        return Call(f"convolve{rank}d", {"X": x, "K": k}, {"Y": total.astype(dtype)})
    REFERENCES[f"convolve{rank}d"] = draw_call


full_convolution(1)
full_convolution(2)


def convolve_layer(x, k, b, stride, dilation, pad, groups):
    """[N, C, ...] and [O, C / groups, ...] to [N, O, ...], or nothing when the extents of the result are negative."""
    rank = x.ndim - 2
    counts = [(a + 2 * pad - dilation * (p - 1) - 1) // stride + 1 for a, p in zip(x.shape[2:], k.shape[2:])]
    if min(counts) < 0:
        return None
    of_group = x.shape[1] // groups
    out_of_group = k.shape[0] // groups
    total = np.zeros((x.shape[0], k.shape[0], *counts), exact(x.dtype))
    for offset, part in windows(padded(x, pad, rank).astype(total.dtype), counts, k.shape[2:], stride, dilation):
        for o in range(k.shape[0]):
            group = o // out_of_group
            for c in range(of_group):
                if part.size:
                    total[:, o] += part[:, group * of_group + c] * k[(o, c, *offset)].astype(total.dtype)
    return (total + b.astype(total.dtype).reshape(-1, *[1] * rank)).astype(x.dtype)


def geometry(draw):
    attributes = {"stride": draw.size(1, 3), "dilation": draw.size(1, 3), "pad": draw.one_of([0, 0, 1, 2, 3])}
    return {name: value for name, value in attributes.items() if value != (0 if name == "pad" else 1) or draw.chance(0.3)}


def layer(name, rank, bias, depthwise):
    def draw_call(draw):
        dtype = draw.dtype("number")
        while True:
            attributes = geometry(draw)
            groups = draw.size(1, 3)
            channels, out = groups * draw.size(0, 3), groups * draw.size(0, 3)
            if depthwise:
                channels = groups
            elif groups > 1 or draw.chance(0.3):
                attributes["groups"] = groups
            x = draw.whole((draw.size(0, 3), channels, *draw.sizes(rank, 0, 7 if rank < 3 else 4)), dtype, 2)
            k = draw.whole((out, channels // groups, *draw.sizes(rank, 0, 3)), dtype, 2)
            b = draw.whole(out, dtype) if bias else np.zeros(out, dtype)
            y = convolve_layer(x, k, b, attributes.get("stride", 1), attributes.get("dilation", 1), attributes.get("pad", 0), groups)
            if y is not None:
                return Call(name, {"X": x, "K": k, **({"b": b} if bias else {})}, {"Y": y}, attributes)
    REFERENCES[name] = draw_call


for number_of_axes in (1, 2, 3):
    layer(f"conv{number_of_axes}d", number_of_axes, True, False)
for number_of_axes in (1, 2):
    layer(f"conv{number_of_axes}d_no_bias", number_of_axes, False, False)
    layer(f"depthwise_conv{number_of_axes}d", number_of_axes, True, True)


def transposed_layer(rank):
    def draw_call(draw):
        dtype = draw.dtype("number")
        while True:
            attributes = geometry(draw)
            attributes["output_pad"] = draw.size(0, 2)
            groups = attributes["groups"] = draw.size(1, 3)
            stride, dilation, pad = (attributes.get("stride", 1), attributes.get("dilation", 1), attributes.get("pad", 0))
            of_group, out_of_group = draw.size(0, 3), draw.size(0, 3)
            x = draw.whole((draw.size(0, 3), groups * of_group, *draw.sizes(rank, 1, 5 if rank < 3 else 3)), dtype, 2)
            k = draw.whole((groups * of_group, out_of_group, *draw.sizes(rank, 1, 3)), dtype, 2)
            b = draw.whole(groups * out_of_group, dtype)
            reach = [(a - 1) * stride + dilation * (p - 1) + 1 for a, p in zip(x.shape[2:], k.shape[2:])]
            counts = [a - 2 * pad + attributes["output_pad"] for a in reach]
            if min(counts) < 0:
                continue
            whole = np.zeros((x.shape[0], groups * out_of_group, *[a + attributes["output_pad"] for a in reach]), exact(dtype))
            for place in np.ndindex(*x.shape[2:]):
                for offset in np.ndindex(*k.shape[2:]):
                    to = tuple(i * stride + o * dilation for i, o in zip(place, offset))
                    for c in range(groups * of_group):
                        first = c // of_group * out_of_group
                        whole[(slice(None), slice(first, first + out_of_group), *to)] += (
                            x[(slice(None), c, *place)].astype(whole.dtype)[:, None] * k[(c, slice(None), *offset)].astype(whole.dtype))
            y = whole[(..., *(slice(pad, pad + n) for n in counts))] + b.astype(whole.dtype).reshape(-1, *[1] * rank)
            return Call(f"conv_transpose{rank}d", {"X": x, "K": k, "b": b}, {"Y": y.astype(dtype)}, attributes)
    REFERENCES[f"conv_transpose{rank}d"] = draw_call


for number_of_axes in (1, 2, 3):
    transposed_layer(number_of_axes)


def product(a, b):
    return (a.astype(exact(a.dtype)) @ b.astype(exact(b.dtype))).astype(a.dtype)


@reference
def dot(draw):
    dtype, n = draw.dtype("number"), draw.size(0, 13)
    a, b = draw.whole(n, dtype), draw.whole(n, dtype)
    return Call("dot", {"A": a, "B": b}, {"Y": product(a, b)})


@reference
def outer(draw):
    dtype = draw.dtype("number")
    a, b = draw.whole(draw.size(), dtype), draw.whole(draw.size(), dtype)
    return Call("outer", {"A": a, "B": b}, {"Y": np.multiply.outer(a, b)})


@reference
def matvec(draw):
    dtype, (m, n) = draw.dtype("number"), draw.sizes(2, 0, 13)
    a, x = draw.whole((m, n), dtype), draw.whole(n, dtype)
    return Call("matvec", {"A": a, "X": x}, {"Y": product(a, x)})


def matrix_product(name, first_turned, second_turned):
    def draw_call(draw):
        dtype, batch, (m, n, k) = draw.dtype("number"), draw.batch(), draw.sizes(3, 0, 13)
        a, b = draw.whole((*batch, m, k), dtype), draw.whole((*batch, k, n), dtype)
        turn = lambda array, turned: np.ascontiguousarray(np.swapaxes(array, -1, -2)) if turned else array
        return Call(name, {"A": turn(a, first_turned), "B": turn(b, second_turned)}, {"Y": product(a, b)})
    REFERENCES[name] = draw_call


matrix_product("batched_matmul", False, False)
matrix_product("matmul_nt", False, True)
matrix_product("matmul_tn", True, False)
matrix_product("matmul_tt", True, True)


@reference
def gemm(draw):
    dtype, (m, n, k) = draw.dtype("number"), draw.sizes(3)
    a, b, c = draw.whole((m, k), dtype), draw.whole((k, n), dtype), draw.whole((m, n), dtype)
    given = {"alpha": 2, "beta": 3} if draw.chance(0.7) else {}
    y = given.get("alpha", 1) * product(a, b).astype(exact(dtype)) + given.get("beta", 1) * c.astype(exact(dtype))
    return Call("gemm", {"A": a, "B": b, "C": c, **given}, {"Y": y.astype(dtype)})


@reference
def linear(draw):
    dtype, batch, i, o = draw.dtype("number"), draw.batch(), draw.size(0, 13), draw.size()
    x, w, b = draw.whole((*batch, i), dtype), draw.whole((o, i), dtype), draw.whole(o, dtype)
    return Call("linear", {"X": x, "W": w, "b": b}, {"Y": (product(x, w.T) + b).astype(dtype)})


@reference
def linear_no_bias(draw):
    dtype, batch, i, o = draw.dtype("number"), draw.batch(), draw.size(0, 13), draw.size()
    x, w = draw.whole((*batch, i), dtype), draw.whole((o, i), dtype)
    return Call("linear_no_bias", {"X": x, "W": w}, {"Y": product(x, w.T)})


@reference
def bilinear(draw):
    dtype, (n, i, j, o) = draw.dtype("number"), draw.sizes(4, 0, 5)
    a, b, w, c = draw.whole((n, i), dtype, 2), draw.whole((n, j), dtype, 2), draw.whole((o, i, j), dtype, 2), draw.whole(o, dtype)
    wide = exact(dtype)
    y = np.einsum("ni,oij,nj->no", a.astype(wide), w.astype(wide), b.astype(wide)) + c
    return Call("bilinear", {"A": a, "B": b, "W": w, "b": c}, {"Y": y.astype(dtype)})


def bytes_of(draw, shape):
    return draw.rng.integers(0, 256, shape).astype(np.uint8) if draw.chance() else draw.rng.integers(-128, 128, shape).astype(np.int8)


@reference
def matmul_integer(draw):
    m, n, k = draw.sizes(3, 0, 13)
    a, b = bytes_of(draw, (m, k)), bytes_of(draw, (k, n))
    zeros = {"a_zero": int(draw.rng.integers(-128, 128)), "b_zero": int(draw.rng.integers(-128, 128))} if draw.chance(0.8) else {}
    y = (a.astype(np.int64) - zeros.get("a_zero", 0)) @ (b.astype(np.int64) - zeros.get("b_zero", 0))
    return Call("matmul_integer", {"A": a, "B": b, **zeros}, {"Y": y.astype(np.int32)})


@reference
def matmul_quantized(draw):
    m, n, k = draw.sizes(3, 0, 13)
    a, b = bytes_of(draw, (m, k)), bytes_of(draw, (k, n))
    total = (a.astype(np.int64) - 7) @ (b.astype(np.int64) + 3)
    y = np.clip(np.rint(total.astype(np.float32) * np.float32(0.0078125)) + 5, -128, 127)
    return Call("matmul_quantized", {"A": a, "B": b, "scale": 0.0078125, "a_zero": 7, "b_zero": -3, "y_zero": 5}, {"Y": y.astype(np.int8)})


@reference
def quantize_linear(draw):
    x, zero = draw.real(draw.batch(7), np.float32, 40), int(draw.rng.integers(-20, 21))
    # Divided in f32, as the op does: a quotient between two bytes must fall on the same side.
    y = np.clip(np.rint(x / np.float32(0.375)) + np.float32(zero), -128, 127)
    return Call("quantize_linear", {"X": x, "scale": 0.375, "zero": zero}, {"Y": y.astype(np.int8)})


@reference
def dequantize_linear(draw):
    x, zero = bytes_of(draw, draw.batch(7)), int(draw.rng.integers(-20, 21))
    y = (x.astype(np.int32) - zero).astype(np.float32) * np.float32(0.3)
    return Call("dequantize_linear", {"X": x, "scale": float(np.float32(0.3)), "zero": zero}, {"Y": y})
