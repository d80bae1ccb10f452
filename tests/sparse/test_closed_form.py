"""Closed forms in place of index buffers."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom import tir
from tileloom.base.errors import ArgumentError, ShapeError, UnsupportedError, UserError
from tileloom.expr import IndexMap
from tileloom.script import parse
from tileloom.script import tir as T
from tileloom.sparse.closed_form import specialize_buffer
from tileloom.sparse.unused_args import remove_unused_args
from tileloom.tir import IRModule, PrimFunc, assert_structural_equal


def same(func: PrimFunc, expected: PrimFunc) -> None:
    """Equal but for the name."""
    assert_structural_equal(func.with_attr("global_symbol", expected.name), expected)


@T.prim_func
def band(
    indices: T.Buffer((8, 3), "int32"),
    a: T.Buffer((8, 3), "float32"),
    x: T.Buffer((10,), "float32"),
    y: T.Buffer((8,), "float32"),
) -> None:
    for i, j in T.grid(8, 3):
        with T.block("rows"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                y[vi] = T.float32(0)
            y[vi] = y[vi] + a[vi, vj] * x[indices[vi, vj]]


@T.prim_func
def closed(
    indices: T.Buffer((8, 3), "int32"),
    a: T.Buffer((8, 3), "float32"),
    x: T.Buffer((10,), "float32"),
    y: T.Buffer((8,), "float32"),
) -> None:
    for i, j in T.grid(8, 3):
        with T.block("rows"):
            vi, vj = T.axis.remap("SR", [i, j])
            T.reads(a[vi, vj], x[vi + vj])
            T.writes(y[vi])
            with T.init():
                y[vi] = T.float32(0)
            y[vi] = y[vi] + a[vi, vj] * x[vi + vj]


def test_band() -> None:
    made = specialize_buffer(band, "indices", lambda i, j: i + j)
    same(made, closed)
    in_module = specialize_buffer(IRModule({"main": band}), "indices", lambda *at: at[0] + at[1])
    same(in_module["main"], closed)
    given = IndexMap.from_func(lambda i, j: i + j)
    same(specialize_buffer(band, "indices", given), closed)


def test_no_memory_for_indices() -> None:
    made = remove_unused_args(specialize_buffer(band, "indices", lambda i, j: i + j))
    random = np.random.default_rng(0)
    a, x = random.random((8, 3), "float32"), random.random(10, "float32")
    y = np.zeros(8, "float32")
    tir.run(made, a, x, y)
    expected = [a[i].astype(float) @ x[i : i + 3] for i in range(8)]
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_numbers_and_types() -> None:
    text = """
@T.prim_func
def main(s: T.Buffer((8,), "int64"), y: T.Buffer((8,), "int64")):
    T.assume_buffer_domain(s, [0, 8])
    for i in range(8):
        y[i] = s[s[i]]
"""
    func = parse(text)
    assert isinstance(func, PrimFunc)
    made = specialize_buffer(func, "s", lambda i: i * 2)
    assert 'y[i] = T.Cast("int64", i) * T.int64(4)' in str(made)
    assert not made.buffer_domains
    assert "y[i] = T.int64(3)" in str(specialize_buffer(func, "s", lambda i: 3))


@pytest.mark.parametrize(
    ("name", "closed_form", "kind", "message"),
    [
        ("index", lambda i, j: i, ArgumentError, "no buffer is named 'index'; there are indices"),
        ("indices", lambda i: i, ShapeError, "takes 1 indices; the buffer has 2"),
        ("indices", lambda i, j: (i, j), ShapeError, "has 2 results"),
        ("y", lambda i: i, UnsupportedError, "buffer 'y' is written to"),
    ],
)
def test_refusals(name: str, closed_form: object, kind: type[UserError], message: str) -> None:
    with pytest.raises(kind, match=message):
        specialize_buffer(band, name, closed_form)  # type: ignore[arg-type]
