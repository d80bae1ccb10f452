"""Shapes inside a nest: common axes, layouts, rows, and formulas computed once or many times."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Node, Tensor, tensor_type
from tileloom.graph.to_tir.fits import formulas_fit, lattice, refines, rows_fit
from tileloom.graph.to_tir.fits_product import product_fit
from tileloom.graph.to_tir.layouts import (
    cut_shape,
    is_plain,
    layout_after,
    plain_layout,
    size_of,
    together,
)


def tensor(*shape: int) -> Tensor:
    return Tensor(tensor_type(shape, "float32"), "x")


def nodes_of(*outputs: Tensor) -> list[Node]:
    return [n for n in Graph([], outputs).nodes if n.op.name != "constant"]


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
    x = tensor(*shape)
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


@given(shapes, st.sets(st.integers(0, 3)))
def test_lattices_are_equal_where_axes_are(shape: Any, axes: Any) -> None:
    """Cutting dimensions into smaller ones changes nothing."""
    axes = {axis for axis in axes if axis < len(shape)}
    finer: list[int] = []
    inner: set[int] = set()
    for k, extent in enumerate(shape):
        parts = (2, extent // 2) if extent % 2 == 0 else (extent,)
        inner |= {len(finer) + j for j in range(len(parts)) if k in axes}
        finer += parts
    assert lattice(shape, axes) == lattice(finer, inner)
    assert refines([shape, finer, (size_of(shape),)])


def test_rows_must_be_spread_along_their_own_axes() -> None:
    x = tensor(4, 4, 8)
    rows = ops.sum(x, 2, True)
    domain = ((4, 4, 8), (2,))
    good = ops.sub(x, rows)
    assert rows_fit(nodes_of(good), [good], domain) is None
    turned = ops.sub(x, ops.transpose(rows, (1, 0, 2)))
    assert rows_fit(nodes_of(turned), [turned], domain) is not None
    flat = ops.reshape(ops.sub(ops.reshape(x, (16, 8)), ops.reshape(rows, (16, 1))), (4, 32))
    assert rows_fit(nodes_of(flat), [flat], domain) is None
    uneven = ops.neg(ops.reshape(good, (8, 16)))
    assert rows_fit(nodes_of(uneven), [uneven], domain) is None
    odd = ops.neg(ops.reshape(ops.sub(tensor(3, 8), ops.sum(tensor(3, 8), 1, True)), (4, 6)))
    assert "no one nest" in str(rows_fit(nodes_of(odd), [odd], ((3, 8), (1,))))


def test_what_is_kept_is_read_where_it_is_made() -> None:
    x = tensor(8, 32)
    y = ops.exp(x)
    moved = ops.strided_slice(y, [0], [4], [0])
    assert formulas_fit(nodes_of(moved), [moved]) is None
    assert formulas_fit(nodes_of(moved), [y, moved]) is not None
    turned = ops.transpose(ops.reshape(y, (2, 4, 32)), (1, 0, 2))
    assert formulas_fit(nodes_of(turned), [y, turned]) is None
    other = ops.transpose(y)
    assert "apart" in str(formulas_fit(nodes_of(other), [y, other]))


@pytest.mark.parametrize(
    ("costly", "fits"), [(ops.exp, False), (ops.neg, True)], ids=["exp", "neg"]
)
def test_costly_formulas_are_not_repeated(costly: Any, fits: bool) -> None:
    """For each row, that is; along the innermost axis they are computed once for all of it."""
    column, row = costly(tensor(64, 1)), costly(tensor(1, 32))
    x = tensor(64, 32)
    assert formulas_fit(nodes_of(ops.add(x, column)), [ops.add(x, column)]) is None
    outer, inner = ops.add(x, column), ops.add(x, row)
    assert formulas_fit(nodes_of(outer), [outer]) is None
    assert (formulas_fit(nodes_of(inner), [inner]) is None) == fits


def test_epilogues_of_products_keep_pieces_together() -> None:
    product = ops.matmul(tensor(2, 10, 8), tensor(8, 48))
    node = product.node
    assert node is not None

    def reason(y: Tensor, panels: bool = True) -> str | None:
        return product_fit(nodes_of(y), [y], node, panels=panels)[1]

    heads = ops.reshape(product, (2, 10, 3, 16))
    assert reason(ops.transpose(heads, (0, 2, 1, 3))) is None
    assert reason(ops.transpose(heads, (0, 2, 1, 3)), panels=False) is not None
    assert "apart" in str(reason(ops.transpose(heads, (0, 2, 3, 1))))
    assert "apart" in str(reason(ops.transpose(ops.reshape(product, (2, 10, 6, 8)), (0, 2, 1, 3))))
    assert reason(ops.add(heads, tensor(3, 1))) is None
    square = ops.matmul(tensor(10, 10, 8), tensor(8, 48))
    both = ops.add(square, ops.transpose(square, (1, 0, 2)))
    assert square.node is not None
    assert product_fit(nodes_of(both), [both], square.node, panels=True)[1] is not None
