"""Whether two accesses of a block's threads meet: compared with trying all threads and loops."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from tileloom.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Expr,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Range,
    Select,
    Sub,
    Var,
    as_expr,
    cast,
    const,
    evaluate,
    free_vars,
    intrin,
)
from tileloom.expr.analyzer import Analyzer
from tileloom.lower.analysis.linear import linear
from tileloom.lower.analysis.thread_places import Places, Threads, differences, values_of
from tileloom.lower.gpu.access_conflicts import ConflictAnalysis
from tileloom.lower.gpu.shared_accesses import SharedAccess
from tileloom.script import tir as T
from tileloom.tir import BufferLoad, make_buffer

X, Y, Z, I, J, K, N = (Var(name) for name in "xyzijkn")
DATA = Var("S", "handle")
BLOCK = {X: const(4), Y: const(3)}
LOADED = BufferLoad(make_buffer((9,), "int32", "M"), [X])
Common = Mapping[Var, Range | None]


def access(index: Any, **fields: Any) -> SharedAccess:
    ranges = fields.pop("ranges", {})
    runs = {v: Range(*run) if isinstance(run, tuple) else run for v, run in ranges.items()}
    place = None if index is None else as_expr(index)
    return SharedAccess(DATA, True, place, fields.pop("bits", 32), runs, **fields)


def analysis(block: Mapping[Var, Any] = BLOCK, divergent: Sequence[Var] = ()) -> ConflictAnalysis:
    threads = {var: as_expr(extent) for var, extent in block.items()}
    analyzer = Analyzer()
    for var, extent in threads.items():
        analyzer.bind(var, Range(0, extent))
    return ConflictAnalysis(threads, analyzer, {*threads, *divergent})


# ---------------------------------------------------------------------------- by trying


def values(runs: Mapping[Var, tuple[int, int]]) -> Iterator[dict[Var, int]]:
    """All values of variables that have a first value and a count each."""
    for at in product(*(range(low, low + count) for low, count in runs.values())):
        yield dict(zip(runs, at, strict=True))


def number(expr: Expr, env: Mapping[Var, int]) -> int:
    return int(evaluate(expr, {v: env[v] for v in free_vars(expr)}))


def runs_of(ranges: Common) -> dict[Var, tuple[int, int]]:
    return {v: (int(r.min), int(r.extent)) for v, r in ranges.items() if r is not None}  # type: ignore[call-overload]


def elements(
    access: SharedAccess, threads: Mapping[Var, int], shared: Mapping[Var, int]
) -> set[Any]:
    """Who touches what: (element, thread)."""
    own = {v: run for v, run in runs_of(access.ranges).items() if v not in shared}
    found = set()
    for thread in values({v: (0, n) for v, n in threads.items()}):
        for inner in values(own):
            env = {**shared, **thread, **inner}
            if all(bool(number(c, env)) == holds for c, holds in access.conditions):
                assert access.index is not None
                found.add((number(access.index, env), tuple(thread.values())))
    return found


def really_conflict(
    a: SharedAccess, b: SharedAccess, common: Common, block: Mapping[Var, Any] = BLOCK
) -> bool:
    """Whether two threads access one element, by trying every thread and iteration."""
    threads = {v: int(as_expr(n)) for v, n in block.items()}  # type: ignore[call-overload]
    for shared in values(runs_of(common)):
        first, second = elements(a, threads, shared), elements(b, threads, shared)
        for (place, one), (other, two) in product(first, second):
            if place == other and (one != two or a.together or b.together):
                return True
    return False


ROW = {K: (0, 3)}
ALONE = [
    (Y * 4 + X, Y * 4 + X, {}, {}),
    (Y * 4 + X, X * 3 + Y, {}, {}),
    (Y * 4 + X + 12, Y * 4 + X, {}, {}),
    (Y * 4 + X + 11, Y * 4 + X, {}, {}),
    (Y * 4 + X, Y * 4 + X + 12, {}, {}),
    (Y * 4 + X, Y * 4 + X + 11, {}, {}),
    (X, X, {}, {}),
    (Y * 3 + X, Y * 3 + X, {}, {}),
    (Y * 5 + X, Y * 5 + X, {}, {}),
    (12 - Y * 4 - X, 12 - Y * 4 - X, {}, {}),
    (Y * 12 + X * 3 + K, Y * 12 + X * 3 + K, ROW, ROW),
    (Y * 12 + X * 3 + K, Y * 12 + X * 3 + K, {K: (0, 4)}, ROW),
    (Y * 12 + X * 3 + K, Y * 12 + X * 3 + K, ROW, {K: (0, 4)}),
    (Y * 12 + X * 3 + K, Y * 12 + X * 3 + K, {K: (2, 3)}, {K: (2, 3)}),
    (Y * 12 + X * 3 + K, Y * 12 + X * 3 + K, {K: (2, 3)}, {K: (3, 3)}),
    (Y * 4 + X + K * 12, Y * 4 + X, {K: (1, 3)}, {}),
    (Y * 4 + X + K * 12, Y * 4 + X, {K: (0, 3)}, {}),
    (Y * 4 + X + K * 11, Y * 4 + X, {K: (1, 3)}, {}),
    (Y * 4 + X, Y * 4 + X + K * 12, {}, {K: (1, 3)}),
    (Y * 4 + X, Y * 4 + X - K * 12, {}, {K: (1, 3)}),
    (Y * 4 + X, Y * 4 + X - K * 11, {}, {K: (1, 3)}),
    (Y * 4 + X // 2, Y * 4 + X // 2 + 2, {}, {}),
    (Y * 4 + X // 2, Y * 4 + X // 2, {}, {}),
    (Y * 4 + (X + 1) % 4, Y * 4 + (X + 1) % 4, {}, {}),
    (Y * 4 + (X + 1) % 4, Y * 4 + (X + 2) % 4, {}, {}),
    (Y * 4 + T.bitwise_xor(X, Y), Y * 4 + T.bitwise_xor(X, Y), {}, {}),
    (Y * 4 + X * K, Y * 4 + X * K, {K: (1, 1)}, {K: (1, 1)}),
    (Y * 4 + X * K, Y * 4 + X * K, {K: (0, 2)}, {K: (0, 2)}),
    (Y * 4 + X + K // 3, Y * 4 + X + K // 3, ROW, ROW),
    (Y * 4 + X + K // 2, Y * 4 + X + K // 2, ROW, ROW),
]


@pytest.mark.parametrize(("write", "read", "first", "second"), ALONE)
def test_accesses_without_common_loops(write: Any, read: Any, first: Any, second: Any) -> None:
    """Of constant extents the answer is exact: no barrier is missing, none is too many."""
    a, b = access(write, ranges=first), access(read, ranges=second)
    for c, d in ((a, b), (b, a), (replace(a, together=True), b), (a, replace(b, together=True))):
        assert analysis().may_conflict(c, d, {}) is really_conflict(c, d, {})


CONDITIONS: list[list[tuple[Expr, bool]]] = [
    [], [(X < 1, True)], [(X < 1, False)], [(Y < 2, True), (X >= 3, False)], [(X == Y, True)],
    [((X + Y) % 2 == 0, True)], [(And(X > 0, Y != 1), False)], [(Or(X <= 0, Not(Y == 1)), True)],
]  # fmt: skip


@pytest.mark.parametrize("first", CONDITIONS)
@pytest.mark.parametrize("second", [[], [(X < 1, True)], [(X < 1, False), (Y < 1, True)]])
@pytest.mark.parametrize("index", [X, Y, X + Y, Y * 4 + X], ids=str)
def test_conditions(first: Any, second: Any, index: Expr) -> None:
    a, b = access(index, conditions=tuple(first)), access(Y * 4 + X, conditions=tuple(second))
    for c, d in ((a, b), (b, a), (a, access(index, conditions=tuple(second)))):
        assert analysis().may_conflict(c, d, {}) is really_conflict(c, d, {})


@pytest.mark.parametrize("seed", range(40))
def test_no_conflict_is_overlooked(seed: int) -> None:
    """Random sums of threads, inner loops and common loops, remainders and halves of them."""
    pick = random.Random(seed)
    common: Common = {J: Range(pick.randint(-1, 1), pick.randint(1, 4))}
    inner = {K: (pick.randint(-1, 2), pick.randint(1, 3))}

    def term() -> Expr:
        one = pick.choice([X, Y, X, Y, K, J, X + J, Y + 1, J + 1, J + K])
        made = pick.choice([one, one, one, one % pick.randint(1, 4), one // pick.randint(1, 3)])
        return Mul(made, const(pick.choice([1, 1, 3, 4, 12, 13, -4])))

    def random_access() -> SharedAccess:
        parts = [term() for _ in range(pick.randint(1, 3))]
        index: Expr = as_expr(pick.choice([0, 0, 4, 12]))
        for part in parts:
            index = index + part
        some = tuple(pick.choice(CONDITIONS)) if pick.random() < 0.3 else ()
        return access(index, ranges={**inner, J: common[J]}, conditions=some)

    for _ in range(4):
        a = random_access()
        assert a.index is not None
        for b in (random_access(), a, replace(a, index=a.index + const(12))):
            found = analysis().may_conflict(a, b, common)
            assert found or not really_conflict(a, b, common), (str(a.index), str(b.index))


VERSIONS = [
    (K % 3 * 12, (K + 1) % 3 * 12, False),
    (K % 3 * 12, (K + 3) % 3 * 12, True),
    (K % 3 * 12, (K + 3) % 4 * 12, True),
    (K % 3 * 11, (K + 1) % 3 * 11, True),
    (K % 3 * 12, (K + 2) % 3 * 12, False),
    (K % N * 12, (K + 1) % N * 12, True),
    (K % 2 * 12, K % 2 * 12 + 12, False),
    (K % 2 * 12, K % 2 * 12 + 11, True),
    (N * 12, N * 12 + 12, False),
    (N * 12, N * 12 + 11, True),
    (N * 12, N * 12 - 12, False),
    (N * 12, J * 12, True),
    (K % 3 * 12, J % 3 * 12, True),
    (K % 3 * 12, K // 3 * 12, True),
    (K % 3 * 12, (K * 3 + 1) % 3 * 12, True),
    (N // 2 * 12 + J, N // 2 * 12 + J + 12, False),
]


@pytest.mark.parametrize(("first", "second", "conflict"), VERSIONS)
@pytest.mark.parametrize("swapped", [False, True])
def test_versions_of_common_loops(first: Any, second: Any, conflict: bool, swapped: bool) -> None:
    """Each thread touches an element of the other's row; what is known is how rows differ."""
    one, two = access(first + Y * 4 + X), access(second + X * 3 + Y)
    a, b = (two, one) if swapped else (one, two)
    assert analysis().may_conflict(a, b, {K: None, J: None}) is conflict
    assert analysis({X: 4, Y: 3, Z: 1}).may_conflict(a, b, {K: None, J: None}) is conflict


