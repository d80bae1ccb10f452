"""Canonical form: folds, dead code, and the rewrites registered for each operation."""

from __future__ import annotations

from ..ir.core import Operation
from ..ir.rewriter import PATTERNS, apply_patterns
from ..patterns.blocks import drop_unreachable
from .registry import tile_pass

MAX_ROUNDS = 10


@tile_pass("canonicalize")
def canonicalize(module: Operation) -> None:
    """Makes operations as simple as the registered rewrites can; constants come to stand at the
    front of functions, each once."""
    for _ in range(MAX_ROUNDS):
        apply_patterns(module, PATTERNS)
        if not drop_blocks(module):
            return


def drop_blocks(module: Operation) -> bool:
    """Removes the blocks of functions that nothing leads to."""
    regions = [r for op in module.walk() for r in op.regions if len(r.blocks) > 1]
    dropped = list(map(drop_unreachable, regions))
    return any(dropped)
