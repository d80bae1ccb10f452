"""Parameters that are not used."""

from __future__ import annotations

import pytest

from tileloom.base.errors import UnsupportedError
from tileloom.script import parse
from tileloom.script import tir as T
from tileloom.sparse.unused_args import RemoveUnusedArgs, remove_unused_args
from tileloom.tir import IRModule, PrimFunc, assert_structural_equal

HEAD = 'T.func_attr({"global_symbol": "main", "sparse_tir_level": 0})'


def names(text: str) -> list[str]:
    """The parameters that stay."""
    func = parse(text)
    assert isinstance(func, PrimFunc)
    made = remove_unused_args(func)
    assert_structural_equal(parse(str(made)), made)
    assert made.buffer_map.keys() <= set(made.params)
    return [param.name for param in made.params]


def test_buffers_and_scalars() -> None:
    text = f"""
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle, used: T.int32, n: T.int32, other: T.int32):
    {HEAD}
    A = T.match_buffer(a, (used,), "float32")
    B = T.match_buffer(b, (other,), "float32")
    C = T.match_buffer(c, (8,), "float32")
    for i in range(n):
        with T.block("x"):
            vi = T.axis.spatial(n, i)
            C[vi] = A[vi]
"""
    assert names(text) == ["a", "c", "used", "n"]


def test_what_a_shape_needs_stays_only_with_its_buffer() -> None:
    text = f"""
@T.prim_func
def main(a: T.handle, c: T.handle, m: T.int32, s: T.int32):
    {HEAD}
    A = T.match_buffer(a, (4, 4), "float32", strides=[s, 1], elem_offset=m)
    C = T.match_buffer(c, (8,), "float32")
    C[0] = 1.0
"""
    assert names(text) == ["c"]
    assert names(text.replace("C[0] = 1.0", "C[0] = A[0, 0]")) == ["a", "c", "m", "s"]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("T.evaluate(A.data)", ["a"]),
        ("T.evaluate(T.address_of(A[0]))", ["a"]),
        ("T.evaluate(m)", ["m"]),
        ("for i in T.serial(8, annotations={'x': m}):\n        T.evaluate(0)", ["m"]),
        ("for i in range(m):\n        T.evaluate(0)", ["m"]),
        ("with T.block('b'):\n        X = T.alloc_buffer((m,))\n        T.evaluate(0)", ["m"]),
        ("with T.block('b'):\n        T.reads(A[0:m])\n        T.evaluate(0)", ["a", "m"]),
        (
            "with T.block('b'):\n        X = T.match_buffer(A[0:4], (4,))\n        T.evaluate(0)",
            ["a"],
        ),
    ],
)
def test_uses(statement: str, expected: list[str]) -> None:
    text = f"""
@T.prim_func
def main(a: T.handle, m: T.int32):
    {HEAD}
    A = T.match_buffer(a, (8,), "float32")
    {statement}
"""
    assert names(text) == expected


@T.prim_func
def sparse(a: T.handle, n: T.int32) -> None:
    T.func_attr({"sparse_tir_level": 1})
    I = T.dense_fixed(n)
    A = T.match_sparse_buffer(a, [I], "float32")
    for i in range(n):
        A[i] = 1.0


def test_sparse_buffers_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="still has sparse buffers") as caught:
        remove_unused_args(sparse)
    assert "lower_sparse_buffer" in str(caught.value)


def test_modules() -> None:
    func = parse("@T.prim_func\ndef f(a: T.int32, b: T.int32):\n    T.evaluate(b)\n")
    assert isinstance(func, PrimFunc)
    made = RemoveUnusedArgs()(IRModule({"f": func}))
    assert [param.name for param in made["f"].params] == ["b"]