@pytest.mark.parametrize(
    ("a", "b", "conflict"),
    [
        (access(None), access(X), True),
        (access(X), access(None), True),
        (access(Y * 4 + X), access(Y * 4 + X, bits=16), True),
        (access(X, atomic=True), access(X, atomic=True), False),
        (access(X, atomic=True), access(X), True),
        (access(X), access(X, atomic=True), True),
        (access(X), access(None, arrives=True), False),
        (access(None, arrives=True), access(X), True),
        (access(Y * 4 + X + LOADED), access(Y * 4 + X + LOADED), True),
        (access(Y * 4 + X + LOADED), access(Y * 4 + X), True),
        (access(Y * 4 + X, ranges={K: None}), access(Y * 4 + X), False),
        (access(Y * 4 + X + K * 12, ranges={K: None}), access(Y * 4 + X), True),
        (access(Y * 4 + X + K * 12, ranges={K: (N, 2)}), access(Y * 4 + X), True),
        (access(Y * 4 + X + K * 12, ranges={K: (0, N)}), access(Y * 4 + X), True),
        (access(Y * 4 + X + N), access(Y * 4 + X + N), False),
    ],
)
def test_what_is_not_known_may_conflict(a: SharedAccess, b: SharedAccess, conflict: bool) -> None:
    assert analysis().may_conflict(a, b, {}) is conflict


