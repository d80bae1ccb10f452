"""Boxes around what is touched, held against all that is touched, point by point."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from random import Random

import pytest

from schedule.common import schedule
from tileloom.expr import (
    Analyzer,
    And,
    Expr,
    IntImm,
    IntSet,
    Range,
    Var,
    binary,
    const,
    free_vars,
    substitute,
)
from tileloom.expr.evaluate import evaluate
from tileloom.schedule.primitives._boxes import (
    accessed_box,
    covers,
    first_load,
    made_whole,
    outer_condition,
    runs_all,
)
from tileloom.tir import BufferLoad, make_buffer

I, J, K, N = (Var(name) for name in "ijkn")
TRUE = const(True)
AROUND = {N: Range(0, 5)}


def value(expr: Expr | None, known: Mapping[Var, int]) -> int:
    assert expr is not None
    given = {var: const(number, var.dtype) for var, number in known.items()}
    return int(evaluate(substitute(expr, given), {}))


def hull(part: Range, domains: Mapping[Var, tuple[int, int]], n: int) -> tuple[int, int]:
    """The least and the greatest element that is touched."""
    runs = [range(low, low + extent) for low, extent in domains.values()]
    points = [dict(zip(domains, point, strict=True)) for point in product(*runs)]
    starts = [value(part.min, {**point, N: n}) for point in points]
    size = value(part.extent, {N: n})
    return min(starts), max(starts) + size - 1


def ranges(domains: Mapping[Var, tuple[int, int]]) -> dict[Var, Range]:
    return {var: Range(low, extent) for var, (low, extent) in domains.items()}


@pytest.mark.parametrize("seed", range(25))
def test_sums_of_loops_have_exact_boxes(seed: int) -> None:
    rng = Random(seed)
    domains = {v: (rng.randint(-2, 3), rng.randint(1, 4)) for v in (I, J, K)[: rng.randint(1, 3)]}
    region = []
    for _ in range(rng.randint(1, 2)):
        index: Expr = const(rng.randint(-4, 4))
        for var in (*domains, N):
            index = index + var * rng.randint(-3, 3)
        region.append(Range(index, rng.randint(1, 3)))
    box = accessed_box(region, ranges(domains), TRUE, AROUND)
    for n in (0, 3):
        found = [tuple(value(end, {N: n}) for end in interval) for interval in box]
        assert found == [hull(part, domains, n) for part in region]
    for low, high in box:
        assert (low is high) == (value(low, {N: 0}) == value(high, {N: 0}))


def test_one_element_is_one_expression() -> None:
    """Who asks whether a box is a point looks at its ends alone."""
    [(low, high)] = accessed_box([Range(N * 2 + 1, 1)], ranges({I: (0, 4)}), TRUE, AROUND)
    assert low is high is N * 2 + 1
    [(low, high)] = accessed_box([Range(I - I + 3, 1)], ranges({I: (0, 4)}), TRUE, {})
    assert low is high and value(low, {}) == 3


@pytest.mark.parametrize(
    ("index", "extent", "domain", "expected"),
    [
        (I // 2, 1, (0, 7), (0, 3)),
        (I * 2 + N, N, (1, 3), (5, 11)),  # an extent that is no number
        (I % 4 + 1, 2, (0, 9), (1, 5)),
    ],
)
def test_other_indices_have_boxes_too(
    index: Expr, extent: Expr | int, domain: tuple[int, int], expected: tuple[int, int]
) -> None:
    box = accessed_box([Range(index, extent)], ranges({I: domain}), TRUE, {N: Range(3, 1)})
    assert [tuple(value(end, {N: 3}) for end in part) for part in box] == [expected]


def test_loops_from_and_to_what_is_not_known() -> None:
    box = accessed_box([Range(I * 2, 1)], {I: Range(N, 3)}, TRUE, AROUND)
    assert [value(end, {N: 4}) for end in box[0]] == [8, 12]
    box = accessed_box([Range(I * 2, 1)], {I: Range(1, N + 1)}, TRUE, AROUND)
    low, high = box[0]
    assert value(low, {N: 4}) == 2 and value(high, {N: 4}) >= 10


def test_conditions_make_boxes_smaller() -> None:
    domains = ranges({I: (0, 8)})
    [(low, high)] = accessed_box([Range(I, 1)], domains, And(I < 5, I >= 2), {})
    assert (value(low, {}), value(high, {})) == (2, 4)


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        (N < 3, [N < 3]),
        (And(N < 3, I < 2), [N < 3]),
        (And(I < 2, And(N > 0, N < 4)), [N > 0, N < 4]),
        (I + N < 3, []),
    ],
    ids=str,
)
def test_conditions_of_loops_outside(predicate: Expr, kept: list[Expr]) -> None:
    sch = schedule(copy())
    realize = sch.state.realize(sch.get_sref(sch.get_block("B")))
    found = outer_condition(realize.replace(predicate=predicate), AROUND)
    expected = TRUE
    for part in kept:
        expected = binary(And, expected, part)
    assert found is expected


# ---------------------------------------------------------------------------- holding


@pytest.mark.parametrize(
    ("box", "held"),
    [
        ((2, 5), True),
        ((1, 6), True),
        ((2, 4), False),
        ((3, 5), False),
        ((None, 5), False),
        ((2, None), False),
    ],
)
def test_covers(box: tuple[int | None, int | None], held: bool) -> None:
    low, high = (None if end is None else const(end, "int32") for end in box)
    assert covers([IntSet(low, high)], [Range(2, 4)], Analyzer()) == held
    whole = IntSet(const(0, "int32"), const(9, "int32"))
    assert covers([whole, IntSet(low, high)], [Range(0, 10), Range(2, 4)], Analyzer()) == held


def test_no_box_holds_nothing() -> None:
    assert not covers(None, [Range(2, 4)], Analyzer())
    assert not covers(None, [], Analyzer())
    assert covers([], [], Analyzer())


def test_the_first_element_that_a_number_depends_on() -> None:
    a = make_buffer((8,), "int32", "A")
    load = BufferLoad(a, (I,))
    assert first_load([IntSet(I, None), IntSet(None, load + 3)]) is load
    assert first_load([IntSet(load * J + BufferLoad(a, (J,)), None)]) is load
    for plain in (I, const(3, "int32"), I * 2 + 1, I // 3, I * J):
        assert first_load([IntSet(plain, plain)]) is None


# ---------------------------------------------------------------------------- of blocks

COPY = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i, j in T.grid(ROWS, COLUMNS):
        with T.block("B"):
            vi = T.axis.spatial(EXTENT, PLACE)
            T.where(WHERE)
            B[vi] = A[vi]
"""
DEFAULTS = {"ROWS": "4", "COLUMNS": "3", "EXTENT": "64", "PLACE": "i * 3 + j", "WHERE": "True"}


