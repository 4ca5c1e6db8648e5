"""References of pooling, activations, losses, normalisation and attention: in f64, element by element or by NumPy's reductions.

A bound in `ulps` counts the roundings on the way, those of a function of the language as 4 each (the table's bound), and is doubled
where errors are carried through a division or a root; `scale` is the sum of the magnitudes that are added."""
import math

import numpy as np

from drawing import Call, f64
from linear_reference import exact, padded, windows

REFERENCES = {}


def reference(draw_call):
    REFERENCES[draw_call.__name__] = draw_call
    return draw_call


# ---- Pooling ----

def pooling(name, rank, is_max):
    def draw_call(draw):
        dtype = draw.dtype("float")
        while True:
            window, stride = draw.size(1, 4), draw.size(1, 3)
            attributes = {"window": window, "stride": stride}
            pad, dilation, inside_only = 0, 1, False
            if draw.chance():
                pad = attributes["pad"] = int(draw.rng.integers(0, window // 2 + 1))
            if is_max and draw.chance():
                dilation = attributes["dilation"] = draw.size(1, 3)
            if not is_max and draw.chance(0.7):
                inside_only = draw.chance()
                attributes["count_include_pad"] = not inside_only
            if window == stride == 2 and draw.chance():
                del attributes["window"], attributes["stride"]
            x = draw.whole((draw.size(0, 3), draw.size(0, 3), *draw.sizes(rank, 0, 11 if rank < 3 else 5)), dtype)
            counts = [(a + 2 * pad - dilation * (window - 1) - 1) // stride + 1 for a in x.shape[2:]]
            if min(counts) < 0:
                continue
            if is_max:
                y = np.full((*x.shape[:2], *counts), -np.inf)
                for _, part in windows(padded(f64(x), pad, rank, -np.inf), counts, [window] * rank, stride, dilation):
                    y = np.maximum(y, part)
                return Call(name, {"X": x}, {"Y": y.astype(dtype)}, attributes)
            total = np.zeros((*x.shape[:2], *counts))
            covered = np.zeros(counts)
            for (_, part), (_, ones) in zip(windows(padded(f64(x), pad, rank), counts, [window] * rank, stride, 1),
                                            windows(padded(np.ones(x.shape[2:]), pad, rank), counts, [window] * rank, stride, 1)):
                total, covered = total + part, covered + ones
            # Sums and counts are exact: one division in the dtype gives the same bits.
            with np.errstate(all="ignore"):
                y = total.astype(dtype) / (covered if inside_only else np.full(counts, float(window ** rank))).astype(dtype)
            return Call(name, {"X": x}, {"Y": y.astype(dtype)}, attributes)
    REFERENCES[name] = draw_call


for number_of_axes in (1, 2, 3):
    pooling(f"max_pool{number_of_axes}d", number_of_axes, True)
    pooling(f"avg_pool{number_of_axes}d", number_of_axes, False)


def adaptive(name, rank, is_max):
    def draw_call(draw):
        dtype = draw.dtype("number" if is_max else "float")
        sizes = draw.sizes(rank, 1, 7)
        x = draw.whole((*draw.sizes(2, 0, 3), *draw.sizes(rank, 1, 11)), dtype, 50)
        y = np.zeros((*x.shape[:2], *sizes), exact(dtype))
        for place in np.ndindex(*sizes):
            part = tuple(slice(math.floor(i * a / n), math.ceil((i + 1) * a / n)) for i, a, n in zip(place, x.shape[2:], sizes))
            cut = x[(..., *part)].astype(y.dtype)
            axes = tuple(range(2, 2 + rank))
            if is_max:
                y[(..., *place)] = cut.max(axes) if cut.size else 0
            else:
                y[(..., *place)] = cut.sum(axes).astype(dtype) / dtype(np.prod(cut.shape[2:]))
        attributes = {"size": sizes[0]} if rank == 1 else {"height": sizes[0], "width": sizes[1]}
        return Call(name, {"X": x}, {"Y": y.astype(dtype)}, attributes)
    REFERENCES[name] = draw_call


for number_of_axes in (1, 2):
    adaptive(f"adaptive_avg_pool{number_of_axes}d", number_of_axes, False)
    adaptive(f"adaptive_max_pool{number_of_axes}d", number_of_axes, True)


@reference
def global_avg_pool2d(draw):
    dtype = draw.dtype("float")
    x = draw.whole((*draw.sizes(2, 0, 3), *draw.sizes(2, 1)), dtype)
    return Call("global_avg_pool2d", {"X": x}, {"Y": (f64(x).sum((2, 3)).astype(dtype) / dtype(x.shape[2] * x.shape[3])).astype(dtype)})


@reference
def global_max_pool2d(draw):
    x = draw.whole((*draw.sizes(2, 1, 3), *draw.sizes(2, 1)), draw.dtype("number"), 90)
    return Call("global_max_pool2d", {"X": x}, {"Y": x.max((2, 3))})


# ---- Activations ----

def scalar_functions():
    """name: (arguments besides x, function on a Python float, ulps, scale as a multiple of |x|)."""
    normal = lambda x: 0.5 * math.erfc(-x / math.sqrt(2))
    soft = lambda x: max(x, 0) + math.log1p(math.exp(-abs(x)))
    s, a = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    return {
        "relu": ((), lambda x: max(x, 0), 0, 0), "relu6": ((), lambda x: min(max(x, 0), 6), 0, 0),
        "leaky_relu": ((0.125,), lambda x, k: x if x > 0 else k * x, 1, 0),
        "elu": ((1.5,), lambda x, k: x if x > 0 else k * math.expm1(x), 6, 0),
        "celu": ((1.5,), lambda x, k: x if x > 0 else k * math.expm1(x / k), 8, 0),
        "selu": ((), lambda x: s * (x if x > 0 else a * math.expm1(x)), 8, 0),
        # Where 1 + erf cancels, its error is one of 1, times |x| / 2.
        "gelu": ((), lambda x: x * normal(x), 8, 1), "silu": ((), lambda x: x / (1 + math.exp(-x)), 12, 0),
        "swish": ((), lambda x: x / (1 + math.exp(-x)), 12, 0),
        "gelu_tanh": ((), lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))), 12, 1),
        "softplus": ((), soft, 12, 0), "log_sigmoid": ((), lambda x: -soft(-x), 12, 0),
        "softsign": ((), lambda x: x / (1 + abs(x)), 3, 0), "mish": ((), lambda x: x * math.tanh(soft(x)), 20, 0),
        "hard_sigmoid": ((), lambda x: min(max(x / 6 + 0.5, 0), 1), 4, 0.25),
        "hard_swish": ((), lambda x: x * min(max(x + 3, 0), 6) / 6, 4, 0.5),
        "hard_tanh": ((-0.5, 2.0), lambda x, lo, hi: min(max(x, lo), hi), 0, 0),
        "hard_shrink": ((0.5,), lambda x, k: x if abs(x) > k else 0, 0, 0),
        "soft_shrink": ((0.5,), lambda x, k: math.copysign(abs(x) - k, x) if abs(x) > k else 0, 1, 0),
        "tanh_shrink": ((), lambda x: x - math.tanh(x), 6, 1),
        "threshold": ((0.5, -3.0), lambda x, k, v: x if x > k else v, 0, 0),
    }


