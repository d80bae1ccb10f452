"""Small programs, by names of TVM."""

from __future__ import annotations

from tileloom.compat.tvm import IRModule, te
from tileloom.compat.tvm.meta_schedule.testing import te_workload


def product(size: int = 16) -> IRModule:
    """A matrix product: the block "C"."""
    func = te.create_prim_func(te_workload.matmul(size, size, size))
    return IRModule({"main": func})


def sums(size: int = 8) -> IRModule:
    """Two blocks, "B" and "C"."""
    a = te.placeholder((size,), name="A")
    b = te.compute((size,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((size,), lambda i: b[i] + 1.0, name="C")
    return IRModule({"main": te.create_prim_func([a, c])})
