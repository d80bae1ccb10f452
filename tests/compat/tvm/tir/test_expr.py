"""Iteration variables and names of `tvm.tir` as scripts make them."""

from __future__ import annotations

import pytest

import tileloom.compat.tvm as tvm
from tileloom.compat.tvm import tir
from tileloom.expr import const


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_iteration_variables(kind: str) -> None:
    """A domain may be a pair of begin and end, a variable a name, whose type is the domain's."""
    axis = tir.IterVar((const(2, kind), const(10, kind)), "i", 2)
    assert (int(axis.dom.min), int(axis.dom.extent), axis.iter_type) == (2, 8, 2)
    assert axis.var.name == "i" and str(axis.var.dtype) == kind
    given = tir.Var("j", kind)
    assert tir.IterVar(tvm.ir.Range(0, 4), given, 0).var is given


def test_threads_have_no_domain() -> None:
    axis = tir.IterVar(None, "t", tir.IterVar.ThreadIndex, "threadIdx.x")
    assert axis.dom is None and str(axis.var.dtype) == "int32"
    assert (axis.iter_type, axis.thread_tag) == (1, "threadIdx.x")


def test_names_that_stand_elsewhere() -> None:
    assert tir.Range is tvm.ir.Range and tir.build is tvm.build
    assert tir.TensorIntrin.get("wmma_sync_16x16x16_f16f16f32") is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = tir.no_such_name
