"""Which instances make what is needed, held against all instances, one by one."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tileloom import ScheduleError
from tileloom.expr import Analyzer, Expr, IntSet, IterVar, Range, Var, const, substitute
from tileloom.expr.evaluate import evaluate
from tileloom.schedule.primitives._domains import Inversion, covering, hull_of
from tileloom.tir import make_buffer

I, J, K, N = (Var(name) for name in "ijkn")
Interval = tuple[int | None, int | None]


def interval(ends: Interval) -> IntSet:
    return IntSet(*(None if end is None else const(end, "int32") for end in ends))


def number(expr: Expr | None) -> int:
    assert expr is not None
    return int(evaluate(substitute(expr, {}), {}))


def solved(
    extents: tuple[int, ...],
    region: list[tuple[Expr, int]],
    shape: tuple[int, ...],
    required: list[Interval],
) -> tuple[list[tuple[int, int]], bool]:
    """The domains of the variables, and whether they are said to be exact."""
    axes = [IterVar(Range(0, extent), var) for var, extent in zip((I, J, K), extents)]
    inversion = Inversion(axes, Analyzer(), [])
    buffer = make_buffer(shape, "float32", "B")
    provided = [Range(index, extent) for index, extent in region]
    inversion.require(buffer, provided, [interval(ends) for ends in required])
    found = []
    for domain in inversion.domains():
        assert domain.dom is not None and domain.bound is None
        found.append((number(domain.dom.min_value), number(domain.dom.max_value)))
    assert set(inversion.inexact) <= {buffer}
    return found, not inversion.inexact


def instances(
    extents: tuple[int, ...],
    region: list[tuple[Expr, int]],
    shape: tuple[int, ...],
    required: list[Interval],
) -> list[tuple[int, int]]:
    """The least box of the instances that touch something that is needed, by trying all."""
    hits = []
    for point in product(*map(range, extents)):
        known = {var: const(at, "int32") for var, at in zip((I, J, K), point)}
        starts = [number(substitute(index, known)) for index, _ in region]
        parts = zip(starts, region, required, shape, strict=True)
        if all(
            start <= min(last, size - 1) and start + extent - 1 >= max(first, 0)
            for start, (_, extent), (first, last), size in parts
            if first is not None and last is not None
        ):
            hits.append(point)
    return [(min(column), max(column)) for column in zip(*hits, strict=True)]


#: Extents of the variables, what an instance has, the shape, what is needed, whether it is exact.
EXACT = [
    # plain variables, in any order; beyond the buffer nothing is needed
    ((8, 6), [(I, 1), (J, 1)], (8, 6), [(2, 5), (0, 0)]),
    ((8, 6), [(J, 1), (I, 1)], (6, 8), [(2, 5), (0, 7)]),
    ((8,), [(I, 1)], (8,), [(-3, 4)]),
    ((8,), [(I, 1)], (8,), [(5, 12)]),
    ((8,), [(I, 1)], (8,), [(0, 7)]),
    ((8,), [(I, 1)], (5,), [(3, 7)]),
    # bijective maps: one row in many, many rows in one
    ((3, 4), [(I * 4 + J, 1)], (12,), [(4, 7)]),
    ((3, 4), [(I * 4 + J, 1)], (12,), [(4, 11)]),
    ((3, 4), [(I * 4 + J, 1)], (12,), [(5, 6)]),
    ((3, 4), [(I * 4 + J, 1)], (12,), [(9, 9)]),
    ((12,), [(I // 4, 1), (I % 4, 1)], (3, 4), [(1, 2), (0, 3)]),
    ((12,), [(I // 4, 1), (I % 4, 1)], (3, 4), [(1, 1), (2, 3)]),
    ((6, 4), [(I // 2, 1), (I % 2 * 4 + J, 1)], (3, 8), [(0, 1), (0, 7)]),
    # one dimension after the other
    ((8,), [(I + 3, 1)], (11,), [(4, 6)]),
    ((8,), [(const(7, "int32") - I, 1)], (8,), [(1, 2)]),
    ((8,), [(const(9, "int32") - (I + 1), 1)], (9,), [(3, 6)]),
    ((8,), [(I * 4, 4)], (32,), [(8, 15)]),
    ((8,), [(I * 4, 4)], (32,), [(8, 16)]),
    ((8, 5), [(I * 2, 2), (J, 1)], (16, 5), [(4, 9), (1, 3)]),
    ((12,), [(I // 4, 1)], (3,), [(1, 1)]),
    ((12,), [(I // 4, 1)], (3,), [(1, 2)]),
    ((9,), [((I + 3) // 4, 1)], (3,), [(1, 1)]),
    ((8, 4), [(I + 3, 1), (J * 2, 2)], (11, 8), [(4, 6), (2, 5)]),
    ((8, 4), [(const(7, "int32") - I, 1), (J * 2, 2)], (8, 8), [(1, 2), (0, 7)]),
    ((8, 4), [(const(9, "int32") - (I + 1), 1), (J * 2, 2)], (9, 8), [(3, 6), (0, 1)]),
    ((12, 4), [(I // 4, 1), (J * 2, 2)], (3, 8), [(1, 1), (4, 7)]),
    ((9, 4), [((I + 3) // 4, 1), (J * 2, 2)], (3, 8), [(1, 1), (4, 7)]),
    ((8, 4), [(I, 1), (J * 2, 2)], (8, 8), [(2, 3), (4, 7)]),
]


@pytest.mark.parametrize(("extents", "region", "shape", "required"), EXACT, ids=str)
def test_all_that_is_needed_and_no_more(
    extents: Any, region: Any, shape: Any, required: Any
) -> None:
    found, exact = solved(extents, region, shape, required)
    assert found == instances(extents, region, shape, required)
    assert exact or any(low < 0 for low, _ in required) or required[0][1] >= shape[0]


#: What is found reaches more than is needed, and says so.
MORE = [
    ((3, 4), [(I * 4 + J, 1)], (12,), [(3, 4)], [(0, 1), (0, 3)]),
    ((12,), [(I // 4, 1), (I % 4, 1)], (3, 4), [(0, 1), (1, 2)], [(1, 6)]),
    ((8,), [(I * 4, 4)], (32,), [(6, 15)], [(1, 3)]),
    ((8,), [(I % 4, 1)], (4,), [(1, 2)], [(0, 7)]),
    ((8,), [(I % 4, 1)], (4,), [(1, 3)], [(0, 7)]),
    ((8,), [(I % 4, 1)], (4,), [(0, 2)], [(0, 7)]),
]


@pytest.mark.parametrize(("extents", "region", "shape", "required", "expected"), MORE, ids=str)
def test_more_than_is_needed(
    extents: Any, region: Any, shape: Any, required: Any, expected: Any
) -> None:
    found, exact = solved(extents, region, shape, required)
    assert found == expected
    assert not exact
    for (low, high), (first, last) in zip(
        found, instances(extents, region, shape, required), strict=True
    ):
        assert low <= first and high >= last


def test_digits_that_are_all_needed_say_nothing() -> None:
    assert solved((8,), [(I % 4, 1)], (4,), [(0, 3)]) == ([(0, 7)], True)


def test_a_variable_without_a_say_runs_as_before() -> None:
    assert solved((8, 5), [(I + 1, 1)], (9,), [(2, 3)]) == ([(1, 2), (0, 4)], True)


def test_two_buffers_ask_for_the_hull() -> None:
    axes = [IterVar(Range(0, 16), I)]
    inversion = Inversion(axes, Analyzer(), [])
    first, second = (make_buffer((16,), "float32", name) for name in "BC")
    inversion.require(first, [Range(I, 1)], [interval((3, 5))])
    assert not inversion.inexact
    inversion.require(second, [Range(I, 1)], [interval((3, 5))])
    assert not inversion.inexact
    inversion.require(second, [Range(I, 1)], [interval((8, 9))])
    assert inversion.inexact == [second]
    [domain] = inversion.domains()
    assert domain.dom is not None and [number(end) for end in domain.dom] == [3, 9]


def test_what_is_fixed_outside_moves_the_domain() -> None:
    axes = [IterVar(Range(0, 64), I)]
    inversion = Inversion(axes, Analyzer({N: Range(0, 8)}), [])
    buffer = make_buffer((80,), "float32", "B")
    low, high = N * 8 + 2, N * 8 + 5
    inversion.require(buffer, [Range(I + 2, 1)], [IntSet(low, high)])
    [domain] = inversion.domains()
    assert domain.dom is not None and not inversion.inexact
    ends = [Analyzer().simplify(end) for end in domain.dom if end is not None]
    assert ends == [N * 8, N * 8 + 3]


@pytest.mark.parametrize(
    "region",
    [
        [(I * J, 1)],
        [(I * -2, 2)],
        [(I * 0 + N // 4 * 3, 1)],  # the same for all instances, and not what is needed
        [(I % 3 * 2, 1)],
        [(I + J, 2)],
    ],
    ids=str,
)
def test_what_cannot_be_solved(region: list[tuple[Expr, int]]) -> None:
    with pytest.raises(ScheduleError, match="cannot be solved for the iteration variables"):
        solved((8, 8), region, (64,), [(2, 9)])


def test_an_index_that_no_variable_decides() -> None:
    assert solved((8,), [(const(0, "int32"), 4), (I, 1)], (4, 8), [(1, 3), (2, 3)]) == (
        [(2, 3)],
        True,
    )
    # What is beyond the buffer is not needed.
    assert solved((8,), [(const(0, "int32"), 4), (I, 1)], (4, 8), [(1, 9), (2, 3)])[0] == [(2, 3)]
    for missing in [(0, 2), (2, 3)]:
        with pytest.raises(ScheduleError, match="cannot be solved"):
            solved((8,), [(const(1, "int32"), 2), (I, 1)], (4, 8), [missing, (2, 3)])


@pytest.mark.parametrize(
    ("index", "required", "expected"),
    [
        (I, (None, 5), (0, 5)),
        (I, (5, None), (5, 7)),
        (I, (None, None), (0, 7)),
        (I + 2, (None, 5), (0, 3)),
        (I + 2, (5, None), (3, 7)),
        (const(9, "int32") - I, (None, 5), (4, 7)),
        (const(9, "int32") - I, (5, None), (0, 4)),
        (I // 2, (None, 1), (0, 3)),
        (I // 2, (2, None), (4, 7)),
    ],
    ids=str,
)
def test_open_ends(index: Expr, required: Interval, expected: tuple[int, int]) -> None:
    """Beside an index that makes each dimension stand alone."""
    region = [(index, 1), (J * 2, 2)]
    found, _ = solved((8, 4), region, (10, 8), [required, (0, 7)])
    assert found == [expected, (0, 3)]


def test_a_tile_between_open_ends() -> None:
    assert solved((8,), [(I * 4, 4)], (32,), [(None, 14)]) == ([(0, 3)], False)
    assert solved((8,), [(I * 4, 4)], (32,), [(8, None)]) == ([(2, 7)], True)


def test_variables_that_are_asked_for_nothing_run_over_all() -> None:
    axes = [IterVar(Range(0, 8), I), IterVar(Range(0, N), J), IterVar(Range(N, N + 2), K)]
    found = Inversion(axes, Analyzer(), []).domains()
    assert [domain.bound for domain in found] == [None] * 3
    known = {N: const(5, "int32")}
    ends = [
        [int(evaluate(substitute(e, known), {})) for e in d.dom or () if e is not None]
        for d in found
    ]
    assert ends == [[0, 7], [0, 4], [5, 11]]


# ---------------------------------------------------------------------------- ranges


@pytest.mark.parametrize(
    ("ends", "expected"),
    [((2, 5), (2, 4)), ((3, 3), (3, 1)), ((None, 5), (1, 9)), ((2, None), (1, 9))],
)
def test_intervals_as_ranges(ends: Interval, expected: tuple[int, int]) -> None:
    found = covering(Analyzer(), interval(ends), Range(1, 9))
    assert (number(found.min), number(found.extent)) == expected


def test_a_point_has_one_element() -> None:
    found = covering(Analyzer(), IntSet(N, N), Range(0, 9))
    assert found.min is N and number(found.extent) == 1


@pytest.mark.parametrize("value", [J // N, J % N])
def test_sizes_that_may_be_undefined(value: Expr) -> None:
    ends = IntSet(const(0, "int32"), value)
    with pytest.raises(ScheduleError, match="is not defined where n is zero"):
        covering(Analyzer({J: Range(0, 8), N: Range(0, 8)}), ends, Range(0, 9))
    found = covering(Analyzer({J: Range(0, 8), N: Range(1, 7)}), ends, Range(0, 9))
    known = {J: const(7, "int32"), N: const(3, "int32")}
    high = int(evaluate(substitute(value, known), {}))
    assert int(evaluate(substitute(found.extent, known), {})) == high + 1


@pytest.mark.parametrize(
    ("boxes", "expected"),
    [
        ([[(0, 3)]], [(0, 3)]),
        ([[(0, 3)], [(2, 5)]], [(0, 5)]),
        ([[(4, 5), (1, 1)], [(0, 1), (1, 1)], [(9, 9), (0, 0)]], [(0, 9), (0, 1)]),
    ],
)
def test_hulls(boxes: list[list[Interval]], expected: list[Interval]) -> None:
    found = hull_of(Analyzer(), [[interval(ends) for ends in box] for box in boxes])
    assert [tuple(map(number, ends)) for ends in found] == expected