def activation(name, more, function, ulps, scale):
    def draw_call(draw):
        dtype = draw.dtype("float")
        x = draw.real(draw.sizes(draw.one_of([1, 2, 3]), 0, 7), dtype, draw.one_of([1, 4]))
        y = np.array([function(float(v), *more) for v in x.ravel()], np.float64).reshape(x.shape)
        name_of = next(key for key in ("f16", "f32", "f64") if np.dtype(dtype) == {"f16": "f2", "f32": "f4", "f64": "f8"}[key])
        program = (f'import "std"\nop apply(X: {name_of}[...D]) -> Y: {name_of}[...D] {{ Y = {name}({", ".join(["X", *map(str, more)])}) }}\n')
        return Call("apply", {"X": x}, {"Y": y.astype(dtype)}, {}, ulps, np.abs(f64(x)) * scale, program)
    REFERENCES[name] = draw_call


for function_name, row in scalar_functions().items():
    activation(function_name, *row)


@reference
def prelu(draw):
    dtype = draw.dtype("float")
    x = draw.real((draw.size(0, 3), draw.size(0, 5), *draw.batch()), dtype)
    slope = draw.real(x.shape[1], dtype)
    y = np.where(x > 0, f64(x), f64(x) * of_channels(slope, x.ndim - 2))
    return Call("prelu", {"X": x, "slope": slope}, {"Y": y.astype(dtype)}, ulps=1)


