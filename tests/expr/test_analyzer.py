"""What the analyzer must be able to simplify and prove, and what it must leave alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tileloom.expr import (
    Analyzer,
    Call,
    Cast,
    ConstIntBound,
    Div,
    Expr,
    Let,
    Mod,
    ModularSet,
    Not,
    Range,
    Select,
    SizeVar,
    Var,
    cast,
    const,
    intrin,
    simplify,
)

I, J, K = Var("i"), Var("j"), Var("k")
N, M = SizeVar("n"), SizeVar("m")
P, Q = Var("p", "bool"), Var("q", "bool")
X = Var("x", "float32")
U = Var("u", "uint8")
LONG = Var("long", "int64")


def tiled() -> Analyzer:
    return Analyzer({I: Range(0, 100), J: Range(0, 64), K: Range(0, 8)})


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ((I * 64 + J) // 8 * 8 + (I * 64 + J) % 8, "i * 64 + j"),
        ((I * 64 + J) // 64, "i"),
        ((I * 64 + J) % 64, "j"),
        ((I * 64 + J) // 128, "i // 2"),
        ((I * 64 + J) % 128, "i % 2 * 64 + j"),
        ((I * 64 + J + 64) // 64, "i + 1"),
        ((J * 8 + K) // 16 % 4, "j % 8 // 2"),
        (J // 4 // 4, "j // 16"),
        (J // 4 % 4, "j % 16 // 4"),
        (J % 64, "j"),
        (J // 64, "0"),
        (J - J // 8 * 8, "j % 8"),
        (J - J % 8, "j // 8 * 8"),
        (J + I * 64, "i * 64 + j"),
        (1 - J, "1 - j"),
        ((I + 1) * (J - 1), "i * j + j - i - 1"),
        (I * 2 + I * 3 - I * 5, "0"),
        (Div(I * 8 + K, const(8)), "i"),
        (Mod(I * 8 + K, const(8)), "k"),
        (Div(-I, const(3)), "i // 3 * -1"),
        (intrin.min(I * 8, I * 8 + K), "i * 8"),
        (intrin.max(J, 64), "64"),
        (intrin.min(J * 8 + 8, 24) - J * 8, "T.min(3 - j, 1) * 8"),
        (intrin.min(I, J) + intrin.max(I, J), "i + j"),
        (intrin.min(I + J, I + K), "T.min(j, k) + i"),
        (I >> 7, "0"),
        ((I >> 7) + J, "j"),
        (cast("int8", I) >> 7, "T.int8(0)"),
        (cast("bool", I + 1), "T.bool(True)"),
        (intrin.min(J + 5, K + 5), "T.min(j, k) + 5"),
        (intrin.max(I * 8 + J * 4, I * 8 + K * 4), "i * 8 + T.max(j, k) * 4"),
        (intrin.max(I + J + 5, I + K + 5) - intrin.max(J, K), "i + 5"),
        (I < 100, "T.bool(True)"),
        (I * 64 + J < 6400, "T.bool(True)"),
        (I * 64 + J < 640, "i < 10"),
        (I * 64 + J >= 640, "9 < i"),
        (I // 4 < 3, "i < 12"),
        (I // 4 >= 2, "7 < i"),
        (I * 2 == 7, "T.bool(False)"),
        (I * 4 + J * 2 == 6, "i * 2 + j == 3"),
        (I == I + 1, "T.bool(False)"),
        (I - 5 == 0, "i == 5"),
        (intrin.all(I < 10, I < 20), "i < 10"),
        (intrin.all(I < 20, I < 10), "i < 10"),
        (intrin.any(I < 10, I < 20), "i < 20"),
        (intrin.all(I < 10, I > 20), "T.bool(False)"),
        (intrin.any(I < 10, I >= 10), "T.bool(True)"),
        (Not(intrin.all(I < 10, J < 5)), "9 < i or 4 < j"),
        (intrin.if_then_else(I < 10, I // 10, 0), "0"),
        (Select(I < 10, intrin.min(I, 10), const(3)), "T.Select(i < 10, i, 3)"),
        (intrin.likely(I < 200), "T.bool(True)"),
        (Let(N, J + 0, N * 2), "j * 2"),
        (cast("int32", cast("int64", I) * 2 + 1), "i * 2 + 1"),
    ],
)
def test_simplify_in_ranges(expr: Expr, expected: str) -> None:
    assert str(tiled().simplify(expr)) == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (I * N + J - N * I, "j"),
        ((I * N) // N, "i"),
        ((I * N + N) % N, "0"),
        ((I * N * M + J * M) // M, "i * n + j"),
        (I // N * N + I % N, "i"),
        (cast("int64", I + 1) - cast("int64", I), "T.int64(1)"),
        (N >= 0, "T.bool(True)"),
        (N > -1, "T.bool(True)"),
        (X + X - X, "x + x - x"),
        (X * 0.0, "x * T.float32(0.0)"),
        (X * 1.0, "x"),
        (X - X, "x - x"),
        ((X < 1.0) == (X < 1.0), "T.bool(True)"),
        (Not(X < 1.0), "not (x < T.float32(1.0))"),
        (Not(X == 1.0), "x != T.float32(1.0)"),
        (U + 200 + 100, "u + T.uint8(44)"),
        (U + 1 > U, "u < u + T.uint8(1)"),
        (U >= 0, "T.bool(True)"),
        (Cast("int32", I < J) == 1, "i < j"),
        (Cast("int32", P) * 2 > 1, "p"),
        (Cast("int32", I < J) < 1, "j <= i"),
        (U // 256 if False else U % 1, "T.uint8(0)"),
        (P & P, "p"),
        (P & Not(P), "T.bool(False)"),
        (P | (P & Q), "p"),
        (Select(P, const(1), const(1)), "1"),
    ],
)
def test_simplify_without_ranges(expr: Expr, expected: str) -> None:
    assert str(simplify(expr)) == expected


def test_calls_with_side_effects_are_kept() -> None:
    call = intrin.call_extern("bool", "tick")
    assert simplify(intrin.all(call, I < I)) is not const(False)
    assert simplify(Select(call, I, I)) is not I
    count = intrin.call_extern("int32", "count")
    assert (
        str(simplify(count - count + (I - I))) == 'T.call_extern("count") - T.call_extern("count")'
    )
    assert "count" in str(simplify(count * 0 < count))
    assert Analyzer().const_int_bound(count - count) == (-(1 << 31), (1 << 31) - 1)
    with Analyzer().constraint(call):
        pass
    pure = intrin.call_pure_extern("bool", "same")
    assert simplify(Select(pure, I, I)) is I


def test_symbolic_ranges() -> None:
    analyzer = Analyzer({I: Range(0, N), J: Range(0, M)})
    assert str(analyzer.simplify((I * M + J) // M)) == "i"
    assert str(analyzer.simplify((I * M + J) % M)) == "j"
    for condition in (
        I < N,
        I <= N - 1,
        I + 1 <= N,
        N > 0,
        I * M + J < N * M,
        (N + 63) // 64 * 64 >= N,
        intrin.min(N - I, 8) <= N,
        intrin.min(N - I, 8) > 0,
        I - intrin.max(I, J) <= 0,
        I + J < N + M,
    ):
        assert analyzer.can_prove(condition), str(condition)
    for condition in (I < N - 1, J < N, I * M + J < N * M - 1, I > 0):
        assert not analyzer.can_prove(condition), str(condition)


def test_tail_of_a_split_loop() -> None:
    analyzer = Analyzer({I: Range(0, (N + 63) // 64), J: Range(0, 64)})
    assert analyzer.can_prove(intrin.min(64, N - I * 64) + I * 64 <= N)
    assert not analyzer.can_prove(I * 64 + J < N)
    with analyzer.constraint(intrin.likely(I * 64 + J < N)):
        assert analyzer.can_prove(I * 64 + J < N)
        assert analyzer.can_prove(I * 64 + J <= N + 3)
        assert analyzer.can_prove(I * 64 < N)
        assert not analyzer.can_prove(I * 64 + J < N - 1)
    assert not analyzer.can_prove(I * 64 + J < N)


def test_constraints_nest_and_end() -> None:
    analyzer = Analyzer()
    with analyzer.constraint(I < N):
        with analyzer.constraint(N < M):
            assert analyzer.can_prove_less(I, M)
        assert not analyzer.can_prove_less(I, M)
        with analyzer.constraint(Not(I < 5)):
            assert analyzer.can_prove_greater_equal(N, 6)
    assert not analyzer.can_prove(I < N)
    with analyzer.constraint(I % 8 == 0):
        assert str(analyzer.simplify((I + 3) % 8)) == "3"
        assert analyzer.can_prove_equal(I % 4, 0)
    with analyzer.constraint(P):
        assert str(analyzer.simplify(P & Q)) == "q"
    with pytest.raises(ZeroDivisionError), analyzer.constraint(I < 3):
        raise ZeroDivisionError
    assert not analyzer.can_prove(I < 3)


def test_bind() -> None:
    analyzer = Analyzer()
    analyzer.bind(I, J * 2)
    assert str(analyzer.simplify(I + 1)) == "j * 2 + 1"
    analyzer.bind(J, Range(4, 1))
    assert str(analyzer.simplify(I)) == "8"
    analyzer.bind_modular(K, 8, 4)
    assert str(analyzer.simplify(K % 4)) == "0"
    analyzer.bind(LONG, Range(const(0, "int64"), const(10, "int64")))
    assert analyzer.can_prove(const(10, "int64") > LONG)
    analyzer.bind(U, Range(const(3, "uint8"), const(4, "uint8")))
    assert analyzer.const_int_bound(U + 1) == ConstIntBound(4, 7)


def test_bounds_modular_sets_and_intervals() -> None:
    analyzer = tiled()
    assert analyzer.const_int_bound(I * 64 + J - I * 64) == (0, 63)
    assert analyzer.modular_set(I * 8 + J * 4 + 3) == ModularSet(4, 3)
    found = analyzer.int_set(I * 8 + N, {I: Range(J, 4)})
    assert [str(end) for end in found] == ["j * 8 + n", "j * 8 + n + 24"]
    assert [str(end) for end in analyzer.int_set(J % 8, {J: Range(N * 8, 4)})] == ["0", "3"]
    assert analyzer.int_set(Call("int32", "tir.call_pure_extern", (I,)), {I: Range(0, 3)}) == (
        None,
        None,
    )


def test_equal_maps_become_one_expression() -> None:
    forms = [
        (I * 8 + J) * 4 + K,
        K + I * 32 + J * 4,
        I * 32 + (J * 4 + K),
        ((I * 8 + J) * 4 + K) // 4 * 4 + ((I * 8 + J) * 4 + K) % 4,
    ]
    assert len({simplify(form) for form in forms}) == 1


def test_extremes_of_the_types() -> None:
    top, bottom = intrin.max_value("int32"), intrin.min_value("int32")
    assert str(simplify(top >= I)) == "T.bool(True)"
    assert str(simplify(bottom <= I)) == "T.bool(True)"
    assert str(simplify(Cast("int64", top) + 1)) == "T.int64(2147483648)"
    assert str(simplify(intrin.min(I, top))) == "i"


def test_division_by_zero_is_left_alone() -> None:
    zero = J - J
    for expr in (I // zero, I % zero, Div(I, zero), Mod(I, zero)):
        assert "0" in str(simplify(expr))


@pytest.mark.benchmark
def test_simplification_is_fast() -> None:
    analyzer = tiled()
    exprs = [(I * 64 + J + c * 64) // 8 * 8 + (I * 64 + J + c * 64) % 8 for c in range(500)]
    start = time.perf_counter()
    for expr in exprs:
        analyzer.simplify(expr)
    assert (time.perf_counter() - start) / len(exprs) < 100e-6


@pytest.mark.parametrize(
    ("make", "from_zero", "from_below"),
    [
        (lambda i, n: Mod(i * n, n), "0", "T.truncmod(i * n, n)"),
        (lambda i, n: Div(i * n, n), "i", "T.truncdiv(i * n, n)"),
        (lambda i, n: Div(i * n + n, n), "i + 1", "i + 1"),
        (lambda i, n: Mod(i * n + 3, n), "3 % n", "T.truncmod(i * n + 3, n)"),
        (lambda i, n: Div(i * 8 + 5, const(4)), "i * 2 + 1", "T.truncdiv(i * 8 + 5, 4)"),
        (lambda i, n: Mod(i * 8 + 5, const(4)), "1", "T.truncmod(i * 8 + 5, 4)"),
        (lambda i, n: Div(i * 8, const(-4)), "i * -2", "i * -2"),
        (lambda i, n: Mod(i * 8 + 1, const(-4)), "1", "T.truncmod(i * 8 + 1, 4)"),
        (lambda i, n: Mod(i * 8, const(-4)), "0", "0"),
        (lambda i, n: Div(-i, const(3)), "i // 3 * -1", "T.truncdiv(i * -1, 3)"),
    ],
)
def test_divisions_that_drop_the_sign(
    make: Callable[..., Any], from_zero: str, from_below: str
) -> None:
    i, n = Var("i"), Var("n")
    for least, text in ((0, from_zero), (-1, from_below)):
        known = Analyzer()
        known.bind_bounds({i: (least, 50), n: (1, 8)})
        assert str(known.simplify(make(i, n))) == text
