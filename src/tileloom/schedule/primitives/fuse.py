"""fuse: several loops become one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...base import DType
from ...expr import Analyzer, Expr, IntImm, Mul, Range, Var, binary, cast, const, free_vars
from ...expr.bounds import type_range
from ...expr.nodes import FloorDiv, FloorMod
from ...tir import SERIAL, BlockRealize, For
from ..analysis.tree import domains_above, require_plain_loop, require_zero_start
from ..errors import name_of, refuse
from ..instruction import LoopRef, primitive
from ..rewrite import LoopVarSubstitution, simplify_bindings
from ..sref import StmtSRef
from ..state import ScheduleState
from .split import add_inner_domains


@primitive("Fuse", int_bools=True)
def fuse(state: ScheduleState, *loops: LoopRef, preserve_unit_iters: bool = True) -> LoopRef:
    """Fuse loops, each the only thing inside the one before, into one.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((4, 8), name="A")
    >>> B = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> sch.get(sch.fuse(*sch.get_loops("B"))).extent
    32
    """
    _check(loops)
    last = loops[-1].loop
    kind = _index_type(loops)
    name = "_".join(sref.loop.loop_var.name for sref in loops) + "_fused"
    var = Var(name, kind)
    extents = [sref.loop.extent.astype(kind) for sref in loops]
    total: Expr = const(1, kind)
    for extent in extents:
        total = binary(Mul, total, extent)
    if not isinstance(total, IntImm):
        total = Analyzer().simplify(total)
    values = {
        sref.loop.loop_var: cast(sref.loop.loop_var.dtype, value)
        for sref, value in zip(loops, _delinearized(var, extents), strict=True)
    }
    domains = domains_above(loops[0])
    domains[var] = Range(const(0, kind), total)
    add_inner_domains(last, domains)
    # A unit loop leaves a number behind, which the values are simplified to get rid of.
    plain = any(isinstance(value, IntImm) for value in values.values())
    only = None if plain else frozenset((var,))

    def rule(realize: BlockRealize) -> BlockRealize:
        return simplify_bindings(realize, domains, preserve_unit_iters, only)

    substitution = LoopVarSubstitution(values, rule)
    new = For(var, const(0, kind), total, SERIAL, substitution.visit(last.body))
    state.replace(loops[0], new, substitution.block_map)
    return state.sref(new)


def _index_type(loops: Sequence[StmtSRef]) -> DType:
    """The widest type of the loops."""
    kind = max((sref.loop.loop_var.dtype for sref in loops), key=lambda kind: kind.bits)
    extents = [sref.loop.extent for sref in loops]
    count = prod(extent.value for extent in extents if isinstance(extent, IntImm))
    if count > type_range(kind).max_value:
        raise refuse(
            f"the fused loop has {count} iterations, which {kind} cannot number",
            at=loops,
            hint="give the loops extents of type int64",
        )
    return kind


def _delinearized(var: Var, extents: Sequence[Expr]) -> list[Expr]:
    """The values of the old loop variables."""
    result: list[Expr] = []
    below: Expr = const(1, var.dtype)
    for i, extent in reversed(list(enumerate(extents))):
        value = binary(FloorDiv, var, below)
        if i:
            value = binary(FloorMod, value, extent)
        elif isinstance(extent, IntImm) and extent.value == 1:
            value = const(0, var.dtype)
        result.append(value)
        below = binary(Mul, extent, below)
    result.reverse()
    return result


def _check(loops: Sequence[StmtSRef]) -> None:
    if not loops:
        raise refuse("fuse needs at least one loop")
    outer: StmtSRef | None = None
    for sref in loops:
        require_plain_loop(sref, "fuse")
        if outer is not None:
            _check_nested(outer, sref)
        outer = sref
        require_zero_start(sref, "fuse")
    for i, sref in enumerate(loops):
        for above in loops[:i]:
            if above.loop.loop_var in free_vars(sref.loop.extent):
                raise refuse(
                    f"the extent of {name_of(sref)} depends on {name_of(above)}, "
                    "with which it is to be fused",
                    at=[above, sref],
                    fast="The loop to be fused depends on another loop",
                )


def _check_nested(outer: StmtSRef, inner: StmtSRef) -> None:
    if inner.parent is not outer:
        raise refuse(
            f"{name_of(inner)} is not directly inside {name_of(outer)}",
            at=[outer, inner],
            hint="reorder the loops first, and pass them outermost first",
            fast="The outer loop is not the parent of the inner loop",
        )
    if outer.loop.body is not inner.loop:
        raise refuse(
            f"{name_of(inner)} is not the only thing inside {name_of(outer)}",
            at=[outer, inner],
            fast="The inner loop is not the only child of outer loop",
        )
