"""The emulator from the public face."""

from __future__ import annotations

import numpy as np
import pytest

import tileloom
from gpu_suite import has_gpu
from tileloom import te
from tileloom.base.errors import UnsupportedError
from tileloom.lower import lower
from tileloom.schedule import Schedule
from tileloom.script import from_source
from tileloom.script import tir as T
from tileloom.simt import run_kernels
from tileloom.tir import PrimFunc, run


def scheduled() -> Schedule:
    a = te.placeholder((64,), name="A")
    sch = Schedule(te.create_prim_func([a, te.compute((64,), lambda i: a[i] + 1.0, name="B")]))
    sch.bind(sch.get_loops("B")[0], "threadIdx.x")
    return sch


def test_build_for_the_emulator() -> None:
    sch = scheduled()
    kernel = tileloom.build(sch.mod["main"], target="cuda", device="emulator")
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    kernel(a, b)
    assert np.array_equal(b, a + 1)
    several = tileloom.build(sch.mod, target="cuda", device="emulator")
    assert list(several) == ["main"]
    assert repr(several["main"]).startswith("EmulatedKernel(")


def test_barriers_of_all_blocks_are_refused_as_by_ptx() -> None:
    @T.prim_func
    def func(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")) -> None:
        t = T.launch_thread("threadIdx.x", 64)
        A[t] = t
        T.tvm_storage_sync("global")
        B[t] = A[63 - t]

    said = "no barrier orders .*global.* memory within a kernel"
    with pytest.raises(UnsupportedError, match=said):
        tileloom.build(func, "cuda", device="emulator")
    with pytest.raises(UnsupportedError, match=said):
        tileloom.assembly(func, "cuda -arch=sm_80")
    with pytest.raises(UnsupportedError, match=said):
        run_kernels(lower(func, "cuda"), np.zeros(64, "int32"), np.zeros(64, "int32"))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_floats_become_integers_as_on_cpus(source: str, kind: str) -> None:
    """Out of range they saturate, NaN is 0: in the emulator, the interpreter and code alike."""
    most = 6e4 if source == "float16" else 3e19
    values = [0.0, 1.9, -1.9, 127.5, 128.0, 300.0, -300.0, 3e4, 6e4, np.inf, -np.inf, np.nan]
    values += [x for x in (2.0**31, -(2.0**31), 3e9, -3e9, 2.0**63, 2.0**64, most) if x <= most]
    values = [x for x in values if source != "float16" or abs(x) < 65504 or not np.isfinite(x)]
    x = np.array(values, source)
    n = len(x)
    text = """
from tileloom.script import tir as T

@T.prim_func
def func(A: T.Buffer((N,), "SOURCE"), B: T.Buffer((N,), "KIND")):
    LOOP
        B[t] = T.Cast("KIND", A[t])
"""
    text = text.replace("(N,)", f"({n},)").replace("SOURCE", source).replace("KIND", kind)
    found = []
    for loop in (f"for t in range({n}):", f'for t in T.thread_binding({n}, "threadIdx.x"):'):
        func = from_source(text.replace("LOOP", loop))
        assert isinstance(func, PrimFunc)
        on_gpu = "thread_binding" in loop
        b = np.ones(n, kind)
        tileloom.build(func, *(("cuda", "emulator") if on_gpu else ()))(x, b)
        found.append(b.tolist())
        if not on_gpu:
            run(func, x, b)
            found.append(b.tolist())
    assert found[0] == found[1] == found[2]
    limits = np.iinfo(kind)
    assert found[0][9:12] == [limits.max, limits.min, 0]


def test_other_devices_are_refused() -> None:
    func = scheduled().mod["main"]
    with pytest.raises(UnsupportedError, match="no device 'gpu0'"):
        tileloom.build(func, target="cuda", device="gpu0")
    with pytest.raises(UnsupportedError, match="for the target cpu"):
        tileloom.build(func, target="cpu", device="emulator")
    if not has_gpu():
        with pytest.raises(UnsupportedError, match="emulator"):
            tileloom.build(func, target="cuda")
