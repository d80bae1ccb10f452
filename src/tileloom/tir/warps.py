"""What is legal in calls that the threads of a warp make together, and in fences."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING
from ..expr import StringImm
from ..expr.warp_ops import NAMED_BARRIERS, WARP_ARGUMENTS, WARP_RESULTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..expr import Call

FENCE, FENCE_SCOPES = "tir.memory_fence", ("block", "gpu", "system")
_VOTES = ("tir.ballot_sync", "tir.any_sync", "tir.all_sync")


def is_warp_call(call: Call) -> bool:
    """Whether the threads of a warp or block make the call together, or a thread asks for itself.

    >>> from ..expr import Call
    >>> is_warp_call(Call("int32", "tir.lane_id", ()))
    True
    """
    return call.op in WARP_RESULTS


def warp_complaints(call: Call) -> Iterator[str]:
    """What is wrong with such a call, or with a fence."""
    name = call.op.removeprefix("tir.")
    if call.op == FENCE:
        scope = call.args[0] if call.args else None
        if not isinstance(scope, StringImm) or scope.value not in FENCE_SCOPES:
            yield f"{name} is for one of {', '.join(FENCE_SCOPES)}, not {scope}"
        return
    if len(call.args) != WARP_ARGUMENTS[call.op]:
        return  # which is a complaint of its own
    if any(arg.dtype.lanes > 1 for arg in call.args):
        yield f"{name} takes single values, not vectors"
    if call.op in NAMED_BARRIERS:
        for what, arg in zip(("number", "count"), call.args, strict=True):
            if not arg.dtype.is_int:
                yield f"the {what} of {name} is an integer, not a {arg.dtype}"
        return
    if call.args and (not call.args[0].dtype.is_int or call.args[0].dtype.bits != 32):
        yield f"{name} takes a mask of 32 lanes first, not a {call.args[0].dtype}"
    if call.op in _VOTES and not call.args[1].dtype.is_bool:
        yield f"{name} takes a condition, not a {call.args[1].dtype}"
    if name.startswith("reduce_"):
        kind = call.args[1].dtype
        if not kind.is_int or kind.bits != 32 or call.dtype is not kind:
            yield f"{name} is of 32-bit integers, not {kind} to {call.dtype}"
    elif call.dtype != WARP_RESULTS[call.op]:
        yield f"{name} gives a {WARP_RESULTS[call.op]}, not a {call.dtype}"
