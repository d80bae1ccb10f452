"""Blocks that change memory atomically: their iterations may run together, and no more often."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom.schedule import Schedule
from tileloom.schedule.errors import ScheduleError
from tileloom.script import tir as T


@T.prim_func
def histogram(A: T.Buffer((1000,), "int32"), H: T.Buffer((7,), "int32")) -> None:
    for i in range(1000):
        with T.block("h"):
            vi = T.axis.spatial(1000, i)
            T.atomic_add(T.address_of(H[A[vi]]), 1)


@T.prim_func
def mixed(A: T.Buffer((1000,), "int32"), H: T.Buffer((7,), "int32")) -> None:
    for i in range(1000):
        with T.block("h"):
            vi = T.axis.spatial(1000, i)
            T.atomic_add(T.address_of(H[A[vi]]), H[0])


def counted(sch: Schedule, **where: Any) -> None:
    a = np.random.default_rng(0).integers(0, 7, 1000).astype("int32")
    h = np.zeros(7, "int32")
    tileloom.build(sch.mod["main"], **where)(a, h)
    assert h.tolist() == np.bincount(a, minlength=7).tolist()


def test_threads_of_a_gpu() -> None:
    sch = Schedule(histogram)
    block, thread = sch.split(sch.get_loops("h")[0], [None, 64])
    sch.bind(block, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    counted(sch, target="cuda", device="emulator")
    assert sch.verify().state == "unknown", "where atomic calls go is in the data"


@pytest.mark.parametrize("kind", ["parallel", "vectorize", "unroll"])
def test_loops_of_a_cpu(kind: str) -> None:
    sch = Schedule(histogram)
    _, inner = sch.split(sch.get_loops("h")[0], [None, 8])
    getattr(sch, kind)(inner)
    counted(sch)


def test_plain_reads_of_the_same_memory_are_refused() -> None:
    sch = Schedule(mixed)
    with pytest.raises(ScheduleError, match="both reads and writes 'H'"):
        sch.parallel(sch.get_loops("h")[0])


@T.prim_func
def by_pointer(
    A: T.Buffer((100,), "int32"), H: T.Buffer((7,), "int32"), B: T.Buffer((7,), "int32")
) -> None:
    for i in range(100):
        with T.block("h"):
            vi = T.axis.spatial(100, i)
            T.atomic_add(H.access_ptr("rw", offset=A[vi]), 1)
    for i in range(7):
        with T.block("b"):
            vi = T.axis.spatial(7, i)
            B[vi] = H[vi] * 2


def test_what_a_pointer_leads_to_is_read_and_written_anywhere() -> None:
    sch = Schedule(by_pointer)
    block = sch.get(sch.get_block("h"))
    for regions, names in ((block.reads, ["H", "A"]), (block.writes, ["H"])):
        assert sorted(r.buffer.name for r in regions) == sorted(names)
        (whole,) = [r for r in regions if r.buffer.name == "H"]
        assert [(part.min.value, part.extent.value) for part in whole.region] == [(0, 7)]
    assert [sch.get(b).name_hint for b in sch.get_consumers("h")] == ["b"]
