"""Intervals of index expressions while loops run: held against all values."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tileloom.expr import Analyzer, Expr, IntImm, Max, Min, Var, const, evaluate, intrin
from tileloom.lower.analysis.linear import linear, number
from tileloom.lower.analysis.regions import Table, interval, over, own_thread, union
from tileloom.script import from_source
from tileloom.script import tir as T
from tileloom.tir import BufferLoad, For, PrimFunc, collect, make_buffer

I, J, N = Var("i"), Var("j"), Var("n")
ENDS = {I: (2, 6), J: (-1, 1)}
LOADED = BufferLoad(make_buffer((9,), "int32", "M"), [const(0)])


def table(open_: tuple[Var, ...] = ()) -> Table:
    found = Table()
    for var, (low, high) in ENDS.items():
        found[var] = None if var in open_ else (number(low), number(high))
    return found


EXACT = [
    I, J, N, const(4), I + J, I - J, J - I * 2, I * 3 + N, N * 2 - I, I // 2, I // 3 - J,
    7 - I // 2,
    (I + N * 4) // 4, (I + 8) % 16, (I + 8) % 8, (I + N * 8) % 8, Min(I, const(4)),
    Max(I, const(4)), Min(I, I + 1), Max(I + 1, I), Min(I, const(4)) * -2, Max(N, I), Min(I, N + 1),
    (N + 1) // 2, N % 3, N * N + I,
]  # fmt: skip
SOUND = [I % 4, I % 3 + J, (I * 2 + J) // 2 - I, Min(I, J), Max(I, J), (I + N) % 5, I % 4 - J % 2]


def values(expr: Expr, n: int) -> list[int]:
    runs = [range(low, high + 1) for low, high in ENDS.values()]
    points = (dict(zip(ENDS, at, strict=True)) for at in itertools.product(*runs))
    return [int(evaluate(expr, {**point, N: n})) for point in points]


def ends(expr: Expr, n: int) -> tuple[int, int]:
    found = interval(expr, table())
    assert found is not None
    return tuple(int(evaluate(end.to_expr(expr.dtype), {N: n})) for end in found)  # type: ignore[return-value]


@pytest.mark.parametrize("expr", EXACT, ids=str)
def test_intervals_of_what_is_monotonic(expr: Any) -> None:
    for n in (-5, 0, 1, 3, 9):
        all_values = values(expr, n)
        assert ends(expr, n) == (min(all_values), max(all_values))


@pytest.mark.parametrize("expr", SOUND, ids=str)
def test_intervals_hold_all_values(expr: Any) -> None:
    for n in (-5, 0, 1, 3):
        low, high = ends(expr, n)
        assert low <= min(values(expr, n)) and max(values(expr, n)) <= high


@pytest.mark.parametrize(
    "expr",
    [I * J, I // N, I % N, LOADED, LOADED + I, intrin.abs(I), I // -2, I % -2, T.Ramp(I, 1, 4),
     Var("f", "float32") * T.Cast("float32", I), T.bitwise_and(I, 3)],
    ids=str,
)  # fmt: skip
def test_what_has_no_interval(expr: Any) -> None:
    assert interval(expr, table()) is None


def test_an_open_variable_opens_what_it_is_in() -> None:
    known = table(open_=(I,))
    for expr in (I, I + J, N - I, I // 2, Min(I, J), Max(I, const(3))):
        assert interval(expr, known) is None
    rest = interval(I % 4, known)
    assert rest is not None and (rest[0].const, rest[1].const) == (0, 3)
    assert not rest[0].terms and not rest[1].terms
    other = interval(J * 2 + N, known)
    assert other is not None and other[0].same_as(linear(N - 2)) and other[1].same_as(linear(N + 2))


def test_numbers_that_are_not_signed_stay_themselves() -> None:
    u = Var("u", "uint32")
    found = interval(u + 1, table())
    assert found is not None and found[0].same_as(found[1])
    known = table()
    known[u] = None
    assert interval(u + 1, known) is None


@pytest.mark.parametrize(
    ("value", "by", "text"),
    [(I * 8 + 5, 4, "i * 2 + 1"), (I * 8 + N, 4, "i * 2 + n // 4"), (N, 4, "0"), (N + 4, 4, "1"),
     (N + 1, 4, "(n + 1) // 4"), (const(-5), 4, "-2")],
)  # fmt: skip
def test_quotients_that_bounds_decide(value: Expr, by: int, text: str) -> None:
    """`n` is 0 to 3: what it is divided to may be a number."""
    known = table()
    known.bounds = Analyzer()
    known.bounds.bind_bounds({N: (0, 3)})
    kind = IntImm("int32", by)
    found = over(linear(value), kind, known).to_expr(kind.dtype)
    expected = {"i * 2 + n // 4": ("i * 2 + n // 4", "i * 2")}.get(text, (text,))
    assert str(found) in expected
    for i, n in itertools.product(range(-3, 4), range(4)):
        assert evaluate(found, {I: i, N: n}) == evaluate(value // by, {I: i, N: n})


def test_the_union_of_intervals_holds_both() -> None:
    spans = list(itertools.product((-1, 0, 2), (0, 2, 5)))
    for base in (number(0), linear(N * 3 + 1)):
        for (a, b), (c, d) in itertools.product(spans, spans):
            found = union((base.shifted(a), base.shifted(b)), (base.shifted(c), base.shifted(d)))
            assert found is not None
            assert found[0].same_as(base.shifted(min(a, c))) and found[1].same_as(
                base.shifted(max(b, d))
            )
    known, other = number(0), linear(N)
    assert union((known, known), None) is None and union(None, (known, known)) is None
    # Where ends do not compare there is none.
    assert union((known, known), (known, other)) is None
    assert union((known, known), (other, known)) is None


def thread_loop(tag: str, low: int = 0, extent: int = 4) -> For:
    func = from_source(f"""
from tileloom.script import tir as T

@T.prim_func
def main(A: T.Buffer((64,), "float32")):
    for t in T.thread_binding({low}, {low + extent}, "{tag}"):
        A[t] = T.float32(0)
""")
    assert isinstance(func, PrimFunc)
    (loop,) = collect(func.body, For)
    return loop


@pytest.mark.parametrize(
    ("scope", "tag", "own"),
    [
        ("local", "threadIdx.x", True),
        ("local", "threadIdx.y", True),
        ("local", "blockIdx.x", True),
        ("shared", "threadIdx.x", False),  # a block's
        ("shared", "blockIdx.x", True),
        ("warp", "threadIdx.x", False),
        ("warp", "threadIdx.y", True),
        ("global", "threadIdx.x", False),
        ("global", "blockIdx.x", False),
        ("local", "vthread.x", False),  # of one thread
    ],
)
def test_threads_with_copies_of_their_own(scope: str, tag: str, own: bool) -> None:
    buffer = make_buffer((8,), "float32", "B", scope=scope)
    loop = thread_loop(tag)
    number = own_thread(buffer, loop)
    assert (number is not None) == own
    if number is not None:
        assert number is own_thread(buffer, thread_loop(tag)), "whichever loop is bound to it"
        assert number.name == tag and number.dtype is loop.loop_var.dtype
    assert own_thread(buffer, thread_loop(tag, 1)) is None, "the number is not the loop's"
    serial = loop.replace(kind="serial", thread_binding=None)
    assert own_thread(buffer, serial) is None
    assert own_thread(buffer, serial.replace(min=Var("n", "int32"))) is None
    assert own_thread(buffer, loop.replace(min=Var("n", "int32"))) is None
