"""The programs that `benchmarks.tuning` tunes, as tensor expressions of whichever system is asked.

This file imports neither Tileloom nor TVM: their processes both read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Language:
    """What the programs are written in.

    Attributes:
        te: the module of tensor expressions: `placeholder`, `compute`, `reduce_axis`, `sum`, `max`,
            `create_prim_func`.
        exp: of an expression.
        rsqrt: one over the square root of an expression.
        where: `where(condition, value, other)`, which computes no more than it needs.
        every: whether all of several conditions hold.
    """

    te: Any
    exp: Callable[[Any], Any]
    rsqrt: Callable[[Any], Any]
    where: Callable[[Any, Any, Any], Any]
    every: Callable[..., Any]


@dataclass(frozen=True)
class Program:
    """A program to tune.

    Attributes:
        make: from a language to its function.
        shapes: of the inputs, float32 all of them.
        reference: the result in float64 from inputs in float64.
        flops: operations of a call.
        atol: of the result.
    """

    name: str
    make: Callable[[Language], Any]
    shapes: tuple[tuple[int, ...], ...]
    reference: Callable[..., Array]
    flops: int
    atol: float = 1e-4

    def inputs(self, seed: int) -> list[Array]:
        """The same for all who take part."""
        rng = np.random.default_rng(seed)
        return [rng.standard_normal(shape, np.float32) for shape in self.shapes]


def matmul(n: int, m: int, depth: int) -> Program:
    """A matrix product."""

    def make(language: Language) -> Any:
        te = language.te
        A, B = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
        k = te.reduce_axis((0, depth), name="k")
        C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=[k]), name="C")
        return te.create_prim_func([A, B, C])

    shapes = ((n, depth), (depth, m))
    return Program(f"matmul_{n}x{m}x{depth}", make, shapes, np.matmul, 2 * n * m * depth)


def batched_matmul(batch: int, n: int, m: int, depth: int) -> Program:
    """Independent matrix products."""

    def make(language: Language) -> Any:
        te = language.te
        A = te.placeholder((batch, n, depth), name="A")
        B = te.placeholder((batch, depth, m), name="B")
        k = te.reduce_axis((0, depth), name="k")
        C = te.compute(
            (batch, n, m), lambda b, i, j: te.sum(A[b, i, k] * B[b, k, j], axis=[k]), name="C"
        )
        return te.create_prim_func([A, B, C])

    name = f"batched_matmul_{batch}x{n}x{m}x{depth}"
    shapes = ((batch, n, depth), (batch, depth, m))
    return Program(name, make, shapes, np.matmul, 2 * batch * n * m * depth)


def conv2d(size: int, inner: int, outer: int, window: int, stride: int = 1) -> Program:
    """A convolution of an image of square size, channels last, padded by half the window."""
    pad = window // 2
    out = (size + 2 * pad - window) // stride + 1

    def make(language: Language) -> Any:
        te = language.te
        X = te.placeholder((1, size, size, inner), name="X")
        W = te.placeholder((window, window, inner, outer), name="W")
        P = te.compute(
            (1, size + 2 * pad, size + 2 * pad, inner),
            lambda n, y, x, c: language.where(
                language.every(y >= pad, y < size + pad, x >= pad, x < size + pad),
                X[n, y - pad, x - pad, c],
                0.0,
            ),
            name="P",
        )
        axes = [te.reduce_axis((0, n), name=s) for n, s in ((window, "ry"), (window, "rx"))]
        (ry, rx), rc = axes, te.reduce_axis((0, inner), name="rc")
        C = te.compute(
            (1, out, out, outer),
            lambda n, y, x, c: te.sum(
                P[n, y * stride + ry, x * stride + rx, rc] * W[ry, rx, rc, c], axis=[ry, rx, rc]
            ),
            name="C",
        )
        return te.create_prim_func([X, W, C])

    def reference(x: Array, w: Array) -> Array:
        padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (1, 2))
        result: Array = np.einsum(
            "nyxcij,ijco->nyxo", windows[:, ::stride, ::stride], w, optimize=True
        )
        return result

    name = f"conv2d_{size}x{size}x{inner}_{outer}_{window}x{window}_s{stride}"
    shapes = ((1, size, size, inner), (window, window, inner, outer))
    return Program(name, make, shapes, reference, 2 * (out * window) ** 2 * inner * outer)


def softmax(rows: int, columns: int) -> Program:
    """Softmax of rows in four stages."""

    def make(language: Language) -> Any:
        te = language.te
        A = te.placeholder((rows, columns), name="A")
        k, l = (te.reduce_axis((0, columns), name=name) for name in "kl")  # noqa: E741
        M = te.compute((rows,), lambda i: te.max(A[i, k], axis=[k]), name="M")
        E = te.compute((rows, columns), lambda i, j: language.exp(A[i, j] - M[i]), name="E")
        S = te.compute((rows,), lambda i: te.sum(E[i, l], axis=[l]), name="S")
        B = te.compute((rows, columns), lambda i, j: E[i, j] / S[i], name="B")
        return te.create_prim_func([A, B])

    def reference(x: Array) -> Array:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        result: Array = e / e.sum(axis=1, keepdims=True)
        return result

    name = f"softmax_{rows}x{columns}"
    return Program(name, make, ((rows, columns),), reference, 4 * rows * columns, 1e-6)


def layer_norm(rows: int, columns: int) -> Program:
    """Layer normalization of rows, with factors and offsets."""

    def make(language: Language) -> Any:
        te = language.te
        A = te.placeholder((rows, columns), name="A")
        G, B = te.placeholder((columns,), name="G"), te.placeholder((columns,), name="B")
        k, l = (te.reduce_axis((0, columns), name=name) for name in "kl")  # noqa: E741
        part = 1.0 / columns
        S = te.compute((rows,), lambda i: te.sum(A[i, k], axis=[k]), name="S")
        D = te.compute((rows, columns), lambda i, j: A[i, j] - S[i] * part, name="D")
        V = te.compute((rows,), lambda i: te.sum(D[i, l] * D[i, l], axis=[l]), name="V")
        C = te.compute(
            (rows, columns),
            lambda i, j: D[i, j] * language.rsqrt(V[i] * part + 1e-5) * G[j] + B[j],
            name="C",
        )
        return te.create_prim_func([A, G, B, C])

    def reference(x: Array, factor: Array, offset: Array) -> Array:
        centred = x - x.mean(axis=1, keepdims=True)
        variance = np.square(centred).mean(axis=1, keepdims=True)
        result: Array = centred / np.sqrt(variance + 1e-5) * factor + offset
        return result

    shapes = ((rows, columns), (columns,), (columns,))
    name = f"layer_norm_{rows}x{columns}"
    return Program(name, make, shapes, reference, 8 * rows * columns)


PROGRAMS = {
    program.name: program
    for program in (
        matmul(1024, 1024, 1024),
        conv2d(56, 64, 64, 3),
        softmax(4096, 4096),
        layer_norm(8192, 768),
        batched_matmul(12, 384, 384, 64),
    )
}
