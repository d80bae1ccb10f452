"""Programs split into what is done once for a structure and what is done for each call."""

from __future__ import annotations

import numpy as np
import pytest

import sparse_programs
from sparse_inputs import case
from tileloom import tir
from tileloom.base.errors import UnsupportedError
from tileloom.expr import evaluate
from tileloom.script import parse
from tileloom.script import tir as T
from tileloom.sparse.lower_buffer import lower_sparse_buffer
from tileloom.sparse.lower_iter import lower_sparse_iter
from tileloom.sparse.preprocess import (
    ExtractPreprocess,
    RemovePreprocess,
    extract_preprocess,
    is_preprocess,
    remove_preprocess,
)
from tileloom.tir import IRModule, PrimFunc, assert_structural_equal


def same(func: PrimFunc, expected: PrimFunc) -> None:
    """Equal but for the name, and equal to what is read from its text."""
    assert_structural_equal(func.with_attr("global_symbol", expected.name), expected)
    assert_structural_equal(parse(str(func)), func)


@T.prim_func
def rows(indptr: T.Buffer((9,), "int32"), a: T.Buffer((20,), "float32"), b: T.handle) -> None:
    """Blocks: the row of each element is found once, and then used."""
    B = T.match_buffer(b, (20,), "float32")
    unused = T.alloc_buffer((4,), "int32")  # noqa: F841
    row = T.alloc_buffer((20,), "int32")
    scaled = T.alloc_buffer((20,), "float32")
    for i in range(8):
        with T.block("find"):
            vi = T.axis.spatial(8, i)
            T.block_attr({"preprocess": True})
            for p in range(indptr[vi], indptr[vi + 1]):
                row[p] = vi
    for p in range(20):
        with T.block("scale"):
            vp = T.axis.spatial(20, p)
            scaled[vp] = a[vp] * 2.0
    for p in range(20):
        with T.block("divide"):
            vp = T.axis.spatial(20, p)
            B[vp] = scaled[vp] + T.Cast("float32", row[vp])


@T.prim_func
def rows_each(
    indptr: T.Buffer((9,), "int32"),
    a: T.Buffer((20,), "float32"),
    b: T.handle,
    row_ptr: T.handle,
) -> None:
    B = T.match_buffer(b, (20,), "float32")
    row = T.match_buffer(row_ptr, (20,), "int32")
    scaled = T.alloc_buffer((20,), "float32")
    for p in range(20):
        with T.block("scale"):
            vp = T.axis.spatial(20, p)
            scaled[vp] = a[vp] * 2.0
    for p in range(20):
        with T.block("divide"):
            vp = T.axis.spatial(20, p)
            B[vp] = scaled[vp] + T.Cast("float32", row[vp])


def test_blocks() -> None:
    once, each = extract_preprocess(rows), remove_preprocess(rows)
    assert [p.name for p in once.params] == [p.name for p in each.params]
    assert once.params[-1].name == "row_ptr"
    same(each, rows_each)
    assert_structural_equal(parse(str(once)), once)
    find = tir.collect(once.body, tir.Block)
    assert [block.name_hint for block in find] == ["root", "find"]
    assert not find[0].alloc_buffers


def test_both_after_one_another_do_what_the_whole_does() -> None:
    once, each = extract_preprocess(rows), remove_preprocess(rows)
    random = np.random.default_rng(0)
    indptr = np.array([0, 3, 3, 3, 10, 12, 12, 19, 20], "int32")
    a = random.random(20, "float32")
    whole, parts = np.zeros(20, "float32"), np.zeros(20, "float32")
    row = np.zeros(20, "int32")
    tir.run(rows, indptr, a, whole)
    tir.run(once, indptr, a, parts, row)
    assert not parts.any()
    tir.run(each, indptr, a, parts, row)
    np.testing.assert_array_equal(parts, whole)
    expected = a * 2 + np.repeat(np.arange(8, dtype="float32"), np.diff(indptr))
    np.testing.assert_array_equal(whole, expected)


ITERATIONS = """
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32):
    T.func_attr({"sparse_tir_level": 2})
    I = T.dense_fixed(n)
    A = T.match_sparse_buffer(a, [I], "float32")
    B = T.match_sparse_buffer(b, [I], "float32")
    first = T.alloc_sparse_buffer([I], "float32")
    second = T.alloc_sparse_buffer([I], "float32")
    own = T.alloc_sparse_buffer([I], "float32")
    with T.sp_iter([I], "S", "one") as [i]:
        T.sp_iter_attr({"preprocess": True})
        second[i] = A[i] * 2.0
    with T.sp_iter([I], "S", "two") as [i]:
        T.sp_iter_attr({"preprocess": True})
        own[i] = A[i]
        first[i] = own[i] + 1.0
    with T.sp_iter([I], "S", "three") as [i]:
        B[i] = first[i] + second[i]
"""