@reference
def glu(draw):
    x = draw.real((*draw.batch(), 2 * draw.size(0, 5)), draw.dtype("float"))
    a, b = np.split(f64(x), 2, -1)
    return Call("glu", {"X": x}, {"Y": (a / (1 + np.exp(-b))).astype(x.dtype)}, ulps=12)


@reference
def swiglu(draw):
    x = draw.real((*draw.batch(), 2 * draw.size(0, 5)), draw.dtype("float"))
    a, b = np.split(f64(x), 2, -1)
    return Call("swiglu", {"X": x}, {"Y": (a / (1 + np.exp(-a)) * b).astype(x.dtype)}, ulps=14)


# ---- Softmax and losses ----

def powers(x, axis):
    """e^x over its greatest, by rows, and the error that rounding x - max brings: |x - max| ulps of the power."""
    least = f64(x) - f64(x).max(axis, keepdims=True)
    return np.exp(least), float(np.abs(least).max())


def soft_row(name, axis, log):
    def draw_call(draw):
        dtype = draw.dtype("float")
        shape = (*draw.batch(), draw.size(1, 13)) if axis == -1 else (draw.size(1, 3), draw.size(1, 5), *draw.batch(3))
        x = draw.real(shape, dtype, draw.one_of([1, 5]))
        if not x.size:
            return Call(name, {"X": x}, {"Y": x})
        p, spread = powers(x, axis)
        y = p / p.sum(axis, keepdims=True)
        if log:
            # Three subtractions and a logarithm of a sum of n terms.
            return Call(name, {"X": x}, {"Y": np.log(y).astype(dtype)}, ulps=12 + x.shape[axis], scale=1 + spread + np.abs(f64(x)))
        return Call(name, {"X": x}, {"Y": y.astype(dtype)}, ulps=14 + x.shape[axis] + 2 * spread)
    REFERENCES[name] = draw_call


soft_row("softmax", -1, False)
soft_row("softmax_channels", 1, False)
soft_row("log_softmax", -1, True)


@reference
def logsumexp(draw):
    x = draw.real((*draw.batch(), draw.size(0, 13)), draw.dtype("float"), 3)
    if x.size and draw.chance(0.3):
        x[..., 0] = draw.one_of([np.inf, -np.inf])
    with np.errstate(all="ignore"):
        top = f64(x).max(-1, initial=-np.inf)
        base = np.where(np.isinf(top), 0, top)
        y = np.log(np.exp(f64(x) - base[..., None]).sum(-1)) + base
    return Call("logsumexp", {"X": x}, {"Y": y.astype(x.dtype)}, ulps=20 + x.shape[-1], scale=1 + np.abs(base))


def log_probabilities(x):
    return f64(x) - np.log(np.exp(f64(x)).sum(-1, keepdims=True))


