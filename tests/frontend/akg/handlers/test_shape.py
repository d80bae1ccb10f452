"""Movements of AKG's graphs against indexing in NumPy."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from frontend.akg.build import graph, op, single, tensor, values
from tileloom.akg import load
from tileloom.base.errors import UnsupportedError, UserError


def count(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype="float32").reshape(shape)


def random_index(chance: random.Random, shape: tuple[int, ...]) -> list[Any]:
    """An index of NumPy as TensorFlow's StridedSlice would have it: at most one ellipsis."""
    taken = chance.randint(0, len(shape))
    entries: list[Any] = []
    ellipsis = chance.choice([None, *range(taken + 1)]) if taken else None
    before = taken if ellipsis is None else ellipsis
    for k in range(taken):
        extent = shape[k] if k < before else shape[len(shape) - taken + k]
        if chance.random() < 0.25:
            entries.append(chance.randrange(-extent, extent))
            continue
        step = chance.choice([1, 1, 2, 3, -1, -2])
        start, end = (chance.choice([None, chance.randint(-extent, extent)]) for _ in range(2))
        entries.append(slice(start, end, step))
    if ellipsis is not None:
        entries.insert(ellipsis, ...)
    for _ in range(chance.choice([0, 0, 1, 2])):
        entries.insert(chance.randint(0, len(entries)), None)
    return entries


