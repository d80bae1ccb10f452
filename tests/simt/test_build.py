"""The emulator from the public face."""

from __future__ import annotations

import numpy as np
import pytest

import tileloom
from gpu_suite import has_gpu
from tileloom import te
from tileloom.base.errors import UnsupportedError
from tileloom.schedule import Schedule


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


def test_other_devices_are_refused() -> None:
    func = scheduled().mod["main"]
    with pytest.raises(UnsupportedError, match="no device 'gpu0'"):
        tileloom.build(func, target="cuda", device="gpu0")
    with pytest.raises(UnsupportedError, match="for the target cpu"):
        tileloom.build(func, target="cpu", device="emulator")
    if not has_gpu():
        with pytest.raises(UnsupportedError, match="emulator"):
            tileloom.build(func, target="cuda")