@reference
def cross_entropy(draw):
    n, c = draw.size(1, 7), draw.size(1, 11)
    x, target = draw.real((n, c), draw.dtype("float"), 2), draw.rng.integers(0, c, n)
    y = -np.mean([log_probabilities(x)[k, target[k]] for k in range(n)])
    return Call("cross_entropy", {"X": x, "target": target}, {"Y": np.array(y).astype(x.dtype)}, ulps=24 + n + c, scale=1 + np.abs(f64(x)).max())


@reference
def cross_entropy_soft(draw):
    n, c = draw.size(1, 7), draw.size(1, 11)
    x, p = draw.real((n, c), draw.dtype("float"), 2), np.abs(draw.real((n, c)))
    p = (p / p.sum(-1, keepdims=True)).astype(x.dtype)
    y = -(f64(p) * log_probabilities(x)).sum() / n
    return Call("cross_entropy_soft", {"X": x, "P": p}, {"Y": np.array(y).astype(x.dtype)}, ulps=24 + n * c, scale=2 + np.abs(f64(x)).max())


@reference
def nll_loss(draw):
    n, c = draw.size(1, 7), draw.size(1, 11)
    x, target = draw.whole((n, c), draw.dtype("float"), 9), draw.rng.integers(0, c, n).astype(draw.dtype("integer"))
    y = -f64([x[k, target[k]] for k in range(n)]).sum().astype(x.dtype) / x.dtype.type(n)
    return Call("nll_loss", {"X": x, "target": target}, {"Y": np.array(y, x.dtype)})


def loss(name, names, function, ulps, attributes=None, second=None):
    """A mean over [N, D] of a function of two elements."""
    def draw_call(draw):
        shape = draw.sizes(2, 1, 7)
        dtype = draw.dtype("float")
        a, b = draw.real(shape, dtype), draw.real(shape, dtype)
        if second:
            a, b = second(draw, a, b)
        parts = np.vectorize(function, [float])(f64(a), f64(b))
        return Call(name, dict(zip(names, (a, b))), {"Y": np.array(parts.mean()).astype(dtype)}, dict(attributes or {}), ulps + a.size,
                    np.abs(parts).mean() + np.abs(f64(a)).max() ** 2 + np.abs(f64(b)).max() ** 2)
    REFERENCES[name] = draw_call


def probability_and_truth(draw, a, b):
    return np.clip(1 / (1 + np.exp(-f64(a))), 0.01, 0.99).astype(a.dtype), draw.rng.integers(0, 2, b.shape).astype(b.dtype)


loss("mse_loss", "AB", lambda a, b: (a - b) ** 2, 4)
loss("l1_loss", "AB", lambda a, b: abs(a - b), 3)
loss("huber_loss", "AB", lambda a, b: (a - b) ** 2 / 2 if abs(a - b) < 0.75 else 0.75 * (abs(a - b) - 0.375), 6, {"delta": 0.75})
loss("smooth_l1_loss", "AB", lambda a, b: (a - b) ** 2 / 1.5 if abs(a - b) < 0.75 else abs(a - b) - 0.375, 8, {"beta": 0.75})
loss("hinge_loss", "XB", lambda x, b: max(0, 1 - b * x), 3, None, lambda draw, a, b: (a, np.where(b > 0, 1, -1).astype(b.dtype)))
loss("binary_cross_entropy", "PB", lambda p, b: -(b * math.log(p) + (1 - b) * math.log1p(-p)), 14, None, probability_and_truth)
loss("binary_cross_entropy_with_logits", "XB", lambda x, b: max(x, 0) - x * b + math.log1p(math.exp(-abs(x))), 14, None,
     lambda draw, a, b: (a, draw.rng.integers(0, 2, b.shape).astype(b.dtype)))


@reference
def kl_divergence(draw):
    n, d = draw.sizes(2, 1, 7)
    dtype = draw.dtype("float")
    p, q = (np.abs(draw.real((n, d))) + 0.01 for _ in range(2))
    p = (p / p.sum(-1, keepdims=True)).astype(dtype)
    p[0, 0] = 0
    logs = np.log(q / q.sum(-1, keepdims=True)).astype(dtype)
    y = sum(float(a) * (math.log(a) - float(b)) for a, b in zip(p.ravel(), logs.ravel()) if a > 0) / n
    return Call("kl_divergence", {"L": logs, "P": p}, {"Y": np.array(y).astype(dtype)}, ulps=10 + n * d, scale=np.abs(f64(logs)).max() + 7)


