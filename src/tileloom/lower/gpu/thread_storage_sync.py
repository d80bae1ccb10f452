"""Barriers between threads that access the same shared memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...base.errors import UserError
from ...expr import Call, Expr, IntImm, Var, has_load
from ...expr.analyzer import Analyzer
from ...expr.warp_ops import NAMED_BARRIERS
from ...tir import (
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtRewriter,
    While,
    collect,
    seq,
)
from ..analysis.known_ranges import analyzer_of
from ..analysis.threads import KernelBody, is_sync, is_uniform, sync
from .access_conflicts import ConflictAnalysis
from .kernels import on_kernels
from .shared_accesses import SharedAccess, SharedAccessFinder

_MANY = 4096  # pairs of accesses to compare


def thread_storage_sync(func: PrimFunc) -> PrimFunc:
    """A barrier stands wherever a thread may read what another wrote, or overwrite what it reads.

    Between two accesses of one shared buffer, one of them a write, there is a barrier unless no
    two threads access one element: the form of the indices says so, or who touches what is counted
    out. Barriers that are there already count. A loop's body is followed by itself. A kernel with
    numbered barriers has all barriers that it is to have.

    Needs: flat code whose thread loops are attributes.
    Ensures: `tvm_storage_sync("shared")` in all those places. Some may be under conditions that
    threads take differently, where none may stay: `hoist_barriers` comes next.
    """
    return _with_barriers(func, strict=False)


def require_barriers(func: PrimFunc) -> PrimFunc:
    """Check that the barriers of a function are all that `thread_storage_sync` would have.

    For kernels that are written with their barriers: scheduled ones leave them to lowering.

    Raises:
        UserError: a barrier is missing, before a statement that is named or at the end of a loop.
    """
    return _with_barriers(func, strict=True)


def _with_barriers(func: PrimFunc, strict: bool) -> PrimFunc:
    def transform(kernel: KernelBody) -> Stmt:
        root = kernel.root
        if _names_barriers(root):
            return root
        own = {v: e for tag, (v, e) in kernel.threads.items() if tag.startswith("threadIdx")}
        planner = _Planner(own, SharedAccessFinder(root), analyzer_of(root), strict)
        return planner.plan(root).stmt

    return on_kernels(func, transform)


def _names_barriers(stmt: Stmt) -> bool:
    """Whether warps wait at numbered barriers: then the program says who waits for whom."""
    calls = (node.value for node in collect(stmt, Evaluate))
    return any(isinstance(call, Call) and call.op in NAMED_BARRIERS for call in calls)


@dataclass(slots=True)
class _Part:
    """A statement with its barriers: what is touched before the first and after the last one."""

    stmt: Stmt
    head: list[SharedAccess] = field(default_factory=list)
    tail: list[SharedAccess] = field(default_factory=list)
    synced: bool = False


class _Planner:
    def __init__(
        self, threads: dict[Var, Expr], finder: SharedAccessFinder, analyzer: Analyzer, strict: bool
    ) -> None:
        self.finder = finder
        self.strict = strict  # whether a barrier that is missing is refused
        self.divergent: set[Var] = set(threads)  # variables that threads may differ in
        self.conflicts = ConflictAnalysis(threads, analyzer, self.divergent)
        self.loops = finder.loops
        self.apart = False  # whether we are where not all threads may be

    # ------------------------------------------------------------------ statements

    def plan(self, stmt: Stmt) -> _Part:
        match stmt:
            case SeqStmt():
                return self._sequence(stmt)
            case For():
                return self._loop(stmt)
            case While():
                return self._while(stmt)
            case IfThenElse():
                return self._branch(stmt)
            case _ if is_sync(stmt):
                return _Part(stmt, synced=True)
            case BufferStore() | Evaluate():
                accesses = self.finder.find(stmt)
                return _Part(stmt, accesses, accesses)
            case _:
                return self._wrapper(stmt)

    def _wrapper(self, stmt: Stmt) -> _Part:
        """A statement around one other: allocations, names, attributes."""
        if isinstance(stmt, LetStmt):
            self.loops[stmt.var] = None  # it may be another value the next time
            if not is_uniform(stmt.value, self.divergent):
                self.divergent.add(stmt.var)
        first = self.finder.find(stmt)
        part = self._behind(first, self.plan(stmt.body))  # type: ignore[attr-defined]
        if isinstance(stmt, LetStmt):
            del self.loops[stmt.var]
        part.stmt = StmtRewriter.update(stmt, body=part.stmt)
        return self._after(first, part)

    def _behind(self, first: list[SharedAccess], part: _Part) -> _Part:
        """A body, with a barrier before it where it collides with what is read on the way in."""
        if not self._conflict(first, part.head):
            return part
        barrier = self._barrier(part.stmt, first, part.head, "before")
        return _Part(seq(barrier, part.stmt), [], part.tail, True)

    @staticmethod
    def _after(first: list[SharedAccess], part: _Part) -> _Part:
        if first:
            part.head = first + part.head
            part.tail = part.tail if part.synced else part.head
        return part

    def _sequence(self, stmt: SeqStmt) -> _Part:
        result = _Part(stmt)
        parts: list[Stmt] = []
        for child in stmt.seq:
            part = self.plan(child)
            if self._conflict(result.tail, part.head):
                parts.append(self._barrier(child, result.tail, part.head, "before"))
                result.synced, result.tail = True, []
            parts.append(part.stmt)
            if not result.synced:
                result.head = _joined(result.head, part.head)
            result.tail = part.tail if part.synced else _joined(result.tail, part.tail)
            result.synced = result.synced or part.synced
        same = all(a is b for a, b in zip(parts, stmt.seq, strict=False))
        result.stmt = stmt if same and len(parts) == len(stmt.seq) else seq(*parts)
        return result

    def _loop(self, stmt: For) -> _Part:
        first = self.finder.find(stmt)
        uniform = all(is_uniform(e, self.divergent) for e in (stmt.min, stmt.extent))
        if not uniform:
            self.divergent.add(stmt.loop_var)
        self.loops[stmt.loop_var] = stmt.domain
        part = self._behind(first, self._under(uniform, stmt.body))
        again = part.synced and _may_repeat(stmt) and self._conflicts_next(stmt.loop_var, part)
        del self.loops[stmt.loop_var]
        if not part.synced:  # then all iterations are between the same barriers
            again = _may_repeat(stmt) and self._conflict(part.tail, part.head)
        self._repeat(stmt, part, again)
        if not isinstance(stmt.extent, IntImm) or stmt.extent.value <= 0:
            part = _perhaps(part)
        return self._after(first, part)

    def _conflicts_next(self, loop: Var, part: _Part) -> bool:
        """Whether what comes after the last barrier conflicts with the next iteration's start."""
        step = loop + 1
        return self._conflict(part.tail, [access.later(loop, step) for access in part.head])

    def _while(self, stmt: While) -> _Part:
        first = self.finder.find(stmt)
        part = self._under(is_uniform(stmt.condition, self.divergent), stmt.body)
        part = self._behind(first, part)
        part.head = first + part.head
        part.tail = part.tail + first
        self._repeat(stmt, part, self._conflict(part.tail, part.head))
        return _perhaps(part)

    def _repeat(self, stmt: For | While, part: _Part, again: bool) -> None:
        """Make a loop of its body; it ends in a barrier if the next iteration collides with it."""
        if again:
            barrier = self._barrier(stmt, part.tail, part.head, "at the end of")
            part.stmt = seq(part.stmt, barrier)
            part.synced, part.tail = True, []
        part.stmt = StmtRewriter.update(stmt, body=part.stmt)

    def _branch(self, stmt: IfThenElse) -> _Part:
        first = self.finder.find(stmt)
        uniform = is_uniform(stmt.condition, self.divergent)
        yes = self._behind(first, self._side(stmt.condition, True, uniform, stmt.then_case))
        no = _Part(stmt)
        if stmt.else_case is not None:
            no = self._behind(first, self._side(stmt.condition, False, uniform, stmt.else_case))
        other = None if stmt.else_case is None else no.stmt
        result = StmtRewriter.update(stmt, then_case=yes.stmt, else_case=other)
        join = _either if uniform else _both
        return self._after(first, join(result, yes, no))

    def _side(self, condition: Expr, holds: bool, uniform: bool, stmt: Stmt) -> _Part:
        outer = self.finder.conditions
        if not uniform and not has_load(condition):
            self.finder.conditions = (*outer, (condition, holds))
        part = self._under(uniform, stmt)
        self.finder.conditions = outer
        return part

    def _under(self, uniform: bool, stmt: Stmt) -> _Part:
        outer = self.apart
        self.apart = outer or not uniform
        part = self.plan(stmt)
        self.apart = outer
        return part

    def _barrier(
        self, stmt: Stmt, before: Sequence[SharedAccess], after: Sequence[SharedAccess], where: str
    ) -> Stmt:
        """A barrier that has to be put, which is refused where programs have their own."""
        if not self.strict:
            return sync("shared")
        known = {access.data for access in after}
        names = sorted({access.data.name for access in before if access.data in known})
        line = str(stmt).strip().splitlines()[0]
        raise UserError(
            f"a barrier is missing {where} {line}: other threads may still use shared memory "
            f"({', '.join(names)})",
            span=stmt.span,
            hint='write T.tvm_storage_sync("shared") there, or build without strict_sync',
        )

    def _conflict(self, before: Iterable[SharedAccess], after: Sequence[SharedAccess]) -> bool:
        pairs = [
            (a, b) for a in before for b in after if a.data is b.data and (a.is_write or b.is_write)
        ]
        # With so many a barrier is cheaper than the proof that there need not be one.
        if len(pairs) > _MANY and not self.apart:
            return True
        return any(self.conflicts.may_conflict(a, b, self.loops) for a, b in pairs)


