"""What can be one nest: common axes, rows, and what is computed once or many times."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Node, Tensor, tensor_type
from tileloom.graph.partition.domain import lattice, nest_obstacle, refines
from tileloom.graph.partition.layouts import size_of

shapes = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4).map(tuple)


def tensor(*shape: int) -> Tensor:
    return Tensor(tensor_type(shape, "float32"), "x")


def nodes_of(*outputs: Tensor) -> list[Node]:
    return [n for n in Graph([], outputs).nodes if n.op.name != "constant"]


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
    assert nest_obstacle(nodes_of(good), [good], domain) is None
    transposed = ops.sub(x, ops.transpose(rows, (1, 0, 2)))
    assert nest_obstacle(nodes_of(transposed), [transposed], domain) is not None
    flat = ops.reshape(ops.sub(ops.reshape(x, (16, 8)), ops.reshape(rows, (16, 1))), (4, 32))
    assert nest_obstacle(nodes_of(flat), [flat], domain) is None
    uneven = ops.neg(ops.reshape(good, (8, 16)))
    assert nest_obstacle(nodes_of(uneven), [uneven], domain) is None
    odd = ops.neg(ops.reshape(ops.sub(tensor(3, 8), ops.sum(tensor(3, 8), 1, True)), (4, 6)))
    assert "no one nest" in str(nest_obstacle(nodes_of(odd), [odd], ((3, 8), (1,))))


def test_what_is_materialized_is_read_where_it_is_made() -> None:
    x = tensor(8, 32)
    y = ops.exp(x)
    moved = ops.strided_slice(y, [0], [4], [0])
    assert nest_obstacle(nodes_of(moved), [moved]) is None
    assert nest_obstacle(nodes_of(moved), [y, moved]) is not None
    transposed = ops.transpose(ops.reshape(y, (2, 4, 32)), (1, 0, 2))
    assert nest_obstacle(nodes_of(transposed), [y, transposed]) is None
    other = ops.transpose(y)
    assert "apart" in str(nest_obstacle(nodes_of(other), [y, other]))


@pytest.mark.parametrize(
    ("costly", "fits"), [(ops.exp, False), (ops.neg, True)], ids=["exp", "neg"]
)
def test_costly_ops_are_not_repeated(costly: Any, fits: bool) -> None:
    """For each row, that is; along the innermost axis they are computed once for all of it."""
    column, row = costly(tensor(64, 1)), costly(tensor(1, 32))
    x = tensor(64, 32)
    assert nest_obstacle(nodes_of(ops.add(x, column)), [ops.add(x, column)]) is None
    outer, inner = ops.add(x, column), ops.add(x, row)
    assert nest_obstacle(nodes_of(outer), [outer]) is None
    assert (nest_obstacle(nodes_of(inner), [inner]) is None) == fits
