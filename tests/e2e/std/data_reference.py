"""References of indexing, shapes, images and generators: NumPy's own functions, or loops over elements."""
import math

import numpy as np

from drawing import Call, f64
from linear_reference import exact, padded, windows

REFERENCES = {}


def reference(draw_call):
    REFERENCES[draw_call.__name__] = draw_call
    return draw_call


# ---- Indexing ----

@reference
def embedding(draw):
    w = draw.whole((draw.size(1, 11), draw.size(0, 5)), draw.dtype("any"), 90)
    i = draw.rng.integers(0, len(w), draw.batch(5)).astype(draw.dtype("integer"))
    return Call("embedding", {"W": w, "I": i}, {"Y": w[i]})


@reference
def take(draw):
    x = draw.whole((draw.size(1, 7), *draw.batch(5)), draw.dtype("any"), 90)
    i = draw.rng.integers(0, len(x), draw.size()).astype(draw.dtype("integer"))
    return Call("take", {"X": x, "I": i}, {"Y": np.take(x, i, 0)})


@reference
def pick(draw):
    x = draw.whole((draw.size(), draw.size(1, 7)), draw.dtype("any"), 90)
    i = draw.rng.integers(0, x.shape[1], len(x)).astype(draw.dtype("integer"))
    return Call("pick", {"X": x, "I": i}, {"Y": np.take_along_axis(x, i.astype(np.int64)[:, None], 1)[:, 0]})


@reference
def segment_sum(draw):
    x, segments = draw.whole((draw.size(0, 13), draw.size(0, 5)), draw.dtype("number")), draw.size(0, 5)
    i = draw.rng.integers(0, segments + 2, len(x)).astype(draw.dtype("integer"))
    y = np.zeros((segments + 2, x.shape[1]), exact(x.dtype))
    np.add.at(y, i.astype(np.int64), x.astype(y.dtype))
    return Call("segment_sum", {"X": x, "I": i}, {"Y": y[:segments].astype(x.dtype)}, {"segments": segments})


@reference
def one_hot(draw):
    classes = draw.size(0, 7)
    i = draw.rng.integers(0, classes + 2, draw.batch(5)).astype(draw.dtype("integer"))
    return Call("one_hot", {"I": i}, {"Y": np.eye(classes + 2, dtype=np.float32)[i][..., :classes]}, {"classes": classes})


@reference
def bincount(draw):
    bins, i = draw.size(0, 7), draw.rng.integers(0, 9, draw.size(0, 13)).astype(draw.dtype("integer"))
    return Call("bincount", {"I": i}, {"Y": np.bincount(i, minlength=bins)[:bins].astype(np.int64)}, {"bins": bins})


@reference
def histogram(draw):
    # Multiples of a quarter between -2 and 6: the bounds of the parts are exact.
    bins, x = draw.one_of([1, 2, 4, 8]), draw.rng.integers(-12, 30, draw.size(0, 13)).astype(draw.dtype("float")) / 4
    return Call("histogram", {"X": x, "lo": -2.0, "hi": 6.0}, {"Y": np.histogram(f64(x), bins, (-2, 6))[0].astype(np.int64)}, {"bins": bins})


def running(name, function, most):
    def draw_call(draw):
        x = draw.whole((*draw.batch(), draw.size(0, 13)), draw.dtype("number"), most)
        if name == "cumprod":
            x = np.where(x == 0, 1, x).astype(x.dtype)[..., :6]
        return Call(name, {"X": x}, {"Y": function(x, -1, x.dtype)})
    REFERENCES[name] = draw_call


running("cumsum", np.cumsum, 4)
running("cumprod", np.cumprod, 2)
running("cummax", np.maximum.accumulate, 90)
running("cummin", np.minimum.accumulate, 90)


@reference
def arg_max(draw):
    x = draw.whole((*draw.batch(), draw.size(1, 13)), draw.dtype("number"))
    return Call("arg_max", {"X": x}, {"Y": np.asarray(x.argmax(-1))})


@reference
def arg_min(draw):
    x = draw.whole((*draw.batch(), draw.size(1, 13)), draw.dtype("number"))
    return Call("arg_min", {"X": x}, {"Y": np.asarray(x.argmin(-1))})


# ---- Shapes ----

