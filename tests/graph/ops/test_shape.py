"""Rearrangements against NumPy, on odd, unit and zero extents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.ops.checks import check, graph_of, values
from tileloom.base.errors import DTypeError, ShapeError
from tileloom.graph import ops
from tileloom.graph.nodes import Tensor, tensor_type
from tileloom.graph.op import apply1


def count(*shape: int) -> Any:
    return np.arange(int(np.prod(shape)), dtype="int32").reshape(shape)


def same(build: Any, expected: Any, *arrays: Any) -> None:
    np.testing.assert_array_equal(check(build, *arrays), expected)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((2, 3, 4), (6, 4)), ((2, 3, 4), (2, 12)), ((2, 3, 4), (24,)), ((24,), (4, 3, 2)),
        ((2, 6), (4, 3)), ((1, 6, 1), (6,)), ((6,), (1, 2, 1, 3, 1)), ((), (1, 1)), ((1,), ()),
        ((0, 3), (3, 0, 2)), ((2, 6, 5), (3, 4, 5)), ((7, 2, 3), (7, 6, 1)),
    ],
)  # fmt: skip
def test_reshape(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    same(lambda x: ops.reshape(x, new), count(*old).reshape(new), count(*old))


@given(st.permutations([2, 3, 2, 1, 5]), st.integers(1, 4), st.integers(1, 4))
def test_reshape_of_any_grouping(extents: Any, i: int, j: int) -> None:
    a = (int(np.prod(extents[:i])), *extents[i:])
    b = (*extents[:j], int(np.prod(extents[j:])))
    same(lambda x: ops.reshape(x, b), count(*a).reshape(b), count(*a))


def test_reshape_with_an_unknown_extent() -> None:
    same(lambda x: ops.reshape(x, (-1, 4)), count(3, 4), count(12))
    for shape in [(-1, 5), (-1, 0), (3, 5)]:
        with pytest.raises(ShapeError, match="reshape"):
            values(lambda x, s=shape: ops.reshape(x, s), count(12))


def test_what_changes_nothing_makes_no_node() -> None:
    for build in (
        lambda x: ops.reshape(x, (2, 3)),
        lambda x: ops.transpose(x, (0, 1)),
        lambda x: ops.broadcast_to(x, (2, 3)),
        lambda x: ops.strided_slice(x, [0], [9]),
        lambda x: ops.concat([x]),
        lambda x: ops.pad(x, [(0, 0), (0, 0)]),
    ):
        assert graph_of(build, count(2, 3)).nodes == []


@pytest.mark.parametrize("perm", [None, (0, 2, 1), (2, 0, 1), (-1, 0, 1)])
def test_transpose(perm: tuple[int, ...] | None) -> None:
    x = count(2, 3, 4)
    same(lambda t: ops.transpose(t, perm), x.transpose(perm), x)


def test_transpose_refuses_what_is_no_permutation() -> None:
    with pytest.raises(ShapeError, match="is no permutation"):
        values(lambda t: ops.transpose(t, (0, 0)), count(2, 3))
    with pytest.raises(ShapeError, match="axis 5 is out of range"):
        values(lambda t: ops.transpose(t, (0, 5)), count(2, 3))


@pytest.mark.parametrize(
    ("old", "new"), [((), (2, 3)), ((3,), (2, 3)), ((2, 1), (2, 3)), ((1,), (0,)), ((1, 1), (5, 1))]
)
def test_broadcast_to(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    same(lambda x: ops.broadcast_to(x, new), np.broadcast_to(count(*old), new), count(*old))


def test_broadcast_to_refuses_to_shrink() -> None:
    with pytest.raises(ShapeError, match="does not broadcast"):
        values(lambda x: ops.broadcast_to(x, (3, 1)), count(3, 2))


@pytest.mark.parametrize(
    "index",
    [
        slice(1, 4), slice(None, None, 2), slice(None, None, -1), slice(5, 1, -2), slice(-3, None),
        slice(4, 2), slice(10, 20), slice(-100, 100, 3),
    ],
)  # fmt: skip
def test_slice_with_the_rules_of_python(index: Any) -> None:
    x = count(2, 7)
    start = index.start if index.start is not None else (0 if (index.step or 1) > 0 else 100)
    end = index.stop if index.stop is not None else (100 if (index.step or 1) > 0 else -100)
    step = [index.step or 1]
    same(lambda t: ops.strided_slice(t, [start], [end], [1], step), x[:, index], x)


@pytest.mark.parametrize(
    ("starts", "sizes", "steps", "message"),
    [
        ((-1,), (2,), (1,), "leaves axis 0 of .* from -1 to 0"),
        ((2,), (2,), (1,), "from 2 to 3"),
        ((1,), (3,), (-1,), "from 1 to -1"),
        ((3,), (1,), (-1,), "from 3 to 3"),
        ((0, 0), (1, 1), (1, 1), "a start, size and step for each dimension"),
    ],
)
def test_slices_stay_within(
    starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...], message: str
) -> None:
    x = Tensor(tensor_type((3,), "float32"), "x")
    apply1("slice", (x,), starts=(7,), sizes=(0,), steps=(1,))
    apply1("slice", (x,), starts=(2,), sizes=(2,), steps=(-2,))
    with pytest.raises(ShapeError, match=message):
        apply1("slice", (x,), starts=starts, sizes=sizes, steps=steps)


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps", "message"),
    [
        ([0], [1], [0], [0], "the step along axis 0 is 0"),
        ([0, 0], [1], None, None, "2 starts but 1 ends"),
        ([0], [1], [0, 1], None, "1 starts but 2 axes"),
        ([0], [1], [0], [1, 1], "1 starts but 2 steps"),
        ([0], [1], [0], [], "1 starts but 0 steps"),
        ([0, 1], [2, 3], [1, -1], None, r"repeated axis in \[1, -1\]"),
        ([0, 0, 0], [1, 1, 1], None, None, "axis 2 is out of range for 2 dimensions"),
    ],
)
def test_strided_slice_refuses(
    starts: list[int],
    ends: list[int],
    axes: list[int] | None,
    steps: list[int] | None,
    message: str,
) -> None:
    x = Tensor(tensor_type((3, 4), "float32"), "x")
    with pytest.raises(ShapeError, match=message):
        ops.strided_slice(x, starts, ends, axes, steps)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_and_stack(axis: int) -> None:
    x, y, z = count(2, 3), count(2, 3) + 10, count(2, 3) + 20
    same(lambda *t: ops.concat(t, axis), np.concatenate([x, y, z], axis), x, y, z)
    same(lambda *t: ops.stack(t, axis), np.stack([x, y, z], axis), x, y, z)


def test_concat_of_uneven_and_empty_parts() -> None:
    parts = count(1, 2), count(1, 0), count(1, 5)
    same(lambda *t: ops.concat(t, 1), np.concatenate(parts, 1), *parts)


def test_concat_refuses_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match="differ in more than axis 0"):
        values(lambda *t: ops.concat(t, 0), count(2, 3), count(2, 4))
    with pytest.raises(DTypeError, match="concat: operands of different types"):
        values(lambda *t: ops.concat(t, 0), count(2), np.zeros(2))
    with pytest.raises(ShapeError, match="at least one"):
        ops.concat([])


@pytest.mark.parametrize("parts", [3, 2, [2, 0, 5], [7]])
def test_split(parts: int | list[int]) -> None:
    x = count(2, 7)
    cuts = {3: [3, 6], 2: [4]}[parts] if isinstance(parts, int) else np.cumsum(parts)[:-1]
    found = check(lambda t: ops.split(t, parts, 1), x)
    expected = np.split(x, cuts, 1)
    for a, b in zip([found] if len(expected) == 1 else found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("extent", range(6))
@pytest.mark.parametrize("parts", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_parts_of_equal_size(extent: int, parts: int, axis: int) -> None:
    """The last that holds something may be smaller; those after it are empty."""
    x = count(2, extent) if axis else count(extent, 2)
    found = values(lambda t: ops.split(t, parts, axis), x)
    size = -(-extent // parts)
    starts = [min(k * size, extent) for k in range(parts)]
    wanted = np.split(x, starts[1:], axis)
    for a, b in zip([found] if parts == 1 else found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_split_refuses_sizes_that_do_not_add_up() -> None:
    with pytest.raises(ShapeError, match=r"sizes \[2, 2\] do not add up"):
        values(lambda t: ops.split(t, [2, 2]), count(5))


@pytest.mark.parametrize("axis", [None, 0, 1, (0, -1)])
def test_flip(axis: int | tuple[int, ...] | None) -> None:
    same(lambda t: ops.flip(t, axis), np.flip(count(2, 3, 4), axis), count(2, 3, 4))
    assert check(ops.flip, count(0, 3)).shape == (0, 3)


@pytest.mark.parametrize("repeats", [(2,), (2, 3), (2, 1, 3), (0, 1), (1, 1)])
def test_tile(repeats: tuple[int, ...]) -> None:
    same(lambda t: ops.tile(t, repeats), np.tile(count(2, 3), repeats), count(2, 3))


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("times", [0, 1, 3])
def test_repeat(axis: int | None, times: int) -> None:
    same(lambda t: ops.repeat(t, times, axis), count(2, 3).repeat(times, axis), count(2, 3))


@pytest.mark.parametrize(("shift", "axis"), [(2, None), (-1, 0), (5, 1), ((1, -2), (0, 1)), (0, 0)])
def test_roll(shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None) -> None:
    same(lambda t: ops.roll(t, shift, axis), np.roll(count(3, 4), shift, axis), count(3, 4))


def test_axes_added_removed_and_moved() -> None:
    x = count(2, 1, 3)
    same(lambda t: ops.expand_dims(t, (0, -1)), np.expand_dims(x, (0, -1)), x)
    same(ops.squeeze, x.squeeze(), x)
    same(lambda t: ops.squeeze(t, 1), x.squeeze(1), x)
    same(lambda t: ops.moveaxis(t, 0, -1), np.moveaxis(x, 0, -1), x)
    same(lambda t: ops.swapaxes(t, 0, 2), x.swapaxes(0, 2), x)
    same(lambda t: ops.flatten(t, 2), x.reshape(2, 3), x)
    same(lambda t: ops.unstack(t, 2)[1], x[:, :, 1], x)
    with pytest.raises(ShapeError, match=r"squeeze: axis 0 .* has extent 2"):
        values(lambda t: ops.squeeze(t, 0), x)
    with pytest.raises(ShapeError, match="repeated axis"):
        values(lambda t: ops.squeeze(t, (1, -2)), x)


@pytest.mark.parametrize("k", [-2, 0, 1, 9])
def test_triangles(k: int) -> None:
    x = count(2, 3, 4) + 1
    same(lambda t: ops.tril(t, k), np.tril(x, k), x)
    same(lambda t: ops.triu(t, k), np.triu(x, k), x)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 3), (2, 3, 4), (1, 1)])
def test_diagonal(shape: tuple[int, ...]) -> None:
    x = count(*shape)
    same(ops.diagonal, np.diagonal(x, axis1=-2, axis2=-1), x)


def test_blocks_of_pixels_and_channels() -> None:
    x = count(2, 8, 2, 3)
    deep = x.reshape(2, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(2, 2, 4, 6)
    same(lambda t: ops.depth_to_space(t, 2), deep, x)
    back = check(lambda t: ops.space_to_depth(ops.depth_to_space(t, 2), 2), x)
    np.testing.assert_array_equal(back, x)
    with pytest.raises(ShapeError, match="do not fill blocks"):
        values(lambda t: ops.depth_to_space(t, 3), x)
    with pytest.raises(ShapeError, match="are not blocks"):
        values(lambda t: ops.space_to_depth(t, 2), x)


def test_counters_and_fills() -> None:
    same(lambda: ops.iota((2, 3), 1), [[0, 1, 2]] * 2)
    same(lambda: ops.full((2, 2), 1.5), np.full((2, 2), np.float32(1.5)))
    same(lambda: ops.zeros((0, 2), "bool"), np.zeros((0, 2), bool))
    same(lambda: ops.arange(1, 7, 2), np.array([1, 3, 5]))
    same(lambda: ops.eye(2, 3, 1), np.eye(2, 3, 1, dtype="float32"))
    same(lambda: ops.constant([[1, 2]], "int8"), np.array([[1, 2]], "int8"))


def test_a_constant_is_a_copy() -> None:
    array = np.array([1, 2])
    tensor: Any = ops.constant(array)
    array[0] = 9
    assert tensor.value.tolist() == [1, 2]
    assert not tensor.value.flags.writeable


@pytest.mark.parametrize("block", [1, 2, 3])
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_channels_move_into_blocks(block: int, mode: str, rng: np.random.Generator) -> None:
    depth = 2
    x = rng.integers(0, 99, (2, depth * block * block, 3, 2)).astype("float32")
    found = check(lambda t: ops.depth_to_space(t, block, mode), x)
    assert found.shape == (2, depth, 3 * block, 2 * block)
    for n, c, h, w in np.ndindex(found.shape):
        at = h % block * block + w % block
        channel = at * depth + c if mode == "DCR" else c * block * block + at
        assert found[n, c, h, w] == x[n, channel, h // block, w // block]
    if mode == "DCR":
        np.testing.assert_array_equal(check(lambda t: ops.space_to_depth(t, block), found), x)


@pytest.mark.parametrize("block", [0, -1, 2, 3])
def test_blocks_that_do_not_fit(block: int) -> None:
    x = np.zeros((1, 5, 5, 4))
    with pytest.raises(ShapeError, match="channels do not fill"):
        values(lambda t: ops.depth_to_space(t, block), x)
    with pytest.raises(ShapeError, match="are not blocks of"):
        values(lambda t: ops.space_to_depth(t, block), x)
