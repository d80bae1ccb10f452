"""Tensorized blocks: what they call is taken for what the intrinsic's description says.

Several descriptions may stand for one implementation: registers of matrix units have no order of
rows and columns of their own, so the product with a transposed operand calls the very same thing.
Only how the operand was loaded tells which of them is meant.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache

from ...tir import Block, Buffer, PrimFunc, Stmt, collect, structural_hash
from ..tensor_intrin import TensorIntrin, root_block

Described = tuple[str, Block, dict[Buffer, Buffer]]


class Readings:
    """The intrinsics that a function holds."""

    def __init__(self, func: PrimFunc) -> None:
        self._makers: dict[Buffer, list[str]] = {}
        for block in collect(func.body, Block):
            names = _candidates(block)
            for region in block.writes if names else ():
                self._makers.setdefault(region.buffer, []).extend(names)

    def described(self, block: Block) -> Described | None:
        """The intrinsic that a block holds: its name, the root block of what it computes, where.

        The buffers of the description go to the views (of `match_buffers`) that stand for them.
        """
        names = _candidates(block)
        fitting = [name for name in names if self._fits(name, block)]
        for name in fitting or names:
            intrin = TensorIntrin.get(name)
            if intrin is not None:
                views = [match.buffer for match in block.match_buffers]
                return name, root_block(intrin.desc), dict(zip(intrin.desc.buffers, views))
        return None

    def _fits(self, name: str, block: Block) -> bool:
        """Whether operands are loaded transposed where the intrinsic takes them so."""
        intrin = TensorIntrin.get(name)
        for buffer, match in zip(intrin.desc.buffers if intrin else (), block.match_buffers):
            operand, makers = buffer.name.lower(), self._makers.get(match.source.buffer, ())
            if operand in ("a", "b") and makers:
                transposed = any(f"_{operand}_trans" in maker for maker in makers)
                if transposed != _takes_transposed(name, operand):
                    return False
        return True


def _takes_transposed(name: str, operand: str) -> bool:
    """Whether a product is that with an operand transposed; "_trans" alone is the second one."""
    return f"_trans_{operand}" in name or (operand == "b" and name.endswith("_trans"))


def _candidates(block: Block) -> list[str]:
    """The intrinsics with the implementation that a block holds."""
    views = [match.buffer for match in block.match_buffers]
    if not views:
        return []
    keys: dict[int, Hashable] = {}
    found = []
    for name in TensorIntrin.names():
        intrin = TensorIntrin.get(name)
        size, key = (0, None) if intrin is None else _implementation(intrin.impl)
        if intrin is not None and size <= len(views):
            if size not in keys:
                keys[size] = _key(views[:size], block.body)
            if keys[size] == key:
                found.append(name)
    return found


@lru_cache(maxsize=4096)
def _implementation(impl: PrimFunc) -> tuple[int, Hashable]:
    return len(impl.buffers), _key(impl.buffers, root_block(impl).body)


def _key(buffers: Sequence[Buffer], body: Stmt) -> Hashable:
    kinds = tuple((str(b.dtype), b.scope, b.static_shape) for b in buffers)
    return kinds, structural_hash(body, map_free_vars=True)
