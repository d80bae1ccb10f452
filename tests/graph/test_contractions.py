"""What there is to know of products: their matrices, and what sums and panels suit them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tileloom.graph import ops
from tileloom.graph.contractions import (
    accumulator_of,
    matmul_extents,
    product_extents,
    reads_points,
    suits_panels,
)
from tileloom.graph.nodes import Node, Tensor, tensor_type

Build = Callable[[], Tensor]


def t(*shape: int, kind: str = "float32") -> Tensor:
    return Tensor(tensor_type(shape, kind), "x")


def node_of(made: Tensor) -> Node:
    assert made.node is not None
    return made.node


@pytest.mark.parametrize(
    ("kind", "out", "total"),
    [
        ("float32", None, "float32"), ("float64", None, "float64"), ("float16", None, "float32"),
        ("bfloat16", None, "float32"), ("int8", None, "int32"), ("uint8", None, "int32"),
        ("int16", None, "int32"), ("int32", None, "int32"), ("int64", None, "int64"),
        ("int8", "int32", "int32"), ("int8", "int64", "int64"),
    ],
)  # fmt: skip
def test_types_of_sums(kind: str, out: str | None, total: str) -> None:
    product = ops.matmul(t(3, 4, kind=kind), t(4, 5, kind=kind), out_dtype=out)
    assert str(accumulator_of(node_of(product))) == total


@pytest.mark.parametrize(
    ("left", "right", "transposed"),
    [
        ((3, 4), (4, 5), (False, False)), ((4, 3), (4, 5), (True, False)),
        ((3, 4), (5, 4), (False, True)), ((4, 3), (5, 4), (True, True)),
        ((7, 3, 4), (7, 4, 5), (False, False)), ((2, 7, 4, 3), (5, 4), (True, True)),
    ],
)  # fmt: skip
def test_matrices(
    left: tuple[int, ...], right: tuple[int, ...], transposed: tuple[bool, bool]
) -> None:
    node = node_of(ops.matmul(t(*left), t(*right), *transposed))
    assert matmul_extents(node) == product_extents(node) == (3, 4, 5)


@pytest.mark.parametrize(
    ("build", "extents"),
    [
        (lambda: ops.conv(t(2, 3, 8, 9), t(6, 3, 3, 3)), (6, 27, 2 * 6 * 7)),
        (lambda: ops.conv(t(1, 3, 8, 9), t(6, 3, 1, 1)), (6, 3, 72)),
        (lambda: ops.conv(t(2, 4, 9), t(6, 4, 2), strides=(2,)), (6, 8, 2 * 4)),
        (lambda: ops.conv(t(2, 4, 9), t(6, 2, 2), groups=2), None),
        (lambda: ops.max_pool(t(1, 2, 4, 4), (2, 2)), None),
        (lambda: ops.exp(t(4, 4)), None),
    ],
)
def test_matrices_of_convolutions(build: Build, extents: tuple[int, int, int] | None) -> None:
    assert product_extents(node_of(build())) == extents


@pytest.mark.parametrize(
    ("build", "points"),
    [
        (lambda: ops.conv(t(1, 3, 4, 4), t(6, 3, 1, 1)), True),
        (lambda: ops.conv(t(1, 3, 4), t(6, 3, 1)), True),
        (lambda: ops.conv(t(1, 4, 4, 4), t(6, 2, 1, 1), groups=2), True),
        (lambda: ops.conv(t(1, 3, 4, 4), t(6, 3, 1, 2)), False),
        (lambda: ops.conv(t(1, 3, 4, 4), t(6, 3, 2, 1)), False),
        (lambda: ops.conv(t(1, 3, 4, 4), t(6, 3, 1, 1), strides=(1, 2)), False),
        (lambda: ops.conv(t(1, 3, 4, 4), t(6, 3, 1, 1), strides=(2, 1)), False),
        (lambda: ops.conv(t(1, 3, 4, 4), t(6, 3, 1, 1), pads=(0, 0, 0, 1)), False),
        (lambda: ops.conv(t(1, 3, 4, 4), t(6, 3, 1, 1), pads=(1, 0, 0, 0)), False),
    ],
)
def test_windows_that_are_points(build: Build, points: bool) -> None:
    assert reads_points(node_of(build())) is points


@pytest.mark.parametrize(
    ("build", "suits"),
    [
        (lambda: ops.matmul(t(2, 2), t(2, 8)), True),
        (lambda: ops.matmul(t(1, 2), t(2, 8)), False),  # rows
        (lambda: ops.matmul(t(2, 1), t(1, 8)), False),  # depth
        (lambda: ops.matmul(t(2, 2), t(2, 7)), False),  # columns
        (lambda: ops.matmul(t(2, 4), t(8, 4), transpose_b=True), False),  # they lie in one piece
        (lambda: ops.matmul(t(3, 4), t(8, 4), transpose_b=True), True),
        (lambda: ops.matmul(t(2, 4, kind="float16"), t(8, 4, kind="float16"), transpose_b=True),
         True),  # and would be converted again for each row
        (lambda: ops.matmul(t(0, 2), t(2, 8)), False),
        (lambda: ops.conv(t(1, 3, 8, 8), t(4, 3, 3, 3)), True),
        (lambda: ops.conv(t(1, 3, 8, 8), t(3, 3, 3, 3)), False),
        (lambda: ops.conv(t(1, 4, 8), t(8, 2, 3), groups=2), True),
        (lambda: ops.conv(t(1, 4, 8), t(6, 2, 3), groups=2), False),
        (lambda: ops.conv(t(1, 2, 5, 5, 5), t(4, 2, 3, 3, 3)), True),
        (lambda: ops.conv(t(1, 2, 3, 3, 3, 3), t(4, 2, 2, 2, 2, 2)), False),
        (lambda: ops.conv(t(0, 3, 8, 8), t(4, 3, 3, 3)), False),
        (lambda: ops.conv(t(1, 3, 3, 3), t(4, 3, 3, 3)), False),  # one point
        (lambda: ops.conv(t(2, 3, 3, 3), t(4, 3, 3, 3)), True),
        (lambda: ops.conv(t(1, 3, 4, 3), t(4, 3, 3, 3)), True),
        (lambda: ops.conv(t(1, 1, 8, 8), t(4, 1, 1, 1)), False),  # depth
        (lambda: ops.conv(t(1, 1, 8, 8), t(4, 1, 1, 2)), True),
        (lambda: ops.exp(t(8, 8)), False),
        (lambda: ops.max_pool(t(1, 8, 8, 8), (2, 2)), False),
    ],
)  # fmt: skip
def test_products_of_panels(build: Build, suits: bool) -> None:
    assert suits_panels(node_of(build())) is suits
