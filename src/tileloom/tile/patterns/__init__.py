"""Rewrites that make operations simpler, a file for each kind; importing one registers its
rewrites in `PATTERNS`, which `canonicalize` applies. Passes apply the tables that they need."""

from . import (
    blocks,
    branches,
    integers,
    layouts,
    loops,
    memory,
    selections,
    shapes,
    while_loops,
)

__all__ = [
    "blocks",
    "branches",
    "integers",
    "layouts",
    "loops",
    "memory",
    "selections",
    "shapes",
    "while_loops",
]