def copy(**pieces: str) -> str:
    text = COPY
    for name, piece in {**DEFAULTS, **pieces}.items():
        text = text.replace(name, piece)
    return text.replace("            T.where(True)\n", "")


@pytest.mark.parametrize(
    ("pieces", "inner", "expected"),
    [
        ({}, 2, (0, 11)),
        ({}, 1, ("i * 3", "i * 3 + 2")),
        ({}, 0, ("i * 3 + j", "i * 3 + j")),
        ({"PLACE": "i * 3 + j + 5"}, 2, (5, 16)),
        ({"PLACE": "i * 4 + j"}, 2, None),  # with gaps
        ({"PLACE": "i * 2 + j"}, 2, (0, 8)),  # some twice
        ({"PLACE": "j * 4 + i"}, 2, (0, 11)),
        ({"WHERE": "i * 3 + j < 7"}, 2, (0, 6)),
        ({"WHERE": "i * 3 + j != 7"}, 2, None),
        ({"PLACE": "i", "WHERE": "j < 1"}, 2, (0, 3)),  # what does not place it does not count
        ({"PLACE": "i * 3 + j + 55", "WHERE": "i * 3 + j + 55 < 64"}, 2, (55, 66)),
    ],
)
def test_what_a_block_touches_whole(
    pieces: dict[str, str], inner: int, expected: tuple[object, object] | None
) -> None:
    sch = schedule(copy(**pieces), debug_mask=0)
    block = sch.get_sref(sch.get_block("B"))
    loops = [sch.get(loop) for loop in sch.get_loops("B")]
    own = {loop.loop_var: Range(loop.min, loop.extent) for loop in loops}
    running = {loop.loop_var: own[loop.loop_var] for loop in loops[2 - inner :]}
    box = made_whole(sch.state, block, block.block.writes[0], running, own)
    if expected is None:
        assert box is None
        return
    assert box is not None
    by_name = {loop.loop_var.name: loop.loop_var for loop in loops}
    for at in ({"i": 0, "j": 0}, {"i": 3, "j": 2}):
        known = {by_name[name]: number for name, number in at.items()}
        for end, text in zip(box[0], expected, strict=True):
            assert value(end, known) == eval(str(text), at.copy())


def test_what_another_condition_says_does_not_count() -> None:
    sch = schedule(copy(WHERE="j != 1"), debug_mask=0)
    block = sch.get_sref(sch.get_block("B"))
    loops = [sch.get(loop) for loop in sch.get_loops("B")]
    own = {loop.loop_var: Range(loop.min, loop.extent) for loop in loops}
    predicate = sch.state.realize(block).predicate
    region = block.block.writes[0]
    assert made_whole(sch.state, block, region, own, own) is None
    box = made_whole(sch.state, block, region, own, own, predicate)
    assert box is not None and [value(end, {}) for end in box[0]] == [0, 11]


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        ({"EXTENT": "12"}, True),
        ({"EXTENT": "13"}, False),
        ({"EXTENT": "12", "PLACE": "j * 4 + i"}, True),
        ({"EXTENT": "12", "PLACE": "i * 3 + (2 - j)"}, True),
        ({"EXTENT": "16", "PLACE": "i * 4 + j"}, False),
        ({"EXTENT": "11", "WHERE": "i * 3 + j < 11"}, True),
        ({"EXTENT": "12", "WHERE": "i * 3 + j < 11"}, False),
        ({"EXTENT": "4", "PLACE": "i"}, True),
        ({"EXTENT": "6", "PLACE": "i + j"}, True),
        ({"EXTENT": "7", "PLACE": "i + j"}, False),
        ({"EXTENT": "4", "PLACE": "i * 3 + j", "ROWS": "1"}, False),
    ],
)
def test_whether_all_instances_run(pieces: dict[str, str], whole: bool) -> None:
    sch = schedule(copy(**pieces), debug_mask=0)
    assert runs_all(sch.state, sch.get_sref(sch.get_block("B"))) == whole


def test_numbers_are_numbers() -> None:
    """Ends of boxes of numbers are literals, of the type of the index."""
    i = Var("i", "int64")
    [(low, high)] = accessed_box([Range(i * 2 + 1, 1)], {i: Range(0, 4)}, TRUE, {})
    assert isinstance(low, IntImm) and isinstance(high, IntImm)
    assert [str(end.dtype) for end in (low, high)] == ["int64", "int64"]
    assert not free_vars(low)
