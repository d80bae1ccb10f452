"""`tvm.build`: what may be passed, and in which order."""

from __future__ import annotations

import numpy as np
import pytest

import tileloom.compat.tvm as tvm
from tileloom.compat.tvm import te, tir


def test_arguments_may_follow() -> None:
    """As in older scripts: `build(schedule or output, [arguments], target)`."""
    a = te.placeholder((3,), name="A")
    b = te.compute((3,), lambda i: a[i] * 2.0, name="B")
    sch = tir.Schedule(te.create_prim_func([a, b]))
    sch.bind(sch.get_loops("B")[0], "threadIdx.x")
    for made in (
        tvm.build(te.create_prim_func([a, b]), "llvm"),
        tvm.build(te.create_prim_func([a, b]), [a, b], "llvm"),
        tvm.build(te.create_prim_func([a, b]), [a, b]),
        tvm.build(sch.mod, "cuda", device="emulator"),
    ):
        x, y = tvm.nd.array(np.arange(3, dtype="float32")), tvm.nd.empty((3,))
        made(x, y)
        assert y.numpy().tolist() == [0, 2, 4]
    gpu = tvm.build(sch.mod, [a, b], "cuda", device="emulator")
    assert gpu.imported_modules and not tvm.build(sch.mod, "llvm").imported_modules


def test_what_cannot_be_built() -> None:
    with pytest.raises(tvm.TVMError, match="cannot build str"):
        tvm.build("text")
