"""Programs over coordinates lowered to positions and to plain buffers, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from sparse_inputs import CASES, Arguments, case, kinds, program
from tileloom.base.errors import VerifyError
from tileloom.expr import IntImm, const, simplify, substitute
from tileloom.script import parse
from tileloom.sparse import lower_sparse_buffer, lower_sparse_iter
from tileloom.tir import (
    Block,
    IRModule,
    PrimFunc,
    SparseBuffer,
    assert_structural_equal,
    collect,
    run,
    sparse_level,
    verify,
)

Array = np.ndarray[Any, Any]
KINDS = [(name, kind) for name in CASES for kind in kinds(name)]


def lowered(name: str, kind: str = "random", index_dtype: str = "int32") -> PrimFunc:
    return lower_sparse_buffer(lower_sparse_iter(program(name, kind, index_dtype)))["main"]


def fitting(func: PrimFunc, arguments: Arguments) -> list[Any]:
    """The arguments in order, each array in the shape of its buffer."""
    values = [arguments[param.name] for param in func.params]
    known = {
        param: const(int(value), param.dtype)
        for param, value in zip(func.params, values, strict=True)
        if not isinstance(value, np.ndarray)
    }
    for k, param in enumerate(func.params):
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            extents = [simplify(substitute(extent, known)) for extent in buffer.shape]
            shape = [extent.value for extent in extents if isinstance(extent, IntImm)]
            values[k] = values[k].reshape(shape)
    return values


def check(name: str, kind: str, index_dtype: str, compiled: bool) -> None:
    arguments, expected = case(name, kind, 1, index_dtype)
    func = lowered(name, kind, index_dtype)
    values = fitting(func, arguments)
    if compiled:
        tileloom.build(func, target="cpu")(*values)
    else:
        run(func, *values)
    found = {param.name: value for param, value in zip(func.params, values, strict=True)}
    for key, wanted in expected.items():
        np.testing.assert_allclose(
            found[key].reshape(-1), wanted.reshape(-1), rtol=2e-5, atol=1e-5, err_msg=key
        )


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_lowered_programs_compute_the_same(name: str, kind: str) -> None:
    check(name, kind, "int32", compiled=False)


@pytest.mark.parametrize("name", CASES)
def test_compiled_programs_compute_the_same(name: str) -> None:
    check(name, "random", "int64" if len(name) % 2 else "int32", compiled=True)


@pytest.mark.slow
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_all_of_them_compiled(name: str, kind: str, index_dtype: str) -> None:
    check(name, kind, index_dtype, compiled=True)


@pytest.mark.parametrize("name", CASES)
def test_every_stage_is_text(name: str) -> None:
    positions = lower_sparse_iter(program(name))
    plain = lower_sparse_buffer(positions)
    for stage in (positions, plain, lower_sparse_buffer(positions, flatten=True)):
        assert_structural_equal(stage, parse(str(stage)))
    assert [sparse_level(stage["main"]) for stage in (positions, plain)] == [1, 0]
    assert not plain["main"].sp_axes
    assert not any(isinstance(buffer, SparseBuffer) for buffer in plain["main"].buffers)
    verify(plain)


# ---------------------------------------------------------------------------- what they look like


def blocks(module: IRModule) -> list[str]:
    found = collect(module["main"].body, Block)
    return [block.name_hint for block in found if block.name_hint != "root"]


def test_blocks_begin_where_extents_vary() -> None:
    assert blocks(lower_sparse_iter(program("csrmm"))) == ["csrmm0", "csrmm1"]
    assert blocks(lower_sparse_iter(program("ellmm"))) == ["ellmm0"]
    assert blocks(lower_sparse_iter(program("square_sum"))) == [f"square_sum{k}" for k in range(3)]


def test_searches_are_shared_and_stand_first() -> None:
    text = """
@T.prim_func
def func(indptr: T.handle, indices: T.handle, m: T.int32, n: T.int32, nnz: T.int32):
    T.func_attr({"sparse_tir_level": 2})
    I = T.dense_fixed(m)
    J = T.sparse_variable(I, (n, nnz), (indptr, indices))
    A = T.alloc_sparse_buffer([I, J], "int32")
    B = T.alloc_sparse_buffer([I, J], "int32")
    with T.sp_iter([T.fuse(I, J)], "SS", "first") as [i, j]:
        A[i, j] = (i + j) * (i - j)
    with T.sp_iter([T.fuse(I, J)], "SS", "second") as [i, j]:
        B[i, j] = A[i, j] + i
"""
    func = parse(text)
    assert isinstance(func, PrimFunc)
    assert blocks(lower_sparse_iter(func)) == ["binary_search_block_0_0", "first0", "second0"]


def test_unneeded_searches_are_left_out() -> None:
    text = """
@T.prim_func
def func(a: T.handle, indptr: T.handle, indices: T.handle, m: T.int32, n: T.int32, nnz: T.int32):
    T.func_attr({"sparse_tir_level": 2})
    I = T.dense_fixed(m)
    J = T.sparse_variable(I, (n, nnz), (indptr, indices))
    A = T.match_sparse_buffer(a, [I, J])
    with T.sp_iter([T.fuse(I, J)], "SS", "double") as [i, j]:
        A[i, j] = A[i, j] * T.float32(2)
"""
    func = parse(text)
    assert isinstance(func, PrimFunc)
    module = lower_sparse_iter(func)
    assert blocks(module) == ["double0"]
    assert "A_data[vj] = A_data[vj] * T.float32(2.0)" in str(lower_sparse_buffer(module))


def test_fixed_dimensions_stay() -> None:
    shapes = {b.name: b.ndim for b in lowered("bsrmm").buffers}
    assert [shapes[name] for name in ("A_data", "B_data", "C_data")] == [3, 3, 3]
    flat = lower_sparse_buffer(lower_sparse_iter(program("bsrmm")), flatten=True)["main"]
    assert {buffer.ndim for buffer in flat.buffers} == {1}


def test_other_levels_stay_as_they_are() -> None:
    plain = lower_sparse_buffer(lower_sparse_iter(program("csrmm")))
    assert lower_sparse_iter(plain)["main"] is plain["main"]
    assert lower_sparse_buffer(plain)["main"] is plain["main"]
    stage_one = IRModule({"main": program("csrmm")})
    assert lower_sparse_buffer(stage_one)["main"] is stage_one["main"]


def test_what_is_not_legal_is_refused() -> None:
    text = """
@T.prim_func
def func(a: T.handle, indptr: T.handle, indices: T.handle, m: T.int32, n: T.int32, nnz: T.int32):
    T.func_attr({"sparse_tir_level": 2})
    I = T.dense_fixed(m)
    J = T.sparse_variable(I, (n, nnz), (indptr, indices))
    A = T.match_sparse_buffer(a, [I, J])
    with T.sp_iter([J, I], "SS", "double") as [j, i]:
        A[i, j] = A[i, j] * T.float32(2)
"""
    func = parse(text)
    assert isinstance(func, PrimFunc)
    with pytest.raises(VerifyError, match="parent axis 'I' of 'J' does not appear before it"):
        lower_sparse_iter(func)
