"""Prefetches, and stores past the caches."""

from __future__ import annotations

import numpy as np
import pytest

import tileloom
from tileloom.codegen.module import emit_module
from tileloom.lower import lower
from tileloom.script import parse
from tileloom.tir import IRModule, PrimFunc, access_regions, run

COPY = """
@T.prim_func
def copy(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    T.attr(C.data, "pragma_nontemporal", {align})
    for i in range(4):
        T.evaluate(T.prefetch(T.address_of(A[i * 16 + 128]), 0, 3, 1))
        C[T.Ramp(i * 16, 1, 16)] = A[T.Ramp(i * 16, 1, 16)]
"""


def aligned(count: int) -> np.ndarray:
    room = np.zeros(count + 16, "float32")
    first = -room.ctypes.data % 64 // 4
    return room[first : first + count]


@pytest.mark.parametrize("align", [16, 64])
def test_hints_change_no_result(align: int) -> None:
    program = parse(COPY.format(align=align))
    assert isinstance(program, PrimFunc)
    a, c = aligned(64), aligned(64)
    a[:] = np.arange(64)
    tileloom.build(program, target="cpu")(a, c)
    np.testing.assert_array_equal(c, a)
    c[:] = 0
    run(program, a, c)
    np.testing.assert_array_equal(c, a)


def test_they_reach_the_code() -> None:
    program = parse(COPY.format(align=64))
    assert isinstance(program, PrimFunc)
    lowered = lower(IRModule({"main": program}), "cpu")
    text = emit_module(lowered).ir_text
    assert 'call void @"llvm.prefetch.p0"' in text
    assert text.count("!nontemporal") == text.count("store <16 x float>") == 1
    assert "align 64" in text.split("store <16 x float>")[1].splitlines()[0]


def test_what_is_prefetched_is_not_read() -> None:
    program = parse(COPY.format(align=16))
    assert isinstance(program, PrimFunc)
    reads, writes = access_regions(program.body)
    assert [(str(r.region[0].min), str(r.region[0].extent)) for r in reads] == [("0", "64")]
    assert [region.buffer.name for region in writes] == ["C"]
