"""Names without a value: variables that no loop, block, binding or parameter around defines."""

from __future__ import annotations

from collections.abc import Iterator

from ...expr import Expr, Var, free_vars
from ...tir import Block, BlockRealize, PrimFunc, Stmt
from ...tir.walk import stmt_exprs
from .frame import Frame
from .model import Model
from .report import Findings, Point, Violation


def given_vars(func: PrimFunc) -> frozenset[Var]:
    """The variables that the caller gives a value: parameters, and what describes their buffers."""
    found = set(func.params)
    for buffer in func.buffers:
        offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
        for expr in (*buffer.shape, *buffer.strides, *offset):
            found |= free_vars(expr)
    return frozenset(found)


def note_names(model: Model, stmt: Stmt, frame: Frame, given: frozenset[Var]) -> None:
    """Remember the variables that have no value where a statement uses them."""
    place = "" if frame.place is None else frame.place.name
    block = stmt.block.name_hint if isinstance(stmt, BlockRealize) else place
    for expr in _own_exprs(stmt):
        for var in sorted(free_vars(expr) - given, key=lambda var: var.serial):
            if not (var in frame.values or var in frame.lets or var.dtype.is_handle):
                model.nameless.setdefault((block, var))


def _own_exprs(stmt: Stmt) -> Iterator[Expr]:
    """What a statement computes by itself; of a block, what its buffers and views are."""
    if not isinstance(stmt, Block):
        yield from stmt_exprs(stmt)
        return
    for buffer in stmt.alloc_buffers:
        yield from buffer.shape
    for match in stmt.match_buffers:
        for part in match.source.region:
            yield from (part.min, part.extent)


def check_names(model: Model, findings: Findings) -> None:
    """Each variable has a value where it is used."""
    for block, var in model.nameless:
        where = f"block {block!r}" if block else "the body"
        message = f"no loop, block or parameter around {where} defines {var.name!r}, which it uses"
        findings.violations.append(Violation("undefined", message, (block,), Point(block)))
