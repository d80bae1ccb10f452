"""Inverses of maps into larger shapes, by enumeration: where padding is, what lies elsewhere."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from tileloom.base.errors import UserError
from tileloom.expr import Analyzer, IndexMap, Range, SizeVar, Var, evaluate


def check(index_map: IndexMap, shape: tuple[int, ...]) -> None:
    """The inverse says of every place of the new shape what lies there, or that nothing does.

    That nothing lies before the start of an index without gaps is understood.
    """
    back, padding = index_map.non_surjective_inverse(shape)
    image: dict[tuple[int, ...], tuple[int, ...]] = {}
    for point in itertools.product(*map(range, shape)):
        env: Any = dict(zip(index_map.initial_indices, point))
        image[tuple(evaluate(final, env) for final in index_map.final_indices)] = point
    new: list[int] = [int(extent) for extent in index_map.map_shape(shape)]  # type: ignore[call-overload]
    assert new == [max(place[axis] for place in image) + 1 for axis in range(len(new))]
    padded = index_map.padded_inverse(shape)
    if padded is not None:
        assert all(int(extent) >= n for extent, n in zip(padded.shape, new))  # type: ignore[call-overload]
        new = [int(extent) for extent in padded.shape]  # type: ignore[call-overload]
        assert str(padded.outside) == str(padding).replace("T.bool(False)", "0")
    starts = [min(place[axis] for place in image) for axis in range(len(new))]
    for axis, start in enumerate(starts):
        along = sorted({place[axis] for place in image})
        if along != list(range(start, start + len(along))):
            starts[axis] = 0
    for place in itertools.product(*map(range, starts, new)):
        env = dict(zip(back.initial_indices, place))
        assert bool(evaluate(padding, env)) == (place not in image), (index_map, shape, place)
        if place in image:
            assert tuple(evaluate(e, env) for e in back.final_indices) == image[place]


def random_map(pick: random.Random) -> tuple[IndexMap, tuple[int, ...]]:
    """Tiles of some axes, shifted or not, others with gaps between their elements."""
    shape = tuple(pick.randint(1, 9) for _ in range(pick.randint(1, 2)))
    indices = [Var(f"i{axis}") for axis in range(len(shape))]
    finals: list[Any] = []
    for index in indices:
        tile, shift = pick.randint(2, 5), pick.choice([0, 0, 1, 2, 7])
        finals += pick.choice(
            [
                [index],
                [(index + shift) // tile, (index + shift) % tile],
                [(index + shift) % tile, (index + shift) // tile],
                [index // (2 * tile), index // tile % 2, index % tile],
                [index * tile],
                [index * tile + shift],
            ]
        )
    pick.shuffle(finals)
    return IndexMap(tuple(indices), tuple(finals)), shape


def test_random_maps() -> None:
    for seed in range(50):
        index_map, shape = random_map(random.Random(seed))
        check(index_map, shape)


@pytest.mark.parametrize("size", [*range(1, 13), 16, 17])
@pytest.mark.parametrize(
    "function",
    [
        lambda i: [i // 4, i % 4],
        lambda i: [(i + 1) // 4, (i + 1) % 4],
        lambda i: [(i + 4) // 4, (i + 4) % 4],
        lambda i: [(i + 6) // 4, (i + 6) % 4],
        lambda i: [(i - 1) // 4 + 1, (i - 1) % 4],
        lambda i: [i // 8, i // 4 % 2, i % 4],
        lambda i: [i // 12, i // 4 % 3, i % 4],
        lambda i: [i * 2],
        lambda i: [i * 3 + 2],
        lambda i: [i + 3],
    ],
    ids=[
        "tiles",
        "shifted",
        "by a tile",
        "beyond a tile",
        "back",
        "twice",
        "of three",
        "even",
        "third",
        "later",
    ],
)
def test_one_axis(function: Callable[..., Any], size: int) -> None:
    check(IndexMap.from_func(function), (size,))


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda i: [i // 2], (6,)),
        (lambda i: [i % 3], (6,)),
        (lambda i: [i * 0], (6,)),
        (lambda i, j: [i + j], (3, 4)),
        (lambda i, j: [i * j], (3, 4)),
        (lambda i, j: [i * 4 + j * 2], (3, 4)),
        (lambda i, j: [i // 4, i % 4], (3, 4)),
    ],
)
def test_maps_without_inverse(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError):
        IndexMap.from_func(function).non_surjective_inverse(shape)


@pytest.mark.parametrize("swapped", [False, True])
def test_tiles_of_an_open_size(swapped: bool) -> None:
    """`i // n` and `i % n` over m elements, for every n and m."""
    n, m, i = SizeVar("n"), SizeVar("m"), Var("i")
    known = Analyzer()
    known.bind_bound(n, 1, 100)
    known.bind_bound(m, 1, 100)
    finals = [i // n, i % n]
    index_map = IndexMap((i,), tuple(finals[::-1] if swapped else finals))
    back, padding = index_map.non_surjective_inverse([m], known)
    for tile, size in itertools.product(range(1, 6), range(1, 12)):
        env: dict[Any, Any] = {n: tile, m: size}
        for place in itertools.product(range(-(-size // tile)), range(tile)):
            order = place[::-1] if swapped else place
            at = env | dict(zip(back.initial_indices, order))
            flat = place[0] * tile + place[1]
            assert bool(evaluate(padding, at)) == (flat >= size)
            if flat < size:
                assert [evaluate(e, at) for e in back.final_indices] == [flat]


def test_gaps_of_an_open_size() -> None:
    """What lies between steps that are known to go up is padding."""
    n, i = SizeVar("n"), Var("i")
    index_map = IndexMap((i,), (i * n + 2,))
    known = Analyzer({n: Range(1, 9)})
    back, padding = index_map.non_surjective_inverse([5], known)
    padded = index_map.padded_inverse([5], known)
    assert padded is not None
    for step in range(1, 10):
        env: dict[Any, Any] = {n: step}
        assert evaluate(padded.shape[0], env) == 4 * step + 3
        for place in range(4 * step + 3):
            at = env | {back.initial_indices[0]: place}
            number, between = divmod(place - 2, step)
            assert bool(evaluate(padding, at)) == (place < 2 or between != 0)
            if not between and place >= 2:
                assert evaluate(back.final_indices[0], at) == number


def test_what_lies_before_a_start_is_not_said() -> None:
    i, j = Var("i"), Var("j")
    back, padding = IndexMap((i,), (i + 3,)).non_surjective_inverse([5])
    assert (str(back.final_indices[0]), str(padding)) == ("axis0 - 3", "T.bool(False)")
    back, padding = IndexMap((i, j), (j + 1, i * 2)).non_surjective_inverse([3, 4])
    assert (str(back), str(padding)) == (
        "IndexMap((axis0, axis1) -> (axis1 // 2, axis0 - 1))", "axis1 % 2 != 0",
    )  # fmt: skip


def test_ranges_of_variables_stay_as_they_are() -> None:
    """What is found for one map leaves nothing behind in the analyzer that it was given."""
    known, i = Analyzer(), Var("i")
    IndexMap((i,), (i // 4, i % 4)).non_surjective_inverse([14], known)
    assert not known.can_prove(i < 16)
    known.bind(i, Range(0, 3))
    assert known.can_prove(i < 16)
