"""NumPy's own functions under `jit`, written as NumPy users write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom as tl
from frontend.jit.helpers import check, wide
from tileloom.base.errors import UserError

CALLS = {
    "places": lambda x, y: (np.sum(x, 0), np.mean(x, 1), np.max(x, -1), np.std(x, 0), np.any(x, 1)),
    "arg": lambda x, y: (np.argmax(x, 1), np.argmin(x, axis=0), np.argsort(x, 0), np.sort(x, 1)),
    "joins": lambda x, y: (np.concatenate([x, y], 1), np.stack((x, y), -1), np.vstack([x, y])),
    "hstack": lambda x, y: (np.hstack([x, y]), np.hstack([x[0], y[1]]), np.vstack([x[0], y[1]])),
    "products": lambda x, y: (np.dot(x, y.T), np.dot(x[0], y[0]), np.dot(x, 2.0), np.outer(x, y)),
    "matmul": lambda x, y: (np.matmul(x, y.T), np.tensordot(x, y, 2), np.einsum("ij,ij->i", x, y)),
    "moves": lambda x, y: (
        np.ravel(x), np.transpose(x, (1, 0)), np.swapaxes(x, 0, 1), np.expand_dims(x, 0),
        np.squeeze(x[:1], 0), np.reshape(x, (-1, 2)), np.flip(x, 0), np.roll(x, 1, 0),
        np.repeat(x, 2, 1), np.tile(x, (2, 1)), np.moveaxis(x, 0, 1), np.broadcast_to(x, (2, 4, 6)),
    ),
    "choices": lambda x, y: (
        np.where(x > y, x, y), np.clip(x, -1, 1), np.clip(x, a_min=0, a_max=None),
        np.take(x, np.array([0, 2]), 1), np.maximum(x, 0), np.tril(x, 1), np.triu(x, -1),
    ),
    "spread": lambda x, y: (
        np.var(x, ddof=1), np.std(x, 1, keepdims=True), np.ptp(x, 1), np.linalg.norm(x),
        np.linalg.norm(x, axis=1, keepdims=True), np.diff(x, 1, 0), np.cumsum(x, 1),
    ),
    "names": lambda x, y: (
        np.power(np.abs(x), y), np.arctan2(x, y), np.absolute(x), np.rint(x), np.round(x),
        np.amax(x, 0), np.logical_and(x > 0, y > 0), np.hypot(x, y), np.exp(x, dtype=None),
    ),
    "likes": lambda x, y: (
        x + np.zeros_like(x), np.ones_like(y) * x, np.full_like(x, 2), np.pad(x, 1),
        np.float32(np.size(x) + np.ndim(y)) + x[0, 0] * np.shape(x)[1],
    ),
    "keywords": lambda x, y: (
        np.sum(a=x, axis=0), np.sum(x, axis=0, out=None), np.all(x, axis=(0, 1)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CALLS)
def test_as_numpy(what: Any, rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((2, 4, 6)).astype(np.float32)
    function: Any = CALLS[what]
    for ours, theirs in zip(tl.jit(function)(x, y), function(wide(x), wide(y)), strict=True):
        theirs = np.asarray(theirs)
        check(ours, theirs, np.float32 if theirs.dtype.kind == "f" else theirs.dtype, scale=5)


REFUSED = {
    "quantile": lambda x: np.quantile(x, 0.3),
    "reduce": lambda x: np.arctan2.reduce(x),
    "ufunc where=": lambda x: np.exp(x, where=x > 0),
    "out=": lambda x: np.exp(x, out=np.empty(3)),
    "too many": lambda x: np.sum(x, 0, None, None, False),
    "singular values": lambda x: np.linalg.svd(x),
    "nonzero": lambda x: np.nonzero(x),
    "unique": lambda x: np.unique(x),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_traced_is_named(what: Any) -> None:
    with pytest.raises(UserError, match="numpy"):
        tl.jit(REFUSED[what])(np.ones(3, np.float32))
