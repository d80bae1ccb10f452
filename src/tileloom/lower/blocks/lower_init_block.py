"""The init part of a reduction becomes ordinary code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...expr import (
    EQ,
    LE,
    REDUCE,
    Call,
    Expr,
    IntImm,
    Or,
    Var,
    binary,
    conjunction,
    const,
    free_vars,
    free_vars_of,
    has_load,
    post_order,
    substitute,
)
from ...expr.analyzer import Analyzer
from ...tir import (
    PARALLEL,
    SERIAL,
    Block,
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtRewriter,
    seq,
    stmt_children,
    stmt_exprs,
)
from ..analysis.known_bounds import size_bounds
from ..common import ADDRESS_OF, conjuncts, fresh_copy, loaded_buffers, on_body, replaced

PIPELINE_STAGE = "software_pipeline_stage"


def lower_init_block(func: PrimFunc) -> PrimFunc:
    """No block has an init.

    Needs: the blocks stage.
    Ensures: the init stands as a block of its own before the outermost loop of the reduction (so
    that the hot loop has no branch, and an empty reduction still yields its identity) where
    nothing else in that loop touches what it writes; elsewhere it is an `if` on the reduction
    variables, at the head of the body, and where the reduction may be empty a second copy before
    the loop, for that case alone.
    """
    return on_body(func, _LowerInit(size_bounds(func)).visit)


class _LowerInit(StmtRewriter):
    def __init__(self, known: Mapping[str, tuple[int, int]]) -> None:
        self.known = known
        self.outer: set[Var] = set()  # variables of the loops around
        self.in_pipeline = False  # directly, as one of its statements

    def visit_For(self, stmt: For) -> Stmt:
        inits: list[Stmt] = []
        loop: Stmt = stmt
        for path in _paths(stmt, ()):
            init = self._hoisted(path, stmt)
            if init is not None:
                inits.append(init)
                started = path.realize.block.replace(init=None)
                loop = replaced(loop, {path.realize: path.realize.replace(block=started)})
            else:
                empty = self._when_empty(path, stmt)
                if empty is not None:
                    inits.append(empty)
        self.outer.add(stmt.loop_var)
        pipeline, self.in_pipeline = self.in_pipeline, PIPELINE_STAGE in stmt.annotations
        result = super().visit_For(loop) if isinstance(loop, For) else loop
        self.outer.discard(stmt.loop_var)
        self.in_pipeline = pipeline
        if inits and pipeline:  # whose annotations count statements: they stay one
            block = Block((), (), (), "", seq(*inits, result))
            return BlockRealize((), const(True), block)
        return seq(*inits, result)

    def visit_Block(self, stmt: Block) -> Block:
        result = StmtRewriter.visit_Block(self, stmt)
        if result.init is None:
            return result
        starts = [
            binary(EQ, axis.var, axis.domain.min)
            for axis in result.iter_vars
            if axis.iter_type == REDUCE
        ]
        init = result.init
        guarded = IfThenElse(conjunction(starts), init) if starts else init
        return result.replace(init=None, body=seq(guarded, result.body))

    def _hoisted(self, path: _Path, top: For) -> Stmt | None:
        """The init as loops of its own, if `top` is the outermost loop of the reduction."""
        reduced = self._reduction_vars(path)
        if reduced is None or top.loop_var not in reduced or not reduced.isdisjoint(self.outer):
            return None
        if any(loop.thread_binding for loop in path.loops) or not _is_alone(path, top):
            return None
        return _init_nest(path, reduced, [])

    def _when_empty(self, path: _Path, top: For) -> Stmt | None:
        """The init for a reduction that may have no iteration, which no `if` inside would see."""
        carriers = path.realize.loops_of(REDUCE) & (_own_vars(path) | self.outer)
        if top.loop_var not in carriers or not carriers.isdisjoint(self.outer):
            return None
        sizes = [loop.extent for loop in path.loops if loop.loop_var in carriers]
        conditions = [
            binary(LE, size, const(0, size.dtype)) for size in sizes if not self._is_positive(size)
        ]
        if not conditions:
            return None
        empty = conditions[0]
        for condition in conditions[1:]:
            empty = binary(Or, empty, condition)
        if not free_vars(empty).isdisjoint(carriers):
            return None
        if self._reduction_vars(path) is not None:
            return _init_nest(path, carriers, [empty])
        return None if free_vars(empty) & _own_vars(path) else _init_everywhere(path, empty)

    def _reduction_vars(self, path: _Path) -> frozenset[Var] | None:
        """The variables that feed the reduction; None if they do more than that."""
        realize = path.realize
        in_reduce, in_others = realize.loops_of(REDUCE), realize.loops_of(REDUCE, others=True)
        bounds = [free_vars(bound) for loop in path.loops for bound in (loop.min, loop.extent)]
        parts = [free_vars(part) for part in conjuncts(realize.predicate)]
        mixed = any(
            not part.isdisjoint(in_reduce) and not part.isdisjoint(in_others) for part in parts
        )
        sizes = [loop.extent for loop in path.loops if loop.loop_var in in_reduce]
        if mixed and not all(map(self._is_positive, sizes)):
            return None
        if not in_reduce.isdisjoint(in_others.union(*bounds)):
            return None
        return in_reduce

    def _is_positive(self, size: Expr) -> bool:
        """Whether a loop of so many steps has some, for whatever size there may be."""
        if isinstance(size, IntImm):
            return size.value > 0
        variables = free_vars(size)
        if any(var.name not in self.known for var in variables):
            return False
        analyzer = Analyzer()
        analyzer.bind_bounds({var: self.known[var.name] for var in variables})
        return analyzer.const_int_bound(size).min_value > 0


@dataclass(frozen=True, slots=True)
class _Path:
    """A block with an init, and the loops down to it."""

    loops: tuple[For, ...]
    realize: BlockRealize


def _paths(stmt: Stmt, loops: tuple[For, ...]) -> Iterator[_Path]:
    match stmt:
        case For():
            yield from _paths(stmt.body, (*loops, stmt))
        case SeqStmt():
            for part in stmt.seq:
                yield from _paths(part, loops)
        case BlockRealize() if stmt.block.init is not None:
            yield _Path(loops, stmt)
        case _:
            pass


def _is_alone(path: _Path, top: For) -> bool:
    """Whether nothing else in the loop touches what the init writes, or writes what it reads."""
    init = path.realize.block.init
    if init is None:
        return False
    read, written = _accessed(init, None)
    others_read, others_written = _accessed(top, path.realize)
    own_written = _accessed(path.realize.block.body, None)[1]
    return written.isdisjoint(others_read | others_written) and read.isdisjoint(
        others_written | own_written
    )


def _accessed(stmt: Stmt, skip: Stmt | None) -> tuple[set[Var], set[Var]]:
    """The pointers of the buffers read and written; what may be either counts as both."""
    read: set[Var] = set()
    written: set[Var] = set()
    if stmt is skip:
        return read, written
    if isinstance(stmt, BufferStore):
        written.add(stmt.buffer.data)
    elif isinstance(stmt, Block):
        matched = {match.source.buffer.data for match in stmt.match_buffers}
        read, written = read | matched, written | matched
    for expr in stmt_exprs(stmt):
        read.update(buffer.data for buffer in loaded_buffers(expr))
        pointers = {var for var in free_vars(expr) if var.dtype.is_handle}
        for part in post_order(expr) if has_load(expr) else ():
            if isinstance(part, Call) and part.op == ADDRESS_OF:
                pointers.update(buffer.data for buffer in loaded_buffers(part))
        read, written = read | pointers, written | pointers
    for child in stmt_children(stmt):
        more_read, more_written = _accessed(child, skip)
        read, written = read | more_read, written | more_written
    return read, written


def _own_vars(path: _Path) -> set[Var]:
    return {loop.loop_var for loop in path.loops}


def _init_everywhere(path: _Path, condition: Expr) -> Stmt | None:
    """The init over the block's whole domain, where loops do not tell spatial from reduction."""
    block = path.realize.block
    if block.init is None or block.alloc_buffers or block.match_buffers:
        return None
    axes = [axis for axis in block.iter_vars if axis.iter_type != REDUCE]
    loops = [axis.var.with_name(axis.var.name) for axis in axes]
    init = Block(tuple(axes), (), block.writes, f"{block.name_hint}_init", block.init)
    nest: Stmt = BlockRealize(tuple(loops), condition, init)
    for axis, var in reversed(list(zip(axes, loops, strict=True))):
        nest = For(var, axis.domain.min, axis.domain.extent, SERIAL, nest)
    return fresh_copy(nest, {})


