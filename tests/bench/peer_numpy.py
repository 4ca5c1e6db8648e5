"""NumPy as a peer: what has a natural form in it."""
import numpy


def version():
    return numpy.__version__


def set_threads(threads):
    """By the environment, before the import: see compare.py."""


def softmax(x):
    e = numpy.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layernorm(x, g, b):
    centred = x - x.mean(-1, keepdims=True)
    return centred / numpy.sqrt((centred * centred).mean(-1, keepdims=True) + numpy.float32(1e-5)) * g + b


def blur(x):
    rows = 0.25 * x[:, :-2] + 0.5 * x[:, 1:-1] + 0.25 * x[:, 2:]
    return 0.25 * rows[:-2] + 0.5 * rows[1:-1] + 0.25 * rows[2:]


def corr2d(x, k):
    windows = numpy.lib.stride_tricks.sliding_window_view(x, k.shape)
    return numpy.einsum("ijpq,pq->ij", windows, k, optimize=True)


def attention(q, k, v):
    return softmax(q @ k.transpose(0, 2, 1) / numpy.float32(q.shape[-1] ** 0.5)) @ v


def pooled(x):
    c, h, w = x.shape
    return x[:, :h // 2 * 2, :w // 2 * 2].reshape(c, h // 2, 2, w // 2, 2).max((2, 4))


FORMS = {
    "gemm": lambda A, B: A @ B,
    "gemm_f64": lambda A, B: A @ B,
    "batched_gemm": lambda A, B: A @ B,
    "mlp": lambda X, W1, b1, W2, b2: numpy.maximum(X @ W1.T + b1, 0) @ W2.T + b2,
    "corr2d": lambda X, K: corr2d(X, K),
    "blur": lambda X: blur(X),
    "add_relu": lambda A, B: numpy.maximum(A + B, 0),
    "total": lambda A: A.sum(),
    "rows_softmax": lambda X: softmax(X),
    "rows_layernorm": lambda X, g, b: layernorm(X, g, b),
    "transposed": lambda X: numpy.ascontiguousarray(X.T),
    "pooled": lambda X: pooled(X),
    "heads": lambda Q, K, V: attention(Q, K, V),
}


def prepare(workload, arrays):
    """A call without arguments, or None where NumPy has no such thing."""
    form = FORMS.get(workload["kind"])
    return None if form is None else lambda: form(**arrays)


def fetch(result):
    return numpy.asarray(result)
