"""transform_layout, transform_block_layout, set_axis_separator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from schedule.common import ELEMENTWISE, MATMUL, check_same, check_trace, refused, schedule
from tileloom.expr import IndexMap
from tileloom.tir import run


def test_intermediate_buffer() -> None:
    sch = schedule(ELEMENTWISE.replace("13", "16"))
    sch.transform_layout("B", ("write", 0), lambda i, j: (j // 4, i, j % 4))
    (buffer,) = sch.get(sch.get_block("root")).alloc_buffers
    assert [int(n) for n in buffer.shape] == [2, 16, 4]
    assert sch.get(sch.get_block("C")).reads[0].buffer is buffer
    check_trace(sch, ELEMENTWISE.replace("13", "16"))
    check_same(sch, ELEMENTWISE.replace("13", "16"))


@pytest.mark.parametrize("buffer", [("read", 0), "B"])
def test_named_by_reader(buffer: object) -> None:
    text = ELEMENTWISE.replace("13", "12")
    sch = schedule(text)
    sch.transform_layout("C", buffer, lambda i, j: (i * 8 + j,))
    check_trace(sch, text)
    check_same(sch, text)


def test_parameter() -> None:
    sch = schedule(MATMUL)
    sch.transform_layout("C", "B", lambda k, j: (j // 16, k, j % 16))
    func: Any = sch.mod["main"]
    assert [int(n) for n in func.buffers[1].shape] == [4, 96, 16]
    check_trace(sch, MATMUL)
    rng = np.random.default_rng(0)
    a, b = rng.random((128, 96), "float32"), rng.random((96, 64), "float32")
    c = np.zeros((128, 64), "float32")
    packed = np.ascontiguousarray(b.reshape(96, 4, 16).transpose(1, 0, 2))
    run(func, a, packed, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)


def test_padding_of_an_intermediate_buffer() -> None:
    sch = schedule(ELEMENTWISE)
    sch.transform_layout("B", ("write", 0), lambda i, j: (i // 4, j, i % 4), pad_value=0.0)
    assert [int(n) for n in sch.get(sch.get_block("C")).reads[0].buffer.shape] == [4, 8, 4]
    assert "T.if_then_else(v_axis0 == 3 and 0 < v_axis2, T.float32(0.0), " in str(sch.mod)
    check_trace(sch, ELEMENTWISE)
    check_same(sch, ELEMENTWISE)


def test_padding_of_a_parameter_is_assumed() -> None:
    sch = schedule(ELEMENTWISE)
    sch.transform_layout("B", ("read", 0), lambda i, j: (i // 4, j, i % 4), pad_value=0.0)
    assert "T.assume" in str(sch.mod)
    check_trace(sch, ELEMENTWISE)


def test_refusals() -> None:
    sch = schedule(ELEMENTWISE)
    block = sch.get_block("B")
    tiles = IndexMap.from_func(lambda i, j: [i // 4, j, i % 4])
    refused(sch, "no element goes to", "transform_layout", block, ("write", 0), tiles)
    refused(sch, "one place", "transform_layout", block, ("write", 0), lambda i, j: (i // 2, j))
    refused(sch, "there is no", "transform_layout", block, ("write", 1), tiles)
    refused(sch, "does not access", "transform_layout", block, "Z", tiles)
    sch.transform_layout(block, ("write", 0), tiles, assume_injective_transform=True)


def test_block_layout() -> None:
    sch = schedule(MATMUL)
    sch.transform_block_layout("C", lambda i, j, k: (i // 8, j, k, i % 8))
    assert [sch.get(loop).extent for loop in sch.get_loops("C")] == [16, 64, 96, 8]
    check_trace(sch, MATMUL)
    check_same(sch, MATMUL)


def test_block_layout_refusals() -> None:
    sch = schedule(MATMUL)
    block = sch.get_block("C")
    refused(sch, "two kinds", "transform_block_layout", block, lambda i, j, k: (i, j * 96 + k))
    refused(sch, "bijective", "transform_block_layout", block, lambda i, j, k: (i // 2, j, k))
    sch.fuse(*sch.get_loops(block)[:2])
    refused(sch, "plainly", "transform_block_layout", block, lambda i, j, k: (i, j, k))


def test_axis_separator() -> None:
    sch = schedule(ELEMENTWISE)
    sch.set_axis_separator("B", ("write", 0), [1])
    assert sch.get(sch.get_block("C")).reads[0].buffer.axis_separators == (1,)
    sch.set_axis_separator("C", "C", [1])
    assert sch.mod["main"].buffers[1].axis_separators == (1,)
    check_trace(sch, ELEMENTWISE)
    refused(sch, "no positions", "set_axis_separator", sch.get_block("B"), ("write", 0), [3])
