"""What instructions of matrix units and asynchronous copies are counted as."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.expr import Call, Ramp, Var, as_expr, const
from tileloom.simt.instruction_cost import multiplications, pieces

SHARED = Var("S", "handle", ("float16", "shared"))
GLOBAL = Var("A", "handle", ("float16", "global"))
BARE = Var("P", "handle")


def call(name: str, *args: Any) -> Call:
    return Call("handle", f"tir.{name}", [as_expr(arg) for arg in args])


@pytest.mark.parametrize(
    ("made", "count"),
    [
        (call("ptx_mma", "m16n8k16", "row", "col", "fp16", "fp16", "fp32"), 2048),
        (call("ptx_mma", "m16n8k8", "row", "col", "fp16", "fp16", "fp16"), 1024),
        (call("ptx_mma", "m8n8k4", "row", "col", "fp64", "fp64", "fp64"), 256),
        (call("ptx_wgmma", "m64n8k16", "fp16", "fp16", "fp32"), 64 * 8 * 16 // 4),
        (call("ptx_wgmma", "m64n256k16", "fp16", "fp16", "fp32"), 64 * 256 * 16 // 4),
        (call("ptx_wgmma", "m64n8k16", "fp16", "fp16"), 0),
        (call("ptx_mma", "m16n8k16", "row", "col", "fp16", "fp16"), 0),
        (call("ptx_commit_group"), 0),
    ],
)
def test_multiplications(made: Call, count: int) -> None:
    assert multiplications(made) == count


def shown(made: Call) -> list[tuple[str, str, bool, int]]:
    """Buffer, index, whether it is a store, and lanes."""
    return [(p.buffer.name, str(p.index), p.is_store, p.lanes) for p in pieces(made)]


def pointer(data: Var, offset: int) -> Call:
    kind = Call("float16", "tir.type_annotation", [])
    return Call("handle", "tir.tvm_access_ptr", [kind, data, const(offset), const(64), const(1)])


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (call("ptx_cp_async", SHARED, 3, GLOBAL, 5, 16),
         [("A", Ramp(const(5), const(1), 8), False, 32), ("S", Ramp(const(3), const(1), 8), True,
                                                          32)]),
        (call("ptx_cp_async", SHARED, 3, GLOBAL, 5, 2),
         [("A", 5, False, 32), ("S", 3, True, 32)]),
        (call("ptx_cp_async", BARE, 3, GLOBAL, 5, 4),
         [("A", Ramp(const(5), const(1), 2), False, 32)]),
        (call("ptx_cp_async", SHARED, 3, GLOBAL, 5, Var("n")), []),
        (call("ptx_ldmatrix", False, 4, ".b16", BARE, 0, SHARED, 7),
         [("S", Ramp(const(7), const(1), 8), False, 32)]),
        (call("ptx_ldmatrix", False, 1, ".b16", BARE, 0, pointer(SHARED, 2), 7),
         [("S", Ramp(const(9), const(1), 8), False, 8)]),
        (call("ptx_ldmatrix", False, Var("n"), ".b16", BARE, 0, SHARED, 7), []),
        (call("ptx_ldmatrix", False, 2, ".b16", BARE, 0, BARE, 7), []),
        (call("ptx_commit_group"), []),
    ],
)  # fmt: skip
def test_pieces(made: Call, expected: list[tuple[str, Any, bool, int]]) -> None:
    wanted = [(name, str(as_expr(at)), store, lanes) for name, at, store, lanes in expected]
    assert shown(made) == wanted
