"""How elements lie after reshapes and transposes."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tileloom.graph import ops
from tileloom.graph.nodes import Tensor, tensor_type
from tileloom.graph.partition.layouts import (
    cut_shape,
    is_plain,
    layout_after,
    plain_layout,
    size_of,
    together,
)

shapes = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4).map(tuple)


def layout_of(positions: np.ndarray) -> list[int]:
    return positions.reshape(-1).tolist()


def places(layout: tuple[tuple[tuple[int, int], ...], ...]) -> list[int]:
    """Where each element of a tensor lies, in the order of its elements."""
    pairs = [pair for dim in layout for pair in dim]
    grid = itertools.product(*(range(extent) for extent, _ in pairs))
    return [sum(i * step for i, (_, step) in zip(at, pairs, strict=True)) for at in grid]


@given(shapes, st.randoms(use_true_random=False))
def test_layouts_follow_reshapes_and_transposes(shape: Any, random: Random) -> None:
    """Against NumPy, as long as they can be followed at all."""
    x = Tensor(tensor_type(shape, "float32"), "x")
    where = np.arange(size_of(shape)).reshape(shape)
    layout = plain_layout(shape)
    assert places(layout) == layout_of(where)
    for _ in range(3):
        if random.random() < 0.5:
            order = random.sample(range(x.ndim), x.ndim)
            y, where = ops.transpose(x, order), where.transpose(order)
        else:
            extents = [n for n in x.shape if n != 1]
            if len(extents) > 1 and random.random() < 0.5:
                wanted: list[int] = [extents[0] * extents[1], *extents[2:]]
            else:
                wanted = [m for n in x.shape for m in ((2, n // 2) if n % 2 == 0 else (n,))]
            y, where = ops.reshape(x, wanted), where.reshape(wanted)
        if y is x:
            continue
        node = y.node
        assert node is not None
        found = layout_after(node, [layout])
        if found is None:
            return
        x, layout = y, found
        assert places(layout) == layout_of(where)
        assert is_plain(layout) == (layout_of(where) == sorted(layout_of(where)))
        assert size_of(cut_shape(layout)) == size_of(shape)
        run = together(layout)
        assert layout_of(where)[:run] == list(range(run))
