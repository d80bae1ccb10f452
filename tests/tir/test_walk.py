"""Walks over statements of every kind: what they see, in which order, and what they rebuild."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base import dtype
from tileloom.expr import Broadcast, Expr, IterVar, Ramp, Range, Var, const, post_order
from tileloom.tir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    SeqStmt,
    Stmt,
    While,
    make_buffer,
    seq,
)
from tileloom.tir.walk import (
    BufferRewriter,
    StmtRewriter,
    all_exprs,
    buffer_exprs,
    collect,
    collect_exprs,
    map_exprs,
    pre_order,
    rewrite_stmt_exprs,
    stmt_children,
    stmt_exprs,
    substitute_stmt,
)
from tir.programs import load, store

X, Y, P, Q = Var("x"), Var("y"), Var("when", "bool"), Var("else", "bool")
A, B = make_buffer((8,), "int32", "A"), make_buffer((8,), "int32", "B")
DATA = Var("data", "handle", ("int32", "global"))
NOTHING = Evaluate(const(0))
BODY = store(A, (X,), X + 1)
LANES = Ramp(X, const(1), 2)


def region(buffer: Buffer, low: Expr, size: Any = 1) -> BufferRegion:
    return BufferRegion(buffer, (Range(low, size),))


FIRST = store(A, (X,), X - 1)
BLOCK = Block(
    (IterVar(Range(X, 4), Var("v")), IterVar(Range(const(0), X), Var("w"))),
    (region(A, X), region(B, X + 1, X)),
    (region(A, X + 2),),
    "block",
    BODY,
    init=FIRST,
    match_buffers=(MatchBufferRegion(make_buffer((4,), "int32", "M"), region(B, X, 4)),),
)
#: A statement of each kind with `x` (or `p`) in each place where an expression may stand; the
#: expressions that it holds itself, and the statements directly below.
KINDS: dict[str, tuple[Stmt, list[Any], list[Stmt]]] = {
    "for": (For(Var("i"), X, X * 2, "serial", BODY), [X, X * 2], [BODY]),
    "realize": (BlockRealize((X, X + 5), P, BLOCK), [X, X + 5, P], [BLOCK]),
    "block": (
        BLOCK,
        [X, const(4), const(0), X, X, const(1), X + 1, X, X + 2, const(1), X, const(4)],
        [FIRST, BODY],
    ),
    "block without init": (
        BLOCK.replace(init=None, iter_vars=(), reads=(), match_buffers=()),
        [X + 2, const(1)],
        [BODY],
    ),
    "store": (BODY, [X + 1, X], []),
    "masked store": (
        BufferStore(A, Broadcast(X, 2), (LANES,), Broadcast(P, 2)),
        [Broadcast(X, 2), LANES, Broadcast(P, 2)],
        [],
    ),
    "seq": (SeqStmt((BODY, Evaluate(X))), [], [BODY, Evaluate(X)]),
    "if": (IfThenElse(P, BODY), [P], [BODY]),
    "if else": (IfThenElse(P, BODY, Evaluate(X)), [P], [BODY, Evaluate(X)]),
    "let": (LetStmt(Var("l"), X, BODY), [X], [BODY]),
    "attr": (AttrStmt("node", "key", X, BODY), [X], [BODY]),
    "assert": (AssertStmt(P, "message", BODY), [P], [BODY]),
    "while": (While(P, BODY), [P], [BODY]),
    "evaluate": (Evaluate(X + 3), [X + 3], []),
    "allocate": (
        Allocate(DATA, dtype("int32"), (X, X + 1), P, BODY), [X, X + 1, P], [BODY],
    ),
    "constant": (
        AllocateConst(DATA, dtype("int32"), (const(2),), np.zeros(2, "int32"), BODY), [], [BODY],
    ),
    "buffer": (DeclBuffer(make_buffer((4,), "int32", "D", data=A.data), BODY), [], [BODY]),
}  # fmt: skip


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> tuple[Stmt, list[Any], list[Stmt]]:
    return KINDS[request.param]


def alike(found: Stmt, wanted: Stmt) -> bool:
    """Statements are compared by their parts: equal ones are two objects."""
    return type(found) is type(wanted) and list(all_exprs(found)) == list(all_exprs(wanted))


def test_parts(kind: Any) -> None:
    stmt, exprs, children = kind
    assert list(stmt_exprs(stmt)) == exprs
    below = stmt_children(stmt)
    assert len(below) == len(children) and all(map(alike, below, children))
    order = list(pre_order(stmt))
    assert order[0] is stmt and len(order) == 1 + sum(len(list(pre_order(c))) for c in children)
    assert list(all_exprs(stmt)) == exprs + [e for c in children for e in all_exprs(c)]
    assert collect(stmt, type(stmt))[0] is stmt
    inside = [part for e in all_exprs(stmt) for part in post_order(e) if part is X]
    assert [part for part in collect_exprs(stmt, Var) if part is X] == inside


def test_what_changes_nothing_rebuilds_nothing(kind: Any) -> None:
    stmt, *_ = kind
    for rewriter in (StmtRewriter(), BufferRewriter()):
        assert rewriter.visit(stmt) is stmt
    assert map_exprs(stmt, lambda e: e) is stmt
    assert substitute_stmt(stmt, {}) is stmt
    assert substitute_stmt(stmt, {Var("other"): const(1)}) is stmt
    assert rewrite_stmt_exprs(stmt, lambda e: None) is stmt


def renamed(expr: Expr) -> Any:
    return {X: Y, P: Q}.get(expr) if isinstance(expr, Var) else None


def test_every_expression_is_rewritten(kind: Any) -> None:
    """Each in its own place: what was `x` is `y`, and nothing else has changed."""
    stmt, *_ = kind
    for made in (
        substitute_stmt(stmt, {X: Y, P: Q}),
        rewrite_stmt_exprs(stmt, renamed),
    ):
        before, after = list(all_exprs(stmt)), list(all_exprs(made))
        swapped = [str(e).replace("x", "y").replace("when", "else") for e in before]
        assert [str(e) for e in after] == swapped
        assert type(made) is type(stmt) and made is not stmt
        assert [type(s) for s in pre_order(made)] == [type(s) for s in pre_order(stmt)]
        names = [n for n in ("data", "buffer", "attr_key", "message") if hasattr(stmt, n)]
        assert all(getattr(made, n) is getattr(stmt, n) for n in names)


@pytest.mark.parametrize("place", range(5))
def test_one_changed_expression_rebuilds_its_statement(place: int) -> None:
    """Of a statement with several, whichever it is."""
    parts = [Var(f"e{k}") for k in range(5)]
    new = Var("new")
    shapes: list[Any] = [
        lambda e: For(Var("i"), e[0], e[1], "serial", Evaluate(e[2])),
        lambda e: BufferStore(A, e[0], (e[1],)),
        lambda e: IfThenElse(e[0] > 0, Evaluate(e[1]), Evaluate(e[2])),
        lambda e: Allocate(DATA, dtype("int32"), (e[0], e[1]), P, Evaluate(e[2])),
        lambda e: BlockRealize((e[0], e[1]), e[2] > 0, Block((), (), (), "b", Evaluate(e[3]),
                                                              Evaluate(e[4]))),
        lambda e: Block((IterVar(Range(e[0], e[1]), Var("v")),), (region(A, e[2], e[3]),), (), "b",
                        Evaluate(e[4])),
        lambda e: Block((), (), (region(A, e[0], e[1]),), "b", Evaluate(e[2]), Evaluate(e[3]),
                        match_buffers=(MatchBufferRegion(B, region(A, e[4])),)),
        lambda e: SeqStmt((Evaluate(e[0]), Evaluate(e[1]), Evaluate(e[2]))),
    ]  # fmt: skip
    for shape in shapes:
        stmt = shape(parts)
        made = substitute_stmt(stmt, {parts[place]: new})
        wanted = [str(e).replace(f"e{place}", "new") for e in all_exprs(stmt)]
        assert [str(e) for e in all_exprs(made)] == wanted
        assert (made is stmt) == (f"e{place}" not in " ".join(map(str, all_exprs(stmt))))


def test_rows_are_flattened_when_they_change() -> None:
    class Drop(StmtRewriter):
        """Stores of `B` go, those of `A` are doubled."""

        def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
            return NOTHING if stmt.buffer is B else SeqStmt((stmt, stmt))

    a, b = store(A, (0,), 1), store(B, (0,), 1)
    made: Any = Drop().visit(SeqStmt((a, b, a)))
    assert isinstance(made, SeqStmt) and made.seq == (a, a, a, a)
    assert Drop().visit(SeqStmt((b, b))).value is const(0)  # type: ignore[attr-defined]
    only: Any = Drop().visit(SeqStmt((b, a)))
    assert only.seq == (a, a)


class Other(BufferRewriter):
    """`C` in place of `A`."""

    def __init__(self) -> None:
        self.other = make_buffer((8,), "int32", "C")

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        return self.other if buffer is A else buffer


def test_buffers_are_replaced_wherever_they_stand() -> None:
    walk = Other()
    block: Any = walk.visit(BLOCK.replace(alloc_buffers=(B, A)))
    assert [r.buffer for r in block.reads] == [walk.other, B]
    assert [r.buffer for r in block.writes] == [walk.other]
    assert block.alloc_buffers == (B, walk.other)
    assert block.body.buffer is walk.other and block.init.buffer is walk.other
    assert block.match_buffers is BLOCK.match_buffers
    source = MatchBufferRegion(B, region(A, X, 4))
    view = MatchBufferRegion(A, region(B, X, 4))
    made: Any = walk.visit(BLOCK.replace(match_buffers=(source, view)))
    assert [(m.buffer, m.source.buffer) for m in made.match_buffers] == [
        (B, walk.other), (walk.other, B),
    ]  # fmt: skip
    for stmt in (DeclBuffer(A, Evaluate(X)), store(A, (0,), load(B, 1))):
        changed: Any = walk.visit(stmt)
        assert changed.buffer is walk.other
    untouched = DeclBuffer(B, seq(store(B, (0,), 1), Evaluate(BufferLoad(A, [X]))))
    assert walk.visit(untouched) is untouched  # loads are a matter of expressions


def test_expressions_of_buffers() -> None:
    assert buffer_exprs(A) == (const(8),)
    both = make_buffer((X, 4), strides=(Y, 1), elem_offset=X + Y)
    assert buffer_exprs(both) == (X, const(4), Y, const(1), X + Y)
    assert buffer_exprs(make_buffer((), elem_offset=X)) == (X,)


def test_iteration_variables_keep_what_does_not_change() -> None:
    open_ = IterVar(None, Var("t"), 1, "threadIdx.x")
    bound = IterVar(Range(X, 4), Var("v"), 2, "tag")
    walk = StmtRewriter()
    assert walk.visit_iter_var(open_) is open_ and walk.visit_iter_var(bound) is bound
    walk.visit_expr = lambda e: Y if e is X else e  # type: ignore[method-assign,assignment]
    made = walk.visit_iter_var(bound)
    assert (made.domain.min, made.domain.extent) == (Y, const(4))
    assert (made.var, made.iter_type, made.thread_tag) == (bound.var, 2, "tag")
    assert walk.visit_iter_var(open_) is open_
