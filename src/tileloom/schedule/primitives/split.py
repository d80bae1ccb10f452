"""split: one loop becomes several."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...expr import Analyzer, Expr, FloorDiv, IntImm, Range, Var, as_expr, binary, const
from ...expr.extents import limits_of_variables
from ...expr.nodes import LT, Add, Mul
from ...tir import BlockRealize, For, stmt_children
from ..analysis.tree import domains_above, require_plain_loop, require_zero_start
from ..errors import name_of, refuse
from ..instruction import IntRef, LoopRef, primitive
from ..rewrite import LoopVarSubstitution, add_predicate, nest, simplify_bindings
from ..sref import StmtSRef
from ..state import ScheduleState

Factor = int | Expr


@primitive("Split", flat="factors")
def split(
    state: ScheduleState,
    loop: LoopRef,
    factors: list[IntRef | None],
    preserve_unit_iters: bool = True,
    disable_predication: bool = False,
) -> list[LoopRef]:
    """Split a loop into several, the first one outermost.

    Args:
        loop: a serial loop from zero.
        factors: the extents of the new loops; one may be None and is inferred. Where their product
            is more than the extent, the blocks inside run under a condition.
        preserve_unit_iters: keep loops of extent one in the values of blocks.
        disable_predication: leave that condition out (unsafe where it would be needed).

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((100,), name="A"); B = te.compute((100,), lambda i: A[i] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> outer, inner = sch.split(sch.get_loops("B")[0], [None, 8])
    >>> sch.get(outer).extent, sch.get(inner).extent
    (13, 8)
    """
    require_plain_loop(loop, "split")
    require_zero_start(loop, "split")
    old = loop.loop
    kind = old.loop_var.dtype
    extents = [as_expr(f, kind).astype(kind) for f in _inferred(loop, factors)]
    variables = [Var(f"{old.loop_var.name}_{i}", kind) for i in range(len(extents))]
    value = _flat_value(variables, extents)
    condition = None if disable_predication else _overrun(old, variables, extents, value)
    domains = domains_above(loop)
    domains.update(zip(variables, (Range(const(0, kind), extent) for extent in extents)))
    add_inner_domains(old, domains)
    new_vars = frozenset(variables)

    def rule(realize: BlockRealize) -> BlockRealize:
        if condition is not None:
            realize = add_predicate(realize, condition)
        return simplify_bindings(realize, domains, preserve_unit_iters, new_vars)

    substitution = LoopVarSubstitution({old.loop_var: value}, rule)
    new = nest(list(zip(variables, extents)), substitution.visit(old.body))
    state.replace(loop, new, substitution.block_map)
    return _new_loops(state, new, len(variables))


def _new_loops(state: ScheduleState, stmt: object, count: int) -> list[StmtSRef]:
    found = []
    for _ in range(count):
        if isinstance(stmt, For):
            found.append(state.sref(stmt))
            stmt = stmt.body
    return found


def add_inner_domains(loop: For, domains: dict[Var, Range]) -> None:
    """The ranges of the loops inside, down to where they branch."""
    stack = [loop.body]
    while stack:
        node = stack.pop()
        if isinstance(node, For):
            domains[node.loop_var] = node.domain
            stack.append(node.body)
        elif not isinstance(node, BlockRealize):
            stack.extend(stmt_children(node))


def _inferred(loop: StmtSRef, factors: Sequence[Factor | None]) -> list[Factor]:
    """The factors with the missing one filled in, checked against the extent."""
    extent = loop.loop.extent
    open_ = [i for i, f in enumerate(factors) if f is None or (isinstance(f, int) and f == -1)]
    if not factors:
        raise refuse("split needs at least one factor", at=[loop])
    if len(open_) > 1:
        raise refuse(
            f"only one factor can be left open, got {len(open_)} of {len(factors)}",
            at=[loop],
            hint="give all factors but one",
            fast="only one factor can be specified as -1 or none",
        )
    known = [f for i, f in enumerate(factors) if i not in open_ and f is not None]
    bad = [f for f in known if isinstance(f, int) and f <= 0]
    if bad:
        raise refuse(
            f"a factor must be positive, got {bad[0]}",
            at=[loop],
            fast="All the constant factors are required to be positive",
        )
    if isinstance(extent, IntImm) and all(isinstance(f, int) for f in known):
        product = prod(f for f in known if isinstance(f, int))
        rest: Factor = -(-extent.value // product)
        short = not open_ and product < extent.value
    else:
        total: Expr = const(1, extent.dtype)
        for factor in known:
            total = total * factor
        analyzer = Analyzer()
        analyzer.bind_bounds(limits_of_variables(extent))
        rest = analyzer.simplify((extent + total - 1) // total)
        short = not open_ and not _reach(analyzer, known, total, extent)
    if short:
        text = " * ".join(map(str, known))
        raise refuse(
            f"the factors {text} do not reach the extent {extent} of {name_of(loop)}",
            at=[loop],
            hint="make a factor larger, or leave one open with None",
            fast="The product of factors is not larger than or equal to the extent of loop",
        )
    return [rest if i in open_ else f for i, f in enumerate(factors)]  # type: ignore[misc]


def _reach(analyzer: Analyzer, factors: Sequence[Factor], total: Expr, extent: Expr) -> bool:
    """Whether the product of the factors is the extent at least."""
    if analyzer.can_prove(total >= extent):
        return True
    first = as_expr(factors[0])
    rest: Expr = const(1, extent.dtype)
    for factor in factors[1:]:
        rest = rest * factor
    # n // d * d leaves less than d out, as of (extent + d - 1) // d.
    return (
        isinstance(first, FloorDiv)
        and analyzer.can_prove_equal(first.b, rest)
        and analyzer.can_prove(rest >= 1)
        and analyzer.can_prove(first.a - rest + 1 >= extent)
    )


def _flat_value(variables: Sequence[Var], extents: Sequence[Expr]) -> Expr:
    """What the old loop variable is: the sum of the new ones times what is inside of them."""
    strides: list[Expr] = []
    stride: Expr = const(1, variables[0].dtype)
    for extent in reversed(extents):
        strides.append(stride)
        stride = binary(Mul, extent, stride)
    strides.reverse()
    result: Expr | None = None
    for var, stride in zip(variables, strides):
        part = var if isinstance(stride, IntImm) and stride.value == 1 else Mul(var, stride)
        result = part if result is None else Add(result, part)
    return variables[0] if result is None else result


def _overrun(
    loop: For, variables: Sequence[Var], extents: Sequence[Expr], value: Expr
) -> Expr | None:
    """The condition that keeps the new loops inside of the old one, if they can leave it."""
    extent = loop.extent
    if isinstance(extent, IntImm) and all(isinstance(e, IntImm) for e in extents):
        if prod(e.value for e in extents if isinstance(e, IntImm)) == extent.value:
            return None
        return binary(LT, value, extent)
    condition = binary(LT, value, extent)
    ranges = {v: Range.from_extent(e) for v, e in zip(variables, extents)}
    return None if Analyzer(ranges).can_prove(condition) else condition
