"""NumPy's functions at odd arguments: the same values, or both refuse. Graphs are interpreted."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileloom as tl
from tileloom import driver
from tileloom import numpy as tnp
from tileloom.base.errors import UserError
from tileloom.graph import run as interpreter
from tileloom.graph.nodes import Graph

X = (np.arange(24.0).reshape(2, 3, 4) * 7 % 11 - 4).astype("float32")
M = X[0]
V = M[1]
K = np.arange(12).reshape(3, 4) % 5 - 1
HOLES = np.array([[np.nan, 1, 2, np.nan], [np.nan] * 4, [3, np.inf, -np.inf, 0]], "float32")
Q = np.array([[1.0, 2, 2, 5], [0, 0, 7, 1], [4, 4, 4, 4]], "float32")

#: Functions of np and these arrays. Where NumPy raises, so must we.
CALLS: list[Callable[..., Any]] = [
    lambda x, m, v, k: np.reshape(x, (4, -1)),
    lambda x, m, v, k: np.reshape(x, (4, 5)),
    lambda x, m, v, k: np.reshape(x, (-1, 2), order="F"),
    lambda x, m, v, k: np.moveaxis(x, 0, -1),
    lambda x, m, v, k: np.moveaxis(x, -3, 1),
    lambda x, m, v, k: np.moveaxis(x, 3, 0),
    lambda x, m, v, k: np.swapaxes(x, 0, -1),
    lambda x, m, v, k: np.expand_dims(x, (0, -1)),
    lambda x, m, v, k: np.expand_dims(x, 5),
    lambda x, m, v, k: np.squeeze(x[:1, :, :1], 2),
    lambda x, m, v, k: np.squeeze(x, 0),
    lambda x, m, v, k: np.concatenate([x, x], axis=None),
    lambda x, m, v, k: np.concatenate([m, v], axis=0),
    lambda x, m, v, k: np.concatenate([m, k], axis=-1),
    lambda x, m, v, k: np.stack([m, m], axis=-1),
    lambda x, m, v, k: np.stack([m, v]),
    lambda x, m, v, k: np.split(m, 2, axis=1),
    lambda x, m, v, k: np.split(m, 2, axis=0),
    lambda x, m, v, k: np.split(m, [1, 3], axis=1),
    lambda x, m, v, k: np.split(m, [1, 1], axis=1),
    lambda x, m, v, k: np.flip(x, (0, 2)),
    lambda x, m, v, k: np.flip(x),
    lambda x, m, v, k: np.roll(x, 3),
    lambda x, m, v, k: np.roll(x, -5, 2),
    lambda x, m, v, k: np.roll(x, (1, -1), (0, 1)),
    lambda x, m, v, k: np.roll(x, (1, 2), 2),
    lambda x, m, v, k: np.roll(x, 1, (0, 2)),
    lambda x, m, v, k: np.roll(x, (1, 2)),
    lambda x, m, v, k: np.roll(x, (1, 2), (0, 1, 2)),
    lambda x, m, v, k: np.tile(m, (2, 1, 3)),
    lambda x, m, v, k: np.repeat(m, 2),
    lambda x, m, v, k: np.repeat(m, [1, 0, 2], 0),
    lambda x, m, v, k: np.repeat(m, [3], 1),
    lambda x, m, v, k: np.repeat(m, [1, 2], 1),
    lambda x, m, v, k: np.repeat(m, [-1, 1, 1], 0),
    lambda x, m, v, k: np.repeat(m, [[1, 1, 1]], 0),
    lambda x, m, v, k: np.pad(m, 1),
    lambda x, m, v, k: np.pad(m, (1, 2), "edge"),
    lambda x, m, v, k: np.pad(m, ((0, 1), (2, 0)), "reflect"),
    lambda x, m, v, k: np.pad(m, ((1, 1),), "wrap"),
    lambda x, m, v, k: np.take(m, [0, -1], 1),
    lambda x, m, v, k: np.take(m, [11, -12]),
    lambda x, m, v, k: np.take(m, [12]),
    lambda x, m, v, k: np.take(m, [3], 0),
    lambda x, m, v, k: np.take_along_axis(m, np.array([[3, 0], [1, 1], [-1, 2]]), 1),
    lambda x, m, v, k: np.tril(m, 1),
    lambda x, m, v, k: np.triu(m, -1),
    lambda x, m, v, k: np.tril(x),
    lambda x, m, v, k: np.diff(m, 2),
    lambda x, m, v, k: np.diff(m, axis=0, prepend=5.0),
    lambda x, m, v, k: np.diff(m, n=-1),
    lambda x, m, v, k: np.diff(m > 0),
    lambda x, m, v, k: np.diff(m, append=m),
    lambda x, m, v, k: np.meshgrid(v, k[0, :3]),
    lambda x, m, v, k: np.meshgrid(v, v[:2], v[:3], indexing="ij"),
    lambda x, m, v, k: np.meshgrid(v),
    lambda x, m, v, k: np.meshgrid(v, v, indexing="yx"),  # type: ignore[call-overload]
    lambda x, m, v, k: np.tensordot(m, m, 1),
    lambda x, m, v, k: np.tensordot(m, m, 2),
    lambda x, m, v, k: np.tensordot(m, m, ([1], [1])),
    lambda x, m, v, k: np.tensordot(x, m, ([1, -1], [0, 1])),
    lambda x, m, v, k: np.tensordot(m, v, 0),
    lambda x, m, v, k: np.dot(m, v),
    lambda x, m, v, k: np.dot(v, x.swapaxes(1, 2)),
    lambda x, m, v, k: np.dot(v, v[:3]),
    lambda x, m, v, k: np.dot(m, 2),
    lambda x, m, v, k: np.inner(m, x),
    lambda x, m, v, k: np.outer(m, v),
    lambda x, m, v, k: np.vdot(m, m),
    lambda x, m, v, k: np.kron(m, v[:2]),
    lambda x, m, v, k: np.kron(v[:2], x),
    lambda x, m, v, k: np.cross(m[:, :3], x[:, :, 1:]),
    lambda x, m, v, k: np.cross(x, x[::-1], axis=1),
    lambda x, m, v, k: np.cross(v, v),
    lambda x, m, v, k: np.diagonal(m, 1),
    lambda x, m, v, k: np.diagonal(m, -1),
    lambda x, m, v, k: np.diagonal(m, 4),
    lambda x, m, v, k: np.diagonal(m, -5),
    lambda x, m, v, k: np.diagonal(x, 1, -1, 0),
    lambda x, m, v, k: np.diagonal(v),
    lambda x, m, v, k: np.diagonal(m, 0, 1, -1),
    lambda x, m, v, k: np.trace(x, 1, 1, 2),
    lambda x, m, v, k: np.diag(v, 2),
    lambda x, m, v, k: np.diag(v, -1),
    lambda x, m, v, k: np.diag(m, -1),
    lambda x, m, v, k: np.vstack([v, m]),
    lambda x, m, v, k: np.hstack([v, v]),
    lambda x, m, v, k: np.hstack([m, m[:, :1]]),
    lambda x, m, v, k: np.append(m, v),
    lambda x, m, v, k: np.append(m, m, 0),
    lambda x, m, v, k: np.ravel(m, "F"),
    lambda x, m, v, k: (np.shape(x), np.ndim(x), np.size(x)),
    lambda x, m, v, k: np.ptp(m, 1, keepdims=True),
    lambda x, m, v, k: np.linalg.norm(m, axis=0),
    lambda x, m, v, k: np.linalg.norm(x),
    lambda x, m, v, k: np.median(x, (0, 2)),
    lambda x, m, v, k: np.median(m, 1, keepdims=True),
    lambda x, m, v, k: np.median(v[:3]),
    lambda x, m, v, k: np.average(m, 1, k[0] + 2.0),
    lambda x, m, v, k: np.average(m, weights=k + 3.0),
    lambda x, m, v, k: np.average(m, 0),
    lambda x, m, v, k: np.cumsum(m),
    lambda x, m, v, k: np.cumsum(m, -1),
    lambda x, m, v, k: np.cumprod(k, 0),
    lambda x, m, v, k: np.select([m > 2, m > 0], [m, -m], 9),
    lambda x, m, v, k: np.select([m > 2], []),
    lambda x, m, v, k: np.isclose(m, m + 1e-6),
    lambda x, m, v, k: np.isclose(m, m + 1e-4, atol=1e-3),
    lambda x, m, v, k: np.isclose(m, m * 1.05, rtol=0.1),
    lambda x, m, v, k: np.allclose(m, m + 1),
    lambda x, m, v, k: (np.array_equal(m, m), np.array_equal(m, v), np.array_equal(m, m + 1)),
    lambda x, m, v, k: np.divmod(k, 3),
    lambda x, m, v, k: np.heaviside(m, 0.5),
    lambda x, m, v, k: np.sinc(m / 3),
    lambda x, m, v, k: (np.fix(m / 3), np.deg2rad(m), np.rad2deg(m), np.cbrt(m)),
    lambda x, m, v, k: (np.real(m), np.imag(m), np.conjugate(m)),
    lambda x, m, v, k: np.argsort(m, 0, kind="stable"),
    lambda x, m, v, k: np.sort(x, -1),
    lambda x, m, v, k: np.argmax(m, 1, keepdims=True),
    lambda x, m, v, k: np.argmin(x),
    lambda x, m, v, k: np.sum(m, (0, 1), keepdims=True),
    lambda x, m, v, k: np.sum(m, 2),
    lambda x, m, v, k: np.sum(m, (0, 0)),
    lambda x, m, v, k: np.sum(k, where=k > 0),
    lambda x, m, v, k: np.max(m, 1, initial=3, where=m > 0),
    lambda x, m, v, k: np.mean(k, 0),
    lambda x, m, v, k: np.var(m, 1, ddof=2),
    lambda x, m, v, k: np.std(x, (0, 1)),
    lambda x, m, v, k: np.prod(k + 2, 0),
    lambda x, m, v, k: np.clip(m, -1, None),
    lambda x, m, v, k: np.clip(m, v, 3),
    lambda x, m, v, k: np.where(k > 0, m, k),
    lambda x, m, v, k: k ** 2,
    lambda x, m, v, k: m ** -2,
    lambda x, m, v, k: m ** 0.5,
    lambda x, m, v, k: (k + 2) ** (k + 1),
    lambda x, m, v, k: 2 ** np.abs(k),
    lambda x, m, v, k: (k // 2, k % 3, k / 2, -k, ~k, k << 1, (k + 1) >> 1, k & 3, k | 1, k ^ 2),
    lambda x, m, v, k: (m // 2, m % 3, abs(m), +m, m > v, m == v, m != v, m <= v),
    # Indexing.
    lambda x, m, v, k: m[-3],
    lambda x, m, v, k: m[3],
    lambda x, m, v, k: m[-4],
    lambda x, m, v, k: m[:, 4],
    lambda x, m, v, k: m[0, 0, 0],
    lambda x, m, v, k: x[..., None, 0],
    lambda x, m, v, k: x[..., ...],
    lambda x, m, v, k: m[::0],
    lambda x, m, v, k: m[2:0:-1, 3:-9:-2],
    lambda x, m, v, k: m[5:, -2:9],
    lambda x, m, v, k: m["a"],
    lambda x, m, v, k: m[1.0],
    lambda x, m, v, k: m[[0, 3]],
    lambda x, m, v, k: m[[0, -3], [1, 2]],
    lambda x, m, v, k: m[[0, 1], [0, 1, 2]],
    lambda x, m, v, k: m[np.array([True, False, True])],
    lambda x, m, v, k: m[np.array([True, False])],
    lambda x, m, v, k: m[np.array([0.5])],
    lambda x, m, v, k: x[:, [0, 2], :, None],
    lambda x, m, v, k: [row.sum() for row in m],
    lambda x, m, v, k: len(m),
]  # fmt: skip


class Interpreted:
    """In place of compiled code."""

    def __init__(self, graph: Graph, *_: object, **_options: object) -> None:
        self.graph = graph

    def __call__(self, *arrays: Any) -> list[Any]:
        with np.errstate(all="ignore"):
            return interpreter.run(self.graph, arrays)

    def single(self, *arrays: Any) -> Any:
        return self(*arrays)[0]


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "compile_graph", Interpreted)


def same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
        return
    theirs = np.asarray(theirs)
    assert np.asarray(ours).dtype.kind == theirs.dtype.kind and np.shape(ours) == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_as_numpy(number: int) -> None:
    call, arrays = CALLS[number], (X, M, V, K)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = call(*arrays)
        except (ValueError, IndexError, TypeError):
            with pytest.raises((UserError, IndexError)):
                tl.jit(call)(*arrays)
            return
        same(tl.jit(call)(*arrays), wanted)


WITHOUT_NAN: list[Callable[..., Any]] = [
    lambda h: np.nansum(h, 1), lambda h: np.nanprod(h, 0), lambda h: np.nanmean(h[::2, 1:3], 1),
    lambda h: np.nanmax(h, 1), lambda h: np.nanmin(h, 0, keepdims=True), lambda h: np.nanmax(h),
    lambda h: np.nanstd(h[:1]), lambda h: np.nanvar(h[:1], 1), lambda h: np.nan_to_num(h),
    lambda h: np.nan_to_num(h, nan=5.0, posinf=1.0, neginf=-2.0), lambda h: np.median(h, 1),
    lambda h: np.fmax(h, 1.5), lambda h: np.fmin(h[0], h[2]), lambda h: np.isclose(h, h),
    lambda h: np.isclose(h, h, equal_nan=True), lambda h: np.isclose(h, -h),
    lambda h: np.sort(h, 1),
    lambda h: np.maximum(h, 1.5), lambda h: np.argmax(h, 1), lambda h: np.max(h, 1),
    lambda h: np.sign(h), lambda h: np.heaviside(h, 0.5), lambda h: np.clip(h, -1, 1),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WITHOUT_NAN)))
def test_holes(number: int) -> None:
    call = WITHOUT_NAN[number]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(tl.jit(call)(HOLES), call(HOLES))


SENTENCES: list[tuple[Callable[..., Any], str]] = [
    (lambda m: tnp.reshape(m, (-1,), order="K"), "the order of elements is"),
    (lambda m: np.roll(m, (1, 2), (0, 1, 0)), "2 shifts along 3 axes"),
    (lambda m: m[::0], "the step of a slice is 0"),
    (lambda m: np.split(m, 0), "has no 0 equal parts"),
    (lambda m: np.split(m, 2), "has no 2 equal parts"),
    (lambda m: np.repeat(m, [1.5, 1, 1], 0), "repeats are integers"),  # type: ignore[arg-type]
    (lambda m: np.repeat(m, [-1, 1, 1], 0), "repeats are integers that are not negative"),
    (lambda m: np.repeat(m, [1, 2], 0), "repeats for axis 0"),
    (lambda m: np.repeat(m, [[1, 1, 1]], 0), "repeats for axis 0"),
    (lambda m: np.diff(m, -1), "n >= 0 times, not -1"),
    (lambda m: np.meshgrid(m[0], indexing="yx"), "indexing is 'xy' or 'ij'"),  # type: ignore[call-overload]
    (lambda m: np.cross(m, m), "cross needs vectors of 3 elements"),
    (lambda m: np.cross(m[:, :3], m), "cross needs vectors of 3 elements, got 3, 4"),
    (lambda m: np.diagonal(m[0]), "a diagonal needs two dimensions"),
    (lambda m: np.diagonal(m, 0, 1, -1), "a diagonal needs two axes"),
    (lambda m: np.select([m > 0], [m, m]), "as many choices as conditions"),
    (lambda m: np.median(m[:0], 0), "the median of no elements"),
    (lambda m: np.average(m, None, np.ones(4)), "belong neither"),
    (lambda m: np.average(m, 0, np.ones(4)), "belong neither"),
    (lambda m: np.average(m, (0, 1), np.ones(3)), "belong neither"),
    (lambda m: np.linalg.norm(m, 2), "a matrix norm of order 2 needs singular values"),
    (lambda m: m["a"], "cannot be an index"),
    (lambda m: m[0.5], "cannot be an index"),
    (lambda m: m[m], "cannot be an index"),
    (lambda m: m[np.array([0.5])], "arrays of float64 cannot be an index"),
    (lambda m: m[np.array([True, False])], "does not fit axis 0"),
    (lambda m: tnp.zeros(3, dtype="nothing"), "nothing"),
    (lambda m: np.sum(m.astype(int), initial=0.5), "is no value of"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SENTENCES)))
def test_what_is_said(number: int) -> None:
    call, words = SENTENCES[number]
    with pytest.raises((UserError, IndexError), match=words):
        tl.jit(call)(M)
