"""`tvm.tir.sparse` of SparseTIR: the nodes of programs over sparse axes, for `isinstance`."""

from __future__ import annotations

from ....tir.sparse import (
    AttachedAxis,
    Axis,
    BufferDomain,
    FusedAxis,
    SparseBuffer,
    SparseIteration,
    SpIterVar,
)
from .._names import missing

__all__ = [
    "AttachedAxis", "Axis", "BufferDomain", "FusedAxis", "SpIterVar", "SparseBuffer",
    "SparseIteration",
]  # fmt: skip
__getattr__ = missing(__name__)
