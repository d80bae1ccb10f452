"""Operators of networks, small: those on which design spaces are counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import chain
from typing import Any

from tileloom import te
from tileloom.expr import const
from tileloom.script import tir as T
from tileloom.tir import PrimFunc


def placeholder(name: str, *shape: int) -> Any:
    return te.placeholder(shape, name=name)


def axes(**extents: int) -> list[Any]:
    """Axes to reduce over."""
    return [te.reduce_axis((0, extent), name) for name, extent in extents.items()]


def padded(x: Any, before: Sequence[int], after: Sequence[int]) -> Any:
    """Block "padded": a tensor with zeros around it."""
    shape = [int(n) + b + a for n, b, a in zip(x.shape, before, after, strict=True)]

    def element(*at: Any) -> Any:
        found = [(i >= b, i < b + int(n)) for i, b, n in zip(at, before, x.shape) if b]
        inside = reduce(T.And, chain.from_iterable(found))
        value = x(*(i - b for i, b in zip(at, before)))
        return te.if_then_else(inside, value, const(0.0, "float32"))

    return te.compute(shape, element, name="padded")


def conv1d() -> PrimFunc:
    x, w = placeholder("x", 1, 16, 4), placeholder("w", 3, 4, 8)
    k, c = axes(k=3, c=4)
    p = padded(x, (0, 1, 0), (0, 1, 0))
    y = te.compute((1, 16, 8), lambda n, i, o: te.sum(p[n, i + k, c] * w[k, c, o], [k, c]), "y")
    return te.create_prim_func([x, w, y])


def conv2d(dilation: int = 1, groups: int = 1) -> PrimFunc:
    around = dilation
    x, w = placeholder("x", 1, 8, 8, 4), placeholder("w", 3, 3, 4 // groups, 8)
    r, s, c = axes(r=3, s=3, c=4 // groups)
    p = padded(x, (0, around, around, 0), (0, around, around, 0))

    def element(n: Any, i: Any, j: Any, o: Any) -> Any:
        channel = o // (8 // groups) * (4 // groups) + c
        value = p[n, i + r * dilation, j + s * dilation, channel] * w[r, s, c, o]
        return te.sum(value, [r, s, c])

    return te.create_prim_func([x, w, te.compute((1, 8, 8, 8), element, name="y")])


def conv3d() -> PrimFunc:
    x, w = placeholder("x", 1, 4, 4, 4, 2), placeholder("w", 3, 3, 3, 2, 4)
    q, r, s, c = axes(q=3, r=3, s=3, c=2)
    p = padded(x, (0, 1, 1, 1, 0), (0, 1, 1, 1, 0))
    y = te.compute(
        (1, 4, 4, 4, 4),
        lambda n, d, i, j, o: te.sum(p[n, d + q, i + r, j + s, c] * w[q, r, s, c, o], [q, r, s, c]),
        name="y",
    )
    return te.create_prim_func([x, w, y])


def depthwise() -> PrimFunc:
    x, w = placeholder("x", 1, 8, 8, 4), placeholder("w", 3, 3, 4)
    r, s = axes(r=3, s=3)
    p = padded(x, (0, 1, 1, 0), (0, 1, 1, 0))
    y = te.compute(
        (1, 8, 8, 4), lambda n, i, j, c: te.sum(p[n, i + r, j + s, c] * w[r, s, c], [r, s]), "y"
    )
    return te.create_prim_func([x, w, y])


def conv2d_transposed() -> PrimFunc:
    """With stride 2: every other element that is read is a zero."""
    x, w = placeholder("x", 1, 4, 4, 4), placeholder("w", 4, 4, 4, 8)
    r, s, c = axes(r=4, s=4, c=4)
    p = padded(x, (0, 1, 1, 0), (0, 1, 1, 0))

    def element(n: Any, i: Any, j: Any, o: Any) -> Any:
        hit = T.And((i + r) % 2 == 0, (j + s) % 2 == 0)
        value = te.if_then_else(hit, p[n, (i + r) // 2, (j + s) // 2, c], const(0.0, "float32"))
        return te.sum(value * w[3 - r, 3 - s, c, o], [r, s, c])

    return te.create_prim_func([x, w, te.compute((1, 8, 8, 8), element, name="y")])


def capsule() -> PrimFunc:
    """A convolution of matrices."""
    x, w = placeholder("x", 1, 6, 6, 2, 2, 4), placeholder("w", 3, 3, 2, 2, 4, 8)
    r, s, m, c = axes(r=3, s=3, m=2, c=4)
    p = padded(x, (0, 1, 1, 0, 0, 0), (0, 1, 1, 0, 0, 0))
    y = te.compute(
        (1, 6, 6, 2, 2, 8),
        lambda n, i, j, a, b, o: te.sum(
            p[n, i + r, j + s, a, m, c] * w[r, s, m, b, c, o], [r, s, m, c]
        ),
        name="y",
    )
    return te.create_prim_func([x, w, y])


def conv2d_norm_relu() -> PrimFunc:
    x, w = placeholder("x", 1, 8, 8, 4), placeholder("w", 3, 3, 4, 8)
    bias, scale, offset = (placeholder(name, 8) for name in ("bias", "scale", "offset"))
    r, s, c = axes(r=3, s=3, c=4)
    p = padded(x, (0, 1, 1, 0), (0, 1, 1, 0))
    shape = (1, 8, 8, 8)
    y = te.compute(
        shape,
        lambda n, i, j, o: te.sum(p[n, i + r, j + s, c] * w[r, s, c, o], [r, s, c]),
        name="y",
    )
    y = te.compute(shape, lambda n, i, j, o: y[n, i, j, o] + bias[o], name="biased")
    z = y
    y = te.compute(shape, lambda n, i, j, o: z[n, i, j, o] * scale[o], name="scaled")
    u = y
    y = te.compute(shape, lambda n, i, j, o: u[n, i, j, o] + offset[o], name="shifted")
    v = y
    y = te.compute(shape, lambda *at: T.max(v(*at), const(0.0, "float32")), name="relu")
    return te.create_prim_func([x, w, bias, scale, offset, y])


def attention_scores() -> PrimFunc:
    """Transposed batches of products, as in attention."""
    q, k = placeholder("q", 1, 16, 2, 8), placeholder("k", 1, 16, 2, 8)
    (d,) = axes(d=8)
    qt = te.compute((1, 2, 16, 8), lambda b, h, i, c: q[b, i, h, c], name="qt")
    kt = te.compute((1, 2, 8, 16), lambda b, h, c, i: k[b, i, h, c], name="kt")
    y = te.compute(
        (1, 2, 16, 16),
        lambda b, h, i, j: te.sum(qt[b, h, i, d] * kt[b, h, d, j], d),
        name="y",
    )
    return te.create_prim_func([q, k, y])


def matmul() -> PrimFunc:
    x, w = placeholder("x", 1, 16, 16), placeholder("w", 1, 16, 16)
    (k,) = axes(k=16)
    y = te.compute((1, 16, 16), lambda b, i, j: te.sum(x[b, i, k] * w[b, k, j], k), name="y")
    return te.create_prim_func([x, w, y])


def norm() -> PrimFunc:
    x = placeholder("x", 1, 16, 16)
    i, j = axes(i=16, j=16)
    c = te.compute((1,), lambda b: te.sum(x[b, i, j] * x[b, i, j], [i, j]), name="c")
    return te.create_prim_func([x, te.compute((1,), lambda b: T.sqrt(c[b]), name="d")])


def softmax() -> PrimFunc:
    x = placeholder("x", 16, 16)
    k, m = axes(k=16, m=16)
    most = te.compute((16,), lambda i: te.max(x[i, k], k), name="most")
    exp = te.compute((16, 16), lambda i, j: T.exp(x[i, j] - most[i]), name="exp")
    total = te.compute((16,), lambda i: te.sum(exp[i, m], m), name="total")
    y = te.compute((16, 16), lambda i, j: exp[i, j] / total[i], name="y")
    return te.create_prim_func([x, y])


#: By the names that they have in Ansor's paper and in TVM.
WORKLOADS: dict[str, Callable[[], PrimFunc]] = {
    "C1D": conv1d,
    "C2D": conv2d,
    "C3D": conv3d,
    "GMM": matmul,
    "GRP": lambda: conv2d(groups=2),
    "DIL": lambda: conv2d(dilation=2),
    "DEP": depthwise,
    "T2D": conv2d_transposed,
    "CAP": capsule,
    "NRM": norm,
    "SFM": softmax,
    "CBR": conv2d_norm_relu,
    "TBG": attention_scores,
}
