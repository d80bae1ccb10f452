"""Tensorized blocks: intrinsics that are registered again, and those that begin their sums."""

from __future__ import annotations

from typing import Any

import pytest

from schedule.random_intrinsics import intrinsic_of
from tileloom import Schedule, te
from tileloom.expr import Call, const
from tileloom.plan import tile_product
from tileloom.schedule.tensor_intrin import TensorIntrin
from tileloom.target import target

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


@pytest.mark.parametrize("rows", [32, 19])
def test_products_in_tile_registers_begin_their_sums(rows: int) -> None:
    A = te.placeholder((rows, 32), "int32", name="A")
    B = te.placeholder((32, 40), "int32", name="B")
    k = te.reduce_axis((0, 32), name="k")

    def term(i: Any, j: Any) -> Any:
        return te.sum(Call("int32", "tir.dot_s8s8", (const(0), A[i, k], B[k, j])), axis=k)

    sch = Schedule(te.create_prim_func([A, B, te.compute((rows, 40), term, name="C")]))
    tile_product(sch, target("cpu -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids"))
    report = sch.verify()
    assert report.ok, str(report)
    assert f"amx_s8s8_{rows if rows == 32 else 20}x32x32" in str(report)
