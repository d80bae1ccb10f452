"""Barriers between threads that touch the same shared memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..base.errors import VerifyError
from ..expr import Call, Expr, FloorMod, IntImm, Ramp, Range, Var, const, free_vars, post_order
from ..expr.analyzer import Analyzer
from ..tir import (
    AttrStmt,
    Buffer,
    BufferLoad,
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
    stmt_exprs,
)
from .common import ADDRESS_OF, has_load, loaded_buffers, on_body
from .inject_ptx_async_copy import CP_ASYNC, WAIT_GROUP
from .linear import Linear, constant_difference, linear
from .simplify import analyzer_of
from .threads import is_sync, kernels, pointer_scope, storage_rank, sync

_UNBOUNDED = (1 << 31) - 1  # the span of what nothing is known of
_MANY = 4096  # pairs of accesses to compare
_ACCESS_PTR = "tir.tvm_access_ptr"


def thread_storage_sync(func: PrimFunc) -> PrimFunc:
    """A barrier stands wherever a thread may read what another wrote, or overwrite what it reads.

    Between two accesses of one shared buffer, one of them a write, there is a barrier unless the
    index tells the thread: then each thread meets only what it touched itself. Barriers that are
    there already count. The end of a loop's body meets its beginning again.

    Needs: flat code whose thread loops are attributes.
    Ensures: `tvm_storage_sync("shared")` in all those places, never under a condition that threads
    may take differently.

    Raises:
        VerifyError: a barrier is needed inside such a condition.
    """
    roots = {kernel.root: kernel.threads for kernel in kernels(func.body)}
    if not roots:
        return func
    return on_body(func, _Kernels(roots).visit)


class _Kernels(StmtRewriter):
    def __init__(self, roots: Mapping[AttrStmt, Mapping[str, tuple[Var, Expr]]]) -> None:
        self.roots = roots

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        threads = self.roots.get(stmt)
        if threads is None:
            return super().visit_AttrStmt(stmt)
        own = {v: e for tag, (v, e) in threads.items() if tag.startswith("threadIdx")}
        return _Planner(own, _copied(stmt), analyzer_of(stmt)).plan(stmt).stmt


def _copied(stmt: Stmt) -> list[Var]:
    """The pointers that asynchronous copies write to."""
    calls = (node.value for node in collect(stmt, Evaluate))
    found = {c.args[0]: None for c in calls if isinstance(c, Call) and c.op == CP_ASYNC}
    return [data for data in found if isinstance(data, Var)]


@dataclass(frozen=True, slots=True)
class _Touch:
    """An access to shared memory; `index` is None where anything may be touched."""

    data: Var
    is_write: bool
    index: Expr | None
    ranges: dict[Var, Range | None]  # loops and names around, inside the kernel
    arrives: bool = False  # what an asynchronous copy has written, where it is waited for


@dataclass(slots=True)
class _Part:
    """A statement with its barriers: what is touched before the first and after the last one."""

    stmt: Stmt
    head: list[_Touch] = field(default_factory=list)
    tail: list[_Touch] = field(default_factory=list)
    synced: bool = False


class _Planner:
    def __init__(self, threads: dict[Var, Expr], copied: list[Var], analyzer: Analyzer) -> None:
        self.threads = threads
        self.copied = copied
        self.analyzer = analyzer
        self.loops: dict[Var, Range | None] = {}
        self.divergent: set[Var] = set(threads)  # variables that threads may differ in
        self.apart: str = ""  # the condition we are in that threads may differ in

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
                return self._leaf(stmt)
            case _:
                return self._wrapper(stmt)

    def _leaf(self, stmt: Stmt) -> _Part:
        touches = self._touches(stmt)
        return _Part(stmt, touches, touches)

    def _wrapper(self, stmt: Stmt) -> _Part:
        """A statement around one other: allocations, names, attributes."""
        if isinstance(stmt, LetStmt):
            self.loops[stmt.var] = None  # it may be another value the next time
            if not self._uniform(stmt.value):
                self.divergent.add(stmt.var)
        first = self._touches(stmt)
        part = self.plan(stmt.body)  # type: ignore[attr-defined]
        if isinstance(stmt, LetStmt):
            del self.loops[stmt.var]
        if part.stmt is not stmt.body:  # type: ignore[attr-defined]
            part.stmt = stmt.replace(body=part.stmt)
        else:
            part.stmt = stmt
        return self._after(first, part)

    @staticmethod
    def _after(first: list[_Touch], part: _Part) -> _Part:
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
                self._need(child)
                parts.append(sync("shared"))
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
        first = self._touches(stmt)
        uniform = self._uniform(stmt.min) and self._uniform(stmt.extent)
        if not uniform:
            self.divergent.add(stmt.loop_var)
        self.loops[stmt.loop_var] = Range(stmt.min, stmt.extent)
        part = self._under(uniform, f"loop {stmt.loop_var.name!r}", stmt.body)
        del self.loops[stmt.loop_var]
        part.stmt = self._repeated(stmt, part, _may_repeat(stmt))
        if not isinstance(stmt.extent, IntImm) or stmt.extent.value <= 0:
            part = _perhaps(part)
        return self._after(first, part)

    def _while(self, stmt: While) -> _Part:
        first = self._touches(stmt)
        part = self._under(self._uniform(stmt.condition), "while loop", stmt.body)
        part.head = first + part.head
        part.tail = part.tail + first
        part.stmt = self._repeated(stmt, part, True)
        return _perhaps(part)

    def _repeated(self, stmt: For | While, part: _Part, again: bool) -> Stmt:
        """The loop; its body ends in a barrier if the next iteration collides with it."""
        body = part.stmt
        if again and self._conflict(part.tail, part.head):
            self._need(stmt)
            body = seq(body, sync("shared"))
            part.synced, part.tail = True, []
        return stmt if body is stmt.body else stmt.replace(body=body)

    def _branch(self, stmt: IfThenElse) -> _Part:
        first = self._touches(stmt)
        uniform = self._uniform(stmt.condition)
        yes = self._under(uniform, f"branch {stmt.condition}", stmt.then_case)
        no = None
        if stmt.else_case is not None:
            no = self._under(uniform, f"branch {stmt.condition}", stmt.else_case)
        result = stmt
        if yes.stmt is not stmt.then_case or (no is not None and no.stmt is not stmt.else_case):
            result = stmt.replace(then_case=yes.stmt, else_case=None if no is None else no.stmt)
        # Either side may have run, or none: what is pending before a branch stays so after it.
        sides = [yes] if no is None else [yes, no]
        head = [touch for side in sides for touch in side.head]
        tail = [touch for side in sides for touch in side.tail]
        synced = no is not None and yes.synced and no.synced
        if not synced and any(side.synced for side in sides):
            tail = tail + head
        return self._after(first, _Part(result, head, tail, synced))

    def _under(self, uniform: bool, what: str, stmt: Stmt) -> _Part:
        outer = self.apart
        self.apart = outer or ("" if uniform else what)
        part = self.plan(stmt)
        self.apart = outer
        return part

    def _need(self, stmt: Stmt) -> None:
        if self.apart:
            raise VerifyError(
                f"a barrier is needed inside of the {self.apart}, which not all threads may reach:"
                f" {str(stmt).splitlines()[0]}"
            )

    # ------------------------------------------------------------------ accesses

    def _touches(self, stmt: Stmt) -> list[_Touch]:
        found: list[_Touch] = []
        for expr in stmt_exprs(stmt):
            self._reads(expr, found)
        if isinstance(stmt, BufferStore):
            self._touch(stmt.buffer, stmt.indices, True, found)
        return found

    def _reads(self, expr: Expr, found: list[_Touch]) -> None:
        if isinstance(expr, Call) and expr.op == CP_ASYNC:
            return self._async_copy(expr, found)
        if isinstance(expr, Call) and expr.op == WAIT_GROUP:
            found.extend(_Touch(data, True, None, {}, True) for data in self.copied)
            return None
        pointers = [v for v in free_vars(expr) if v.dtype.is_handle]
        for var in pointers:
            self._anything(var, found)
        if not has_load(expr):
            return
        for node in post_order(expr):
            if isinstance(node, BufferLoad):
                self._touch(node.buffer, node.indices, False, found)
            elif isinstance(node, Call) and node.op in (ADDRESS_OF, _ACCESS_PTR):
                for buffer in loaded_buffers(node):
                    self._anything(buffer.data, found)

    def _async_copy(self, call: Call, found: list[_Touch]) -> None:
        """Adjoining elements are written; where they come from is no shared memory."""
        data, start, _, _, size = call.args[:5]
        if not isinstance(data, Var) or data.pointee is None or not isinstance(size, IntImm):
            raise VerifyError(f"an asynchronous copy to an unknown place: {call}")
        lanes = size.value * 8 // data.pointee[0].bits
        index = Ramp(start, const(1, start.dtype), lanes) if lanes > 1 else start
        found.append(_Touch(data, True, index, dict(self.loops)))

    def _anything(self, data: Var, found: list[_Touch]) -> None:
        if storage_rank(pointer_scope(data)) == 1:
            found.append(_Touch(data, True, None, {}))

    def _touch(
        self, buffer: Buffer, indices: Sequence[Expr], write: bool, found: list[_Touch]
    ) -> None:
        if storage_rank(pointer_scope(buffer.data)) == 1:
            index = indices[0] if len(indices) == 1 else None
            found.append(_Touch(buffer.data, write, index, dict(self.loops)))

    def _uniform(self, expr: Expr) -> bool:
        """Whether all threads of a block find the same value."""
        if not free_vars(expr).isdisjoint(self.divergent):
            return False
        return all(storage_rank(b.scope) == 0 for b in loaded_buffers(expr))

    def _conflict(self, before: Iterable[_Touch], after: Sequence[_Touch]) -> bool:
        pairs = [
            (a, b) for a in before for b in after if a.data is b.data and (a.is_write or b.is_write)
        ]
        # With so many a barrier is cheaper than the proof that there need not be one.
        if len(pairs) > _MANY and not self.apart:
            return True
        return any(self._collide(a, b) for a, b in pairs)

    def _collide(self, a: _Touch, b: _Touch) -> bool:
        if b.arrives:
            return False  # an arrival has been in order since the copy began
        first, second = self._digits(a), self._digits(b)
        if first is None or second is None:
            return True
        same = first.fixed.same(second.fixed)
        return not (self._tell_threads(first, second) if same else self._apart(first, second))

    def _apart(self, a: _Digits, b: _Digits) -> bool:
        """Whether the accesses never meet: constants keep them apart, or `x % n`, `(x + 1) % n`."""
        difference = a.fixed.plus(b.fixed, -1)
        low, high = difference.const, difference.const
        for part, sign in ((a, 1), (b, -1)):
            for factor, least, most in self._reaches(part):
                ends = sign * factor * least, sign * factor * most
                low, high = low + min(ends), high + max(ends)
        if not difference.terms:
            return low > 0 or high < 0
        step = _version_step(difference)
        return step is not None and max(-low, high) < step

    def _reaches(self, part: _Digits) -> Iterable[tuple[int, int, int]]:
        """What moves an index: a factor, and the least and largest number it stands before."""
        yield from ((factor, 0, count - 1) for factor, count in part.moving)
        yield from part.loose
        for var, factor in part.threads.items():
            yield factor, *self.analyzer.const_int_bound(var)

    def _digits(self, touch: _Touch) -> _Digits | None:
        """An index as a fixed part, thread numbers and loop variables, each with its factor."""
        if touch.index is None:
            return None
        base, moving = touch.index, list[tuple[int, int]]()
        if isinstance(base, Ramp):
            if not isinstance(base.stride, IntImm):
                return None
            moving.append((base.stride.value, base.lanes))
            base = base.base
        if base.dtype.lanes != 1:
            return None
        value = linear(base)
        first = value.const
        threads: dict[Var, int] = {}
        fixed: dict[Expr, int] = {}
        loose: list[tuple[int, int, int]] = []
        for atom, factor in value.terms.items():
            if atom in self.threads:
                threads[atom] = factor  # type: ignore[index]
            elif isinstance(atom, Var) and atom in touch.ranges and atom not in self.loops:
                domain = touch.ranges[atom]
                if domain is None or not isinstance(domain.extent, IntImm):
                    return None
                if not isinstance(domain.min, IntImm):
                    return None
                first += factor * domain.min.value
                moving.append((factor, domain.extent.value))
            elif self._same_for_all(atom, touch):
                fixed[atom] = factor
            else:
                low, high = self.analyzer.const_int_bound(atom)
                if has_load(atom) or high - low >= _UNBOUNDED:
                    return None
                loose.append((factor, low, high))
        return _Digits(Linear(fixed, first), threads, tuple(moving), tuple(loose))

    def _same_for_all(self, atom: Expr, touch: _Touch) -> bool:
        """Whether it has one value at both accesses: it depends on loops around both, or none."""
        inner = free_vars(atom) & (touch.ranges.keys() - self.loops.keys())
        return not inner and not has_load(atom) and self._uniform(atom)

    def _tell_threads(self, a: _Digits, b: _Digits) -> bool:
        """Whether equal indices mean equal threads: the factors are places of a number system."""
        if a.threads != b.threads or a.loose or b.loose:
            return False
        digits: dict[int, int] = {}
        for factor, count in (*a.moving, *b.moving):
            digits[factor] = max(digits.get(factor, 1), count)
        for var, extent in self.threads.items():
            if isinstance(extent, IntImm) and extent.value == 1:
                continue
            factor = a.threads.get(var, 0)
            if factor in digits or not isinstance(extent, IntImm) or factor <= 0:
                return False
            digits[factor] = extent.value
        reach = 0  # the largest number that the lower places give
        for factor in sorted(digits):
            if factor <= reach:
                return False
            reach += factor * (digits[factor] - 1)
        return True


@dataclass(frozen=True, slots=True)
class _Digits:
    """An index: what is the same for all, and factors of what is not.

    `moving` are (factor, count) of inner loops, `loose` (factor, least, largest) of other terms.
    """

    fixed: Linear
    threads: dict[Var, int]
    moving: tuple[tuple[int, int], ...]
    loose: tuple[tuple[int, int, int], ...]


def _version_step(difference: Linear) -> int | None:
    """How far apart two versions are, for `step * (x % n) - step * (y % n)` that never is zero."""
    if len(difference.terms) != 2:
        return None
    (first, size), (second, other) = difference.terms.items()
    if not isinstance(first, FloorMod) or not isinstance(second, FloorMod) or size != -other:
        return None
    apart, count = constant_difference(first.a, second.a), first.b
    if count is not second.b or not isinstance(count, IntImm) or apart is None:
        return None
    return abs(size) if apart % count.value else None


def _joined(a: list[_Touch], b: list[_Touch]) -> list[_Touch]:
    """Both, each access once: long unrolled bodies repeat theirs."""
    if not a or not b:
        return a or b
    found = {(t.data, t.is_write, t.index, t.arrives): t for t in (*b, *a)}
    return list(found.values())


def _perhaps(part: _Part) -> _Part:
    """The part where it may not be run at all: its barriers do not count outside."""
    return _Part(part.stmt, part.head, part.head + part.tail) if part.synced else part


def _may_repeat(loop: For) -> bool:
    return not isinstance(loop.extent, IntImm) or loop.extent.value > 1
