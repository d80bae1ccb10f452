"""Index maps and their inverses, by enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tileloom.base.errors import UserError
from tileloom.expr import Analyzer, IndexMap, Range, Var, const, evaluate, intrin

BIJECTIVE = [
    (lambda i, j: [j, i], (4, 6)),
    (lambda i, j: [i // 4, j // 2, i % 4, j % 2], (8, 6)),
    (lambda i, j: [i * 6 + j], (4, 6)),
    (lambda i, j: [(i * 6 + j) // 8, (i * 6 + j) % 8], (4, 6)),
    (lambda i: [i // 12, i // 4 % 3, i % 4], (24,)),
    (lambda i, j: [i, j], (1, 5)),
    (lambda i, j: i * 5 + j, (3, 5)),
    (lambda i: [i + 2], (7,)),
    (lambda i: [i // 16, i % 16], (5,)),
]


def points(shape: Sequence[int]) -> itertools.product[tuple[int, ...]]:
    return itertools.product(*map(range, shape))


def values(index_map: IndexMap, point: tuple[int, ...]) -> tuple[int, ...]:
    env = dict(zip(index_map.initial_indices, point))
    return tuple(evaluate(final, env) for final in index_map.final_indices)


@pytest.mark.parametrize(("function", "shape"), BIJECTIVE)
def test_inverse_undoes_the_map(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    index_map: Any = IndexMap.from_func(function)
    back = index_map.inverse(shape)
    new_shape = [int(extent) for extent in index_map.map_shape(shape)]
    for point in points(shape):
        there = values(index_map, point)
        assert all(0 <= a < b for a, b in zip(there, new_shape))
        assert values(back, there) == point
    exact, padding = index_map.non_surjective_inverse(shape)
    assert exact.is_equivalent(back)
    assert padding is const(False)


PADDED = [
    (lambda i: [i // 4, i % 4], (14,)),
    (lambda i, j: [i // 4, j // 3, i % 4, j % 3], (10, 7)),
    (lambda i, j: [i, j // 8, j % 8], (3, 20)),
]


@pytest.mark.parametrize(("function", "shape"), PADDED)
def test_padding_is_where_nothing_is_mapped(
    function: Callable[..., Any], shape: tuple[int, ...]
) -> None:
    index_map: Any = IndexMap.from_func(function)
    with pytest.raises(UserError, match="not bijective"):
        index_map.inverse(shape)
    back, padding = index_map.non_surjective_inverse(shape)
    image = {values(index_map, point): point for point in points(shape)}
    new_shape = [int(extent) for extent in index_map.map_shape(shape)]
    for point in points(new_shape):
        env = dict(zip(back.initial_indices, point))
        assert bool(evaluate(padding, env)) == (point not in image)
        if point in image:
            assert values(back, point) == image[point]


GAPS = [
    (lambda i: [i * 3], (5,)),
    (lambda i: [i * 3 + 4], (5,)),
    (lambda i, j: [j, i * 12 + j * 0], (3, 4)),
    (lambda i, j: [i * 8 + j * 2], (3, 4)),
]


@pytest.mark.parametrize(("function", "shape"), GAPS)
def test_gaps_are_padding(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    index_map: Any = IndexMap.from_func(function)
    back, padding = index_map.non_surjective_inverse(shape)
    image = {values(index_map, point): point for point in points(shape)}
    for point in points([int(extent) for extent in index_map.map_shape(shape)]):
        env = dict(zip(back.initial_indices, point))
        assert bool(evaluate(padding, env)) == (point not in image)
        if point in image:
            assert values(back, point) == image[point]


def test_non_injective_maps_have_no_inverse() -> None:
    for function in (lambda i: [i // 2], lambda i: [i % 3], lambda i: [i * 0]):
        with pytest.raises(UserError):
            IndexMap.from_func(function).non_surjective_inverse([6])


def test_ranges_and_indices() -> None:
    index_map = IndexMap.from_func(lambda i, j: [i // 4, intrin.min(j, 3)])
    ranges: Any = index_map.map_ranges([Range(8, 8), Range(0, 10)])
    assert [(int(r.min), int(r.extent)) for r in ranges] == [(2, 2), (0, 4)]
    assert [str(e) for e in index_map.map_indices([9, Var("k")])] == ["2", "T.min(k, 3)"]
    analyzer = Analyzer()
    k = Var("k")
    analyzer.bind(k, Range(0, 4))
    assert [str(e) for e in index_map.map_indices([k, k + 3], analyzer)] == ["0", "3"]
    with pytest.raises(UserError, match="takes 2 indices, got 1"):
        index_map.map_indices([1])


def test_variadic_functions_and_given_inverses() -> None:
    rotate = IndexMap.from_func(lambda first, *rest: [*rest, first], ndim=3)
    assert str(rotate) == "IndexMap((first, rest_0, rest_1) -> (rest_0, rest_1, first))"
    with pytest.raises(UserError, match="ndim"):
        IndexMap.from_func(lambda *indices: list(indices))
    swizzle = IndexMap.from_func(
        lambda i, j: [i, intrin.bitwise_xor(i, j)],
        inverse=lambda i, j: [i, intrin.bitwise_xor(i, j)],
    )
    assert values(swizzle.inverse([8, 8]), (5, 3)) == (5, 6)


def test_equivalence() -> None:
    a = IndexMap.from_func(lambda i, j: [i * 4 + j])
    b = IndexMap.from_func(lambda p, q: [q + p * 4])
    assert a.is_equivalent(b)
    assert not a.is_equivalent(IndexMap.from_func(lambda i, j: [i * 5 + j]))
    assert not a.is_equivalent(IndexMap.from_func(lambda i, j: [i, j]))
    assert not a.is_equivalent(IndexMap.from_func(lambda i: [i]))


def test_symbolic_shapes() -> None:
    n = Var("n")
    analyzer = Analyzer()
    analyzer.bind_bound(n, 1, 1000)
    index_map = IndexMap.from_func(lambda i, j: [j, i])
    assert [str(e) for e in index_map.map_shape([n, 4], analyzer)] == ["4", "n"]
    tiles = IndexMap.from_func(lambda i: [i // 4, i % 4])
    assert [str(e) for e in tiles.map_shape([n * 4], analyzer)] == ["n", "4"]
    assert str(tiles.inverse([n * 4], analyzer).final_indices[0]) == "axis0 * 4 + axis1"
