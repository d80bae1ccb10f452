"""`tvm.tir.buffer`: buffers from TVM's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import tir
from ....expr import ExprLike, as_expr
from .._names import missing, node_type


def decl_buffer(
    shape: Sequence[ExprLike] | ExprLike,
    dtype: str | None = None,
    name: str = "buffer",
    data: Any = None,
    strides: Sequence[ExprLike] | None = None,
    elem_offset: ExprLike | None = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int] | None = None,
    span: Any = None,
) -> tir.Buffer:
    """A buffer, over a pointer of its own unless `data` is given.

    >>> decl_buffer((16, 16), "float16", name="A", scope="shared").scope()
    'shared'
    """
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    if not scope and data is not None and data.pointee is not None:
        scope = data.pointee[1]
    return tir.make_buffer(
        extents,
        dtype or "float32",
        name,
        scope=scope or "global",
        data=data,
        strides=strides or (),
        elem_offset=None if elem_offset is None else as_expr(elem_offset),
        data_alignment=64 if data_alignment <= 0 else data_alignment,
        offset_factor=offset_factor,
        axis_separators=tuple(int(axis) for axis in axis_separators or ()),
        buffer_type={"": "default", "broadcast": "auto_broadcast"}.get(buffer_type, buffer_type),
    )


Buffer = node_type(tir.Buffer)

__all__ = [
    "Buffer", "decl_buffer",
]  # fmt: skip
__getattr__ = missing(__name__)
