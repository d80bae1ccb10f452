"""Intrinsics that are registered again under their names."""

from __future__ import annotations

import pytest

from schedule.random_intrinsics import intrinsic_of
from tileloom import Schedule, te
from tileloom.schedule.tensor_intrin import TensorIntrin

pytest.importorskip("islpy")


def tiled(adds: bool) -> Schedule:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0 if adds else a[i] * 2.0, name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    sch.blockize(sch.split(sch.get_loops("B")[0], [None, 4])[1])
    return sch


def test_names_that_change_places() -> None:
    schedules = [tiled(True), tiled(False)]
    names = [intrinsic_of(sch.get(sch.get_block("B_o"))) for sch in schedules]
    made = [TensorIntrin.get(name) for name in names]
    for _ in range(2):
        for sch, name in zip(schedules, names, strict=True):
            copy = sch.copy()
            copy.tensorize("B_o", name)
            assert copy.verify().state == "ok"
        names.reverse()
        for name, intrin in zip(names, made, strict=True):
            assert intrin is not None
            TensorIntrin.register(name, intrin.desc, intrin.impl, override=True)