def test_variables_that_differ_between_threads() -> None:
    a = access(Y * 4 + X + N)
    assert analysis(divergent=[N]).may_conflict(a, a, {})


@pytest.mark.parametrize(
    ("block", "index", "conflict"),
    [
        ({X: 4, Y: N}, Y * 4 + X, True),  # none but the lowest place may be of unknown count
        ({X: N}, X, True),
        ({X: 4, Z: 1}, X, False),
        ({X: 4, Z: 1}, X + Z * 9, False),
        ({X: 4, Y: 2}, X, True),
        ({X: 1 << 20, Y: 4}, Y * (1 << 20) + X, False),  # too many to count, but places tell
        ({X: 1 << 20, Y: 4}, Y * ((1 << 20) - 1) + X, True),
        ({X: 1 << 20, Y: 4}, Y * (1 << 20) + X * -1, True),  # would take a count
        ({X: 1 << 20, Y: 4}, Y * (1 << 21) + X * 2 + K, False),
        ({X: 1 << 20, Y: 4}, Y * (1 << 21) + X * 2 + K * 2, True),
        ({X: 1 << 20, Y: 4}, Y * (1 << 22) + X * 4 + K * 3, False),
        ({X: 1 << 20, Y: 4}, Y * (1 << 22) + X * 4 + K * 4, True),
    ],
)
def test_threads_by_the_places_of_a_number(block: Any, index: Expr, conflict: bool) -> None:
    a = access(index, ranges={K: (0, 2)})
    assert analysis(block).may_conflict(a, a, {}) is conflict


