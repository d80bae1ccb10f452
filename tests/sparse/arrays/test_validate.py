"""Indices that are looked at: those of every format, and what is wrong with some."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import IndexingError, UserError
from tileloom.sparse.arrays import Bsc, Bsr, Coo, Csc, Csr, Gcxs, validate

# Which checks the indices of matrices, and is asked for only then.
convert = pytest.importorskip("tileloom.sparse.convert")

TWO, FOUR = np.ones(2), np.ones((2, 2, 3))


@pytest.mark.parametrize(
    "a",
    [
        Csr([0, 1, 2], [2, 0], TWO, (2, 3)),
        Csc([0, 1, 2], [2, 0], TWO, (3, 2)),
        Bsr([0, 1, 2], [2, 0], FOUR, (4, 9)),
        Bsc([0, 1, 2], [2, 0], FOUR, (6, 6)),
        Gcxs([0, 1, 2], [11, 0], TWO, (3, 2, 4), (1,)),
        Coo(([2, 0], [0, 1]), TWO, (3, 2)),
        Coo((), np.ones(1), ()),
        Csr([0], [], np.zeros(0), (0, 5)),
    ],
    ids=repr,
)
def test_what_is_right(a: Any) -> None:
    for asked in (None, False, True):
        assert validate(a, sorted=asked) is a


@pytest.mark.parametrize(
    ("a", "text"),
    [
        (Csr([0, 1, 2], [3, 0], TWO, (2, 3)), "index 3 at position 0"),
        (Csr([0, 1, 2], [2, -1], TWO, (2, 3)), "index -1 at position 1"),
        (Csc([0, 1, 2], [3, 0], TWO, (3, 2)), "index 3 at position 0"),
        (Bsr([0, 1, 2], [3, 0], FOUR, (4, 9)), "index 3 at position 0"),
        (Bsc([0, 1, 2], [3, 0], FOUR, (6, 6)), "index 3 at position 0"),
        (Gcxs([0, 1, 2], [12, 0], TWO, (3, 2, 4), (1,)), "index 12 at position 0"),
        (Coo(([2, 3], [0, 1]), TWO, (3, 2)), "index 3 at position 1 of x's axis 0"),
        (Coo(([2, 0], [-1, 1]), TWO, (3, 2)), "index -1 at position 0 of x's axis 1"),
    ],
)
def test_indices_out_of_range(a: Any, text: str) -> None:
    with pytest.raises(IndexingError) as caught:
        validate(a)
    assert text in str(caught.value) and "out of range" in str(caught.value)


@pytest.mark.parametrize(
    "indptr", [[1, 1, 2], [0, 3, 2], [0, 1, 3], [0, 1, -1]], ids=["begin", "falls", "end", "less"]
)
def test_rows_that_are_no_parts(indptr: Any) -> None:
    with pytest.raises(UserError):
        validate(Csr(indptr, [0, 1], TWO, (2, 3)))


def test_order_is_asked_for() -> None:
    a = Csr([0, 2], [1, 0], TWO, (1, 3))
    assert validate(a) is a and validate(a, sorted=False) is a
    with pytest.raises(UserError, match="not sorted"):
        validate(a, sorted=True)
    with pytest.raises(UserError):
        validate(Csr([0, 2], [1, 1], TWO, (1, 3)), sorted=False)


def test_room_that_is_not_used_is_not_looked_at() -> None:
    sp = pytest.importorskip("scipy.sparse")
    a = sp.csr_array((2, 3))
    a.indices, a.data = np.full(4, 99), np.zeros(4)
    assert validate(a).nnz == 0