def _init_nest(path: _Path, reduced: frozenset[Var], conditions: list[Expr]) -> Stmt | None:
    """The init under the spatial loops, where the conditions hold."""
    block, realize = path.realize.block, path.realize
    if block.init is None or block.alloc_buffers or block.match_buffers:
        return None
    axes = [
        (axis, value)
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True)
        if axis.iter_type != REDUCE
    ]
    # It runs where the first step of the reduction does.
    first = {loop.loop_var: loop.min for loop in path.loops if loop.loop_var in reduced}
    placing = free_vars_of(value for _, value in axes)
    parts = [
        substitute(part, first)
        for part in conjuncts(realize.predicate)
        if free_vars(part).isdisjoint(reduced) or not free_vars(part).isdisjoint(placing)
    ]
    parts += conditions
    read, _ = _accessed(block.init, None)
    init = Block(
        tuple(axis for axis, _ in axes),
        tuple(region for region in block.reads if region.buffer.data in read),
        block.writes,
        f"{block.name_hint}_init",
        block.init,
        span=block.span,
    )
    nest: Stmt = BlockRealize(tuple(value for _, value in axes), conjunction(parts), init)
    for loop in reversed(path.loops):
        if loop.loop_var not in reduced:
            kind = SERIAL if loop.kind == PARALLEL else loop.kind
            nest = loop.replace(kind=kind, body=nest, annotations={})
    return fresh_copy(nest, {})