@pytest.mark.parametrize(
    ("runs", "others", "conflict"), [(2, 2, False), (2, 3, True), (3, 2, True), (3, 3, True)]
)
def test_the_longer_of_two_inner_loops_counts(runs: int, others: int, conflict: bool) -> None:
    block = {X: 1 << 20, Y: 4}
    a, b = (access(Y * (1 << 21) + X * 2 + K, ranges={K: (0, n)}) for n in (runs, others))
    assert analysis(block).may_conflict(a, b, {}) is conflict


@pytest.mark.parametrize(("budget", "conflict"), [(24, False), (23, True)])
def test_a_count_that_takes_too_long_is_not_made(budget: int, conflict: bool) -> None:
    """Each of 12 threads counts two accesses that places do not tell apart."""
    proof = analysis()
    proof.budget = budget
    a = access(T.bitwise_xor(Y * 4 + X, 1))
    b = replace(a, conditions=((X < 3, True),))
    assert proof.may_conflict(a, a, {}) is False and proof.may_conflict(a, b, {}) is conflict


@pytest.mark.parametrize(("length", "conflict"), [(64, False), (65, True)])
def test_so_many_values_of_common_loops_are_tried(length: int, conflict: bool) -> None:
    a = access(Y * 128 + (X + K) % 128)
    assert analysis().may_conflict(a, a, {K: Range(0, length)}) is conflict


@pytest.mark.parametrize(("length", "conflict"), [(256, False), (257, True)])
def test_so_many_differences_are_tried(length: int, conflict: bool) -> None:
    a, b = access(Y * 8 + X * 2 + K * 24), access(Y * 8 + X * 2 + J * 24 + 1)
    assert analysis().may_conflict(a, b, {K: Range(0, length), J: Range(0, 1)}) is conflict


