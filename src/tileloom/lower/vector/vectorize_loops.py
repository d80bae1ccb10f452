"""Vectorised loops become vector code."""

from __future__ import annotations

from typing import Any

from ...expr import IntImm, Ramp, const
from ...tir import (
    SERIAL,
    VECTORIZED,
    For,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtRewriter,
    is_no_op,
    seq,
    under_loops,
)
from ..common import fresh_copy, on_body, replace_vars
from .argmax import vectorized_argmax
from .body import CannotVectorize, Vectorizer
from .cuts import cut_loops
from .strips import LANES, PARTS, TILE, annotated_chain, in_strips
from .tiles import in_tiles, is_tiled

MAX_LANES = 64  # longer loops run in chunks: what one vector operation may hold of any type


def vectorize_loops(func: PrimFunc) -> PrimFunc:
    """A loop of kind "vectorized" becomes code on vectors, its variable a `Ramp`.

    Needs: flat code (one index per access). A vectorised loop promises that its iterations do not
    depend on each other.
    A serial loop annotated with `vector_lanes` is cut into such vectors and a rest; what all its
    iterations add to becomes vectors of partial results (see `strips`). With `vector_tile`
    on the loop around, the two run in tiles that are transposed (see `tiles`).

    Ensures: no loop is of kind "vectorized". Branches on the loop variable become masks on loads
    and stores. A loop that cannot be done in vectors (extent not constant, `while`, calls with
    effects, accumulation into one place) is serial; one of more than 64 iterations runs in chunks.
    """
    return on_body(func, lambda body: _VectorizeLoops().visit(cut_loops(body)))


class _VectorizeLoops(StmtRewriter):
    def visit_SeqStmt(self, stmt: SeqStmt) -> Stmt:
        made: list[Stmt] = []
        for k, part in enumerate(stmt.seq):
            chain = annotated_chain(part) if isinstance(part, For) and not is_tiled(part) else None
            if k and chain is not None:
                vectors, covers = self._strips(chain, stmt.seq[k - 1])
                made[-1:] = [vectors] if covers else [made[-1], vectors]
            else:
                made.append(self.visit(part))
        return stmt if all(a is b for a, b in zip(made, stmt.seq)) else seq(*made)

    def visit_For(self, stmt: For) -> Stmt:
        if is_tiled(stmt):
            return self._tiles(stmt)
        chain = annotated_chain(stmt)
        if chain is not None:
            return self._strips(chain)[0]
        loop = StmtRewriter.visit_For(self, stmt)
        if not isinstance(loop, For) or loop.kind != VECTORIZED:
            return loop
        if not isinstance(loop.extent, IntImm):
            return loop.replace(kind=SERIAL)
        return _vectorize(loop, loop.extent.value)

    def _tiles(self, stmt: For) -> Stmt:
        try:
            return in_tiles(stmt)
        except CannotVectorize:
            return self.visit(stmt.replace(annotations=_without(stmt, TILE)))

    def _strips(self, chain: list[For], before: Stmt | None = None) -> tuple[Stmt, bool]:
        """The loops in vectors, and whether `before` need not run any more."""
        try:
            chosen = vectorized_argmax(chain)
            return in_strips(chain, before) if chosen is None else (chosen, False)
        except CannotVectorize:
            *outer, loop = chain
            stmt: Stmt = self.visit(loop.replace(annotations=_without(loop, LANES, PARTS)))
            return under_loops(outer, stmt), False


def _without(loop: For, *keys: str) -> dict[str, Any]:
    return {key: value for key, value in loop.annotations.items() if key not in keys}


def _vectorize(loop: For, extent: int) -> Stmt:
    if extent <= 0 or is_no_op(loop.body):
        return seq()
    if extent == 1:
        return replace_vars(loop.body, {loop.loop_var: loop.min})
    try:
        if extent <= MAX_LANES:
            return _lanes(loop, extent)
        return _chunks(loop, extent)
    except CannotVectorize:
        return loop.replace(kind=SERIAL)


def _lanes(loop: For, extent: int) -> Stmt:
    kind = loop.loop_var.dtype
    ramp = Ramp(loop.min, const(1, kind), extent)
    return Vectorizer(loop.loop_var, ramp).visit(loop.body)


def _chunks(loop: For, extent: int) -> Stmt:
    kind = loop.loop_var.dtype
    outer = loop.loop_var.with_name(f"{loop.loop_var.name}_chunk")
    low = loop.min + outer * const(MAX_LANES, kind)
    chunk = loop.replace(min=low, extent=const(MAX_LANES, kind))
    many, rest = divmod(extent, MAX_LANES)
    main = For(outer, const(0, kind), const(many, kind), SERIAL, _lanes(chunk, MAX_LANES))
    if many == 1:
        main_stmt = replace_vars(main.body, {outer: const(0, kind)})
    else:
        main_stmt = main
    if rest == 0:
        return main_stmt
    start = loop.min + const(many * MAX_LANES, kind)
    tail = loop.replace(min=start, extent=const(rest, kind), body=fresh_copy(loop.body, {}))
    return seq(main_stmt, _vectorize(tail, rest))
