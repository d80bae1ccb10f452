"""Iteration maps against enumeration: what is called surjective or bijective must be so."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileloom.expr import (
    EQ,
    Analyzer,
    Expr,
    ExprLike,
    Range,
    SizeVar,
    Var,
    binary,
    cast,
    const,
    detect_iter_map,
    evaluate,
    free_vars,
    intrin,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    subspace_divide,
)

I, J, K, L = VARIABLES = [Var(name) for name in "ijkl"]
N = Var("n")


def domains(*extents: int, start: int = 0) -> dict[Var, Range]:
    return {v: Range(start, e) for v, e in zip(VARIABLES, extents)}


def environments(dom_map: Any, predicate: ExprLike = True) -> Iterator[Any]:
    ranges = [range(int(r.min), int(r.min) + int(r.extent)) for r in (dom_map[v] for v in dom_map)]
    for values in itertools.product(*ranges):
        env = dict(zip(dom_map, values))
        if predicate is True or evaluate(predicate, env):
            yield env


def check(
    result: Any,
    indices: Sequence[Expr],
    dom_map: Mapping[Var, Range],
    predicate: ExprLike = True,
    level: str = "surjective",
) -> None:
    """The sums have the values of the indices, and the image is as claimed."""
    exprs = [normalize_iter_map_to_expr(total) for total in result.indices]
    image = []
    for env in environments(dom_map, predicate):
        values = tuple(evaluate(index, env) for index in indices)
        assert tuple(evaluate(e, env) for e in exprs) == values
        image.append(values)
    size = 1
    for total in result.indices:
        assert len(total.args) <= 1
        size *= int(total.args[0].extent) if total.args else 1
    assert len(set(image)) == size, (indices, len(set(image)), size)
    if level == "bijective":
        assert len(image) == size


ACCEPTED = [
    ([I, J], (8, 4), True, "bijective"),
    ([J, I], (8, 4), True, "bijective"),
    ([I * 4 + J], (8, 4), True, "bijective"),
    ([I + 3], (8,), True, "bijective"),
    ([I // 4, I % 4], (8,), True, "bijective"),
    ([I % 4, I // 4], (8,), True, "bijective"),
    ([I // 4], (10,), True, "surjective"),
    ([I % 4], (10,), True, "surjective"),
    ([I // 2 % 3, J], (12, 5), True, "surjective"),
    ([(I * 4 + J) // 8, (I * 4 + J) % 8], (8, 4), True, "bijective"),
    ([(I * 10 + J) // 4, (I * 10 + J) % 4], (8, 10), True, "bijective"),
    ([I * 12 + J * 4 + K], (2, 3, 4), True, "bijective"),
    ([(I * 12 + J * 4 + K) // 6, (I * 12 + J * 4 + K) % 6], (2, 3, 4), True, "bijective"),
    ([I // 4 * 4 + I % 4], (8,), True, "bijective"),
    ([I * 4 + J], (4, 4), I * 4 + J < 13, "bijective"),
    ([(I * 4 + J) // 13, K], (4, 4, 3), I * 4 + J < 13, "surjective"),
    ([I * 4 + J, K], (4, 4, 2), intrin.likely(I * 4 + J < 13), "bijective"),
    ([I], (10,), I < 7, "bijective"),
    ([I], (10,), intrin.all(I < 7, I >= 2), "bijective"),
    ([I * 4 + J], (4, 4), intrin.all(I * 4 + J < 13, I * 4 + J >= 3), "bijective"),
    ([I * 2 + J], (6, 3), True, "surjective"),
    ([I * 16 + J * 4 + K], (2, 4, 4), I * 16 + J * 4 + K < 30, "bijective"),
    ([I, I * 0 + J], (3, 5), True, "bijective"),
    ([I + J * 0], (1, 1), True, "surjective"),
    ([I * 2], (5,), True, "surjective"),
    ([I * 2 + J - 1], (2, 3), intrin.all(I * 2 + J > 0, I < 1, J < 2), "bijective"),
    ([I * 4 + J, K * 3 + L], (2, 4, 4, 3), intrin.all(K * 3 + L < 10, I * 4 + J < 7), "bijective"),
    # Sums with an offset or a common step in the condition, and conditions that cut twice.
    ([I * 4 + J], (4, 4), I * 4 + J + 2 < 13, "bijective"),
    ([I * 4 + J], (4, 4), I * 4 + J + 2 >= 7, "bijective"),
    ([I * 4 + J], (4, 4), intrin.all(I * 4 + J < 13, I * 4 + J < 9), "bijective"),
    ([I * 4 + J], (4, 4), intrin.all(I * 4 + J < 9, I * 4 + J >= 2, I * 4 + J >= 3), "bijective"),
    ([I * 8 + J * 2], (4, 4), I * 8 + J * 2 < 13, "surjective"),
    ([I * 8 + J * 2], (4, 4), I * 4 + J < 7, "surjective"),
    ([I * 4 + J], (4, 4), I * 8 + J * 2 < 13, "surjective"),
    ([I * 4 + J], (4, 4), I * 8 + J * 2 >= 3, "surjective"),
    ([(I * 4 + J) * 2 + K], (4, 4, 2), I * 4 + J < 13, "bijective"),
    ([I * 8 + J * 2 + K], (4, 4, 2), I * 4 + J >= 3, "bijective"),
    *(([I * 4 + J], (4, 4), end > I * 4 + J, "bijective") for end in (0, 1, 15, 16)),
    *(([I * 4 + J], (4, 4), start <= I * 4 + J, "bijective") for start in (0, 1, 15, 16)),
    ([I], (8,), I * 3 < 10, "bijective"),
    ([I], (8,), I * 3 <= 9, "bijective"),
    ([I], (8,), I * 3 >= 10, "bijective"),
    ([I], (8,), I * 3 > 10, "bijective"),
    ([I], (8,), intrin.all(I < 3, I > 5), "surjective"),
    # Splits of a scaled split with an offset that does not carry.
    ([(I * 2 + 1) // 2], (8,), True, "bijective"),
    ([(I * 2 + 1) % 2], (8,), True, "surjective"),
    ([(I * 4 + 3) // 2], (8,), True, "bijective"),
    ([(I * 4 + 3) % 8], (8,), True, "surjective"),
    ([(I * 4 + 3) // 8], (8,), True, "surjective"),
    ([(I * 2 + 8) // 8], (8,), True, "surjective"),
    ([(I * 2 + 8) % 8], (8,), True, "surjective"),
    *(([I % size], (8,), True, "bijective") for size in (8, 9, 16)),
    ([I % 7], (8,), True, "surjective"),
    ([I // 16], (8,), True, "surjective"),
    ([I // 2 % 3], (8,), True, "surjective"),
    ([I // 2 % 4], (8,), True, "surjective"),
    ([I % 6 // 2], (12,), True, "surjective"),
    ([I % 6 % 3], (12,), True, "surjective"),
    ([I % 6 // 6], (12,), True, "surjective"),
    # Splits that meet exactly, and some that overlap.
    ([I * 2 + J], (4, 2), True, "bijective"),
    ([I * 2 + J * 3 + K], (3, 2, 2), True, "surjective"),
    ([I * 6 + J * 2 + K], (3, 3, 2), True, "bijective"),
    ([I * 6 + J * 2 + K], (3, 4, 2), True, "surjective"),
    ([I * 4 + J - (I * 4)], (4, 4), True, "surjective"),
    ([(I + J * 0 - I + 9) // 4], (8, 3), True, "surjective"),
    ([I // 1], (8,), True, "bijective"),
    ([I % 1], (8,), True, "surjective"),
    ([(I * 4 + J + 3) - J], (4, 4), True, "surjective"),
    ([I % 4 * 4 + J], (8, 4), I % 4 * 4 + J < 13, "surjective"),
]


@pytest.mark.parametrize(("indices", "extents", "predicate", "level"), ACCEPTED)
def test_affine_maps_are_found(
    indices: list[Expr], extents: tuple[int, ...], predicate: ExprLike, level: str
) -> None:
    dom_map = domains(*extents)
    result = detect_iter_map(indices, dom_map, predicate, level)
    assert result, result.errors
    check(result, indices, dom_map, predicate, level)


REFUSED = [
    ([I, I], (8,), True, "surjective", "overlap"),
    ([I + J], (8, 4), True, "bijective", "scale"),
    ([I * 5 + J], (8, 4), True, "surjective", "scale"),
    ([I * J], (8, 4), True, "surjective", "product"),
    ([I // 4, I % 4], (10,), True, "surjective", "beyond"),
    ([I // 4], (8,), True, "bijective", "no index"),
    ([I], (8, 4), True, "bijective", "no index"),
    ([I % 6, I // 4], (24,), True, "surjective", "overlap"),
    ([J - I], (8, 9), True, "surjective", "backwards"),
    ([I // J], (8, 4), True, "surjective", "divides by an iterator"),
    ([intrin.min(I, J)], (8, 4), True, "surjective", "not affine"),
    ([(I + 1) // 4], (8,), True, "surjective", "evenly"),
    ([I % 4 // 3], (8,), True, "surjective", "does not divide"),
    ([I, J], (4, 4), I * 4 + J < 13, "surjective", "predicate"),
    ([I], (8,), I != 3, "surjective", "comparison"),
    ([I], (8,), binary(EQ, I, const(3)), "surjective", "is an equality"),
    ([I], (8,), N < 3, "surjective", "is about no iterator"),
    ([I], (8,), I * N < 9, "surjective", "the scale n in the predicate i * n < 9 may not be"),
    ([I // N], (8,), True, "surjective", "divides by n, which may not be positive"),
    ([I % N], (8,), True, "surjective", "divides by n, which may not be positive"),
    ([cast("int8", I)], (8,), True, "surjective", "may lose splits of i"),
    ([cast("float32", I)], (8,), True, "surjective", "is not affine"),
    ([I, J], (4, 4), I // 2 < 1, "surjective", "is about a split of an iterator"),
    ([I, J], (4, 4), I % 2 < 1, "surjective", "is about a split of an iterator"),
    ([(I * 4 + 4) // 8], (8,), True, "surjective", "8 does not divide i * 4 + 4 evenly"),
    ([I % 6 // 4], (12,), True, "surjective", "4 does not divide the extent 6 of a split"),
    ([I % 6 % 4], (12,), True, "surjective", "4 does not divide the extent 6 of a split"),
    ([I * 2 + J], (4, 3), True, "bijective", "no iterator has the scale 3"),
    ([I * 3 + J], (4, 2), True, "surjective", "no iterator has the scale 2"),
    ([I * 2 + J * 5], (4, 2), True, "surjective", "no iterator has the scale 8"),
    ([I * 6 + J * 3 + K], (3, 2, 2), True, "surjective", "no iterator has the scale 2"),
    ([I * 4 + J, I * 4 + J], (4, 4), I * 4 + J < 13, "surjective", "more than once"),
    ([I * 9 + J * 2 + K], (4, 4, 2), I * 4 + J >= 3, "surjective", "no iterator has the scale 8"),
]


@pytest.mark.parametrize(("indices", "extents", "predicate", "level", "reason"), REFUSED)
def test_other_maps_are_refused_with_a_reason(
    indices: list[Expr], extents: tuple[int, ...], predicate: ExprLike, level: str, reason: str
) -> None:
    result = detect_iter_map(indices, domains(*extents), predicate, level)
    assert not result
    assert result.indices == ()
    assert reason in result.errors[0], result.errors


def test_level_none_gives_the_decomposition_alone() -> None:
    assert detect_iter_map([I, I], domains(8), check_level="none")


def test_ranges_that_do_not_start_at_zero() -> None:
    dom_map = domains(8, 3, start=4)
    for indices in ([I, J], [I // 4, J], [I * 3 + J]):
        result = detect_iter_map(indices, dom_map)
        assert result, result.errors
        check(result, indices, dom_map)


def test_symbolic_extents() -> None:
    n, m = SizeVar("n"), SizeVar("m")
    dom_map = {I: Range(0, n), J: Range(0, m)}
    analyzer = Analyzer()
    analyzer.bind_bound(m, 1, 1 << 20)
    for index in ([I, J], [I * m + J], [I * m + J + 5]):
        result = detect_iter_map(index, dom_map, True, "bijective", analyzer)
        assert result, (index, result.errors)
    assert not detect_iter_map([I * n + J], dom_map, True, "bijective", analyzer)


def test_int64_and_empty_domains() -> None:
    i, j = Var("i", "int64"), Var("j", "int64")
    dom_map = {i: Range(0, const(6, "int64")), j: Range(0, const(7, "int64"))}
    result = detect_iter_map([i * 7 + j], dom_map, True, "bijective")
    assert result, result.errors
    assert detect_iter_map([], {}).indices == ()


def random_chain(pick: random.Random) -> Any:
    """Loops made by random splits and fusions, and the original variables in terms of them."""
    loops: list[tuple[Var, int]] = []
    values, extents = [], []
    for _ in range(pick.randint(1, 3)):
        extent = pick.choice([1, 2, 3, 4, 6, 8, 12])
        var = Var(f"v{len(loops)}")
        loops.append((var, extent))
        values.append(var)
        extents.append(extent)
    for step in range(pick.randint(0, 5)):
        n = pick.randrange(len(loops))
        var, extent = loops[n]
        if pick.random() < 0.5:
            factor = pick.choice([f for f in (1, 2, 3, 4, 6, 8, 12) if extent % f == 0])
            outer, inner = Var(f"o{step}"), Var(f"s{step}")
            loops[n : n + 1] = [(outer, extent // factor), (inner, factor)]
            new = {var: outer * factor + inner}
        elif n + 1 < len(loops):
            (other, count) = loops[n + 1]
            fused = Var(f"f{step}")
            loops[n : n + 2] = [(fused, extent * count)]
            new = {var: fused // count, other: fused % count}
        else:
            continue
        from tileloom.expr import substitute

        values = [substitute(value, new) for value in values]  # type: ignore[misc]
    return {v: Range(0, e) for v, e in loops}, values, extents


@settings(max_examples=100)
@given(st.integers(0, 1 << 40))
def test_random_splits_and_fusions_stay_bijective(seed: int) -> None:
    dom_map, values, extents = random_chain(random.Random(seed))
    result = detect_iter_map(values, dom_map, True, "bijective")
    assert result, (values, dom_map, result.errors)
    check(result, values, dom_map, True, "bijective")
    outputs = [Var(f"out{i}") for i in range(len(values))]
    known = Analyzer({v: Range(0, e) for v, e in zip(outputs, extents)})
    back = inverse_affine_iter_map(result.indices, outputs, known)
    for env in environments(dom_map):
        reached = {out: evaluate(value, env) for out, value in zip(outputs, values)}
        for var, expr in back.items():
            assert evaluate(expr, reached) == env[var]


def random_indices(pick: random.Random) -> list[Expr]:
    indices = []
    for _ in range(pick.randint(1, 2)):
        total = const(0)
        for var in pick.sample([I, J, K], pick.randint(1, 3)):
            term = var
            for _ in range(pick.randint(0, 2)):
                c = pick.randint(1, 6)
                term = pick.choice([term // c, term % c, term * c, term + c])
            total = total + term * pick.randint(1, 6)
        indices.append(
            pick.choice([total, total // pick.randint(1, 6), total % pick.randint(1, 6)])
        )
    return indices


def random_predicate(pick: random.Random, index: Expr) -> ExprLike:
    """Up to three bounds, from below or above, on variables, on sums and on an index."""
    bounded = [I * 4 + J, I * 2 + J, I * 6 + J * 2 + K, I, J, index]
    conditions = []
    for _ in range(pick.choice([0, 0, 1, 2, 3])):
        total, bound = pick.choice(bounded), pick.randint(0, 12)
        conditions.append(pick.choice([total < bound + 1, total >= bound, bound < total]))
    return intrin.all(*conditions) if conditions else True


@settings(max_examples=200)
@given(st.integers(0, 1 << 40))
def test_what_is_accepted_is_true(seed: int) -> None:
    pick = random.Random(seed)
    dom_map = domains(*(pick.choice([1, 2, 3, 4, 5, 6, 8]) for _ in range(3)))
    indices = random_indices(pick)
    predicate = random_predicate(pick, indices[0])
    level = pick.choice(["surjective", "bijective"])
    result = detect_iter_map(indices, dom_map, predicate, level)
    if result and any(True for _ in environments(dom_map, predicate)):
        check(result, indices, dom_map, predicate, level)


@settings(max_examples=80)
@given(st.integers(0, 1 << 40))
def test_iter_map_simplify_keeps_the_values(seed: int) -> None:
    pick = random.Random(seed)
    dom_map = domains(*(pick.choice([1, 2, 3, 4, 5, 6, 8]) for _ in range(3)))
    indices = random_indices(pick)
    simple = iter_map_simplify(indices, dom_map)
    for env in environments(dom_map):
        assert [evaluate(e, env) for e in simple] == [evaluate(e, env) for e in indices]


@pytest.mark.parametrize(
    ("bindings", "extents", "inner", "expected"),
    [
        ([I * 4 + J], (8, 4), [J], [("i", 8, "j", 4)]),
        ([I, J], (8, 4), [J], [("i", 8, "0", 1), ("0", 1, "j", 4)]),
        ([I * 12 + J * 4 + K], (2, 3, 4), [J, K], [("i", 2, "j * 4 + k", 12)]),
        ([I * 12 + J * 4 + K], (2, 3, 4), [K], [("i * 3 + j", 6, "k", 4)]),
        ([I * 4 + J, K], (8, 4, 3), [J, K], [("i", 8, "j", 4), ("0", 1, "k", 3)]),
    ],
)
def test_subspace_divide(
    bindings: list[Expr],
    extents: tuple[int, ...],
    inner: list[Var],
    expected: list[tuple[str, int, str, int]],
) -> None:
    result: Any = subspace_divide(bindings, domains(*extents), inner)
    assert result, result.errors
    got = [
        (str(d.outer), int(d.outer_extent), str(d.inner), int(d.inner_extent))
        for d in result.divisions
    ]
    assert got == expected


def test_subspace_divide_of_predicates() -> None:
    result: Any = subspace_divide([I, J], domains(8, 4), [J], intrin.all(I < 7, J < 3))
    assert str(result.outer_predicate) == "i < 7"
    assert str(result.inner_predicate) == "j < 3"
    assert [int(d.outer_extent) for d in result.divisions] == [7, 1]
    refused = subspace_divide([I * 4 + J], domains(4, 4), [J], I * 4 + J < 13)
    assert not refused
    assert "ties" in refused.errors[0]
    assert not subspace_divide([J * 8 + I], domains(8, 4), [J])


@settings(max_examples=80)
@given(st.integers(0, 1 << 40))
def test_divisions_recompose(seed: int) -> None:
    pick = random.Random(seed)
    dom_map, values, _ = random_chain(pick)
    loops = list(dom_map)
    inner = loops[pick.randint(0, len(loops)) :]
    result: Any = subspace_divide(values, dom_map, inner)
    if not result:
        return
    for env in environments(dom_map):
        for value, part in zip(values, result.divisions):
            outer, low = evaluate(part.outer, env), evaluate(part.inner, env)
            assert outer * int(part.inner_extent) + low == evaluate(value, env)


@pytest.mark.parametrize(
    ("binding", "extents", "inner"),
    [
        (J // 8 + I % 3, (9, 56), [J]),  # both have scale 1
        (I * 2 + J, (4, 3), [J]),
        (I * 5 + J * 4 + K, (3, 2, 4), [K]),  # 5 is no multiple of the row of 4
        (I * 3 + J, (4, 8), [J]),
    ],
)
def test_overlapping_digits_are_not_divided(
    binding: Expr, extents: tuple[int, ...], inner: list[Var]
) -> None:
    found = subspace_divide([binding], domains(*extents), inner)
    assert not found
    assert "overlap" in found.errors[0]


@pytest.mark.parametrize(
    ("binding", "start", "outer", "inner"),
    [
        (I * 6 + J, I * 6 + J >= 6, "i", "j"),
        (I * 6 + J + 12, I * 6 + J >= 6, "i + 2", "j"),
        ((I * 6 + J) * 2 + K, I * 6 + J >= 12, "i", "j * 2 + k"),
        ((I * 6 + J) * 2 + K, intrin.all(I * 6 + J >= 6, I * 6 + J < 18), "i", "j * 2 + k"),
    ],
)
def test_rows_that_start_later(binding: Expr, start: Expr, outer: str, inner: str) -> None:
    (part,) = subspace_divide([binding], domains(4, 6, 2), [J, K], start).divisions
    assert (str(part.outer), str(part.inner)) == (outer, inner)


@settings(max_examples=160)
@given(st.integers(0, 1 << 40))
def test_divisions_are_rows(seed: int) -> None:
    """Outer parts use no inner variable and the reverse; the inner parts stay within a row."""
    pick = random.Random(seed)
    dom_map = domains(*(pick.choice([1, 2, 3, 4, 5, 6, 8]) for _ in range(3)))
    values: Any = random_indices(pick)
    loops = list(dom_map)
    inner = loops[pick.randint(0, 3) :]
    bound, row = pick.randint(0, 9), pick.choice([1, 4])
    predicate = pick.choice([const(True), I * row + J >= bound * row, bound <= J, bound > K])
    result: Any = subspace_divide(values, dom_map, inner, predicate)
    if not result:
        return
    for value, part in zip(values, result.divisions):
        assert free_vars(part.outer).isdisjoint(inner)
        assert free_vars(part.inner) <= set(inner)
        size, count = int(part.inner_extent), int(part.outer_extent)
        found = list(environments(dom_map, predicate))
        first = min((evaluate(part.outer, env) for env in found), default=0)
        start = min((evaluate(part.inner, env) for env in found), default=0)
        for env in found:
            outer, low = evaluate(part.outer, env), evaluate(part.inner, env)
            assert outer * size + low == evaluate(value, env)
            assert first <= outer < first + count and start <= low < start + size


def test_variables_in_a_wider_type() -> None:
    i, j = Var("i", "int64"), Var("j")
    wide = cast("int64", j)
    domains = {i: Range(const(0, "int64"), const(4, "int64")), j: Range(2, 8)}
    found = detect_iter_map([i * 8 + wide], domains, check_level="bijective")
    output = Var("o", "int64")
    back = inverse_affine_iter_map(found.indices, [output])
    for value in range(2, 34):
        values = {v: evaluate(e, {output: value}) for v, e in back.items()}
        assert values[i] * 8 + values[j] == value
    # One loop is no two, whatever types it is used in.
    assert not detect_iter_map([i * 8 + wide, j], domains)
    assert not detect_iter_map([cast("int8", j)], domains)
    divided = subspace_divide([i * 8 + wide - 2], domains, [j])
    assert [str(p.inner) for p in divided.divisions] == ['T.Cast("int64", j) - T.int64(2)']


@pytest.mark.parametrize(
    ("start", "inner"),
    [(0, 'T.Cast("int64", j)'), (1, 'T.Cast("int64", j) - T.int64(1)')],
)
def test_a_wider_variable_from_its_start_on(start: int, inner: str) -> None:
    j = Var("j")
    wide = cast("int64", j)
    found = detect_iter_map([wide // 4, wide % 4], {j: Range(start, start + 8)})
    assert bool(found.indices) is (start == 0)
    divided = subspace_divide([wide - start], {j: Range(start, start + 8)}, [j])
    assert [str(p.inner) for p in divided.divisions] == [inner]


def test_conditions_that_leave_nothing() -> None:
    """What never runs is any map."""
    domains = {I: Range(3, 2), J: Range(0, 2)}
    flat = I * 2 + J
    for condition in (flat < 6, flat < 2):
        assert detect_iter_map([flat // 3, flat % 3], domains, condition)
    empty = {I: Range(0, 0), J: Range(0, 2)}
    assert detect_iter_map([I // 2, I % 2, J], empty)


def test_a_condition_on_what_stands_outside_is_one_bound_of_two() -> None:
    """`i` is fixed: what is left of `j` ends at its own end or at the condition's."""
    found = detect_iter_map([I * 4 + J], {J: Range(2, 2)}, I * 4 + J < 6)
    assert found
    (total,) = found.indices
    for i in range(2):
        count = len([j for j in range(2, 4) if i * 4 + j < 6])
        extent = evaluate(total.args[0].extent, {I: i}) if total.args else 1
        assert max(extent, 0) == count


@pytest.mark.parametrize("level", ["bijective", "surjective"])
def test_a_condition_that_leaves_one_digit_of_a_sum_cuts_no_iterator(level: str) -> None:
    """`j < 1` makes `j * 5 + i % 5` a split of `i`, which has other splits, too."""
    dom_map = domains(10, 4)
    predicate = intrin.all(J * 5 + I % 5 < 3, J < 1)
    found = detect_iter_map([J * 5 + I % 5, I // 5], dom_map, predicate, level)
    assert not found and "split of an iterator" in found.errors[0]