@pytest.mark.parametrize("seed", range(6))
def test_strided_slices(seed: int) -> None:
    chance = random.Random(seed)
    done = 0
    while done < 12:
        shape = tuple(chance.choice([1, 2, 3, 5]) for _ in range(chance.randint(1, 4)))
        index = random_index(chance, shape)
        x = count(*shape)
        wanted = x[tuple(index)]
        if not index or wanted.ndim == 0 or wanted.size == 0:
            continue
        done += 1
        masks = dict.fromkeys(("begin", "end", "ellipsis", "new_axis", "shrink_axis"), 0)
        places: list[list[int]] = [[], [], []]
        for k, entry in enumerate(index):
            begin, end, step = chance.randint(-9, 9), chance.randint(-9, 9), 1
            if entry is None or entry is Ellipsis:
                masks["new_axis" if entry is None else "ellipsis"] |= 1 << k
            elif isinstance(entry, slice):
                step = entry.step
                begin = begin if entry.start is None else entry.start
                end = end if entry.stop is None else entry.stop
                masks["begin"] |= (entry.start is None) << k
                masks["end"] |= (entry.stop is None) << k
            else:
                begin = entry
                masks["shrink_axis"] |= 1 << k
            for place, value in zip(places, (begin, end, step), strict=True):
                place.append(value)
        attrs = {f"{name}_mask": mask for name, mask in masks.items()}
        made = single("StridedSlice", [tensor("x", shape)], tensor("y", wanted.shape),
                      begin=places[0], end=places[1], strides=places[2], **attrs)  # fmt: skip
        (found,) = values(made, x)
        np.testing.assert_array_equal(found, wanted, err_msg=str((shape, index)))


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ({"begin": [0], "end": [1, 2], "strides": [1]}, "differ in length"),
        ({"begin": [0], "end": [1], "strides": [1, 1]}, "differ in length"),
        ({"begin": [0] * 3, "end": [1] * 3, "strides": [1] * 3}, "more entries than the 2 axes"),
    ],
)
def test_strided_slices_that_do_not_fit(attrs: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        load(single("StridedSlice", [tensor("x", (3, 4))], tensor("y", (1, 1)), **attrs))


@pytest.mark.parametrize(
    ("begin", "size", "wanted"),
    [
        ([0, 0], [3, 5], (slice(0, 3), slice(0, 5))),
        ([1, 2], [2, 1], (slice(1, 3), slice(2, 3))),
        ([1, 2], [-1, -1], (slice(1, None), slice(2, None))),
        ([2, 0], [1, -1], (slice(2, 3), slice(0, None))),
    ],
)
def test_slices(begin: list[int], size: list[int], wanted: Any) -> None:
    x = count(3, 5)
    made = single("Slice", [tensor("x", (3, 5))], tensor("y", x[wanted].shape),
                  begin=begin, size=size)  # fmt: skip
    np.testing.assert_array_equal(values(made, x)[0], x[wanted])


@pytest.mark.parametrize(("begin", "size"), [([0], [3, 5]), ([0, 0], [3]), ([0, 0, 0], [1, 1, 1])])
def test_slices_of_other_ranks(begin: list[int], size: list[int]) -> None:
    with pytest.raises(UserError, match="do not fit shape"):
        load(single("Slice", [tensor("x", (3, 5))], tensor("y", (1,)), begin=begin, size=size))


@pytest.mark.parametrize(("head", "tail"), [([0, 0], [1, 2]), ([2, 1], [0, 0]), ([1, 0], [3, 1])])
@pytest.mark.parametrize("value", [0, 1.5, [2.5]])
def test_padding_there_and_back(head: list[int], tail: list[int], value: Any) -> None:
    x = count(3, 4)
    wanted = np.pad(x, list(zip(head, tail, strict=True)), constant_values=np.ravel(value)[0])
    made = single("PadAkg", [tensor("x", (3, 4))], tensor("y", wanted.shape),
                  head=head, tail=tail, pad_val=value)  # fmt: skip
    np.testing.assert_array_equal(values(made, x)[0], wanted)
    cut = single("UnPadAkg", [tensor("y", wanted.shape)],
                 tensor("z", (3 + head[0], 4 + head[1])), tail=tail)  # fmt: skip
    np.testing.assert_array_equal(values(cut, wanted)[0], wanted[: 3 + head[0], : 4 + head[1]])


@pytest.mark.parametrize(
    ("name", "attrs", "words"),
    [
        ("PadAkg", {"head": [1], "tail": [1, 1]}, "do not fit"),
        ("PadAkg", {"head": [1, 1], "tail": [1]}, "do not fit"),
        ("PadAkg", {"head": [1] * 3, "tail": [1] * 3}, "do not fit"),
        ("PadAkg", {"head": [0, 0], "tail": [1, 1], "pad_val": [1, 2]}, "pad_val"),
        ("UnPadAkg", {"tail": [1]}, "does not fit"),
        ("UnPadAkg", {"tail": [1, 1, 1]}, "does not fit"),
    ],
)
def test_padding_that_does_not_fit(name: str, attrs: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        load(single(name, [tensor("x", (3, 4))], tensor("y", (4, 5)), **attrs))


@pytest.mark.parametrize(("rows", "columns"), [*itertools.product((1, 16, 17, 40), repeat=2)])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_tiles_of_matrices(rows: int, columns: int, batch: tuple[int, ...]) -> None:
    """FRACTAL_NZ: tiles of 16 by 16, those of one column of tiles after each other."""
    x = count(*batch, rows, columns) + 1
    m, n = -(-rows // 16), -(-columns // 16)
    tiles = np.zeros((*batch, n, m, 16, 16), "float32")
    for i, j in itertools.product(range(rows), range(columns)):
        tiles[..., j // 16, i // 16, i % 16, j % 16] = x[..., i, j]
    there = single("TransData", [tensor("x", x.shape)], tensor("y", tiles.shape),
                   src_format="DefaultFormat", dst_format="FRACTAL_NZ")  # fmt: skip
    np.testing.assert_array_equal(values(there, x)[0], tiles)
    back = single("TransData", [tensor("x", tiles.shape)], tensor("y", x.shape),
                  src_format="FRACTAL_NZ", dst_format="ND")  # fmt: skip
    np.testing.assert_array_equal(values(back, tiles)[0], x)


@pytest.mark.parametrize(
    ("source", "wanted"), [("NCHW", "ND"), ("FRACTAL_NZ", "FRACTAL_NZ"), ("NHWC", "FRACTAL_NZ")]
)
def test_other_formats_are_refused(source: str, wanted: str) -> None:
    made = single("TransData", [tensor("x", (16, 16))], tensor("y", (1, 1, 16, 16)),
                  src_format=source, dst_format=wanted)  # fmt: skip
    with pytest.raises(UnsupportedError, match=f"conversion from {source} to {wanted}"):
        load(made)


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_splits(axis: int) -> None:
    x = count(6, 9)
    parts = np.split(x, [1, 4], axis)
    outputs = [tensor(f"y{k}", part.shape) for k, part in enumerate(parts)]
    made = graph([op("Split", [tensor("x", (6, 9))], outputs, axis=axis)],
                 [tensor("x", (6, 9))], outputs)  # fmt: skip
    for found, wanted in zip(values(made, x), parts, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("axis", [2, -3])
def test_splits_along_axes_that_are_not_there(axis: int) -> None:
    outputs = [tensor(f"y{k}", (3, 9)) for k in range(2)]
    made = graph([op("Split", [tensor("x", (6, 9))], outputs, axis=axis)],
                 [tensor("x", (6, 9))], outputs)  # fmt: skip
    with pytest.raises(UserError, match="axis"):
        load(made)
