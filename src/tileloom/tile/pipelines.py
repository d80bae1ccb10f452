"""Pipelines: the passes that run one after another on a module, as values.

>>> [each.tile_pass.name for each in make_ttir()][:3]
['inline', 'triton-rewrite-tensor-pointer', 'canonicalize']
"""

from __future__ import annotations

from .passes.registry import PassStep, step


def make_ttir() -> list[PassStep]:
    """The passes over a program without layouts: calls are inlined, pointers to blocks become
    tensors of pointers, and the program is simplified."""
    return [
        step("inline"),
        step("triton-rewrite-tensor-pointer"),
        step("canonicalize"),
        step("triton-combine"),
        step("triton-reorder-broadcast"),
        step("cse"),
        step("loop-invariant-code-motion"),
        step("symbol-dce"),
        step("triton-loop-unroll"),
    ]
