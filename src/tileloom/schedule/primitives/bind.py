"""bind: run a loop along a thread axis of a GPU."""

from __future__ import annotations

from ...expr import THREAD, IterVar, Var
from ...tir import THREAD_BINDING
from ..errors import refuse
from ..instruction import LoopRef, primitive
from ..state import ScheduleState
from ._threads import run_together

_AXES = (
    *(f"{name}.{axis}" for name in ("blockIdx", "threadIdx", "vthread") for axis in "xyz"),
    "vthread",
)


@primitive("Bind")
def bind(state: ScheduleState, loop: LoopRef, thread_axis: str) -> None:
    """Run a loop along a thread axis: blockIdx.x/y/z, threadIdx.x/y/z, vthread or vthread.x/y/z.

    The conditions are those of `parallel`, except that an axis of threadIdx may run reduction
    variables: the threads of a block then reduce together.
    """
    if thread_axis not in _AXES:
        raise refuse(
            f"{thread_axis!r} is no thread axis", at=[loop], hint=f"one of {', '.join(_AXES)}"
        )
    axis = IterVar(None, Var(thread_axis, loop.loop.loop_var.dtype), THREAD, thread_axis)
    run_together(state, loop, THREAD_BINDING, axis)
