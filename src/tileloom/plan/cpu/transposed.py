"""Elementwise blocks on a CPU that read along one axis and write along another."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...expr import Expr, IntImm, Var
from ...tir import Block, Buffer
from ..domain import Domain, GroupAxis, accesses


def as_written(domain: Domain, blocks: Sequence[Block]) -> list[GroupAxis]:
    """The axes of elementwise blocks in the order in which the first lays its result out."""
    for block in blocks:
        order = dims_of(block, domain, block.writes[0].buffer)
        found = [axis for axis in order if axis is not None]
        if len(found) == len(domain.spatial):
            return found
    return domain.spatial


def transposed_axes(
    groups: Sequence[list[GroupAxis]], blocks: Sequence[Block], domain: Domain, side: int
) -> list[GroupAxis] | None:
    """The axes along which an operand lies, where those are not the innermost ones of the result.

    None where tiles do not pay, or where operands lie along different axes.
    """
    if len(groups) < 2 or prod(axis.extent for axis in groups[-1]) < side:
        return None
    found: list[list[GroupAxis]] = []
    for block in blocks:
        for buffer in {region.buffer for region in block.reads}:
            dims = [axis for axis in dims_of(block, domain, buffer) if axis is not None]
            across = next((g for g in groups[:-1] if dims and dims[-1] is g[-1]), None)
            if across is not None and groups[-1][-1] in dims and across not in found:
                found.append(across)
    if len(found) != 1 or prod(axis.extent for axis in found[0]) < side:
        return None
    return found[0]


def dims_of(block: Block, domain: Domain, buffer: Buffer) -> list[GroupAxis | None]:
    """The axis along each dimension of a buffer that a block accesses; None for none or several."""
    by_var = dict(zip((i.var for i in block.iter_vars), domain.axes[block.name_hint], strict=True))
    for accessed, indices in accesses(block):
        if accessed is buffer:
            return [_axis(index, n, by_var) for index, n in zip(indices, buffer.shape, strict=True)]
    return []


def _axis(index: Expr, extent: Expr, by_var: dict[Var, GroupAxis | None]) -> GroupAxis | None:
    if isinstance(extent, IntImm) and extent.value == 1:
        return None
    return by_var.get(index) if isinstance(index, Var) else None
