"""Tensorized blocks: what they call is taken for what the intrinsic's description says."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cache

from ..tir import Block, Buffer, Stmt, structural_hash
from .tensor_intrin import TensorIntrin, root_block


def described(block: Block) -> tuple[str, Stmt, dict[Buffer, Buffer]] | None:
    """The intrinsic that a block holds: its name, what it computes, and on which of its buffers.

    The buffers of the description go to the views (of `match_buffers`) that stand for them.
    """
    if not block.match_buffers:
        return None
    views = [match.buffer for match in block.match_buffers]
    for name, size, key in _known(tuple(TensorIntrin.names())):
        if size <= len(views) and key == _key(views[:size], block.body):
            intrin = TensorIntrin.get(name)
            if intrin is not None:
                body = root_block(intrin.desc).body
                return name, body, dict(zip(intrin.desc.buffers, views))
    return None


@cache
def _known(names: tuple[str, ...]) -> list[tuple[str, int, Hashable]]:
    found = []
    for name in names:
        intrin = TensorIntrin.get(name)
        if intrin is not None:
            buffers = intrin.impl.buffers
            found.append((name, len(buffers), _key(buffers, root_block(intrin.impl).body)))
    return found


def _key(buffers: Sequence[Buffer], body: Stmt) -> Hashable:
    kinds = tuple((str(b.dtype), b.scope, b.static_shape) for b in buffers)
    return kinds, structural_hash(body, map_free_vars=True)