def test_iterations() -> None:
    func = parse(ITERATIONS)
    assert isinstance(func, PrimFunc)
    once, each = extract_preprocess(func), remove_preprocess(func)
    # In the order in which they are written, not in that of their declarations.
    assert [p.name for p in once.params] == ["a", "b", "n", "second_ptr", "first_ptr"]
    assert [p.name for p in each.params] == ["a", "b", "n", "second_ptr", "first_ptr"]
    names = [stmt.name for stmt in tir.collect(once.body, tir.SparseIteration)]
    assert names == ["one", "two"]
    assert [b.name for b in tir.collect(once.body, tir.Block)[0].alloc_buffers] == ["own"]
    assert [s.name for s in tir.collect(each.body, tir.SparseIteration)] == ["three"]
    assert not tir.collect(each.body, tir.Block)[0].alloc_buffers
    for made in (once, each):
        assert_structural_equal(parse(str(made)), made)


def test_modules_and_passes() -> None:
    mod = IRModule({"main": rows, "other": rows_each})
    made = RemovePreprocess()(mod)
    assert set(made.functions) == {"main", "other"}
    assert made["other"] is rows_each
    same(made["main"], rows_each)
    assert [p.name for p in ExtractPreprocess()(mod)["main"].params][-1] == "row_ptr"


def test_nothing_to_do_once() -> None:
    assert remove_preprocess(rows_each) is rows_each
    once = extract_preprocess(rows_each)
    assert [p.name for p in once.params] == [p.name for p in rows_each.params]
    assert not tir.collect(once.body, tir.BufferStore)


def test_a_parameter_of_the_name_is_there() -> None:
    text = ITERATIONS.replace("n: T.int32", "n: T.int32, first_ptr: T.int32")
    func = parse(text)
    assert isinstance(func, PrimFunc)
    names = [p.name for p in remove_preprocess(func).params]
    assert names == ["a", "b", "n", "first_ptr", "second_ptr", "first_ptr_"]


MIXED = """
@T.prim_func
def main(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("one"):
            vi = T.axis.spatial(8, i)
            T.block_attr({"preprocess": True})
            a[vi] = 1.0
        with T.block("two"):
            vi = T.axis.spatial(8, i)
            b[vi] = 2.0
"""
LATE = """
@T.prim_func
def main(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("one"):
            vi = T.axis.spatial(8, i)
            a[vi] = 1.0
    for i in range(8):
        with T.block("two"):
            vi = T.axis.spatial(8, i)
            T.block_attr({"preprocess": True})
            b[vi] = a[vi]
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [(MIXED, "share loops with others"), (LATE, "uses 'a', which a statement before it writes")],
)
def test_refusals(text: str, message: str) -> None:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    for split in (extract_preprocess, remove_preprocess):
        with pytest.raises(UnsupportedError, match=message):
            split(func)


def test_the_outermost_annotation_counts() -> None:
    text = """
@T.prim_func
def main(a: T.Buffer((8,), "float32")):
    with T.block("outer"):
        for i in range(8):
            with T.block("inner"):
                vi = T.axis.spatial(8, i)
                T.block_attr({"preprocess": True})
                a[vi] = 1.0
"""
    func = parse(text)
    assert isinstance(func, PrimFunc)
    (outer,) = [b for b in tir.collect(func.body, tir.Block) if b.name_hint == "outer"]
    assert not is_preprocess(outer)
    marked = outer.replace(annotations={"preprocess": 1})
    assert is_preprocess(marked)


@pytest.mark.parametrize("name", ["fused_sddmm", "csrmm_dense_iter", "square_sum_two_K"])
def test_searches_of_a_lowered_program(name: str) -> None:
    """Where elements are is found once for a structure, and used for all values on it."""
    arguments, expected = case(name, "random")
    lowered = lower_sparse_iter(sparse_programs.PROGRAMS[name])
    once = lower_sparse_buffer(extract_preprocess(lowered))["main"]
    each = lower_sparse_buffer(remove_preprocess(lowered))["main"]
    assert [p.name for p in once.params] == [p.name for p in each.params]
    made = once.params[len(arguments) :]
    assert made
    assert all(param.name.endswith("_ptr") for param in made)
    sizes = {p: arguments[p.name] for p in each.params[: len(arguments)] if not p.dtype.is_handle}
    given = []
    for param in each.params:
        value = arguments.get(param.name)
        if param in each.buffer_map:
            shape = [evaluate(extent, sizes) for extent in each.buffer_map[param].shape]
            value = np.full(shape, 1 << 20, "int32") if value is None else value.reshape(shape)
        given.append(value)
    before = {output: arguments[output].copy() for output in expected}
    tir.run(once, *given)
    for output, was in before.items():
        np.testing.assert_array_equal(arguments[output], was)
    tir.run(each, *given)
    for output, wanted in expected.items():
        np.testing.assert_allclose(arguments[output], wanted, rtol=1e-4, atol=1e-4)
