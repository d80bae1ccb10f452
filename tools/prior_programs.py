"""The programs that the built-in prior of the cost model learns from, by kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileloom import te
from tileloom.expr import const
from tileloom.script import tir as T
from tileloom.tir import IRModule, PrimFunc


def _input(name: str, *shape: int) -> Any:
    return te.placeholder(shape, name=name)


def _axes(**extents: int) -> list[Any]:
    return [te.reduce_axis((0, extent), name) for name, extent in extents.items()]


def _made(name: str, shape: tuple[int, ...], element: Callable[..., Any]) -> Any:
    return te.compute(shape, element, name=name)


def matmul(m: int, n: int, k: int) -> PrimFunc:
    """A product of matrices."""
    a, b = _input("A", m, k), _input("B", k, n)
    (c,) = _axes(k=k)
    y = _made("matmul", (m, n), lambda i, j: te.sum(a[i, c] * b[c, j], c))
    return te.create_prim_func([a, b, y])


def dense(m: int, n: int, k: int) -> PrimFunc:
    """A product with the rows of the second matrix, a bias, and what is negative cut off."""
    a, b, bias = _input("A", m, k), _input("B", n, k), _input("bias", n)
    (c,) = _axes(k=k)
    y = _made("matmul", (m, n), lambda i, j: te.sum(a[i, c] * b[j, c], c))
    z = _made("biased", (m, n), lambda i, j: y[i, j] + bias[j])
    r = _made("relu", (m, n), lambda i, j: T.max(z[i, j], const(0.0, "float32")))
    return te.create_prim_func([a, b, bias, r])


def batch_matmul(b: int, n: int, k: int) -> PrimFunc:
    """Products of batches, the first transposed, as in attention."""
    q, w = _input("q", b, n, k), _input("w", b, n, k)
    (c,) = _axes(k=k)
    t = _made("wt", (b, k, n), lambda i, x, y: w[i, y, x])
    y = _made("batch_matmul", (b, n, n), lambda i, x, y: te.sum(q[i, x, c] * t[i, c, y], c))
    return te.create_prim_func([q, w, y])


def _padded(x: Any, around: int) -> Any:
    n, h, w, c = (int(size) for size in x.shape)

    def element(b: Any, i: Any, j: Any, k: Any) -> Any:
        inside = T.And(T.And(i >= around, i < around + h), T.And(j >= around, j < around + w))
        zero = const(0.0, "float32")
        return te.if_then_else(inside, x[b, i - around, j - around, k], zero)

    return _made("padded", (n, h + 2 * around, w + 2 * around, c), element)


def conv2d(size: int, inner: int, outer: int, kernel: int, stride: int = 1) -> PrimFunc:
    """A convolution with channels last, and what is negative cut off."""
    x, w = _input("x", 1, size, size, inner), _input("w", kernel, kernel, inner, outer)
    r, s, c = _axes(r=kernel, s=kernel, c=inner)
    p = _padded(x, kernel // 2) if kernel > 1 else x
    shape = (1, size // stride, size // stride, outer)
    y = _made(
        "conv2d",
        shape,
        lambda n, i, j, o: te.sum(
            p[n, i * stride + r, j * stride + s, c] * w[r, s, c, o], [r, s, c]
        ),
    )
    z = _made("relu", shape, lambda *at: T.max(y(*at), const(0.0, "float32")))
    return te.create_prim_func([x, w, z])


def depthwise(size: int, channels: int, kernel: int) -> PrimFunc:
    """A convolution of each channel by itself."""
    x, w = _input("x", 1, size, size, channels), _input("w", kernel, kernel, channels)
    r, s = _axes(r=kernel, s=kernel)
    p = _padded(x, kernel // 2)
    y = _made(
        "depthwiseconv2d",
        (1, size, size, channels),
        lambda n, i, j, c: te.sum(p[n, i + r, j + s, c] * w[r, s, c], [r, s]),
    )
    return te.create_prim_func([x, w, y])


def pool(size: int, channels: int) -> PrimFunc:
    """The greatest of windows of 3 by 3."""
    x = _input("x", 1, size + 2, size + 2, channels)
    r, s = _axes(r=3, s=3)
    y = _made(
        "max", (1, size, size, channels), lambda n, i, j, c: te.max(x[n, i + r, j + s, c], [r, s])
    )
    return te.create_prim_func([x, y])


def softmax(m: int, n: int) -> PrimFunc:
    """Over rows."""
    x = _input("x", m, n)
    k, j = _axes(k=n, j=n)
    most = _made("most", (m,), lambda i: te.max(x[i, k], k))
    exp = _made("exp", (m, n), lambda i, c: T.exp(x[i, c] - most[i]))
    total = _made("total", (m,), lambda i: te.sum(exp[i, j], j))
    return te.create_prim_func([x, _made("softmax", (m, n), lambda i, c: exp[i, c] / total[i])])


def layer_norm(m: int, n: int) -> PrimFunc:
    """Over rows, with scale and offset."""
    x, scale, offset = _input("x", m, n), _input("scale", n), _input("offset", n)
    k, j = _axes(k=n, j=n)
    total = _made("total", (m,), lambda i: te.sum(x[i, k], k))
    mean = _made("mean", (m,), lambda i: total[i] / float(n))
    square = _made("square", (m,), lambda i: te.sum((x[i, j] - mean[i]) * (x[i, j] - mean[i]), j))
    inverse = _made("inverse", (m,), lambda i: T.rsqrt(square[i] / float(n) + 1e-5))
    y = _made(
        "normed", (m, n), lambda i, c: (x[i, c] - mean[i]) * inverse[i] * scale[c] + offset[c]
    )
    return te.create_prim_func([x, scale, offset, y])


def reduction(m: int, n: int) -> PrimFunc:
    """The sum over rows of what elementwise operations make of two matrices."""
    x, y = _input("x", m, n), _input("y", m, n)
    (k,) = _axes(k=n)
    z = _made("z", (m, n), lambda i, j: T.max(x[i, j] * y[i, j] + 1.0, const(0.0, "float32")))
    return te.create_prim_func([x, y, _made("total", (m,), lambda i: te.sum(z[i, k], k))])


def norm(n: int) -> PrimFunc:
    """The root of the sum of squares: all of it is a reduction."""
    x = _input("x", n, n)
    i, j = _axes(i=n, j=n)
    c = _made("total", (1,), lambda b: te.sum(x[i, j] * x[i, j], [i, j]))
    return te.create_prim_func([x, _made("length", (1,), lambda b: T.sqrt(c[b]))])


def conv2d_transposed(size: int, inner: int, outer: int) -> PrimFunc:
    """With stride 2: three of four elements that are read are zeros."""
    x, w = _input("x", 1, size, size, inner), _input("w", 4, 4, inner, outer)
    r, s, c = _axes(r=4, s=4, c=inner)
    p = _padded(x, 1)

    def element(n: Any, i: Any, j: Any, o: Any) -> Any:
        hit = T.And((i + r) % 2 == 0, (j + s) % 2 == 0)
        read = p[n, (i + r) // 2, (j + s) // 2, c]
        value = te.if_then_else(hit, read, const(0.0, "float32"))
        return te.sum(value * w[3 - r, 3 - s, c, o], [r, s, c])

    shape = (1, 2 * size, 2 * size, outer)
    return te.create_prim_func([x, w, _made("conv2d_transpose", shape, element)])


#: Programs by kind and name.
PROGRAMS: dict[str, dict[str, Callable[[], PrimFunc]]] = {
    "matmul": {
        "matmul-256": lambda: matmul(256, 256, 256),
        "matmul-wide": lambda: matmul(128, 1024, 128),
        "matmul-deep": lambda: matmul(64, 64, 2048),
        "matmul-flat": lambda: matmul(4, 1024, 512),
    },
    "dense": {
        "dense-128": lambda: dense(128, 512, 256),
        "dense-16": lambda: dense(16, 768, 512),
    },
    "batch_matmul": {
        "batch-matmul-64": lambda: batch_matmul(12, 64, 64),
        "batch-matmul-128": lambda: batch_matmul(4, 128, 32),
    },
    "conv2d": {
        "conv2d-28": lambda: conv2d(28, 32, 64, 3),
        "conv2d-point": lambda: conv2d(28, 64, 128, 1),
        "conv2d-stride": lambda: conv2d(28, 32, 32, 3, 2),
        "conv2d-8": lambda: conv2d(8, 128, 128, 3),
    },
    "depthwise": {
        "depthwise-56": lambda: depthwise(56, 64, 3),
        "depthwise-14": lambda: depthwise(14, 256, 5),
    },
    "pool": {"pool-56": lambda: pool(56, 32)},
    "softmax": {
        "softmax-256": lambda: softmax(256, 512),
        "softmax-16": lambda: softmax(16, 4096),
    },
    "layer_norm": {
        "layer-norm-256": lambda: layer_norm(256, 768),
        "layer-norm-8": lambda: layer_norm(8, 4096),
    },
    "reduction": {
        "reduction-512": lambda: reduction(512, 1024),
        "norm-128": lambda: norm(128),
    },
    "conv2d_transposed": {"conv2d-transposed-14": lambda: conv2d_transposed(14, 32, 32)},
}


def modules() -> dict[str, tuple[str, IRModule]]:
    """Kinds and modules by name."""
    return {
        name: (kind, IRModule({"main": make()}))
        for kind, programs in PROGRAMS.items()
        for name, make in programs.items()
    }
