"""Loops over the rows of a traced array, and methods by Python's and NumPy's names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom as tl
from frontend.jit.helpers import check

CALLS: dict[str, Any] = {
    "for": lambda x: [row + 1 for row in x],
    "unpacking": lambda x: (lambda a, b: a - b)(*x),
    "sum": lambda x: sum(x),
    "enumerate": lambda x: [k * row for k, row in enumerate(x)],
    "zip": lambda x: [a * b for a, b in zip(x, x[::-1], strict=True)],
    "list": lambda x: list(x[:, 0]),
    "reversed": lambda x: list(reversed(x)),
    "len": lambda x: x * len(x) * len(x[0]),
    "copy": lambda x: (x.copy(), np.copy(x)),
    "dot": lambda x: (x.dot(x.T), x.dot(2.0)),
    "cumsum": lambda x: (x.cumsum(), x.cumsum(0), np.cumsum(x), np.cumsum(x, axis=-1)),
    "round": lambda x: (x.round(1), np.round(x, 2), np.around(x, decimals=-1), np.round(x)),
    "round integers": lambda x: (
        np.round((x * 100).astype("int32"), -1), (x * 9).astype("int32").round(3)
    ),
    "divmod": lambda x: (*divmod(x, 2), *divmod(2, x), *np.divmod(x, 3.0)),
    "column order": lambda x: (
        x.reshape(3, 2, order="F"), np.reshape(x, (6,), order="F"), x.ravel("F"),
        np.ravel(x, order="F"), x.flatten(order="F"), x.reshape((1, 6), order="A"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CALLS)
def test_as_numpy(what: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3)) * 100
    ours, theirs = tl.jit(CALLS[what])(x), CALLS[what](x)
    if not isinstance(theirs, (list, tuple)):
        ours, theirs = [ours], [theirs]
    for found, wanted in zip(ours, theirs, strict=True):
        check(found, np.asarray(wanted))


def test_builtin_round_works_on_arrays() -> None:
    x = np.array([0.25, -1.5, 2.675])
    check(tl.jit(lambda x: round(x))(x), np.round(x))
    check(tl.jit(lambda x: round(x, 2))(x), np.round(x, 2))


def test_an_array_without_rows_has_no_iteration() -> None:
    assert tl.jit(lambda x: list(x))(np.ones((0, 3))) == []
    with pytest.raises(TypeError, match="iteration"):
        tl.jit(lambda x: list(x))(np.float64(3))
    with pytest.raises(TypeError, match="len"):
        tl.jit(lambda x: len(x))(np.float64(3))


def test_where_of_a_condition_alone_is_refused() -> None:
    with pytest.raises(tl.UserError, match="depends on the data"):
        tl.jit(lambda x: np.where(x > 0))(np.ones(3))
