"""`tvm.tir.tensor_intrin.riscv_cpu`: it exports no names of intrinsics."""

from __future__ import annotations

from ..._names import missing

__getattr__ = missing(__name__)