@reference
def cosine_similarity(draw):
    dtype, shape = draw.dtype("float"), (*draw.batch(), draw.size(1, 13))
    a, b = draw.real(shape, dtype), draw.real(shape, dtype)
    y = (f64(a) * f64(b)).sum(-1) / np.sqrt((f64(a) ** 2).sum(-1) * (f64(b) ** 2).sum(-1))
    return Call("cosine_similarity", {"A": a, "B": b}, {"Y": y.astype(dtype)}, ulps=8 + 3 * shape[-1], scale=1)


# ---- Normalisation ----

@reference
def mean(draw):
    dtype = draw.dtype("float")
    x = draw.whole((*draw.batch(), draw.size(1, 13)), dtype)
    return Call("mean", {"X": x}, {"Y": np.asarray(f64(x).sum(-1).astype(dtype) / dtype(x.shape[-1]), dtype)})


@reference
def variance(draw):
    dtype = draw.dtype("float")
    x = draw.real((*draw.batch(), draw.size(2, 13)), dtype)
    correction = draw.one_of([0, 1])
    y = np.var(f64(x), -1, ddof=correction)
    return Call("variance", {"X": x}, {"Y": np.asarray(y.astype(dtype))}, {"correction": correction} if correction else {},
                ulps=8 + 2 * x.shape[-1], scale=(f64(x) ** 2).max(initial=0))


def standard(x, axes, eps):
    wide = f64(x)
    return (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + eps)


def rounded_norm(count):
    """Ulps of a normalised element: the mean and the variance are sums of `count` terms."""
    return 12 + 4 * count


@reference
def layer_norm(draw):
    dtype, d = draw.dtype("float"), draw.size(1, 13)
    x, g, b = draw.real((*draw.batch(), d), dtype), draw.real(d, dtype), draw.real(d, dtype)
    attributes = {"eps": 0.01}
    y = standard(x, -1, 0.01) * f64(g) + f64(b)
    return Call("layer_norm", {"X": x, "gamma": g, "beta": b}, {"Y": y.astype(dtype)}, attributes, rounded_norm(d),
                np.abs(f64(g)) * (1 + np.abs(f64(x))) * 4 + np.abs(f64(b)))


@reference
def rms_norm(draw):
    dtype, d = draw.dtype("float"), draw.size(1, 13)
    x, g = draw.real((*draw.batch(), d), dtype), draw.real(d, dtype)
    y = f64(x) / np.sqrt((f64(x) ** 2).mean(-1, keepdims=True) + 0.01) * f64(g)
    return Call("rms_norm", {"X": x, "gamma": g}, {"Y": y.astype(dtype)}, {"eps": 0.01}, 8 + d)


@reference
def l2_normalize(draw):
    x = draw.real((*draw.batch(), draw.size(1, 13)), draw.dtype("float"))
    y = f64(x) / np.linalg.norm(f64(x), axis=-1, keepdims=True)
    return Call("l2_normalize", {"X": x}, {"Y": y.astype(x.dtype)}, ulps=6 + x.shape[-1])


def of_channels(values, rank):
    return f64(values).reshape(-1, *[1] * rank)


@reference
def batch_norm(draw):
    dtype, c, more = draw.dtype("float"), draw.size(0, 5), draw.batch()
    x = draw.real((draw.size(0, 3), c, *more), dtype)
    g, b, m = (draw.real(c, dtype) for _ in range(3))
    v = np.abs(draw.real(c, dtype))
    center, spread = of_channels(m, len(more)), np.sqrt(of_channels(v, len(more)) + 0.01)
    y = (f64(x) - center) / spread * of_channels(g, len(more)) + of_channels(b, len(more))
    scale = (np.abs(f64(x)) + np.abs(center)) / spread * np.abs(of_channels(g, len(more))) + np.abs(of_channels(b, len(more)))
    return Call("batch_norm", {"X": x, "gamma": g, "beta": b, "mean": m, "variance": v}, {"Y": y.astype(dtype)}, {"eps": 0.01}, 8, scale)


