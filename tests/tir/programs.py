"""Programs for the tests of this room, written with the nodes themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tileloom.expr import REDUCE, SPATIAL, Call, Expr, IterVar, Max, Range, Var, as_expr, const
from tileloom.tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    PrimFunc,
    Stmt,
    make_buffer,
    seq,
)


def func(params: Sequence[Buffer | Var], body: Stmt, name: str = "main") -> PrimFunc:
    """A function of buffers and scalar variables."""
    heads = [p if isinstance(p, Var) else Var(p.name.lower(), "handle") for p in params]
    buffers = {h: p for h, p in zip(heads, params) if isinstance(p, Buffer)}
    return PrimFunc(tuple(heads), body, buffers, {"global_symbol": name})


def loops(extents: Sequence[Any], body: Callable[..., Stmt], kind: str = "serial") -> Stmt:
    """A loop nest; `body` gets its variables."""
    sizes = [as_expr(extent) for extent in extents]
    names = [Var(f"i{k}", size.dtype) for k, size in enumerate(sizes)]
    stmt = body(*names)
    for var, size in zip(reversed(names), reversed(sizes)):
        stmt = For(var, const(0, size.dtype), size, kind, stmt)
    return stmt


def at(buffer: Buffer, indices: Sequence[Expr]) -> BufferRegion:
    return BufferRegion.point(buffer, [as_expr(i) for i in indices])


def block(
    name: str,
    kinds: str,
    extents: Sequence[Any],
    body: Callable[..., Stmt],
    init: Callable[..., Stmt] | None = None,
    values: Sequence[Expr] | None = None,
    predicate: Any = True,
    reads: Callable[..., Sequence[BufferRegion]] | None = None,
    writes: Callable[..., Sequence[BufferRegion]] | None = None,
    **fields: Any,
) -> Stmt:
    """A block in a loop nest of its own, or realised for `values` if they are given."""
    sizes = [as_expr(extent) for extent in extents]
    types = {"S": SPATIAL, "R": REDUCE}
    axes = [Var(f"v{k}", size.dtype) for k, size in enumerate(sizes)]
    node = Block(
        tuple(
            IterVar(Range.from_extent(s), v, types[k])
            for s, v, k in zip(sizes, axes, kinds, strict=True)
        ),
        tuple(reads(*axes)) if reads else (),
        tuple(writes(*axes)) if writes else (),
        name,
        body(*axes),
        None if init is None else init(*axes),
        **fields,
    )

    def realize(*bound: Expr) -> Stmt:
        return BlockRealize(tuple(bound), as_expr(predicate), node)

    return realize(*values) if values is not None else loops(extents, realize)


def store(buffer: Buffer, indices: Sequence[Any], value: Any) -> Stmt:
    return BufferStore(
        buffer, as_expr(value, buffer.dtype), tuple(as_expr(index) for index in indices)
    )


def load(buffer: Buffer, *indices: Any) -> Expr:
    return BufferLoad(buffer, [as_expr(index) for index in indices])


def call(op: str, *args: Expr) -> Expr:
    return Call(args[0].dtype, f"tir.{op}", args)


def matmul(m: Any, n: Any, k: Any, kind: str = "float32", acc: str | None = None) -> PrimFunc:
    """C = A @ B as one reduction block."""
    acc = acc or kind
    a, b = make_buffer((m, k), kind, "A"), make_buffer((k, n), kind, "B")
    c = make_buffer((m, n), acc, "C")
    body = block(
        "C",
        "SSR",
        (m, n, k),
        lambda i, j, r: store(
            c, (i, j), load(c, i, j) + load(a, i, r).astype(acc) * load(b, r, j).astype(acc)
        ),
        lambda i, j, r: store(c, (i, j), const(0, acc)),
        reads=lambda i, j, r: (at(a, (i, r)), at(b, (r, j))),
        writes=lambda i, j, r: (at(c, (i, j)),),
    )
    return func((a, b, c), body)


def softmax(rows: int, columns: int, kind: str = "float32") -> PrimFunc:
    """Row-wise softmax through three buffers of a root block."""
    x, y = make_buffer((rows, columns), kind, "X"), make_buffer((rows, columns), kind, "Y")
    top, total = make_buffer((rows,), kind, "top"), make_buffer((rows,), kind, "total")
    e = make_buffer((rows, columns), kind, "E")
    low = const(float("-inf"), kind)
    parts = seq(
        block(
            "top", "SR", (rows, columns),
            lambda i, j: store(top, (i,), Max(load(top, i), load(x, i, j))),
            lambda i, j: store(top, (i,), low),
            reads=lambda i, j: (at(x, (i, j)),),
            writes=lambda i, j: (at(top, (i,)),),
        ),
        block(
            "E", "SS", (rows, columns),
            lambda i, j: store(e, (i, j), call("exp", load(x, i, j) - load(top, i))),
            reads=lambda i, j: (at(x, (i, j)), at(top, (i,))),
            writes=lambda i, j: (at(e, (i, j)),),
        ),
        block(
            "total", "SR", (rows, columns),
            lambda i, j: store(total, (i,), load(total, i) + load(e, i, j)),
            lambda i, j: store(total, (i,), const(0, kind)),
            reads=lambda i, j: (at(e, (i, j)),),
            writes=lambda i, j: (at(total, (i,)),),
        ),
        block(
            "Y", "SS", (rows, columns),
            lambda i, j: store(y, (i, j), load(e, i, j) / load(total, i)),
            reads=lambda i, j: (at(e, (i, j)), at(total, (i,))),
            writes=lambda i, j: (at(y, (i, j)),),
        ),
    )  # fmt: skip
    root = Block((), (), (), "root", parts, alloc_buffers=(top, e, total))
    return func((x, y), BlockRealize((), const(True), root), "softmax")
