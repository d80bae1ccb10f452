"""Copies from global into shared memory go through registers where a block asks for it."""

from __future__ import annotations

from ...base.errors import UserError
from ...expr import IntImm, const
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    PrimFunc,
    Stmt,
    StmtRewriter,
    loop_nest,
    make_buffer,
    seq,
    under_loops,
)
from ..analysis.threads import is_thread_loop, tag_of
from ..common import fresh_copy, on_body

LOCAL_STAGE = "tir.manifest_shared_memory_local_stage"


def manifest_shared_memory_local_stage(func: PrimFunc) -> PrimFunc:
    """A block with the annotation becomes two: into a local buffer, and from there on.

    The two stand under loops of their own, one after the other, so that a software pipeline can
    give them different stages: what the one fetches the other stores an iteration later. The local
    buffer holds what the serial loops of one thread fetch.

    Needs: blocks without iteration variables; before buffers are compacted.
    Ensures: the annotation is gone.

    Raises:
        UserError: the block does not store one value, or its loops have no constant extents.
    """
    return on_body(func, _Manifest().visit)


class _Manifest(StmtRewriter):
    def __init__(self) -> None:
        self.made: list[Buffer] = []  # for the next block around to allocate

    def visit_Block(self, stmt: Block) -> Block:
        outer, self.made = self.made, []
        result = super().visit_Block(stmt)
        if self.made:
            result = result.replace(alloc_buffers=(*result.alloc_buffers, *self.made))
        self.made = outer
        return result

    def visit_For(self, stmt: For) -> Stmt:
        if not tag_of(stmt).startswith("blockIdx") and not stmt.annotations:
            found = _annotated(stmt)
            if found is not None:
                local, result = _staged(*found)
                self.made.append(local)
                return result
        return super().visit_For(stmt)


def _annotated(stmt: For) -> tuple[list[For], BlockRealize] | None:
    """The loops down to an annotated block, if there is nothing else in them."""
    loops, inner = loop_nest(stmt)
    if not isinstance(inner, BlockRealize) or not inner.block.annotations.get(LOCAL_STAGE):
        return None
    return loops, inner


def _staged(loops: list[For], realize: BlockRealize) -> tuple[Buffer, Stmt]:
    block, store = realize.block, realize.block.body
    own = [loop for loop in loops if not is_thread_loop(loop)]
    extents = [loop.extent.value for loop in own if isinstance(loop.extent, IntImm)]
    if not isinstance(store, BufferStore) or len(extents) != len(own):
        raise UserError(
            f"block {block.name_hint!r} asks for a local stage, which needs one store under loops"
            " of constant extents"
        )
    name, kind = f"{store.buffer.name}_local", store.value.dtype
    local = make_buffer(extents or (1,), kind, name, scope="local")
    at = tuple(loop.loop_var - loop.min for loop in own) or (const(0),)
    point = (BufferRegion.point(local, at),)
    notes = {k: v for k, v in block.annotations.items() if k != LOCAL_STAGE}
    fetch = block.replace(
        name_hint=name, writes=point, annotations={}, body=BufferStore(local, store.value, at)
    )
    give = block.replace(
        reads=point, annotations=notes, body=store.replace(value=BufferLoad(local, at))
    )
    first, then = (under_loops(loops, realize.replace(block=part)) for part in (fetch, give))
    return local, seq(first, fresh_copy(then, {}))
