"""References to the loops, blocks and sparse iterations of a program that is being scheduled.

Statements are immutable, so each step of a schedule makes new ones. A `StmtSRef` stays: it always
points to the present statement of "the same" loop or block, and to nothing once that is gone.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..base.errors import InternalError
from ..tir import Block, For, SparseIteration

#: What a reference leads to.
Referable = For | Block | SparseIteration
REFERABLE = (For, Block, SparseIteration)


class StmtSRef:
    """A place in the tree of loops, blocks and sparse iterations.

    Attributes:
        stmt: what stands there now; None once a step has removed it.
        parent: the loop, block or iteration around it; None for the root block of a function.
    """

    __slots__ = ("parent", "stmt")

    def __init__(self, stmt: Referable | None, parent: StmtSRef | None = None) -> None:
        self.stmt = stmt
        self.parent = parent

    @property
    def block(self) -> Block:
        """The statement, which must be a block."""
        if not isinstance(self.stmt, Block):
            raise InternalError(f"a block is needed, the reference is to {self!r}")
        return self.stmt

    @property
    def loop(self) -> For:
        """The statement, which must be a loop."""
        if not isinstance(self.stmt, For):
            raise InternalError(f"a loop is needed, the reference is to {self!r}")
        return self.stmt

    @property
    def iteration(self) -> SparseIteration:
        """The statement, which must be a sparse iteration."""
        if not isinstance(self.stmt, SparseIteration):
            raise InternalError(f"a sparse iteration is needed, the reference is to {self!r}")
        return self.stmt

    @property
    def is_loop(self) -> bool:
        """Whether it refers to a loop."""
        return isinstance(self.stmt, For)

    @property
    def is_block(self) -> bool:
        """Whether it refers to a block."""
        return isinstance(self.stmt, Block)

    @property
    def is_iteration(self) -> bool:
        """Whether it refers to a sparse iteration."""
        return isinstance(self.stmt, SparseIteration)

    def ancestors(self) -> Iterator[StmtSRef]:
        """The references around it, from the inside out."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def __repr__(self) -> str:
        if isinstance(self.stmt, For):
            return f"StmtSRef(loop {self.stmt.loop_var.name!r})"
        if isinstance(self.stmt, Block):
            return f"StmtSRef(block {self.stmt.name_hint!r})"
        if isinstance(self.stmt, SparseIteration):
            return f"StmtSRef(sparse iteration {self.stmt.name!r})"
        return "StmtSRef(expired)"


class _Mark(StmtSRef):
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__(None, None)
        self.name = name

    def __repr__(self) -> str:
        return f"StmtSRef({self.name})"


#: What `sample_compute_location` answers instead of a loop.
ROOT_MARK: StmtSRef = _Mark("compute at the root")
INLINE_MARK: StmtSRef = _Mark("compute inline")
