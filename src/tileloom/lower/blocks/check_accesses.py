"""Checks of indices at run time, for kernels whose accesses are in doubt."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.faults import bounds_message
from ...expr import Call, Expr, StringImm, conjunction
from ...expr.bounds import BoundAnalyzer
from ...expr.effects import CHECK_INDEX
from ...tir import (
    BlockRealize,
    Buffer,
    BufferRegion,
    Evaluate,
    IfThenElse,
    PrimFunc,
    Stmt,
    StmtRewriter,
    While,
    first_line,
    seq,
)
from ..analysis.access_walk import AccessWalk
from ..analysis.guarded_accesses import Access, Guarded, accesses_of
from ..analysis.known_bounds import under
from ..common import on_body
from .lower_match_buffer import shifted
from .refuse_out_of_bounds import text_of


def check_accesses(func: PrimFunc) -> PrimFunc:
    """Before each access that is not provably within its buffer stands a check of its indices.

    An access to a view (`match_buffer`) is checked against the view and against what that is a view
    of. What an intrinsic or an external function does with a pointer is not seen.

    Needs: blocks without iteration variables and init, or a later stage.
    Ensures: the same, and that no load and no store is carried out outside of its buffer.
    """
    doubtful = _Doubtful()
    doubtful.stmt(func.body)
    return on_body(func, _Insert(doubtful).visit) if doubtful.found else func


def _sources(
    views: dict[Buffer, BufferRegion], buffer: Buffer, indices: Sequence[Expr]
) -> list[tuple[Buffer, Sequence[Expr]]]:
    """What an access touches: its own buffer, and those that this one is a view of."""
    found = [(buffer, indices)]
    while (region := views.get(buffer)) is not None:
        buffer, indices = region.buffer, shifted(region, indices)
        found.append((buffer, indices))
    return found


class _Doubtful(AccessWalk):
    """Finds the statements with accesses that may be out of bounds."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[int] = set()  # identities of statements
        self.axes: set[tuple[Buffer, Expr, Expr]] = set()  # index and extent
        self.views: dict[Buffer, BufferRegion] = {}

    def access(self, stmt: Stmt, access: Access, guards: tuple[Expr, ...]) -> None:
        known = under(self.known, guards)
        if known is None:
            return
        for buffer, indices in _sources(self.views, access.buffer, access.indices):
            for index, extent in zip(indices, buffer.shape, strict=False):
                if not _fits(index, extent, known):
                    self.axes.add((buffer, index, extent))
                    self.found.add(id(stmt))

    def stmt(self, stmt: Stmt) -> None:
        if isinstance(stmt, BlockRealize):
            matches = stmt.block.match_buffers
            self.views.update((match.buffer, match.source) for match in matches)
        super().stmt(stmt)


def _fits(index: Expr, extent: Expr, known: BoundAnalyzer) -> bool:
    low, high = known.of(index)
    return low >= 0 and high < known.of(extent).min_value


class _Insert(StmtRewriter):
    def __init__(self, doubtful: _Doubtful) -> None:
        self.doubtful = doubtful

    def visit(self, stmt: Stmt) -> Stmt:
        result = super().visit(stmt)
        if id(stmt) not in self.doubtful.found:
            return result
        checks = [check for access in accesses_of(stmt) for check in self._checks(stmt, access)]
        if isinstance(result, While):
            result = result.replace(body=seq(result.body, *checks))
        return seq(*checks, result)

    def _checks(self, stmt: Stmt, guarded: Guarded) -> list[Stmt]:
        access, guards = guarded
        scalar = [guard for guard in guards if guard.dtype.lanes == 1]
        masks = [guard for guard in guards if guard.dtype.lanes > 1]
        if access.predicate is not None:
            masks.append(access.predicate)
        found: list[Stmt] = []
        for buffer, indices in _sources(self.doubtful.views, access.buffer, access.indices):
            for axis, (index, extent) in enumerate(zip(indices, buffer.shape, strict=False)):
                if (buffer, index, extent) not in self.doubtful.axes:
                    continue
                message = _message(stmt, access, buffer, axis, index)
                args = (index, extent, StringImm(message))
                found.append(Evaluate(Call("int32", CHECK_INDEX, (*args, *_mask(masks)))))
        if scalar and found:
            return [IfThenElse(conjunction(scalar), seq(*found))]
        return found


def _mask(masks: list[Expr]) -> tuple[Expr, ...]:
    return (conjunction(masks),) if len(masks) > 1 else tuple(masks)


def _message(stmt: Stmt, access: Access, buffer: Buffer, axis: int, index: Expr) -> str:
    view = "" if buffer is access.buffer else f" of {buffer.name}, of which it is a view,"
    text = bounds_message(text_of(access), f"{index}{view}", axis, buffer.name)
    place = f"\n  in {first_line(stmt)}"
    return f"{text}{place}\n{stmt.span.render()}" if stmt.span is not None else text + place