def _either(stmt: Stmt, yes: _Part, no: _Part) -> _Part:
    """A branch where all threads run one side: what is pending before it stays so after it."""
    head, tail = yes.head + no.head, yes.tail + no.tail
    synced = yes.synced and no.synced
    if not synced and (yes.synced or no.synced):
        tail = tail + head
    return _Part(stmt, head, tail, synced)


def _both(stmt: Stmt, yes: _Part, no: _Part) -> _Part:
    """A branch that threads take differently: its barriers are met by all, those of `yes` first."""
    head = yes.head if yes.synced else yes.head + no.head
    tail = no.tail if no.synced else yes.tail + no.tail
    return _Part(stmt, head, tail, yes.synced or no.synced)


def _joined(a: list[SharedAccess], b: list[SharedAccess]) -> list[SharedAccess]:
    """Both, each access once: long unrolled bodies repeat theirs."""
    if not a or not b:
        return a or b
    found = {
        (t.data, t.is_write, t.index, t.bits, t.conditions, t.atomic, t.arrives): t
        for t in (*b, *a)
    }
    return list(found.values())


def _perhaps(part: _Part) -> _Part:
    """The part where it may not be run at all: its barriers do not count outside."""
    return _Part(part.stmt, part.head, part.head + part.tail) if part.synced else part


def _may_repeat(loop: For) -> bool:
    return not isinstance(loop.extent, IntImm) or loop.extent.value > 1
