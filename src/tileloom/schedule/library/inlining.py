"""auto_inline: compute where it is used what needs no buffer of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...expr import REDUCE, Call, post_order
from ...tir import Block
from ..analysis.blocks import leaf_store
from ..instruction import can
from ..rv import BlockRV
from ._common import BlockLike, block_of

if TYPE_CHECKING:
    from ..schedule import Schedule

# Calls that cost no more than an addition.
_CHEAP = frozenset({"tir.if_then_else", "tir.likely", "tir.abs", "tir.fabs"})


def auto_inline(
    sch: Schedule,
    blocks: Sequence[BlockLike] | None = None,
    into_producers: bool = True,
    repeat_calls: bool = False,
) -> list[str]:
    """Inline elementwise blocks into what reads them, or else into what they read.

    Args:
        blocks: which ones; by default all of the function that is worked on.
        into_producers: whether a block that cannot be inlined into its consumers may be inlined
            into its only producer.
        repeat_calls: whether calls such as `exp` may be inlined into several consumers or into a
            reduction, which compute them several times.

    Returns:
        The names of the blocks that are gone.

    >>> from tileloom import Schedule, te
    >>> from tileloom.script import tir as T
    >>> A = te.placeholder((64,), name="A")
    >>> B = te.compute((64,), lambda i: A[i] + 1.0, name="B")
    >>> C = te.compute((64,), lambda i: T.exp(B[i]), name="C")
    >>> D = te.compute((64,), lambda i: C[i] * C[63 - i], name="D")
    >>> sch = Schedule(te.create_prim_func([A, D]))
    >>> auto_inline(sch)
    ['B', 'C']
    """
    left = _all_blocks(sch) if blocks is None else [block_of(sch, block) for block in blocks]
    gone: list[str] = []
    for forward in (True, False) if into_producers else (True,):
        # From the results backward: what is inlined takes its own inputs with it.
        rest = []
        for block in left if forward else reversed(left):
            name = sch.get(block).name_hint
            if _inline(sch, block, forward, repeat_calls):
                gone.append(name)
            else:
                rest.append(block)
        left = rest if forward else rest[::-1]
    return gone


def _all_blocks(sch: Schedule) -> list[BlockRV]:
    found: list[BlockRV] = sch.get_child_blocks(sch.get_block("root"))
    return found


def _inline(sch: Schedule, block: BlockRV, forward: bool, repeat_calls: bool) -> bool:
    sref = sch.get_sref(block)
    if not forward:
        if _reduces(sch.get(block)) or not can(sch.state, "ReverseComputeInline", sref):
            return False
        sch.reverse_compute_inline(block)
        return True
    if not can(sch.state, "ComputeInline", sref):
        return False
    if not repeat_calls and _calls(sch.get(block)):
        users = [sch.get(user) for user in sch.get_consumers(block)]
        if len(users) > 1 or any(_reduces(user) for user in users):
            return False
    sch.compute_inline(block)
    return True


def _reduces(block: Block) -> bool:
    return any(axis.iter_type == REDUCE for axis in block.iter_vars)


def _calls(block: Block) -> bool:
    store = leaf_store(block)
    return store is not None and any(
        isinstance(node, Call) and node.op not in _CHEAP for node in post_order(store.value)
    )
