"""Where arguments have dimensions, and what sizes they take."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.base.dtype import dtype
from tileloom.base.errors import ArgumentError, ShapeError
from tileloom.frontend.jit.dims import LARGEST, Axes, Dim, alike, axes_of, bind
from tileloom.frontend.jit.tree import Leaf, flatten

N, M = Dim("n", 2, 5), Dim("m")
X = 1.5


def leaf(*shape: int) -> Leaf:
    return Leaf(shape, dtype("float32"))


@pytest.mark.parametrize(
    ("low", "high", "good"),
    [(0, 0, True), (-1, 3, False), (3, 3, True), (4, 3, False), (1, LARGEST, True),
     (1, LARGEST + 1, False)],
)  # fmt: skip
def test_bounds(low: int, high: int, good: bool) -> None:
    if good:
        assert repr(Dim("n", low, high)) == f"Dim('n', min={low}, max={high})"
        return
    with pytest.raises(ArgumentError, match="the sizes of 'n' go from"):
        Dim("n", low, high)


@pytest.mark.parametrize("name", ["", "1n", "a b", 3])
def test_names(name: Any) -> None:
    with pytest.raises(ArgumentError, match="needs an identifier"):
        Dim(name)


@pytest.mark.parametrize(
    ("spec", "arguments", "found"),
    [
        ({"a": {0: N}}, {"a": X, "b": X}, [("a", {0: N}), ("b", {})]),
        ([(N, None), None], {"a": X, "b": X}, [("a", {0: N}), ("b", {})]),
        ([{-1: M}], {"a": X, "b": X}, [("a", {-1: M}), ("b", {})]),
        ({"a": [(N,), None]}, {"a": [X, X]}, [("a[0]", {0: N}), ("a[1]", {})]),
        ({"a": {1: (N,)}}, {"a": (X, X)}, [("a[0]", {}), ("a[1]", {0: N})]),
        ({"a": {"k": {1: M}}}, {"a": {"j": X, "k": X}}, [("a['j']", {}), ("a['k']", {1: M})]),
        ({}, {"a": None, "b": X}, [("b", {})]),
    ],
)
def test_axes(spec: Any, arguments: dict[str, Any], found: list[tuple[str, Any]]) -> None:
    _, tree, _ = flatten(arguments)
    assert axes_of(spec, tree, list(arguments)) == [Axes(*each) for each in found]


@pytest.mark.parametrize(
    ("spec", "arguments", "words"),
    [
        ([None, None, None], {"a": X, "b": X}, "3 entries for 2 parameters"),
        ({"c": {0: N}}, {"a": X, "b": X}, "names 'c', which is no parameter"),
        ({"a": {"z": {0: N}}}, {"a": {"k": X}}, "names z in 'a', which is not there"),
        ({"a": [None, None, (N,)]}, {"a": [X, X]}, "names 2 in 'a'"),
        ({"a": {0: N}}, {"a": None}, "for 'a', which is no array"),
        ({"a": {"0": N}}, {"a": X}, "has '0'"),
        ({"a": {0: 5}}, {"a": X}, "has 0: 5 for the array 'a'"),
    ],
)
def test_axes_that_are_not_there(spec: Any, arguments: dict[str, Any], words: str) -> None:
    _, tree, _ = flatten(arguments)
    with pytest.raises(ArgumentError, match=words):
        axes_of(spec, tree, list(arguments))


@pytest.mark.parametrize(
    ("wanted", "shapes", "sizes"),
    [
        ([{0: N}], [(2, 9)], {"n": 2}),
        ([{-2: N}], [(5, 9)], {"n": 5}),
        ([{0: N, 1: M}, {-1: N}], [(3, 7), (1, 3)], {"n": 3, "m": 7}),
    ],
)
def test_sizes(wanted: list[Any], shapes: list[Any], sizes: dict[str, int]) -> None:
    axes = [Axes(f"a{k}", dims) for k, dims in enumerate(wanted)]
    dims, found = bind(axes, [leaf(*shape) for shape in shapes])
    assert found == sizes and dims == {d.name: d for each in wanted for d in each.values()}


@pytest.mark.parametrize(
    ("wanted", "shapes", "error", "words"),
    [
        ([{2: N}], [(3, 3)], ArgumentError, "no axis 2 of 'a0': it has 2 dimensions"),
        ([{-3: N}], [(3, 3)], ArgumentError, "no axis -3 of 'a0'"),
        ([{0: N}], [(1,)], ShapeError, "has size 1, and 'n' goes from 2 to 5"),
        ([{0: N}], [(6,)], ShapeError, "has size 6, and 'n'"),
        ([{0: N}, {1: N}], [(3,), (9, 4)], ShapeError,
         "'n' is 3 by axis 0 of 'a0', and 4 by axis 1 of 'a1'"),
        ([{0: N, 1: Dim("n")}], [(3, 3)], ArgumentError, "two dimensions are called 'n'"),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit(wanted: Any, shapes: Any, error: Any, words: str) -> None:
    axes = [Axes(f"a{k}", dims) for k, dims in enumerate(wanted)]
    with pytest.raises(error, match=words):
        bind(axes, [leaf(*shape) for shape in shapes])


def test_a_dimension_for_each_size() -> None:
    first, second = alike([leaf(0, 1, 2, 3, 2), leaf(3)], ["a[0]", "b"])
    assert list(first.dims) == [2, 3, 4] and first.dims[2] is first.dims[4]
    assert second.dims[0] is first.dims[3] and first.dims[2] is not first.dims[3]
    assert (first.dims[2].name, first.dims[2].min) == ("a_0__2", 2)
    assert (first.argument, second.argument) == ("a[0]", "b")