def norm_of_images(name, axes, groups=False):
    def draw_call(draw):
        dtype = draw.dtype("float")
        parts = draw.size(1, 3)
        c = parts * draw.size(1, 3)
        x = draw.real((draw.size(1, 3), c, *draw.sizes(2, 1, 5)), dtype)
        g, b = draw.real(c, dtype), draw.real(c, dtype)
        attributes = {"eps": 0.01}
        if groups:
            attributes["groups"] = parts
            y = standard(x.reshape(len(x), parts, -1), -1, 0.01).reshape(x.shape)
        else:
            y = standard(x, axes, 0.01)
        results = {"Y": y * of_channels(g, 2) + of_channels(b, 2)}
        if name == "batch_norm_training":
            results.update(mean=f64(x).mean(axes), variance=f64(x).var(axes))
        # The three results share one scale: that of the first one is never below the others'.
        scale = float(4 * (1 + np.abs(f64(x)).max()) ** 2 * (1 + np.abs(f64(g)).max()) + np.abs(f64(b)).max())
        return Call(name, {"X": x, "gamma": g, "beta": b}, {key: value.astype(dtype) for key, value in results.items()}, attributes,
                    rounded_norm(x.size // c if not groups else x[0].size // parts), scale)
    REFERENCES[name] = draw_call


norm_of_images("batch_norm_training", (0, 2, 3))
norm_of_images("instance_norm", (2, 3))
norm_of_images("group_norm", None, True)


@reference
def local_response_norm(draw):
    x = draw.real((draw.size(0, 3), draw.size(0, 7), *draw.sizes(2, 0, 3)), draw.dtype("float"))
    size = draw.size(1, 5)
    y = np.zeros(x.shape)
    for c in range(x.shape[1]):
        first = c - size // 2
        near = f64(x)[:, max(first, 0):max(first + size, 0)]
        y[:, c] = f64(x)[:, c] / (1.5 + 0.25 * (near ** 2).sum(1) / size) ** 0.75
    return Call("local_response_norm", {"X": x}, {"Y": y.astype(x.dtype)}, {"size": size, "alpha": 0.25, "k": 1.5}, ulps=14 + size)


# ---- Attention ----

def attend(q, k, v, seen, bias=0):
    """One batch element after the other, one query after the other; which keys each sees."""
    y = np.zeros((*q.shape[:-1], v.shape[-1]))
    for batch in np.ndindex(*q.shape[:-2]):
        for n in range(q.shape[-2]):
            keys = [m for m in range(k.shape[-2]) if seen[n, m]]
            if not keys:
                continue
            scores = np.array([f64(q)[batch][n] @ f64(k)[batch][m] / math.sqrt(q.shape[-1]) + (bias[n, m] if np.ndim(bias) else 0) for m in keys])
            weights = np.exp(scores - scores.max())
            y[batch][n] = (weights / weights.sum()) @ f64(v)[batch][keys]
    return y


def attention_form(name):
    def draw_call(draw):
        dtype, batch, (n, m, d, e) = draw.dtype("float"), draw.batch(), draw.sizes(4, 1, 7)
        q, k, v = (draw.real((*batch, *shape), dtype) for shape in ((n, d), (m, d), (m, e)))
        inputs, attributes, seen, bias = {"Q": q, "K": k, "V": v}, {}, np.ones((n, m), bool), 0
        if name == "attention_causal":
            offset = draw.one_of([0, 0, 1, -1, m - n])
            if offset or draw.chance(0.3):
                attributes["offset"] = offset
            seen = np.tri(n, m, offset, bool)
        if name == "attention_masked":
            inputs["mask"] = seen = draw.rng.random((n, m)) < 0.6
        if name == "attention_biased":
            inputs["bias"] = draw.real((n, m), dtype)
            bias = f64(inputs["bias"])
        y = attend(q, k, v, seen, bias)
        # A weight is off by as many ulps as its score's terms are great; a result is a mean of values.
        reach = np.abs(f64(q)).sum(-1).max(initial=0) * np.abs(f64(k)).max(initial=0) + np.max(np.abs(bias))
        return Call(name, inputs, {"Y": y.astype(dtype)}, attributes, 20 + 2 * m + (4 + d) * float(reach), float(np.abs(f64(v)).max(initial=0)))
    REFERENCES[name] = draw_call


for form in ("attention", "attention_causal", "attention_masked", "attention_biased"):
    attention_form(form)


@reference
def rotary_embedding(draw):
    x, start = draw.real((*draw.batch(), draw.size(), 2 * draw.size(1, 5)), draw.dtype("float")), int(draw.rng.integers(0, 50))
    half = x.shape[-1] // 2
    turned = np.zeros(x.shape, complex)[..., :half]
    for n in range(x.shape[-2]):
        for d in range(half):
            angle = (start + n) * 100.0 ** (-d / half)
            turned[..., n, d] = (f64(x)[..., n, d] + 1j * f64(x)[..., n, half + d]) * complex(math.cos(angle), math.sin(angle))
    y = np.concatenate([turned.real, turned.imag], -1)
    return Call("rotary_embedding", {"X": x, "start": start}, {"Y": y.astype(x.dtype)}, {"base": 100.0}, 4, np.abs(f64(x)).max(initial=0) * 2)


# ---- Optimisers ----

def optimiser(name, moments, attributes):
    """A step in f64 from a state that some steps have left. Roundings: a handful, and the difference at the end."""
    def draw_call(draw):
        dtype, shape = draw.dtype("float"), draw.batch()
        w, g = draw.real(shape, dtype), draw.real(shape, dtype)
        state = {"M": draw.real(shape, dtype), "V": np.asarray(np.abs(draw.real(shape, dtype)))}
        rate, step = 0.125, int(draw.rng.integers(1, 20))
        a = dict(attributes)
        inputs = {"W": w, "dW": g, **{key: state[key] for key in ("M", "V")[:moments]}, "rate": rate}
        w64, g64, m64, v64 = (f64(x) for x in (w, g, state["M"], state["V"]))
        scale = np.abs(w64) + np.abs(g64) + np.abs(m64) + v64 + 1
        if moments < 2:
            m = a.get("mu", 0) * m64 + g64 + a["decay"] * w64
            results = {"W2": w64 - rate * m, **({"M2": m} if moments else {})}
        else:
            inputs["step"] = step
            m, v = a["beta1"] * m64 + (1 - a["beta1"]) * g64, a["beta2"] * v64 + (1 - a["beta2"]) * g64 ** 2
            along = m / (1 - a["beta1"] ** step) / (np.sqrt(v / (1 - a["beta2"] ** step)) + a["eps"])
            scale = scale + g64 ** 2 + np.abs(along)
            results = {"W2": w64 - rate * (along + a.get("decay", 0) * w64), "M2": m, "V2": v}
        return Call(name, inputs, {key: np.asarray(value).astype(dtype) for key, value in results.items()}, a, 40, float(np.max(scale, initial=1)))
    REFERENCES[name] = draw_call


optimiser("sgd", 0, {"decay": 0.25})
optimiser("sgd_momentum", 1, {"mu": 0.75, "decay": 0.25})
optimiser("adam", 2, {"beta1": 0.75, "beta2": 0.875, "eps": 0.125})
optimiser("adam_w", 2, {"beta1": 0.75, "beta2": 0.875, "eps": 0.125, "decay": 0.25})
