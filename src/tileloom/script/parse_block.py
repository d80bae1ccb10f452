"""What is collected of a block while its suite is parsed."""

from __future__ import annotations

from .. import tir
from ..base import Span, UserError
from ..base.late import TYPE_CHECKING
from ..expr import Expr, IterVar, const
from ..tir import Block, Buffer, BufferRegion, MatchBufferRegion, Stmt
from .notes import BlockFact, as_region

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

Regions = tuple[BufferRegion, ...]


class BlockState:
    """A block that is still open."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.axes: list[IterVar] = []
        self.values: list[Expr] = []
        self.reads: Regions | None = None
        self.writes: Regions | None = None
        self.where: Expr | None = None
        self.annotations: dict[str, Any] = {}
        self.allocs: list[Buffer] = []
        self.matches: list[MatchBufferRegion] = []
        self.init: Stmt | None = None

    def add(self, fact: BlockFact) -> None:
        """Note what the block says of itself."""
        if fact.kind == "block_attr":
            self.annotations.update(fact.value)
            return
        if getattr(self, fact.kind) is not None:
            raise UserError(f"T.{fact.kind} stands twice in block {self.name!r}")
        if fact.kind == "where" and not fact.value.dtype.is_bool:
            raise UserError(f"a condition must be bool, got {fact.value.dtype}")
        setattr(self, fact.kind, fact.value)

    def match(self, buffer: Buffer, source: Any) -> None:
        """A new name for a region."""
        self.matches.append(MatchBufferRegion(buffer, as_region(source)))

    def finish(
        self, body: Stmt, span: Span, is_root: bool, buffers: Iterable[Buffer]
    ) -> tuple[Block, tuple[Expr, ...], Expr]:
        """The block, the values of its axes, and its predicate.

        Reads and writes that it does not declare are inferred; those of a root block are empty.
        """
        block = Block(
            tuple(self.axes),
            self.reads or (),
            self.writes or (),
            self.name,
            body,
            self.init,
            tuple(self.allocs),
            tuple(self.matches),
            self.annotations,
            span=span,
        )
        missing = self.reads is None or self.writes is None
        if missing and not (is_root and not self.axes):
            reads, writes = tir.infer_block_access(block, buffers)
            block = block.replace(
                reads=reads if self.reads is None else self.reads,
                writes=writes if self.writes is None else self.writes,
            )
        where = const(True) if self.where is None else self.where
        return block, tuple(self.values), where
