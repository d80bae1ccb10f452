"""What is wrong with the calls that the threads of a warp make together, and with fences."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.expr import Broadcast, Call, StringImm, Var, const
from tileloom.expr.warp_ops import WARP_ARGUMENTS, WARP_RESULTS
from tileloom.tir.warps import FENCE, FENCE_SCOPES, is_warp_call, warp_complaints

MASK = const(0xFFFFFFFF, "uint32")
SIGNED = const(-1)
X, P, U = Var("x"), Var("p", "bool"), Var("u", "uint32")
NARROW, WIDE, F = Var("b", "int8"), Var("l", "int64"), Var("f", "float32")


def call(name: str, *args: Any, kind: str = "int32") -> Call:
    return Call(kind, f"tir.{name}", [StringImm(a) if isinstance(a, str) else a for a in args])


def rightly(op: str) -> Call:
    """The call with arguments as they should be."""
    last = P if op in ("tir.ballot_sync", "tir.any_sync", "tir.all_sync") else X
    barrier = op.startswith("tir.barrier_")
    args = [const(1), const(64)] if barrier else [MASK, last][: WARP_ARGUMENTS[op]]
    return Call(WARP_RESULTS[op] or "int32", op, args)


@pytest.mark.parametrize("op", sorted(WARP_RESULTS))
def test_calls_of_warps(op: str) -> None:
    good = rightly(op)
    assert is_warp_call(good) and not list(warp_complaints(good))
    # The number of arguments is counted elsewhere, whatever they are.
    assert not list(warp_complaints(Call(good.dtype, op, [*good.args, F])))
    name, found = op.removeprefix("tir."), list(warp_complaints(Call("float64", op, good.args)))
    if name.startswith("barrier_"):
        assert not found  # nobody uses what a barrier gives
    elif name.startswith("reduce_"):
        assert found == [f"{name} is of 32-bit integers, not int32 to float64"]
    else:
        assert found == [f"{name} gives a {WARP_RESULTS[op]}, not a float64"]


@pytest.mark.parametrize(
    ("made", "complaints"),
    [
        (call("ballot_sync", X, P, kind="uint32"), []),
        (call("ballot_sync", SIGNED, P, kind="uint32"), []),
        (call("ballot_sync", MASK, X, kind="uint32"),
         ["ballot_sync takes a condition, not a int32"]),
        (call("any_sync", MASK, X, kind="bool"), ["any_sync takes a condition, not a int32"]),
        (call("all_sync", MASK, F, kind="bool"), ["all_sync takes a condition, not a float32"]),
        (call("match_any_sync", MASK, F, kind="uint32"), []),
        (call("match_all_sync", MASK, WIDE, kind="uint32"), []),
        (call("match_any_sync", WIDE, X, kind="uint32"),
         ["match_any_sync takes a mask of 32 lanes first, not a int64"]),
        (call("syncwarp", NARROW), ["syncwarp takes a mask of 32 lanes first, not a int8"]),
        (call("elect_sync", F, kind="bool"),
         ["elect_sync takes a mask of 32 lanes first, not a float32"]),
        (call("elect_sync", P, kind="bool"),
         ["elect_sync takes a mask of 32 lanes first, not a bool"]),
        (call("reduce_add_sync", MASK, U, kind="uint32"), []),
        (call("reduce_add_sync", MASK, U),
         ["reduce_add_sync is of 32-bit integers, not uint32 to int32"]),
        (call("reduce_max_sync", MASK, WIDE, kind="int64"),
         ["reduce_max_sync is of 32-bit integers, not int64 to int64"]),
        (call("reduce_min_sync", MASK, F, kind="float32"),
         ["reduce_min_sync is of 32-bit integers, not float32 to float32"]),
        (call("reduce_xor_sync", NARROW, X),
         ["reduce_xor_sync takes a mask of 32 lanes first, not a int8"]),
        (call("lane_id", kind="uint32"), ["lane_id gives a int32, not a uint32"]),
        (call("match_any_sync", MASK, Broadcast(X, 2), kind="uint32"),
         ["match_any_sync takes single values, not vectors"]),
        (call("barrier_sync", const(1), F),
         ["the count of barrier_sync is an integer, not a float32"]),
        (call("barrier_arrive", F, const(64)),
         ["the number of barrier_arrive is an integer, not a float32"]),
        (call("barrier_arrive", P, F),
         ["the number of barrier_arrive is an integer, not a bool",
          "the count of barrier_arrive is an integer, not a float32"]),
        (call("barrier_sync", WIDE, NARROW), []),
        (call("barrier_sync", Broadcast(X, 2), X),
         ["barrier_sync takes single values, not vectors"]),
    ],
    ids=str,
)  # fmt: skip
def test_complaints(made: Call, complaints: list[str]) -> None:
    assert list(warp_complaints(made)) == complaints


def test_fences() -> None:
    for scope in FENCE_SCOPES:
        assert not list(warp_complaints(Call("int32", FENCE, [StringImm(scope)])))
    wanted = "memory_fence is for one of block, gpu, system, not"
    for args, shown in (([], "None"), ([StringImm("warp")], '"warp"'), ([X], "x")):
        (found,) = warp_complaints(Call("int32", FENCE, args))
        assert found == f"{wanted} {shown}"
    assert not is_warp_call(Call("int32", FENCE, [StringImm("gpu")]))
    assert not is_warp_call(call("exp", F, kind="float32"))
