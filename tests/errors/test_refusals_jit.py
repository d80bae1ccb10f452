"""What programs in NumPy's words refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tileloom import Dim, jit
from tileloom.base.errors import ArgumentError, DTypeError, ShapeError, TileloomError

X = np.arange(12, dtype="float32").reshape(3, 4)
Function = Callable[..., Any]

CASES: list[tuple[Function, tuple[Any, ...], type[Exception], str]] = [
    (lambda x: len(x.sum()), (X,), TypeError, r"len\(\) of an array without dimensions"),
    (lambda x: list(x.sum()), (X,), TypeError, "iteration over an array without dimensions"),
    (lambda x: x + object(), (X,), DTypeError, "arrays of object are not"),
    (lambda x: [[1], [2, 3]] - x, (X,), DTypeError, "cannot make an array of list"),
    (lambda x: x.astype("no such type"), (X,), DTypeError, "no such type"),
    (lambda x: x.astype(3.5), (X,), DTypeError, "3.5 is no data type"),
    (lambda x: np.matmul(x.sum(), x), (X,), ShapeError, "dimensions"),
    (lambda x: np.tril(x[0]), (X,), ShapeError, "tril: needs two dimensions"),
    (lambda x: x[x], (X,), Exception, "arrays of float32"),
    (lambda x: np.select([x > 1, x > 2], [x]), (X,), ArgumentError, "as many choices"),
    (lambda x: np.diagonal(x[0]), (X,), ShapeError, "a diagonal needs two dimensions"),
    (lambda x: x.reshape(4, 3, order="K"), (X,), ArgumentError, "not 'K'"),
    (lambda x: np.diff(x, n=-1), (X,), ArgumentError, "n >= 0 times, not -1"),
    (lambda x: np.median(x[:0], axis=0), (X,), ShapeError, "the median of no elements"),
]  # fmt: skip


@pytest.mark.parametrize(("act", "args", "kind", "match"), CASES, ids=[m for *_, m in CASES])
def test_refusals(act: Function, args: tuple[Any, ...], kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        jit(act)(*args)


@pytest.mark.parametrize(
    ("shapes", "match"),
    [
        ({"y": {0: Dim("n")}}, "names 'y', which is no parameter"),
        ({"k": {0: Dim("n")}}, "for 'k', which is no array"),
        ({"parts": {"w": {0: Dim("n")}}}, "names w in 'parts', which is not there"),
    ],
)
def test_dynamic_shapes_that_name_nothing(shapes: dict[str, Any], match: str) -> None:
    def function(x: Any, parts: Any, k: Any) -> Any:
        return x + parts["v"] * k

    with pytest.raises(TileloomError, match=match):
        jit(function, dynamic_shapes=shapes)(X, {"v": X}, None)
