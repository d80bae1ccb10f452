"""Where loops and blocks stand: scopes, chains of loops, common ancestors."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import InternalError
from ...expr import Expr, IntImm, Range, Var
from ...tir import THREAD_BINDING, Block, BlockRealize, For, SeqStmt, Stmt, stmt_children
from ..errors import name_of, refuse
from ..sref import StmtSRef
from ..state import ScheduleState
from .memo import memoised


def scope_root(sref: StmtSRef) -> StmtSRef:
    """The block around a loop or block, which is the scope that its analyses look at.

    Refuses the root block, which nothing is around.
    """
    for outer in sref.ancestors():
        if outer.is_block:
            return outer
    raise refuse(
        "the root block of a function cannot be scheduled",
        at=[sref],
        hint="use a block inside it",
    )


def loops_above(sref: StmtSRef) -> list[StmtSRef]:
    """The loops around a loop or block up to its scope, outermost first."""
    found = []
    for outer in sref.ancestors():
        if not outer.is_loop:
            break
        found.append(outer)
    found.reverse()
    return found


def loops_in_sight(sref: StmtSRef) -> list[StmtSRef]:
    """The loops whose variables a loop or block may use, outermost first.

    A block without iteration variables hides nothing of what is around it.
    """
    found: list[StmtSRef] = []
    for outer in sref.ancestors():
        if outer.is_loop:
            found.append(outer)
        elif outer.block.iter_vars:
            break
    found.reverse()
    return found


def domains_above(sref: StmtSRef) -> dict[Var, Range]:
    """The ranges of the loops around a loop or block, up to its scope."""
    return {outer.loop.loop_var: outer.loop.domain for outer in loops_above(sref)}


@memoised
def child_realizes(state: ScheduleState, stmt: Stmt) -> tuple[BlockRealize, ...]:
    """The blocks below a loop or block that are in no other block below it, in program order.

    Those that start a block, in its init, do not count.
    """
    found: list[BlockRealize] = []
    stack = [stmt.body] if isinstance(stmt, Block) else list(reversed(stmt_children(stmt)))
    while stack:
        node = stack.pop()
        if isinstance(node, BlockRealize):
            found.append(node)
        elif isinstance(node, For):
            stack.append(node.body)
        elif isinstance(node, SeqStmt):
            stack.extend(reversed(node.seq))
        else:
            stack.extend(reversed(stmt_children(node)))
    return tuple(found)


def child_blocks(state: ScheduleState, sref: StmtSRef) -> list[StmtSRef]:
    """References to the blocks directly in a scope or loop, in program order."""
    if sref.stmt is None:
        raise InternalError("the reference has expired")
    return [state.sref(realize.block) for realize in child_realizes(state, sref.stmt)]


def blocks_in_sight(state: ScheduleState, sref: StmtSRef) -> list[StmtSRef]:
    """The blocks below a loop or block that have iteration variables, each the first on its path.

    A block without iteration variables hides nothing of what is in it.
    """
    found: list[StmtSRef] = []
    for block in child_blocks(state, sref):
        inside = [] if block.block.iter_vars else blocks_in_sight(state, block)
        found += inside or [block]
    return found


def lowest_common_ancestor(srefs: Sequence[StmtSRef]) -> StmtSRef:
    """The innermost loop or block that holds all of them, or is one of them."""
    paths = [[sref, *sref.ancestors()][::-1] for sref in srefs]
    best: StmtSRef | None = None
    for level in zip(*paths):
        if any(node is not level[0] for node in level):
            break
        best = level[0]
    if best is None:
        raise refuse("the blocks are in different functions", at=srefs)
    return best


def is_ancestor(outer: StmtSRef, inner: StmtSRef) -> bool:
    """Whether `outer` holds `inner`, directly or not."""
    return any(node is outer for node in inner.ancestors())


def require_around(loop: StmtSRef, block: StmtSRef) -> None:
    """Refuse a loop that is not around a block."""
    if not is_ancestor(loop, block):
        raise refuse(
            f"{name_of(loop)} is not around {name_of(block)}",
            at=[loop, block],
            hint="use one of get_loops(block)",
            fast="The input loop is required to be an ancestor of the block",
        )


def only_child_chain(outer: StmtSRef, inner: StmtSRef) -> bool:
    """Whether every loop from `outer` down to `inner` holds nothing but the next one."""
    node = inner
    while node is not outer:
        parent = node.parent
        if parent is None or not parent.is_loop:
            return False
        body = parent.loop.body
        if isinstance(body, BlockRealize):
            body = body.block
        if body is not node.stmt:
            return False
        node = parent
    return True


def is_zero(value: Expr) -> bool:
    """Whether an expression is the number zero."""
    return isinstance(value, IntImm) and value.value == 0


def is_one(value: Expr) -> bool:
    """Whether an expression is the number one."""
    return isinstance(value, IntImm) and value.value == 1


def require_plain_loop(loop: StmtSRef, what: str) -> None:
    """Refuse a loop with a thread binding or annotations, which `what` would lose."""
    stmt = loop.loop
    if stmt.kind == THREAD_BINDING and stmt.thread_binding is not None:
        tag = stmt.thread_binding.thread_tag
        raise refuse(
            f"{what} needs a serial loop, but {stmt.loop_var.name!r} is bound to {tag}",
            at=[loop],
            notes=[f"bound to {tag}"],
            hint=f"{what} before binding",
            fast="loop has annotation or thread binding",
        )
    if stmt.annotations:
        keys = ", ".join(map(repr, stmt.annotations))
        raise refuse(
            f"{what} needs a loop without annotations, but {name_of(stmt)} has {keys}",
            at=[loop],
            hint=f"{what} before annotating, or unannotate first",
            fast="loop has annotation or thread binding",
        )


def require_zero_start(loop: StmtSRef, what: str) -> None:
    """Refuse a loop that does not start at zero."""
    if not is_zero(loop.loop.min):
        raise refuse(
            f"{what} needs a loop that starts at 0, but {name_of(loop)} starts at {loop.loop.min}",
            at=[loop],
            fast=f"{what} only supports loop starting with 0",
        )
