"""Buffers as rows of elements: places and spans counted out by NumPy, types by what must fit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tileloom.expr import Expr, IntImm, Var, cast, const, evaluate
from tileloom.lower.analysis.row_major import (
    buffer_span,
    element_count,
    flat_index,
    index_type,
    row_major_strides,
    starts_at_zero,
)
from tileloom.tir import Buffer, make_buffer

N, M = Var("n"), Var("m")
WIDE = Var("w", "int64")
SIZES = {N: 3, M: 4, WIDE: 5}

#: A shape, strides in elements, an offset.
LAYOUTS: list[tuple[Any, ...]] = [
    ((), (), None), ((7,), (), None), ((2, 3), (), None), ((2, 3, 4), (), 0), ((2, 3), (), 5),
    ((2, 3), (8, 2), None), ((2, 3), (1, 2), 4), ((4,), (3,), 1), ((3, 1), (1, 9), None),
    ((N, M), (), None), ((2, N), (), None), ((N, 2), (), N), ((N, M), (M * 2, 2), None),
    ((N, M), (1, N), M + 1), ((N,), (), None), ((WIDE, 3), (), None), ((3, WIDE), (), None),
    ((0, 3), (3, 1), 2), ((2, 0), (), None), ((0,), (4,), None),
]  # fmt: skip


def laid_out(shape: Any, strides: Any, offset: Any) -> Buffer:
    start = const(offset) if isinstance(offset, int) else offset
    return make_buffer(shape, "float32", "A", strides=strides, elem_offset=start)


def value(expr: Any) -> int:
    return expr if isinstance(expr, int) else int(evaluate(expr, SIZES))


@pytest.mark.parametrize(("shape", "strides", "offset"), LAYOUTS, ids=str)
@pytest.mark.parametrize("narrow", [False, True])
def test_places(shape: Any, strides: Any, offset: Any, narrow: bool) -> None:
    buffer = laid_out(shape, strides, offset)
    extents = [value(e) for e in shape]
    steps = [value(s) for s in strides]
    if not strides:
        steps = [int(np.prod(extents[k + 1 :], dtype=int)) for k in range(len(extents))]
    first = 0 if offset is None else value(offset)
    kind = index_type(buffer)
    assert [value(s) for s in row_major_strides(buffer, kind)] == steps
    assert all(s.dtype is kind for s in row_major_strides(buffer, kind))
    names = [Var(f"i{k}") for k in range(len(extents))]
    flat = flat_index(buffer, names, narrow)
    places = []
    for at in itertools.product(*map(range, extents)):
        env = {**SIZES, **dict(zip(names, at, strict=True))}
        places.append(int(evaluate(flat, env)))
        assert places[-1] == first + sum(i * s for i, s in zip(at, steps, strict=True))
    assert value(buffer_span(buffer)) == (max(places) + 1 if places else first)
    static = all(isinstance(e, int) for e in (*shape, *strides, 0 if offset is None else offset))
    assert flat.dtype == ("int64" if not static and len(shape) > 1 and not narrow else "int32")


@pytest.mark.parametrize("kinds", list(itertools.product(["int32", "int64"], repeat=2)))
def test_wide_indices_stay_wide(kinds: tuple[str, str]) -> None:
    i, j = (Var(name, kind) for name, kind in zip("ij", kinds, strict=True))
    flat = flat_index(make_buffer((4, 5), "float32", "A"), [i, j])
    assert flat.dtype == ("int64" if "int64" in kinds else "int32")
    assert evaluate(flat, {i: 3, j: 2}) == 17


HALF = 1 << 15


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "kind"),
    [
        ((HALF, 2 * HALF - 1), (), None, "int32"),
        ((HALF, 2 * HALF), (), None, "int64"),
        ((HALF, 2 * HALF - 1), (), 1, "int32"),
        ((HALF, 2 * HALF - 1), (), HALF - 1, "int32"),
        ((HALF, 2 * HALF - 1), (), HALF, "int64"),
        ((4, 4), (1 << 28, 1), None, "int32"),
        ((4, 4), (1 << 29, 1), None, "int64"),
        ((4, 4), (-(1 << 29), 1), None, "int64"),
        ((0, 1 << 31), (), None, "int64"),
        ((0, (1 << 31) - 1), (), None, "int32"),
        ((N,), (), None, "int32"), ((N,), (), 0, "int32"), ((N,), (), 3, "int64"),
        ((N,), (2,), None, "int64"), ((N, 2), (), None, "int64"), ((WIDE,), (), None, "int64"),
        ((7,), (), N, "int64"), ((), (), None, "int32"), ((), (), 3, "int32"),
        ((4,), (WIDE,), 0, "int64"),
        ((const(4, "int64"), const(5, "int64")), (), None, "int32"),
        ((const(4, "int64"),), (), None, "int64"),
    ],
    ids=str,
)  # fmt: skip
def test_types_of_indices(shape: Any, strides: Any, offset: Any, kind: str) -> None:
    buffer = laid_out(shape, strides, offset)
    assert index_type(buffer) == kind


@pytest.mark.parametrize(
    ("extents", "count", "kind"),
    [
        ((3, 4), 12, "int32"), ((7,), 7, "int32"), ((0, 9), 0, "int32"), ((), 1, "int32"),
        (((1 << 31) - 1,), (1 << 31) - 1, "int32"), ((1 << 16, 1 << 15), 1 << 31, "int64"),
        ((N, 4), 12, "int64"), ((N,), 3, "int64"), ((2, N, M), 24, "int64"),
    ],
    ids=str,
)  # fmt: skip
def test_counts_of_elements(extents: Any, count: int, kind: str) -> None:
    found = element_count([const(e) if isinstance(e, int) else e for e in extents])
    assert (value(found), found.dtype) == (count, kind)


@pytest.mark.parametrize(
    ("offset", "zero"), [(None, True), (const(0), True), (const(1), False), (N, False)]
)
def test_offsets(offset: Expr | None, zero: bool) -> None:
    assert starts_at_zero(offset) is zero


@pytest.mark.parametrize("rows", [8, (1 << 29) - 1, 1 << 29, N])
def test_halves_of_a_divided_number_are_put_together(rows: Any) -> None:
    flat = flat_index(make_buffer((WIDE, rows, 4), "int8", "A"), [const(0), N // 4, N % 4])
    assert flat.dtype == "int64" and str(flat) == str(cast("int64", N))
    assert all(evaluate(flat, {N: n, WIDE: 5}) == n for n in range(9))


def test_constant_places() -> None:
    flat = flat_index(make_buffer((8, 4), "int8", "A"), [const(1), const(2)])
    assert isinstance(flat, IntImm) and flat.value == 6


B, S, T, X, Y = (Var(name) for name in "bstxy")
VALUES = {B: 5, S: 7, T: 3, X: 29, Y: 2}


@pytest.mark.parametrize(
    ("shape", "indices", "divides"),
    [
        ((B, S, 10), (X // S, X % S, Y), False),
        ((B, S), (X // S, X % S), False),
        ((B, S, T), (X // S, X % S, Y), False),
        ((T, B, S, 4), (Y, X // S, X % S, 3), False),
        ((B, S, 10), (X // S, (X + 1) % S, Y), True),  # digits of different numbers
        ((B, T, 10), (X // S, X % S, Y), True),  # of another base
        ((B, S, 10), (X // T, X % S, Y), True),
        ((S, B, 10), (X % S, X // S, Y), True),
    ],
)
def test_the_digits_of_a_number_are_the_number(
    shape: tuple[Any, ...], indices: tuple[Any, ...], divides: bool
) -> None:
    extents = [n if isinstance(n, Expr) else const(n) for n in shape]
    places = [i if isinstance(i, Expr) else const(i) for i in indices]
    index = flat_index(make_buffer(extents, "float32", "A"), places)
    assert ("//" in str(index) or "%" in str(index)) == divides
    want = 0
    for extent, place in zip(extents, places, strict=True):
        want = want * int(evaluate(extent, VALUES)) + int(evaluate(place, VALUES))
    assert int(evaluate(index, VALUES)) == want


def test_strides_of_their_own_are_kept() -> None:
    buffer = make_buffer((B, S), "float32", "A", strides=(const(100), const(2)))
    index = flat_index(buffer, [X // S, X % S])
    assert int(evaluate(index, VALUES)) == 29 // 7 * 100 + 29 % 7 * 2
