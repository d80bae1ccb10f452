"""Building the statements that primitives put in place: substitution, bindings, predicates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..expr import (
    SPATIAL,
    Add,
    And,
    Expr,
    IntImm,
    IterVar,
    Mul,
    Range,
    Var,
    binary,
    free_vars,
    free_vars_of,
    iter_map_simplify,
    substitute,
)
from ..tir import (
    SERIAL,
    AllocateConst,
    Block,
    BlockRealize,
    DeclBuffer,
    For,
    LetStmt,
    Stmt,
    StmtRewriter,
    parts_of,
    seq,
)
from .analysis.affine import linear_form
from .analysis.tree import is_one
from .state import copy_loop

#: Makes a new realize of one; the same object means no change.
RealizeRule = Callable[[BlockRealize], BlockRealize]


class LoopVarSubstitution(StmtRewriter):
    """Puts expressions in place of loop variables.

    Only what stands outside of blocks may use loop variables, so blocks stay the objects they are,
    except those without iteration variables, in which everything may use the loops around them.

    Attributes:
        block_map: blocks that had to change, for `ScheduleState.replace`.
    """

    def __init__(self, values: Mapping[Var, Expr], realize: RealizeRule | None = None) -> None:
        self.values = values
        self.realize = realize
        self.block_map: dict[Block, Block] = {}
        self._in_opaque = False

    def visit_expr(self, expr: Expr) -> Expr:
        return substitute(expr, self.values)

    def visit_For(self, stmt: For) -> Stmt:
        low, extent, body = self.visit_expr(stmt.min), self.visit_expr(stmt.extent), stmt.body
        new = self.visit(body)
        if low is stmt.min and extent is stmt.extent:
            return stmt if new is body else copy_loop(stmt, new)
        return stmt.replace(min=low, extent=extent, body=new)

    def visit_BlockRealize(self, stmt: BlockRealize) -> Stmt:
        values = self.all(stmt.iter_values, self.visit_expr)
        predicate = self.visit_expr(stmt.predicate)
        block = stmt.block
        if self._in_opaque or not block.iter_vars:
            changed = self._opaque(block)
            if changed is not block:
                self.block_map[block] = changed
                block = changed
        if (
            values is not stmt.iter_values
            or predicate is not stmt.predicate
            or (block is not stmt.block)
        ):
            stmt = BlockRealize(values, predicate, block, span=stmt.span)
        return stmt if self.realize is None else self.realize(stmt)

    def _opaque(self, block: Block) -> Block:
        before = self.realize, self._in_opaque
        self.realize, self._in_opaque = None, True
        changed = super().visit_Block(block)
        self.realize, self._in_opaque = before
        return changed


def simplify_bindings(
    realize: BlockRealize,
    domains: Mapping[Var, Range],
    preserve_unit_iters: bool = True,
    only: frozenset[Var] | None = None,
) -> BlockRealize:
    """The realize with the values of its iteration variables simplified.

    Args:
        realize: the block with its values.
        domains: the ranges of all loops around it, up to the scope.
        preserve_unit_iters: keep loops of extent one in the values.
        only: simplify just the values that use one of these variables.
    """
    values = list(realize.iter_values)
    todo = [
        i
        for i, value in enumerate(values)
        if (only is None or not free_vars(value).isdisjoint(only)) and not _is_normal(value)
    ]
    if not todo and (preserve_unit_iters or not _unit_vars(values, domains)):
        return realize
    if is_one(realize.predicate):
        # Without a predicate the values do not bear on each other.
        if not preserve_unit_iters:
            units = _unit_vars(values, domains)
            todo = [i for i, v in enumerate(values) if i in todo or free_vars(v) & units]
        used = free_vars_of(values[i] for i in todo)
        domains = {var: domain for var, domain in domains.items() if var in used}
    else:
        todo = list(range(len(values)))
    simple = iter_map_simplify(
        [values[i] for i in todo],
        domains,
        realize.predicate,
        "surjective",
        simplify_trivial_iterators=not preserve_unit_iters,
    )
    for i, value in zip(todo, simple, strict=True):
        values[i] = value
    if all(a is b for a, b in zip(values, realize.iter_values)):
        return realize
    return BlockRealize(tuple(values), realize.predicate, realize.block, span=realize.span)


def _unit_vars(values: Sequence[Expr], domains: Mapping[Var, Range]) -> frozenset[Var]:
    used = free_vars_of(values)
    return frozenset(var for var in used if var in domains and is_one(domains[var].extent))


def _is_normal(value: Expr) -> bool:
    """Whether a value is a sum of different variables times numbers, which is simple already."""
    if isinstance(value, Var):
        return True
    form = linear_form(value)
    return form is not None and form[1] == 0 and _count_leaves(value) == len(form[0])


def _count_leaves(value: Expr) -> int:
    if isinstance(value, Add):
        return _count_leaves(value.a) + _count_leaves(value.b)
    if isinstance(value, Mul) and isinstance(value.a, Var) and isinstance(value.b, IntImm):
        return 1
    return 1 if isinstance(value, Var) else 1 << 30


def add_predicate(realize: BlockRealize, condition: Expr) -> BlockRealize:
    """The realize, run only where the condition holds as well."""
    predicate = binary(And, realize.predicate, condition)
    return BlockRealize(realize.iter_values, predicate, realize.block, span=realize.span)


def index_vars(name: str, shape: Sequence[Expr]) -> list[Var]:
    """Variables `name0`, `name1`, ... for the indices of a shape, of their types."""
    return [Var(f"{name}{k}", extent.dtype) for k, extent in enumerate(shape)]


def iter_vars(axes: Sequence[Var], shape: Sequence[Expr]) -> tuple[IterVar, ...]:
    """Data-parallel iteration variables over a shape."""
    ranges = map(Range.from_extent, shape)
    return tuple(IterVar(r, axis, SPATIAL) for axis, r in zip(axes, ranges, strict=True))


def nest(loops: Sequence[tuple[Var, Expr]], body: Stmt, kind: str = SERIAL) -> Stmt:
    """Loops from zero around a body, the first one outermost."""
    for var, extent in reversed(loops):
        body = For(var, IntImm(var.dtype, 0), extent, kind, body)
    return body


def under_copies(
    loops: Sequence[For], realize: BlockRealize, suffix: str = "", plain: bool = False
) -> Stmt:
    """A block under copies of loops, whose variables are new ones with a suffix.

    Args:
        plain: make the copies serial, without annotations.
    """
    variables = [loop.loop_var for loop in loops]
    own = {var: var.with_name(f"{var.name}{suffix}") for var in variables}
    values = tuple(substitute(value, own) for value in realize.iter_values)
    stmt: Stmt = BlockRealize(values, substitute(realize.predicate, own), realize.block)
    for loop in reversed(loops):
        low, extent = substitute(loop.min, own), substitute(loop.extent, own)
        kept = () if plain else (loop.thread_binding, dict(loop.annotations))
        kind = SERIAL if plain else loop.kind
        stmt = For(own[loop.loop_var], low, extent, kind, stmt, *kept)
    return stmt


def statements(body: Stmt) -> tuple[Stmt, ...]:
    """The statements of a body, also of one that is under definitions such as of constants."""
    while isinstance(body, _DEFINITIONS):
        body = body.body
    return parts_of(body)


def with_statements(body: Stmt, parts: Sequence[Stmt]) -> Stmt:
    """The body with other statements, under the same definitions."""
    if isinstance(body, _DEFINITIONS):
        return body.replace(body=with_statements(body.body, parts))
    return seq(*parts)


_DEFINITIONS = (AllocateConst, DeclBuffer, LetStmt)
