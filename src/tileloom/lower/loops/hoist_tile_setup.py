"""The sizes of tile registers are said once for all loops over the same tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...expr import Call, IntImm, is_pure
from ...expr.tile_ops import CONFIGURE, LOAD, LOAD_ONCE, RELEASE, TILE_CALLS, ZERO
from ...tir import (
    PARALLEL,
    Evaluate,
    For,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtRewriter,
    all_exprs,
    pre_order,
    seq,
    stmt_children,
    stmt_exprs,
)
from ..common import on_body


def hoist_tile_setup(func: PrimFunc) -> PrimFunc:
    """`for i: amx_configure(...); ...; amx_release()` says the sizes before the loop, and once.

    Needs: the loops stage or flat code.
    Ensures: the same effects. Sizes are said for each iteration of a parallel loop, as registers
    belong to a thread. Where statements rely on the zeros that `amx_configure` leaves, where sizes
    differ and where other functions are called, nothing changes.
    """
    return on_body(func, _Hoist().visit) if any(map(_is_setup, pre_order(func.body))) else func


@dataclass(frozen=True)
class _Use:
    """How a statement uses tiles.

    Attributes:
        setups: the calls that say how large they are, each once.
        loose: whether tiles are used outside of these, or as they were left before; or whether
            threads of their own do so.
    """

    setups: tuple[Call, ...] = ()
    loose: bool = False


class _Hoist(StmtRewriter):
    def visit(self, stmt: Stmt) -> Stmt:
        use = _use_of(stmt)
        if len(use.setups) != 1 or use.loose:
            return super().visit(stmt) if use.setups else stmt
        release = Evaluate(Call("int32", RELEASE, ()))
        return seq(Evaluate(use.setups[0]), _Bare().visit(stmt), release)


def _use_of(stmt: Stmt) -> _Use:
    if _tile_call(stmt) is not None:
        return _Use(loose=True)
    if isinstance(stmt, Evaluate) and not is_pure(stmt.value):
        return _Use(loose=True)
    if any(not is_pure(expr) for expr in stmt_exprs(stmt)):
        return _Use(loose=True)
    parts = list(_parts(stmt.seq)) if isinstance(stmt, SeqStmt) else []
    uses = [_session(part) if isinstance(part, list) else _use_of(part) for part in parts]
    if not isinstance(stmt, SeqStmt):
        uses = [_use_of(child) for child in stmt_children(stmt)]
    setups = tuple(dict.fromkeys(call for use in uses for call in use.setups))
    apart = isinstance(stmt, For) and stmt.kind == PARALLEL and bool(setups)
    return _Use(setups, apart or any(use.loose for use in uses))


def _parts(stmts: Sequence[Stmt]) -> Iterator[Stmt | list[Stmt]]:
    """Statements one by one, those from saying sizes to releasing tiles together."""
    session: list[Stmt] | None = None
    for stmt in stmts:
        call = _tile_call(stmt)
        if session is None and call is not None and call.op == CONFIGURE:
            session = [stmt]
        elif session is not None:
            session.append(stmt)
            if call is not None and call.op == RELEASE:
                yield session
                session = None
        else:
            yield stmt
    yield from session or ()


def _session(stmts: Sequence[Stmt]) -> _Use:
    """What lies between saying sizes and releasing tiles."""
    first = _tile_call(stmts[0])
    body = seq(*stmts[1:-1])
    others = [expr for expr in all_exprs(body) if not _is_tile_call(expr)]
    again = any(_is_setup(s) for s in pre_order(body))
    loose = again or not all(map(is_pure, others)) or not _is_set_before(body, set())
    return _Use((first,) if first is not None else (), loose)


def _is_set_before(stmt: Stmt, known: set[int]) -> bool:
    """Whether tiles are set before they are used; those that are set join the known ones."""
    call = _tile_call(stmt)
    if call is not None:
        numbers = [arg.value for arg in call.args if isinstance(arg, IntImm)]
        if call.op in (ZERO, LOAD, LOAD_ONCE):
            known.add(numbers[0])
            return True
        return known.issuperset(numbers[:1] if len(call.args) != len(numbers) else numbers)
    if isinstance(stmt, SeqStmt):
        return all(_is_set_before(part, known) for part in stmt.seq)
    return all(_is_set_before(child, set(known)) for child in stmt_children(stmt))


def _tile_call(stmt: Stmt) -> Call | None:
    value = stmt.value if isinstance(stmt, Evaluate) else None
    return value if isinstance(value, Call) and value.op in TILE_CALLS else None


def _is_tile_call(expr: object) -> bool:
    return isinstance(expr, Call) and expr.op in TILE_CALLS


def _is_setup(stmt: Stmt) -> bool:
    call = _tile_call(stmt)
    return call is not None and call.op in (CONFIGURE, RELEASE)


class _Bare(StmtRewriter):
    """Statements without saying sizes and releasing tiles."""

    def visit_Evaluate(self, stmt: Evaluate) -> Stmt:
        return seq() if _is_setup(stmt) else stmt
