"""`tvm.te`: tensor expressions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .... import compute as _compute
from ....base.errors import UnsupportedError
from ....compute import ComputeOp, PlaceholderOp, Tensor, TensorSlice, compute
from ....expr import THREAD, ExprLike, IterVar, Range, SizeVar, Var
from ....tir import For, PrimFunc, collect
from .._names import missing
from ..tir import op as _op
from ..tir.function import IndexMap

AXIS_SEPARATOR = IndexMap.AXIS_SEPARATOR
_missing = missing(__name__)


def var(name: str = "tindex", dtype: str = "int32", span: Any = None) -> Var:
    """A variable."""
    return Var(name, dtype)


def size_var(name: str = "size", dtype: str = "int32", span: Any = None) -> SizeVar:
    """A variable that is never negative."""
    return SizeVar(name, dtype)


def placeholder(
    shape: Sequence[ExprLike] | ExprLike, dtype: str | None = None, name: str = "placeholder"
) -> Tensor:
    """An input tensor."""
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    return _compute.placeholder(extents, dtype or "float32", name)


def reduce_axis(
    dom: Sequence[ExprLike] | Range, name: str = "rv", thread_tag: str = "", span: Any = None
) -> IterVar:
    """An axis to reduce over."""
    return _compute.reduce_axis(dom, name)


def thread_axis(dom: Any = None, tag: str = "", name: str = "", span: Any = None) -> IterVar:
    """A thread's axis: `thread_axis("threadIdx.x")`, `thread_axis((0, 32), "threadIdx.x")`."""
    if isinstance(dom, str):
        dom, tag = None, dom
    if isinstance(dom, (tuple, list)):
        dom = Range(dom[0], dom[1] - dom[0])
    elif dom is not None and not isinstance(dom, Range):
        dom = Range.from_extent(dom)
    return IterVar(dom, Var(name or tag), THREAD, tag)


def create_prim_func(
    ops: Sequence[Tensor | Var], index_dtype_override: str | None = None
) -> PrimFunc:
    """The function that computes the tensors among `ops` from the placeholders among them.

    >>> A = placeholder((4,), name="A")
    >>> create_prim_func([A, compute((4,), lambda i: A[i] + 1.0, name="B")]).name
    'main'
    """
    func = _compute.create_prim_func(ops)
    if index_dtype_override is not None and any(
        node.loop_var.dtype != index_dtype_override for node in collect(func.body, For)
    ):
        raise UnsupportedError(
            f"indices have the types of the extents here, not {index_dtype_override}",
            hint=f'give the shape in this type: tvm.tir.const(n, "{index_dtype_override}")',
        )
    return func


def tag_scope(tag: str) -> AbstractContextManager[None]:
    """A scope whose operations have a tag; schedules here do not ask for tags."""
    return nullcontext()


def convert(value: Any) -> Any:
    """A number as an expression."""
    return _op.const(value) if isinstance(value, (bool, int, float)) else value


def __getattr__(name: str) -> Any:
    return getattr(_op, name) if name in _op.__all__ else _missing(name)


__all__ = [
    "ComputeOp", "PlaceholderOp", "Tensor", "TensorSlice", "compute", "convert", "create_prim_func",
    "placeholder", "reduce_axis", "size_var", "tag_scope", "thread_axis", "var",
]  # fmt: skip
