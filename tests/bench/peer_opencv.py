"""OpenCV as a peer: filters, products and what else it has for images. Filters give the whole image; its inner part is compared."""
import cv2
import numpy


def version():
    return cv2.__version__


def set_threads(threads):
    cv2.setNumThreads(threads)


def filtered(X, K):
    """Bytes become floats: OpenCV has no i32 there, and i16 saturates."""
    weights, result = K.astype(numpy.float32), numpy.empty(X.shape, numpy.float32)
    inner = tuple(slice((k - 1) // 2, x - k // 2) for x, k in zip(X.shape, K.shape))
    anchor = ((K.shape[1] - 1) // 2, (K.shape[0] - 1) // 2)
    return lambda: cv2.filter2D(X, cv2.CV_32F, weights, result, anchor, 0, cv2.BORDER_CONSTANT)[inner]


def blurred(X):
    line, result = numpy.array([0.25, 0.5, 0.25], numpy.float32), numpy.empty_like(X)
    return lambda: cv2.sepFilter2D(X, cv2.CV_32F, line, line, result, borderType=cv2.BORDER_CONSTANT)[1:-1, 1:-1]


def product(A, B):
    result = numpy.empty((A.shape[0], B.shape[1]), A.dtype)
    return lambda: cv2.gemm(A, B, 1, None, 0, result)


def add_relu(A, B):
    result = numpy.empty_like(A)
    return lambda: cv2.max(cv2.add(A, B, result), 0, result)


def transposed(X):
    result = numpy.empty(X.shape[::-1], X.dtype)
    return lambda: cv2.transpose(X, result)


FORMS = {
    "gemm": product,
    "gemm_f64": product,
    "corr2d": filtered,
    "corr2d_u8": filtered,
    "blur": blurred,
    "add_relu": add_relu,
    "total": lambda A: lambda: cv2.sumElems(A)[0],
    "transposed": transposed,
}


def prepare(workload, arrays):
    """A call without arguments, or None where OpenCV has no such thing."""
    form = FORMS.get(workload["kind"])
    return None if form is None else form(**arrays)


def fetch(result):
    """Vectors are columns there."""
    found = numpy.asarray(result)
    return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