def border(name, mode):
    def draw_call(draw):
        x = draw.whole((*draw.batch(), *draw.sizes(2, 0 if mode == "constant" else 1, 5)), draw.dtype("any"), 90)
        sides = {side: draw.size(0, 5) for side in ("top", "bottom", "left", "right") if draw.chance(0.8)}
        amount = [(0, 0)] * (x.ndim - 2) + [(sides.get("top", 0), sides.get("bottom", 0)), (sides.get("left", 0), sides.get("right", 0))]
        if mode != "constant":
            return Call(name, {"X": x}, {"Y": np.pad(x, amount, mode)}, sides)
        value = True if x.dtype == bool else 3
        return Call(name, {"X": x, "value": value}, {"Y": np.pad(x, amount, constant_values=value)}, sides)
    REFERENCES[name] = draw_call


for op, numpy_mode in (("pad2d", "constant"), ("pad2d_edge", "edge"), ("pad2d_reflect", "reflect"), ("pad2d_wrap", "wrap")):
    border(op, numpy_mode)


def columns(draw):
    """x, its geometry, and the columns of its windows."""
    while True:
        x = draw.whole((draw.size(0, 3), draw.size(0, 3), *draw.sizes(2, 0, 7)), draw.dtype("number"))
        geometry = {"height": draw.size(1, 3), "width": draw.size(1, 3), "stride": draw.size(1, 3), "dilation": draw.size(1, 2), "pad": draw.size(0, 2)}
        window = (geometry["height"], geometry["width"])
        counts = [(a + 2 * geometry["pad"] - geometry["dilation"] * (p - 1) - 1) // geometry["stride"] + 1 for a, p in zip(x.shape[2:], window)]
        if min(counts) > 0:
            break
    y = np.zeros((x.shape[0], x.shape[1], *window, *counts), x.dtype)
    for (p, q), part in windows(padded(x, geometry["pad"], 2), counts, window, geometry["stride"], geometry["dilation"]):
        y[:, :, p, q] = part
    return x, geometry, y.reshape(x.shape[0], x.shape[1] * window[0] * window[1], counts[0] * counts[1])


@reference
def im2col(draw):
    x, geometry, y = columns(draw)
    return Call("im2col", {"X": x}, {"Y": y}, geometry)


@reference
def col2im(draw):
    image, geometry, y = columns(draw)
    x = draw.whole(y.shape, y.dtype)
    # Every column goes back to the places that its window has in an image of their numbers.
    n, c, h, w = image.shape
    pad, (p, q) = geometry["pad"], (geometry["height"], geometry["width"])
    places = np.arange((h + 2 * pad) * (w + 2 * pad)).reshape(h + 2 * pad, w + 2 * pad)
    counts = [(a + 2 * pad - geometry["dilation"] * (k - 1) - 1) // geometry["stride"] + 1 for a, k in zip((h, w), (p, q))]
    total = np.zeros((n, c, places.size), exact(x.dtype))
    cut = x.reshape(n, c, p, q, *counts)
    for (a, b), part in windows(places, counts, (p, q), geometry["stride"], geometry["dilation"]):
        for place in np.ndindex(*counts):
            total[:, :, part[place]] += cut[(slice(None), slice(None), a, b, *place)].astype(total.dtype)
    total = total.reshape(n, c, h + 2 * pad, w + 2 * pad)[:, :, pad:pad + h, pad:pad + w]
    return Call("col2im", {"X": x}, {"Y": total.astype(x.dtype)}, {"H": h, "W": w, **geometry})


def image_in_blocks(draw):
    """[N, C, H, W] and [N, C, H / b, b, W / b, b] of it."""
    block = draw.size(1, 3)
    n, c, h, w = draw.size(0, 3), draw.size(0, 3), block * draw.size(0, 3), block * draw.size(0, 3)
    x = draw.whole((n, c, h, w), draw.dtype("any"), 90)
    return block, x, x.reshape(n, c, h // block, block, w // block, block)


def block_form(name, order, attribute, inverse):
    def draw_call(draw):
        block, x, cut = image_in_blocks(draw)
        n, c, h, w = x.shape
        deep = np.ascontiguousarray(cut.transpose(order)).reshape(n, c * block * block, h // block, w // block)
        return Call(name, {"X": deep if inverse else x}, {"Y": x if inverse else deep}, {attribute: block})
    REFERENCES[name] = draw_call


block_form("space_to_depth", (0, 3, 5, 1, 2, 4), "block", False)
block_form("depth_to_space", (0, 3, 5, 1, 2, 4), "block", True)
block_form("pixel_unshuffle", (0, 1, 3, 5, 2, 4), "factor", False)
block_form("pixel_shuffle", (0, 1, 3, 5, 2, 4), "factor", True)


@reference
def channel_shuffle(draw):
    groups, of_group = draw.size(1, 3), draw.size(0, 3)
    x = draw.whole((draw.size(0, 3), groups * of_group, *draw.sizes(2, 0, 3)), draw.dtype("any"), 90)
    y = x.reshape(len(x), groups, of_group, *x.shape[2:]).swapaxes(1, 2).reshape(x.shape)
    return Call("channel_shuffle", {"X": x}, {"Y": y}, {"groups": groups})


def last_axis(name, function, attribute=None, parameter=None):
    def draw_call(draw):
        x = draw.whole((*draw.batch(), draw.size()), draw.dtype("any"), 90)
        number = draw.size(1, 5) if attribute else int(draw.rng.integers(-9, 10))
        inputs = {"X": x, **({parameter: number} if parameter else {})}
        return Call(name, inputs, {"Y": np.ascontiguousarray(function(x, number))}, {attribute: number} if attribute else {})
    REFERENCES[name] = draw_call


last_axis("flip", lambda x, _: np.flip(x, -1))
last_axis("roll", lambda x, shift: np.roll(x, shift, -1), parameter="shift")
last_axis("tile", lambda x, count: np.concatenate([x] * count, -1), "count")
last_axis("repeat", lambda x, count: np.repeat(x, count, -1), "count")


def triangle(name, function):
    def draw_call(draw):
        x, diagonal = draw.whole((*draw.batch(), *draw.sizes(2, 0, 7)), draw.dtype("number"), 90), draw.one_of([0, 0, 1, -1, 3, -2])
        return Call(name, {"X": x}, {"Y": function(x, diagonal)}, {"diagonal": diagonal} if diagonal else {})
    REFERENCES[name] = draw_call


triangle("tril", np.tril)
triangle("triu", np.triu)


@reference
def diagonal_matrix(draw):
    x = draw.whole(draw.size(), draw.dtype("number"), 90)
    return Call("diagonal_matrix", {"X": x}, {"Y": np.diag(x)})


@reference
def trace(draw):
    n = draw.size()
    x = draw.whole((n, n), draw.dtype("number"))
    return Call("trace", {"X": x}, {"Y": np.array(np.trace(x.astype(exact(x.dtype))).astype(x.dtype))})


# ---- Images ----

def image(draw, kind, most=4):
    return draw.whole((*draw.batch(), *draw.sizes(2, 1, 11)), draw.dtype(kind), most)


def around(x, before, after, mode):
    """A border of an image as NumPy makes it, far beyond its size if need be."""
    return np.pad(x, [(0, 0)] * (x.ndim - 2) + [(before, after)] * 2, mode)


def filtered(x, window, mode):
    """Correlation that keeps the size; the middle of an even window is its later element."""
    p = len(window)
    counts = x.shape[-2:]
    total = np.zeros(x.shape, exact(x.dtype))
    for offset, part in windows(around(x, p // 2, p - 1 - p // 2, mode).astype(total.dtype), counts, (p, p), 1, 1):
        total = total + part * np.asarray(window)[offset].astype(total.dtype)
    return total


def fixed_filter(name, window):
    def draw_call(draw):
        x = image(draw, "number")
        return Call(name, {"X": x}, {"Y": filtered(x, np.array(window), "reflect").astype(x.dtype)})
    REFERENCES[name] = draw_call


fixed_filter("sobel_x", [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
fixed_filter("sobel_y", [[-1, -2, -1], [0, 0, 0], [1, 2, 1]])
fixed_filter("scharr_x", [[-3, 0, 3], [-10, 0, 10], [-3, 0, 3]])
fixed_filter("scharr_y", [[-3, -10, -3], [0, 0, 0], [3, 10, 3]])
fixed_filter("laplacian", [[0, 1, 0], [1, -4, 1], [0, 1, 0]])
fixed_filter("difference_x", [[0, 0, 0], [-1, 0, 1], [0, 0, 0]])
fixed_filter("difference_y", [[0, -1, 0], [0, 0, 0], [0, 1, 0]])


@reference
def sobel(draw):
    x = image(draw, "float")
    across, down = (filtered(x, np.array(w), "reflect") for w in ([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], [[-1, -2, -1], [0, 0, 0], [1, 2, 1]]))
    # The squares and their sum are exact, the root is rounded once.
    return Call("sobel", {"X": x}, {"Y": np.sqrt((across ** 2 + down ** 2).astype(x.dtype))})


@reference
def box_blur(draw):
    x, window = image(draw, "float"), draw.size(1, 5)
    total = filtered(x, np.ones((window, window)), "reflect").astype(x.dtype)
    return Call("box_blur", {"X": x}, {"Y": total / x.dtype.type(window * window)}, {} if window == 3 and draw.chance() else {"window": window})


@reference
def box_lines(draw):
    x, window = image(draw, "float"), draw.size(1, 5)
    middle = np.zeros((window, window))
    middle[window // 2] = 1
    return Call("box_lines", {"X": x}, {"Y": filtered(x, middle, "reflect").astype(x.dtype)}, {"window": window})


def normal_weights(radius, sigma):
    weights = np.array([math.exp(-0.5 * (k / sigma) ** 2) for k in range(-radius, radius + 1)])
    return weights / weights.sum()


@reference
def gaussian_weights(draw):
    radius, sigma = draw.size(0, 5), draw.one_of([0.5, 1.0, 1.75])
    return Call("gaussian_weights", {}, {"Y": normal_weights(radius, sigma)}, {"radius": radius, "sigma": sigma}, ulps=30)


def gaussian(name, is_line):
    def draw_call(draw):
        x, radius, sigma = draw.real((*draw.batch(), *draw.sizes(2, 1, 11)), draw.dtype("float")), draw.size(0, 3), draw.one_of([0.5, 1.0, 1.75])
        weights = normal_weights(radius, sigma)
        down = np.eye(2 * radius + 1)[radius] if is_line else weights
        y = filtered(x, np.multiply.outer(down, weights), "reflect")
        attributes = {"radius": radius, "sigma": sigma}
        result = {"Y": y.astype(x.dtype)}
        scale = float(np.abs(f64(x)).max(initial=0))
        if name == "sharpen":
            attributes["amount"] = 0.5
            result = {"Y": (f64(x) + 0.5 * (f64(x) - y)).astype(x.dtype)}
        # A weight is rounded to the dtype; two sums of 2 * radius + 1 products, and three operations to sharpen.
        return Call(name, {"X": x}, result, attributes, 4 * radius + 10, scale)
    REFERENCES[name] = draw_call


gaussian("gaussian_blur", False)
gaussian("gaussian_lines", True)
gaussian("sharpen", False)


def extreme(name, function, is_line):
    def draw_call(draw):
        x, window = image(draw, "number", 90), draw.size(1, 5)
        counts = x.shape[-2:]
        wide = around(x, window // 2, window - 1 - window // 2, "edge")
        parts = [part for (p, _), part in windows(wide, counts, (window, window), 1, 1) if not is_line or p == window // 2]
        return Call(name, {"X": x}, {"Y": function(np.stack(parts), 0)}, {"window": window} if is_line or window != 3 else {})
    REFERENCES[name] = draw_call


extreme("dilate", np.max, False)
extreme("erode", np.min, False)
extreme("dilate_lines", np.max, True)
extreme("erode_lines", np.min, True)


@reference
def median3x3(draw):
    x = image(draw, "number", 90)
    parts = [part for _, part in windows(around(x, 1, 1, "edge"), x.shape[-2:], (3, 3), 1, 1)]
    return Call("median3x3", {"X": x}, {"Y": np.sort(np.stack(parts), 0)[4]})


@reference
def rgb_to_grey(draw):
    x = draw.rng.random((3, *draw.sizes(2))).astype(draw.dtype("float"))
    return Call("rgb_to_grey", {"X": x}, {"Y": np.tensordot([0.299, 0.587, 0.114], f64(x), 1).astype(x.dtype)}, ulps=4, scale=1)


@reference
def rgb_to_grey_u8(draw):
    x = draw.rng.integers(0, 256, (3, *draw.sizes(2))).astype(np.uint8)
    y = np.floor(np.tensordot([4899, 9617, 1868], f64(x), 1) / 16384 + 0.5)
    return Call("rgb_to_grey_u8", {"X": x}, {"Y": y.astype(np.uint8)})


def resized(draw, kind, most):
    height, width = draw.sizes(2, 1, 11)
    return image(draw, kind, most), height, width, {"height": height, "width": width}


@reference
def resize_nearest(draw):
    x, height, width, attributes = resized(draw, "any", 90)
    rows, across = ([i * old // new for i in range(new)] for old, new in zip(x.shape[-2:], (height, width)))
    return Call("resize_nearest", {"X": x}, {"Y": np.ascontiguousarray(x[..., rows, :][..., across])}, attributes)


def interpolated(x, places, axis):
    """Along an axis by np.interp, which repeats the edge."""
    line = lambda values: np.interp(places, np.arange(len(values)), values)
    return np.apply_along_axis(line, axis, f64(x)) if x.size else np.zeros([len(places) if k == axis % x.ndim else n for k, n in enumerate(x.shape)])


def bilinear_form(name, place):
    def draw_call(draw):
        x, height, width, attributes = resized(draw, "float", 9)
        y = interpolated(x, place(x.shape[-2], height), -2)
        y = interpolated(y, place(x.shape[-1], width), -1)
        return Call(name, {"X": x}, {"Y": y.astype(x.dtype)}, attributes, 8, 9)
    REFERENCES[name] = draw_call


bilinear_form("resize_bilinear", lambda old, new: (np.arange(new) + 0.5) * old / new - 0.5)
bilinear_form("resize_bilinear_corners", lambda old, new: np.arange(new) * ((old - 1) / (new - 1) if new > 1 else 0))


def interpolation(name, axis):
    def draw_call(draw):
        x, size, parts = image(draw, "float", 9), draw.size(0, 7), draw.size(1, 7)
        first, step = int(draw.rng.integers(-9, 10)), int(draw.rng.integers(0, 9))
        y = interpolated(x, (first + step * np.arange(size)) / parts, axis)
        return Call(name, {"X": x, "first": first, "step": step}, {"Y": y.astype(x.dtype)}, {"size": size, "parts": parts}, 6, 9)
    REFERENCES[name] = draw_call


interpolation("interpolate_rows", -2)
interpolation("interpolate_columns", -1)


# ---- Generators ----

def generator(name, function, parameters=()):
    def draw_call(draw):
        n = draw.size(0, 13)
        given = dict(parameters) if draw.chance(0.7) or name in ("full", "linspace") else {}
        return Call(name, given, {"Y": function(n, **given)}, {"N": n})
    REFERENCES[name] = draw_call


generator("zeros", lambda n: np.zeros(n, np.float32))
generator("ones", lambda n: np.ones(n, np.float32))
generator("eye", lambda n: np.eye(n, dtype=np.float32))
generator("full", lambda n, value: np.full(n, value, np.float32), {"value": 2.5})
generator("arange", lambda n, start=0, step=1: (start + step * np.arange(n)).astype(np.float32), {"start": 2, "step": -0.5})
generator("arange_i64", lambda n, start=0, step=1: start + step * np.arange(n, dtype=np.int64), {"start": 2, "step": -3})
generator("linspace", lambda n, first, last: np.linspace(first, last, n).astype(np.float32), {"first": -3, "last": 9})


def philox(seed, count):
    """The draws of a seed as Python's integers: 64 bits each, two a block."""
    draws = []
    for block in range((count + 1) // 2):
        words, keys = [block & 0xFFFFFFFF, block >> 32, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
        for _ in range(10):
            even, odd = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
            words = [odd >> 32 ^ words[1] ^ keys[0], odd & 0xFFFFFFFF, even >> 32 ^ words[3] ^ keys[1], even & 0xFFFFFFFF]
            keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
        draws += [words[0] | words[1] << 32, words[2] | words[3] << 32]
    return draws[:count]


def seeded(draw):
    return {"seed": int(draw.rng.integers(0, 2 ** 63))} if draw.chance(0.8) else {}


@reference
def rand(draw):
    n, given = draw.size(0, 13), seeded(draw)
    return Call("rand", given, {"Y": np.array([(k >> 40) / 2 ** 24 for k in philox(given.get("seed", 0), n)], np.float32)}, {"N": n})


@reference
def randint(draw):
    n, given, low = draw.size(0, 13), seeded(draw), int(draw.rng.integers(-50, 50))
    high = low + int(draw.rng.integers(1, 10 ** draw.one_of([1, 3, 17])))
    y = np.array([low + (k * (high - low) >> 64) for k in philox(given.get("seed", 0), n)], np.int64)
    return Call("randint", {"low": low, "high": high, **given}, {"Y": y}, {"N": n})


@reference
def randn(draw):
    n, given = draw.size(0, 13), seeded(draw)
    bits = [k >> 11 for k in philox(given.get("seed", 0), n + n % 2)]
    y = []
    for u, v in zip(bits[::2], bits[1::2]):
        radius, angle = math.sqrt(-2 * math.log((u + 1) / 2 ** 53)), 2 * math.pi * v / 2 ** 53
        y += [radius * math.cos(angle), radius * math.sin(angle)]
    # In f64 up to the last rounding; a number near 0 has the error of the angle, 2^-52 of the radius.
    return Call("randn", given, {"Y": np.array(y[:n]).astype(np.float32)}, {"N": n}, 1)
