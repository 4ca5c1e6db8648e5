"""PyTorch as a peer: eager, which is oneDNN and its own kernels."""
import torch
import torch.nn.functional as F


def version():
    return torch.__version__


def set_threads(threads):
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)


def conv(options, X, K, b):
    return F.relu(F.conv2d(X, K, b, stride=options.get("stride", 1), padding=options.get("pad", 1)))


def depthwise(options, X, K):
    return F.conv2d(X, K, stride=options.get("stride", 1), padding=options.get("pad", 1), groups=K.shape[0])


def blur(X):
    line = torch.tensor([0.25, 0.5, 0.25])
    rows = F.conv2d(X[None, None], line[None, None, None, :])
    return F.conv2d(rows, line[None, None, :, None])[0, 0]


FORMS = {
    "gemm": lambda A, B: A @ B,
    "gemm_f64": lambda A, B: A @ B,
    "gemm_bf16": lambda A, B: A @ B,
    "gemm_i8": lambda A, B: torch._int_mm(A, B),
    "batched_gemm": lambda A, B: A @ B,
    "linear_gelu": lambda X, W, b: F.gelu(F.linear(X, W, b)),
    "mlp": lambda X, W1, b1, W2, b2: F.linear(F.relu(F.linear(X, W1, b1)), W2, b2),
    "corr2d": lambda X, K: F.conv2d(X[None, None], K[None, None])[0, 0],
    "blur": blur,
    "add_relu": lambda A, B: F.relu(A + B),
    "gelu_bias": lambda X, b: F.gelu(X + b),
    "total": lambda A: A.sum(),
    "rows_softmax": lambda X: F.softmax(X, -1),
    "rows_layernorm": lambda X, g, b: F.layer_norm(X, X.shape[-1:], g, b),
    "transposed": lambda X: X.T.contiguous(),
    "pooled": lambda X: F.max_pool2d(X[None], 2)[0],
    "heads": lambda Q, K, V: F.scaled_dot_product_attention(Q[None], K[None], V[None])[0],
}
WITH_OPTIONS = {"conv": conv, "depthwise": depthwise}


def prepare(workload, arrays):
    """A call without arguments, or None where PyTorch has no such thing."""
    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    if workload["kind"].endswith("bf16"):
        tensors = {name: tensor.to(torch.bfloat16) for name, tensor in tensors.items()}
    if workload["kind"] in WITH_OPTIONS:
        return lambda: WITH_OPTIONS[workload["kind"]](workload["set"], **tensors)
    form = FORMS.get(workload["kind"])
    return None if form is None else lambda: form(**tensors)


def fetch(result):
    return (result.float() if result.dtype == torch.bfloat16 else result).numpy()
