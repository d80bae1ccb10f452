"""NumPy's functions that the array API has not, under `jit` as under NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom as tl
from frontend.jit.helpers import TOLERANCE
from tileloom import numpy as tnp
from tileloom.base.errors import UserError

ELEMENTWISE = {
    "cbrt": np.cbrt, "deg2rad": np.deg2rad, "rad2deg": np.rad2deg, "radians": np.radians,
    "degrees": np.degrees, "sinc": np.sinc, "fix": np.fix, "real": lambda x: np.real(x) + x.real,
    "imag": lambda x: np.imag(x) + x.imag, "conjugate": lambda x: np.conjugate(x) + x.conj(),
    "nan_to_num": np.nan_to_num, "nan_to_num of ours": lambda x: np.nan_to_num(x, nan=7, posinf=8),
    "around": lambda x: np.around(x, 1) + x.round(1), "median": np.median, "nansum": np.nansum,
    "fmax": lambda x: np.fmax(x, 1), "fmin": lambda x: np.fmin(x[::-1], x),
    "heaviside": lambda x: np.heaviside(x, 0.5), "isclose": lambda x: np.isclose(x, x[::-1]),
    "isclose of NaN": lambda x: np.isclose(x, x, equal_nan=True),
    "allclose": lambda x: np.stack([np.allclose(x, x), np.allclose(x, x, equal_nan=True)]),
    "array_equal": lambda x: np.stack([np.array_equal(x, x), np.array_equal(x, x[1:])]),
    "select": lambda x: np.select([x > 2, x > 0], [x, -x], 5),
    "copy": lambda x: np.copy(x) + np.copy(x, order="F"),
    "empty_like": lambda x: np.ones_like(np.empty_like(x)),
}  # fmt: skip
HARD = np.array([0.0, -0.0, 1.5, -2.5, 8, -27, 1e-8, np.inf, -np.inf, np.nan])
SHAPED: dict[str, Any] = {
    "inner": lambda x, y: (np.inner(x, y), np.inner(x[0, 0], y[0, 0]), np.inner(x, y[0, 0, 0])),
    "vdot": lambda x, y: np.vdot(x, y),
    "kron": lambda x, y: (np.kron(x[0], y[1]), np.kron(x, y[0]), np.kron(x[0, 0], y[0])),
    "cross": lambda x, y: (
        np.cross(x, y, axis=1), np.cross(x[:, :, 0], y[:, :, 1]), np.cross(x, y, 1, 1, 0),
        np.cross(x[0, :, 0], y[:, :, 2]), np.linalg.cross(x[..., :3], y[..., :3]),
    ),
    "diagonal": lambda x, y: (
        np.diagonal(x), x.diagonal(1, 1, 2), np.diagonal(y, -1, 2, 0), np.diagonal(y, -9),
    ),
    "trace": lambda x, y: (np.trace(x), x.trace(1), np.trace(y, axis1=-1, axis2=-2)),
    "diag": lambda x, y: (
        np.diag(x[0]), np.diag(x[0], 2), np.diag(x[0, 0]), np.diag(x[0, 0], 1),
        np.diag(y[0, 0], -2),
    ),
    "append": lambda x, y: (np.append(x, y), np.append(x, y, axis=1)),
    "outer of ufuncs": lambda x, y: (
        np.add.outer(x[0, 0], y[0]), np.multiply.outer(x[0], y[0, 0]), np.less.outer(x[0, 0], y),
    ),
    "reduce of ufuncs": lambda x, y: (
        np.add.reduce(x), np.multiply.reduce(x, axis=(0, 2)), np.maximum.reduce(x, axis=None),
        np.minimum.reduce(x, 1, keepdims=True), np.logical_and.reduce(x > 0, axis=-1),
        np.logical_or.reduce(x > 1), np.add.reduce(x > 0), np.add.reduce(x, 1, initial=3),
    ),
    "accumulate of ufuncs": lambda x, y: (
        np.add.accumulate(x), np.multiply.accumulate(x, axis=2),
    ),
    "runs": lambda x, y: (
        np.cumsum(x), np.cumprod(x), np.cumprod(x, 1), x.cumsum(0), x.cumprod(axis=2),
        np.cumsum(x > 0), np.cumsum(x, 0, np.float64),
    ),
    "differences": lambda x, y: (
        np.diff(x, prepend=0), np.diff(x, axis=1, append=y), np.diff(x, 2, 0, y[:1], 1.0),
        np.diff(x > 0), np.diff(x, n=0, prepend=1),
    ),
    "repeats": lambda x, y: (
        np.repeat(x, [0, 2, 3], 1), np.repeat(x, np.array([2]), axis=0),
        x[0, 0].repeat([1, 0, 2, 1]), np.repeat(x[0], np.arange(12)), np.tile(x, 2),
        np.tile(x[0], (2, 1, 1, 3)), np.tile(x, (2, 1)), np.tile(x, ()), np.tile(x[0, 0, 0], 3),
    ),
    "methods": lambda x, y: (
        x.sum(0, np.float64), x.mean(axis=(0, 2)), x.var(ddof=1), x.std(1, ddof=1), x.max(),
        x.min(initial=-9), x.prod(dtype="f8"), x.clip(0, 1), x.astype(np.float16), x.astype(float),
        x.astype("i2", copy=False), x.swapaxes(0, 1), x.take([1, 0], 1), x.argsort(0), x.any(1),
        x.round(decimals=2), x.transpose(2, 0, 1), x.transpose((1, 0, 2)),
        x.reshape(4, 6, order="F"), x.reshape((6, -1)),
    ),
}  # fmt: skip


def _same(ours: Any, theirs: Any, loose: int = 10) -> None:
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            _same(a, b, loose)
        return
    theirs = np.asarray(theirs)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    tolerance = TOLERANCE.get(theirs.dtype.name, 0) * loose
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
@pytest.mark.parametrize("what", ELEMENTWISE)
def test_elementwise(what: Any, kind: str) -> None:
    x = HARD[:7].astype(kind) if kind == "int32" else HARD.astype(kind)
    function: Any = ELEMENTWISE[what]
    with np.errstate(all="ignore"):
        _same(tl.jit(function)(x), function(x))


@pytest.mark.parametrize("what", SHAPED)
def test_of_two_arrays(what: Any, rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((2, 2, 3, 4)).astype(np.float32)
    with np.errstate(all="ignore"):
        _same(tl.jit(SHAPED[what])(x, y), SHAPED[what](x, y))


REFUSED = {
    "cross of two elements": lambda x: np.cross(x[:, :2], x[:, :2]),
    "a diagonal of one axis": lambda x: np.diagonal(x, 0, 1, 1),
    "repeats of a traced array": lambda x: np.repeat(x, x[0].astype(int), 1),
    "too few repeats": lambda x: np.repeat(x, [1, 2], 1),
    "negative repeats": lambda x: np.repeat(x, [-1, 0, 0, 2], 1),
    "accumulate": lambda x: np.maximum.accumulate(x),
    "reduceat": lambda x: np.add.reduceat(x, [0, 1]),
    "determinant": lambda x: np.linalg.det(x),
    "weights": lambda x: np.average(x, axis=0, weights=np.ones(3)),
    "weights of two axes": lambda x: np.average(x, weights=np.ones(4)),
    "quantile": lambda x: np.quantile(x, 0.5),
    "a complex type": lambda x: x.astype(np.complex64),
    "a complex name": lambda x: tnp.zeros(3, dtype="complex128"),
    "no type": lambda x: x.astype("nothing"),
    "objects": lambda x: x.astype(object),
    "vectors": lambda x: tnp.zeros(3, dtype="float32x4"),
    "where without a start": lambda x: np.max(x, where=x > 0),
    "a float to start from": lambda x: np.sum(x.astype(int), initial=0.5),
    "contiguous": lambda x: np.ascontiguousarray(x),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refusals(what: Any) -> None:
    with pytest.raises(UserError):
        tl.jit(REFUSED[what])(np.ones((2, 4), np.float32))


def test_complex_numbers_are_named() -> None:
    for spec in ("complex64", np.complex128, complex):
        with pytest.raises(UserError, match="complex numbers are not supported"):
            tnp.zeros(3, dtype=spec)
    with pytest.raises(UserError, match="complex numbers are not supported, got 'complex64'"):
        tl.jit(lambda x: x)(np.ones(3, np.complex64))
    with pytest.raises(UserError, match="complex128 are not supported"):
        tl.jit(lambda x: x * 1j)(np.ones(3))
