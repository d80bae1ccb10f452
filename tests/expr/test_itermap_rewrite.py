"""Iterators cut by predicates: what is left is what the predicate lets through."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from tileloom.expr import (
    Analyzer,
    Expr,
    IntImm,
    Range,
    SizeVar,
    Var,
    detect_iter_map,
    evaluate,
    intrin,
    iter_map_simplify,
    normalize_iter_map_to_expr,
)

I, J, K = Var("i"), Var("j"), Var("k")
N, M = SizeVar("n"), SizeVar("m")


@pytest.mark.parametrize(
    ("index", "predicate"),
    [
        (I, I >= 2), (I, I < 7), (I * 3 + 1, I >= 2), (I + 5, (I + 5) < 9),
        (I * 4 + J, I * 4 + J >= 5), (I * 4 + J, I * 4 + J < 41), (I * 4 + J + 3, I * 4 + J > 10),
        ((I * 4 + J) * 2, I * 4 + J <= 13),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_predicate_leaves(index: Any, predicate: Expr) -> None:
    domains = {I: Range(0, 12), J: Range(0, 4)}
    found = detect_iter_map([index], domains, predicate, check_level="surjective")
    (total,) = found.indices
    (split,) = total.args
    ends = split.extent, split.scale, total.base
    assert all(isinstance(end, IntImm) for end in ends)
    extent, scale, base = (int(end) for end in ends)  # type: ignore[call-overload]
    points = [{I: i, J: j} for i in range(12) for j in range(4)]
    wanted = {evaluate(index, p) for p in points if evaluate(predicate, p)}
    assert {base + scale * k for k in range(extent)} == wanted


def known_sizes() -> Analyzer:
    analyzer = Analyzer()
    analyzer.bind_bound(N, 1, 100)
    analyzer.bind_bound(M, 1, 100)
    return analyzer


#: Indices, the extents of their variables, a predicate, the strongest level, and their splits.
OPEN_SIZES: list[tuple[list[Any], tuple[Any, ...], Any, str, str]] = [
    ([I * M + J], (N, M), True, "bijective", "(i * m + j)"),
    ([J * N + I], (N, M), True, "bijective", "(j * n + i)"),
    ([I * M + J], (3, M), True, "bijective", "(i * m + j)"),
    ([I * M + J + N], (N, M), True, "bijective", "(i * m + j) + n"),
    ([I * M * 2 + J * 2], (N, M), True, "bijective", "(i * m + j) * 2"),
    ([(I * M + J) * 4 + K], (N, M, 4), True, "bijective", "(i * m * 4 + j * 4 + k)"),
    ([I * (M * 4) + J * 4 + K], (N, M, 4), True, "bijective", "(i * m * 4 + j * 4 + k)"),
    ([I // M, I % M], (N * M,), True, "bijective", "i // m % n, i % m"),
    ([I // M], (N * M,), True, "surjective", "i // m % n"),
    ([I % M], (N * M,), True, "surjective", "i % m"),
    ([I // 4, I % 4], (N * 4,), True, "bijective", "i // 4 % n, i % 4"),
    ([I // 4], (N,), True, "surjective", "i // 4 % (n + 3) // 4"),
    ([I // 4, I % 4], (N,), True, "none", "i // 4 % (n + 3) // 4, i % 4"),
    ([I % 4], (N,), True, "none", "i % 4"),
    ([(I * M + J) // M, (I * M + J) % M], (N, M), True, "bijective",
     "(i * m + j) // m % n, (i * m + j) % m"),
    ([(I * M + J) // (M * 2), (I * M + J) % (M * 2)], (N * 2, M), True, "bijective",
     "(i * m + j) // m * 2 % n, (i * m + j) % m * 2"),
    ([(I * 4 + J) // 8, (I * 4 + J) % 8], (N * 2, 4), True, "bijective",
     "(i * 4 + j) // 8 % n, (i * 4 + j) % 8"),
    ([(I * 4 + J) // 2], (N, 4), True, "surjective", "(i * 4 + j) // 2 % n * 2"),
    ([(I * 4 + J) % 2], (N, 4), True, "surjective", "(i * 4 + j) % 2"),
    ([(I + M) // M], (M * 3,), True, "surjective", "i // m % 3 + 1"),
    ([(I + M) % M], (M * 3,), True, "surjective", "i % m"),
    ([I // M // 2, I // M % 2, I % M], (M * 6,), True, "bijective",
     "i // m * 2 % 3, i // m % 2, i % m"),
    ([I % (M * 2) // M], (M * 6,), True, "surjective", "i // m % 2"),
    ([(I * 2 + 1) // 2 * M + J], (N, M), True, "bijective", "(i * m + j)"),
    ([M * (I * 2) // M], (N,), True, "bijective", "i * 2"),
    ([M * I % M + J], (N, M), True, "surjective", "j"),
    ([I * M - I * M + J], (3, M), True, "surjective", "j"),
    ([N - 1 - I], (N,), True, "bijective", "i * -1 + n - 1"),
    ([I + 5], (N,), I < N - 1, "bijective", "i + 5"),
    ([I], (N,), I >= M, "bijective", "i - m + m"),
    ([I], (N,), intrin.all(I >= M, I < M + 3), "bijective", "i - m + m"),
    ([I * M + J], (N, M), I < 3, "bijective", "(i * m + j)"),
    ([I * M + J], (N, M), I * M + J < 7, "bijective", "(i * m + j)"),
    ([I * 4 + J], (N, 4), I * 4 + J < N * 4 - 3, "bijective", "(i * 4 + j)"),
    ([I * 4 + J], (N, 4), I * 4 + J >= 3, "bijective", "(i * 4 + j + -3) + 3"),
]  # fmt: skip


@pytest.mark.parametrize(("indices", "extents", "predicate", "level", "splits"), OPEN_SIZES)
def test_open_sizes(
    indices: list[Any], extents: tuple[Any, ...], predicate: Any, level: str, splits: str
) -> None:
    """Splits whose sizes are variables are what they stand for, whatever the variables are."""
    domains = dict(zip((I, J, K), (Range(0, extent) for extent in extents)))
    levels = ["bijective", "surjective", "none"]
    for stronger in levels[: levels.index(level)]:
        assert not detect_iter_map(indices, domains, predicate, stronger, known_sizes())
    found = detect_iter_map(indices, domains, predicate, level, known_sizes())
    assert ", ".join(map(str, found.indices)) == splits
    exprs = [normalize_iter_map_to_expr(total) for total in found.indices]
    for n, m in ((1, 1), (2, 3), (5, 2), (4, 4), (8, 1)):
        sizes: dict[Var, Any] = {N: n, M: m}
        ranges = [range(evaluate(domains[v].extent, sizes)) for v in domains]
        image = []
        for point in itertools.product(*ranges):
            env: dict[Any, Any] = {**sizes, **dict(zip(domains, point))}
            if predicate is True or evaluate(predicate, env):
                image.append(tuple(evaluate(index, env) for index in indices))
                assert tuple(evaluate(e, env) for e in exprs) == image[-1]
        counts = [evaluate(s.extent, sizes) for total in found.indices for s in total.args]
        if image and level != "none":
            assert math.prod(counts) == len(set(image))
            assert level != "bijective" or len(image) == len(set(image))


@pytest.mark.parametrize(
    ("indices", "extents", "predicate", "level", "reason"),
    [
        ([I * M + J], (N, N), True, "surjective", "no iterator has the scale n"),
        ([I // M, I % M], (N,), True, "surjective", "m and the extent n are not ordered"),
        ([I % M], (N,), True, "surjective", "m and the extent n are not ordered"),
        ([I * N + J * M], (4, 4), True, "surjective", "have no common step"),
        ([I // (M - 1)], (N,), True, "surjective", "which may not be positive"),
        ([(I * M + J + 1) // 4], (N, M), True, "surjective", "evenly"),
        ([I % (M * 2) // 3], (M * 6,), True, "surjective", "3 does not divide the extent m * 2"),
        ([I, J], (N, M), I * M + J < 7, "surjective", "the predicate bounds i * m + j"),
        ([I * M], (N,), I * (M - 1) < 7, "surjective", "in the predicate i * (m - 1) < 7 may not"),
    ],
)
def test_open_sizes_without_splits(
    indices: list[Any], extents: tuple[Any, ...], predicate: Any, level: str, reason: str
) -> None:
    domains = dict(zip((I, J, K), (Range(0, extent) for extent in extents)))
    found = detect_iter_map(indices, domains, predicate, level, known_sizes())
    assert not found and reason in found.errors[0], found.errors


def test_variables_of_one_value_stay_where_they_are_asked_to() -> None:
    domains = {I: Range(0, 1), J: Range(0, 4)}
    assert list(map(str, iter_map_simplify([I * 4 + J, I], domains))) == ["j", "0"]
    kept = iter_map_simplify([I * 4 + J, I], domains, simplify_trivial_iterators=False)
    assert list(map(str, kept)) == ["i * 4 + j", "i"]
