"""The threads of a kernel: one loop for each tag, around everything in the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...expr import IntImm
from ...tir import THREAD_BINDING, For, Stmt, stmt_children
from .forms import known_number
from .program import Loop

UNROLL = "pragma_auto_unroll_max_step"


def launched(kernel: For, most: Mapping[str, int] | None = None) -> dict[str, Loop]:
    """The loops over the threads of a kernel by their tags, in the order in which they stand.

    Args:
        kernel: its outermost thread loop, whose annotations stay with it.
    """
    loops: dict[str, Loop] = {}
    for loop in _thread_loops(kernel):
        tag = tag_of(loop)
        if tag not in loops:
            extent = loop.extent.value if isinstance(loop.extent, IntImm) else None
            first = loop.min.value if isinstance(loop.min, IntImm) else 0
            unroll = unroll_step(loop.annotations) if loop is kernel else 0
            loops[tag] = Loop(
                loop.loop_var, first, extent, extent or 1, THREAD_BINDING, tag, unroll
            )
    return loops


def _thread_loops(stmt: Stmt) -> Iterator[For]:
    if isinstance(stmt, For) and stmt.thread_binding is not None:
        yield stmt
    for child in stmt_children(stmt):
        yield from _thread_loops(child)


def tag_of(loop: For) -> str:
    """The tag of the thread that a loop is bound to; empty for none."""
    return "" if loop.thread_binding is None else loop.thread_binding.thread_tag


def unroll_step(annotations: Mapping[str, Any]) -> int:
    """How many steps code may be unrolled to, as a loop is annotated; 0 for not at all."""
    return known_number(annotations[UNROLL]) if UNROLL in annotations else 0


def shares(scope: str, tag: str) -> bool:
    """Whether memory of a scope is for all threads of a tag, wherever it is allocated."""
    if not tag:
        return False
    rank = {"global": 0, "shared": 1, "warp": 2}.get(scope.split(".", 1)[0], 3)
    if rank == 2 and tag == "threadIdx.x":
        return True
    return rank <= (0 if tag.startswith("blockIdx") else 1)