# ---------------------------------------------------------------------------- counted places


def tried(index: Expr, loops: Any, conditions: Any, given: Any) -> dict[int, set[Any]]:
    found: dict[int, set[Any]] = {}
    for y, x in product(range(3), range(4)):
        for inner in values(loops):
            env = {X: x, Y: y, **inner, **given}
            if all(bool(number(c, env)) == holds for c, holds in conditions):
                found.setdefault(number(index, env), set()).add(y * 4 + x)
    return found


@pytest.mark.parametrize(
    "index",
    [
        Y * 4 + X, X * 3 + Y, X, Y, X + Y, X + K, Y * 4 + X + K * 12, Y * 4 + X + N * 3,
        X * K - 2, Y * -4 - X, Min(X, Y) * 5 + Max(X, const(2)), (X + K) % 3 * 4 + Y,
        Select(X < Y, X, Y + 9), cast("int64", X) * 2 + cast("int64", Y < 1),
        T.if_then_else(X < 2, Y, K), T.shift_left(X, 2) + T.shift_right(Y, 1),
        T.bitwise_and(X, 1) + T.bitwise_or(Y, 4) * 8,
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("conditions", CONDITIONS[:5])
def test_places(index: Expr, conditions: Any) -> None:
    """The owner of each element from the lowest one on, as a table made one by one."""
    loops, given = {K: (1, 3)}, {N: 5}
    block = Threads(BLOCK)
    places = block.places(linear(index), loops, conditions, given)
    wanted = tried(index, loops, conditions, given)
    assert places is not None
    used = any(v in free_vars(index) for v in (X, Y)) or conditions
    assert used
    for at, owner in enumerate(places.owner, places.low):
        who = wanted.pop(at, set())
        everyone = {v for e in (index, *(c for c, _ in conditions)) for v in free_vars(e)}
        several = len(who) > 1 or (who and not {X, Y} <= everyone)
        assert owner == (-2 if several else min(who, default=-1)), at
    assert not wanted


@pytest.mark.parametrize(
    "index",
    [
        X + J, LOADED + X, cast("int8", X) + cast("int8", Y), X // (Y - 1), X % (Y - 1),
        cast("uint32", X) + cast("uint32", Y), intrin.popcount(X) + Y,
    ],
    ids=str,
)  # fmt: skip
def test_places_that_cannot_be_counted(index: Expr) -> None:
    if index.dtype != "int32":
        index = cast("int32", index)
    assert Threads(BLOCK).places(linear(index), {}, ()) is None


def test_conditions_on_what_is_not_known_are_left_out() -> None:
    block = Threads(BLOCK)
    every = block.places(linear(Y * 4 + X), {}, ())
    some = block.places(linear(Y * 4 + X), {}, [(X < J, True)])
    assert every is not None and some is not None
    assert some.low == every.low == 0 and some.owner.tolist() == every.owner.tolist()
    assert every.owner.tolist() == list(range(12))


def test_how_much_is_counted() -> None:
    block = Threads({X: const(4)})
    for length, known in ((1 << 18, True), ((1 << 18) + 1, False)):
        assert (block.places(linear(X * 0 + X % 1 + X), {K: (0, length)}, ()) is not None) is known
    for far, known in (((1 << 20) - 1, True), (1 << 20, False)):
        two = Threads({X: const(2)})
        assert (two.places(linear(X * far), {}, ()) is not None) is known
    assert Threads({X: N}).places(linear(X), {}, ()) is None
    empty = block.places(linear(X), {K: (0, 0)}, ())
    assert empty is not None and len(empty.owner) == 0
    never = block.places(linear(X), {}, [(X < 0, True)])
    assert never is not None and len(never.owner) == 0


@pytest.mark.parametrize("seed", range(12))
def test_conflicts_of_places(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (Places(int(rng.integers(-3, 4)), rng.integers(-2, 3, 5)) for _ in range(2))
    for shift in range(-12, 13):
        pairs = [
            (one, two)
            for one, p in zip(a.owner, range(a.low, a.low + 5), strict=True)
            for two, q in zip(b.owner, range(b.low, b.low + 5), strict=True)
            if p + shift == q and one != -1 and two != -1
        ]
        assert a.conflicts(b, shift) is any(one != two or one == -2 for one, two in pairs)
    assert (a.by_many().owner == np.where(a.owner == -1, -1, -2)).all()


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (Add(X, Y), 9), (Sub(X, Y), 5), (Mul(X, Y), 14), (X // Y, 3), (X % Y, 1),
        (Min(X, Y), 2), (Max(X, Y), 7), (EQ(X, Y), 0), (NE(X, Y), 1), (LT(Y, X), 1), (LT(X, X), 0),
        (LE(X, X), 1), (GT(X, Y), 1), (GT(X, X), 0), (GE(X, X), 1), (And(X > 1, Y > 2), 0),
        (Or(X > 1, Y > 2), 1), (Not(X > 1), 0), (Select(X > Y, X, Y), 7), (intrin.likely(X > 1), 1),
        (T.if_then_else(X > 8, X, Y), 2), (T.bitwise_xor(X, Y), 5), (T.bitwise_or(X, 8), 15),
        (T.bitwise_and(X, 3), 3), (T.shift_left(X, Y), 28), (T.shift_right(X, Y), 1),
        (cast("int64", X), 7), (cast("int32", X > 1), 1), (cast("int8", X), None),
        (cast("uint32", X), None), (cast("float32", X), None), (Z, None), (X + Z, None),
        (LOADED, None), (T.truncdiv(X, Y), None), (IntImm("int32", 4), 4),
    ],
    ids=str,
)  # fmt: skip
def test_values_of_expressions(expr: Expr, value: int | None) -> None:
    found = values_of(expr, {X: np.asarray(7), Y: np.asarray(2)})
    assert (None if found is None else int(found)) == value


DIFFERENCES = [
    (as_expr(3), {}, {3}),
    (K * 2 + 1, {K: (1, 3)}, {3, 5, 7}),
    (K * 2 - J, {K: (0, 2), J: (4, 2)}, {-4, -5, -2, -3}),
    (K % 3 * 10, {K: (1, 2)}, {10, 20}),
    (K % 3 * 10, {K: (0, 5)}, {0, 10, 20}),
    (K % 3 * 10 - (K + 1) % 3 * 10, {K: (0, 2)}, {-10}),
    (K % 3 * 10 - (K + 1) % 3 * 10, {}, {-10, 20}),
    ((K + 2) % 3 * 10 - (K + 1) % 3 * 10, {}, {10, -20}),
    (K % 3 - J % 2, {}, {0, 1, 2, -1}),
    (K % 3 + K, {K: (3, 3)}, {3, 5, 7}),
    (K % 3 * 10 - (K + 1) % 4 * 10, {}, {10 * (a - b) for a in range(3) for b in range(4)}),
    (K, {}, None),
    (K // 2, {K: (0, 4)}, None),
    (K % N, {K: (0, 4)}, None),
]


@pytest.mark.parametrize(("expr", "ranges", "wanted"), DIFFERENCES)
def test_differences(expr: Expr, ranges: Any, wanted: set[int] | None) -> None:
    found = differences(linear(expr), ranges)
    if wanted is None:
        assert found is None
    else:
        assert found is not None and list(found) == sorted(found)
        assert wanted <= set(found)
        assert set(found) == wanted


@pytest.mark.parametrize(("length", "known"), [(4096, True), (4097, False)])
def test_so_many_values_of_a_difference(length: int, known: bool) -> None:
    assert (differences(linear(K + 0 * J), {K: (0, length)}) is not None) is known
