"""What iterations touch, at least and at most, and which parts hold what is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import pytest

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
from tileloom.schedule.analysis.cover import (
    _at_most,
    _contains,
    _in_doubt,
    _joined,
    _same_cells,
    _where_read,
    left_inside,
    quickly_covered,
)
from tileloom.schedule.analysis.regions import (
    conjuncts,
    lower_bound,
    shared_over,
    storage_rank,
    thread_rank,
    upper_bound,
)
from tileloom.tir import make_buffer

I, J, N = Var("i"), Var("j"), Var("n")
Domains = Mapping[Var, Range]


def test_which_threads_share_memory() -> None:
    scopes = ("global", "global.texture", "shared", "shared.dyn", "warp", "local", "wmma.matrix_a")
    assert [storage_rank(scope) for scope in scopes] == [0, 0, 1, 1, 2, 3, 4]
    tags = ("blockIdx.x", "threadIdx.x", "threadIdx.y", "vthread")
    assert [thread_rank(tag) for tag in tags] == [0, 1, 1, 1]
    shared = [[shared_over(scope, tag) for tag in tags[:3]] for scope in scopes]
    assert shared[:2] == [[True, True, True]] * 2
    assert shared[2:4] == [[False, True, True]] * 2
    assert shared[4] == [False, True, False]
    assert shared[5:] == [[False, False, False]] * 2


def number(value: Expr | None, known: Mapping[Var, int]) -> int:
    assert value is not None
    given = {var: const(v, var.dtype) for var, v in known.items()}
    return int(evaluate(substitute(value, given), {}))


def points(domains: Domains) -> Iterator[dict[Var, int]]:
    ranges = []
    for domain in domains.values():
        assert isinstance(domain.min, IntImm) and isinstance(domain.extent, IntImm)
        ranges.append(range(domain.min.value, domain.min.value + domain.extent.value))
    for point in product(*ranges):
        yield dict(zip(domains, point, strict=True))


def cells(part: Range, domains: Domains, where: Expr, n: int) -> set[int]:
    found: set[int] = set()
    for point in points(domains):
        known = {**point, N: n}
        if number(where, known):
            low = number(part.min, known)
            found |= set(range(low, low + number(part.extent, known)))
    return found


def square(i: int, j: int, first: int = 0) -> dict[Var, Range]:
    return {I: Range(first, i), J: Range(0, j)}


TRUE = const(True)
LATE = {I: Range(0, 3), J: Range(2, 4)}


@pytest.mark.parametrize(
    ("part", "domains", "where", "exact"),
    [
        (Range(I * 4 + J, 1), square(3, 4), TRUE, True),
        (Range(I * 4 + J, 1), square(3, 3), TRUE, False),
        (Range(I * 4 + J, 2), square(3, 3), TRUE, False),
        (Range(I * 4, 4), square(3, 1), TRUE, True),
        (Range(I * 4, 3), square(3, 1), TRUE, False),
        (Range(I * 4, 5), square(3, 1), TRUE, True),
        (Range(I * 4 + J + 2, 1), square(3, 4, 1), TRUE, True),
        (Range(I + N, 2), square(3, 1), TRUE, True),
        (Range(N, 3), square(3, 4), TRUE, True),
        (Range(5 - I, 1), square(3, 1), TRUE, False),
        (Range(I, J + 1), square(3, 2), TRUE, False),
        (Range(I, 1), square(5, 1), I < 3, True),
        (Range(I, 1), square(5, 1), I < N, True),
        (Range(I, 1), square(5, 4), J < 2, True),
        (Range(I, 1), square(5, 4), J > 2, True),
        (Range(I, 1), square(5, 4), J < N, True),
        (Range(I, 1), square(5, 4), J < N - 1, False),
        (Range(I * 4 + J, 1), square(3, 4), I * 4 + J < 10, True),
        (Range(I * J, 1), square(3, 3), TRUE, False),
    ],
    ids=str,
)
def test_bounds(part: Range, domains: dict[Var, Range], where: Expr, exact: bool) -> None:
    outer = {N: Range(1, 3)}
    least = lower_bound([part], domains, where, Analyzer(outer))
    ((low, high),) = upper_bound([part], domains, where, outer)
    assert (least is not None) == exact
    for n in range(1, 4):
        touched = cells(part, domains, where, n)
        if touched:
            assert number(low, {N: n}) <= min(touched)
            assert max(touched) <= number(high, {N: n})
        if least is not None:
            ends = [number(end, {N: n}) for end in least[0]]
            assert ends == [min(touched), max(touched)]
            assert touched == set(range(ends[0], ends[1] + 1))
            assert where is not TRUE or [number(low, {N: n}), number(high, {N: n})] == ends


@pytest.mark.parametrize(
    ("written", "running", "read", "reading", "size", "covered"),
    [
        (Range(I * 4 + J, 1), square(3, 4), Range(I, 1), square(12, 1), None, True),
        (Range(I * 4 + J, 1), square(3, 4), Range(I, 1), square(13, 1), None, False),
        (Range(I * 4 + J, 1), square(3, 4), Range(I, 1), square(13, 1), 12, True),
        (Range(I * 4 + J, 1), square(3, 4), Range(I, 1), square(13, 1), 13, False),
        (Range(I * 4 + J, 1), square(3, 4), Range(I - 1, 1), square(13, 1), 12, True),
        (Range(I * 4 + J, 1), square(3, 4), Range(I - 1, 1), square(13, 1), None, False),
        (Range(I * 4 + J, 1), square(3, 4), Range(I, 2), square(11, 1), None, True),
        (Range(I * 4 + J, 1), square(3, 4), Range(I, 3), square(11, 1), None, False),
        (Range(I * 4 + J, 1), square(3, 3), Range(I, 1), square(11, 1), None, False),
        (Range(I * 4 + J, 2), square(3, 3), Range(I, 1), square(12, 1), None, True),
        (Range(I * 4, 4), square(3, 1), Range(I, 1), square(12, 1), None, True),
        (Range(I * 4, 3), square(3, 1), Range(I, 1), square(11, 1), None, False),
        (Range(8 - I * 4 + J, 1), square(3, 4), Range(I, 1), square(12, 1), None, True),
        (Range(8 - I * 4 + J, 1), square(3, 4), Range(11 - I, 1), square(12, 1), None, True),
        (Range(8 - I * 4 + J, 1), square(3, 4), Range(11 - I, 1), square(13, 1), None, False),
        (Range(I + 1, 1), square(3, 1), Range(I, 1), square(3, 1, 1), None, True),
        (Range(I + 1, 1), square(3, 1), Range(I, 1), square(4, 1), None, False),
        (Range(I, 1), square(3, 1, 2), Range(I, 1), square(3, 1, 2), None, True),
        (Range(I, 1), square(3, 1, 2), Range(I, 1), square(3, 1, 1), None, False),
        (Range(I * 9, 1), square(1, 1), Range(0, 1), square(1, 1), None, True),
        (Range(I + 1, 1), square(3, 1), Range(I, 1), square(4, 1), 4, False),
        (Range(I + 1, 1), square(3, 1), Range(I, 1), square(3, 1, 1), 4, True),
        (Range(I * 4 + J, 1), LATE, Range(I, 1), square(12, 1, 2), None, True),
        (Range(I * 5 + J, 1), LATE, Range(I, 1), square(14, 1, 2), None, False),
        (Range(I - J, 1), square(3, 3), Range(I, 1), square(5, 1, -2), None, True),
        (Range(I + N, 1), square(4, 1), Range(I + N, 1), square(4, 1), 5, True),
        (Range(I + N, 1), square(4, 1), Range(I + N, 1), square(5, 1), 5, False),
        (Range(I + N, 1), square(4, 1), Range(I + N * 2, 1), square(2, 1), None, False),
    ],
    ids=str,
)
def test_quick_covers(
    written: Range,
    running: dict[Var, Range],
    read: Range,
    reading: dict[Var, Range],
    size: int | None,
    covered: bool,
) -> None:
    buffer = None if size is None else make_buffer((size,), "float32", "B")
    found = quickly_covered([written], running, TRUE, [read], reading, buffer)
    assert found == covered
    assert not quickly_covered([written], running, const(False), [read], reading, buffer)
    assert not quickly_covered([written], running, N < 9, [read], reading, buffer)
    counts = range(-99, 99) if size is None or N in free_vars(read.min) else range(size)
    for n in (1, 2):
        asked = cells(read, reading, TRUE, n) & set(counts)
        assert not covered or asked <= cells(written, running, TRUE, n)


def test_quick_covers_of_two_dimensions() -> None:
    whole = square(3, 4)
    both = [Range(I, 1), Range(J, 1)]
    for written, read, covered in (
        (both, both, True),
        (both, [Range(0, 3), Range(0, 4)], True),
        (both, [Range(0, 4), Range(0, 3)], False),
        ([Range(I, 1), Range(I, 1)], both, False),
        ([Range(I, 1), Range(I, 1)], [Range(I, 1), Range(I, 1)], False),
        ([Range(I, 1), Range(I, 4)], both, False),
        ([Range(I, 1), Range(0, 4)], both, True),
        ([Range(I, 1), Range(0, N)], both, False),
        (both, [Range(I, 1), Range(0, N)], False),
        ([Range(I * I, 1), Range(J, 1)], [Range(0, 1), Range(J, 1)], False),
    ):
        assert quickly_covered(written, whole, TRUE, read, whole) == covered, (written, read)
    assert not quickly_covered(both, {I: Range(0, N), J: Range(0, 4)}, TRUE, both, whole)


A = Var("a")
RAGGED = {J: Range(0, 4), I: Range(0, J)}


@pytest.mark.parametrize(
    ("written", "running", "read", "reading", "same"),
    [
        (Range(I // N, 1), {I: Range(0, 8)}, Range(J // N, 1), {J: Range(0, 8)}, True),
        (Range(I // N, 1), {I: Range(0, 8)}, Range(J // N, 1), {J: Range(0, 9)}, False),
        (Range(I // N, 1), {I: Range(0, 8)}, Range(J // N, 1), {J: Range(1, 8)}, False),
        (Range(I // N, 1), {I: Range(0, 8)}, Range(J // A, 1), {J: Range(0, 8)}, False),
        (Range(I // N, 1), {I: Range(0, 8)}, Range(J % N, 1), {J: Range(0, 8)}, False),
        (Range(I // N, 1), {I: Range(0, 8)}, Range(J // N, 2), {J: Range(0, 8)}, False),
        (Range(I // N, 1), {I: Range(0, 8)}, Range(N, 1), {J: Range(0, 8)}, False),
        (Range(I // N, 1), square(8, 2), Range(J // N, 1), {J: Range(0, 8)}, True),
        (Range(I // N, 1), square(8, 0), Range(J // N, 1), {J: Range(0, 8)}, False),
        (Range(I // N, 1), {I: Range(0, 8), J: Range(0, A)}, Range(A, 1), {A: Range(0, 8)}, False),
        (Range(I // J, 1), square(8, 4), Range(A // J, 1), {A: Range(0, 8)}, False),
        (Range(I // N, 1), RAGGED, Range(A // N, 1), {A: Range(0, J)}, False),
    ],
    ids=str,
)
def test_the_same_cells(
    written: Range, running: Domains, read: Range, reading: Domains, same: bool
) -> None:
    assert _same_cells([written], running, [read], reading, Analyzer({})) == same


def box(*ends: tuple[int, int] | tuple[Expr, Expr]) -> list[IntSet]:
    return [IntSet(const(a), const(b)) for a, b in ends]


@pytest.mark.parametrize(
    ("boxes", "joined"),
    [
        ([((0, 3),), ((4, 7),)], [((0, 7),)]),
        ([((4, 7),), ((0, 3),)], [((0, 7),)]),
        ([((0, 3),), ((5, 7),)], [((0, 3),), ((5, 7),)]),
        ([((0, 5),), ((2, 7),)], [((0, 7),)]),
        ([((0, 3),), ((0, 3),)], [((0, 3),)]),
        ([((0, 1),), ((4, 5),), ((2, 3),)], [((0, 5),)]),
        ([((0, 3), (0, 3)), ((4, 7), (0, 3))], [((0, 7), (0, 3))]),
        ([((0, 3), (0, 3)), ((0, 3), (4, 5))], [((0, 3), (0, 5))]),
        ([((0, 3), (0, 3)), ((4, 7), (4, 7))], [((0, 3), (0, 3)), ((4, 7), (4, 7))]),
        ([((0, 3), (0, 3)), ((4, 7), (0, 4))], [((0, 3), (0, 3)), ((4, 7), (0, 4))]),
    ],
    ids=str,
)
def test_boxes_put_together(boxes: list, joined: list) -> None:  # type: ignore[type-arg]
    analyzer = Analyzer({})
    found = _joined(analyzer, [box(*ends) for ends in boxes])
    assert [
        tuple((number(low, {}), number(high, {})) for low, high in each) for each in found
    ] == joined


def test_what_holds_what() -> None:
    buffer = make_buffer((8, 8), "float32", "B")
    analyzer = Analyzer({N: Range(2, 3)})
    for outer, inner, held in (
        (box((0, 3), (0, 3)), box((0, 3), (1, 2)), True),
        (box((0, 3), (0, 3)), box((0, 4), (0, 3)), False),
        (box((0, 3), (0, 3)), box((0, 3), (0, 4)), False),
        (box((1, 3), (0, 3)), box((0, 3), (0, 3)), False),
        (box((0, 7), (0, 7)), box((-3, 9), (-1, 8)), True),
        (box((0, 6), (0, 7)), box((-3, 9), (-1, 8)), False),
    ):
        assert _contains(analyzer, outer, inner, buffer) == held
    unknown: list[tuple[Expr | None, Expr | None, bool]] = [
        (None, const(3), False),
        (const(3), None, False),
        (const(3), const(3), True),
        (const(4), const(3), False),
        (N, const(4), True),
        (N, const(3), False),
        (const(2), N, True),
        (const(3), N, False),
    ]
    for a, b, wanted in unknown:
        assert _at_most(analyzer, a, b) == wanted, (a, b)


def test_conditions_that_keep_what_is_written_inside() -> None:
    buffer = make_buffer((8,), "float32", "B")
    part = [Range(I - 2, 2)]
    domains = {I: Range(0, 20), J: Range(0, 20)}
    for condition, left in (
        (I >= 2, 0),
        (I >= 3, 1),
        (I <= 8, 0),
        (I <= 7, 1),
        (TRUE, 0),
        (J < 4, 1),
    ):
        found = left_inside(condition, part, buffer, domains)
        assert str(found) == (str(condition) if left else "T.bool(True)"), condition


def test_conditions_that_the_reader_shares() -> None:
    running = {I: Range(0, 4)}
    for condition, given, left in (
        (N < 3, N < 3, "T.bool(True)"),
        (N < 3, N < 4, "n < 3"),
        (I < 3, I < 3, "i < 3"),
        (binary(And, N < 3, J < 3), binary(And, J < 3, A < 3), "n < 3"),
    ):
        assert str(_in_doubt(condition, given, running)) == left


def test_conditions_where_something_is_read() -> None:
    buffer = make_buffer((8,), "float32", "B")
    outer = {N: Range(-20, 40)}
    for low, high, implied, open_ in (
        (N, None, N < 8, N < 7),
        (None, N, N >= 0, N >= 1),
        (N, N + 3, N > -4, N > -3),
        (N - 2, N, N <= 9, N <= 8),
    ):
        wanted = [IntSet(low, high)]
        assert str(_where_read(implied, wanted, buffer, outer)) == "T.bool(True)"
        assert _where_read(open_, wanted, buffer, outer) is open_


def test_conjuncts() -> None:
    parts = [I < 3, J < 4, N < 5]
    whole = binary(And, binary(And, parts[0], parts[1]), parts[2])
    assert list(conjuncts(whole)) == parts and list(conjuncts(TRUE)) == [TRUE]
