"""An iteration as it runs over a part of a tensor in the format of that part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..base.errors import ShapeError, UnsupportedError
from ..base.record import Record
from ..expr import (
    LE,
    LT,
    Analyzer,
    Expr,
    Range,
    Var,
    binary,
    conjunction,
    const,
    free_vars,
    free_vars_of,
    rewrite,
)
from ..tir import (
    Axis,
    Buffer,
    BufferLoad,
    BufferRewriter,
    BufferStore,
    IfThenElse,
    SparseBuffer,
    SparseIteration,
    SpIterVar,
    Stmt,
    buffer_accesses,
)
from ..tir.sparse import AttachedAxis, FusedAxis, IntersectionAxis, UnionAxis
from .applied_rule import AppliedRule
from .format_part import FormatPart


class PartPlaces(Record):
    """Where an iteration over a part stands, in terms of the old iteration and of the new one.

    Attributes:
        coordinates: for each rewritten axis that is iterated, by name, the old coordinate in
            terms of new variables.
        new_vars: the variable of each new axis that is iterated.
        values: what stands for each variable of the old iteration.
        domains: the ranges of new variables.
    """

    coordinates: Mapping[str, Expr]
    new_vars: Mapping[Axis, Var]
    values: Mapping[Var, Expr]
    domains: Mapping[Var, Range]

    @property
    def analyzer(self) -> Analyzer:
        """What is known of the new variables."""
        return Analyzer(self.domains)


NOWHERE = PartPlaces({}, {}, {}, {})


class PartIteration(Record):
    """An iteration over a part, with what its checks need to know.

    Attributes:
        rule: what is applied.
        stmt: the iteration.
        places: where it stands.
        nested: the iterations directly inside.
    """

    rule: AppliedRule
    stmt: SparseIteration
    places: PartPlaces
    nested: tuple[PartIteration, ...]


def part_iteration(
    rule: AppliedRule, stmt: SparseIteration, outer: PartPlaces = NOWHERE
) -> PartIteration:
    """The iteration over a part, under the name of the iteration with the suffix of the rule.

    Each rewritten axis is replaced by the new ones in its place, with the same kind; variables of
    axes are named after them in lower case. A rewritten buffer that is accessed where the iteration
    stands is accessed there in the new format too, by the new variables; elsewhere coordinates are
    mapped.

    Args:
        rule: what is applied.
        stmt: the iteration.
        outer: where the iteration around it stands.
    """
    _refuse_derived(rule, stmt)
    items, places = _replaced(rule, stmt, outer)
    nested: list[PartIteration] = []
    body = _InPart(rule, places, nested).visit(stmt.body)
    init = None if stmt.init is None else _InPart(rule, places, nested).visit(stmt.init)
    inside = _inside(rule, places) if _has_plain_buffers(stmt) else []
    reduced = {item.var for item in items if item.is_reduction}
    early = [condition for condition in inside if reduced.isdisjoint(free_vars(condition))]
    if inside:
        body = IfThenElse(conjunction(inside), body)
    if init is not None and early:
        init = IfThenElse(conjunction(early), init)
    name = f"{stmt.name}{rule.part.rule.suffix}"
    made = SparseIteration(items, name, body, init, dict(stmt.annotations), span=stmt.span)
    return PartIteration(rule, made, places, tuple(nested))


def _refuse_derived(rule: AppliedRule, stmt: SparseIteration) -> None:
    """Refuse axes that are made of rewritten ones, or hang below them without being rewritten."""
    rewritten = set(rule.axes.values())
    for item in stmt.sp_iter_vars:
        axis = item.axis
        if axis in rewritten:
            continue
        for base in _depends_on(axis):
            if base in rewritten:
                raise UnsupportedError(
                    f"iteration {stmt.name!r} runs over {axis.name!r}, which depends on the axis "
                    f"{base.name!r} that rule {rule.name!r} rewrites",
                    hint="decompose first and fuse axes then; a rule rewrites all axes below one",
                )


def _depends_on(axis: Axis) -> Sequence[Axis]:
    match axis:
        case FusedAxis():
            return axis.group
        case AttachedAxis(base=Axis() as base):
            return (base, *base.ancestors, *axis.ancestors)
        case UnionAxis() | IntersectionAxis():
            return (*axis.parts, *axis.ancestors)
        case _:
            return axis.ancestors


def _replaced(
    rule: AppliedRule, stmt: SparseIteration, outer: PartPlaces
) -> tuple[tuple[SpIterVar, ...], PartPlaces]:
    """The variables of the iteration over the part, parents first, and where it then stands."""
    names = {axis: name for name, axis in rule.axes.items()}
    rewritten = {names[item.axis]: item for item in stmt.sp_iter_vars if item.axis in names}
    items: list[SpIterVar] = []
    values: dict[Var, Expr] = dict(outer.values)
    for item in stmt.sp_iter_vars:
        if item.axis in names:
            items += [
                SpIterVar(Var(axis.name.lower(), axis.idtype), axis, item.is_reduction)
                for axis in rule.part.axes_of(names[item.axis])
            ]
        else:
            values[item.var] = fresh = item.var.with_name(item.var.name)
            items.append(item.replace(var=fresh))
    new_vars = dict(outer.new_vars)
    new_vars |= {item.axis: item.var for item in items if item.axis in rule.part.axes.values()}
    domains = {**outer.domains, **{item.var: _range(item) for item in items}}
    found = old_coordinates(rule.part, new_vars, list(rewritten), domains, stmt.name)
    coordinates = dict(outer.coordinates)
    for name, item in rewritten.items():
        coordinates[name] = values[item.var] = found[name].astype(item.var.dtype)
    told_apart = free_vars_of(
        coordinates[name] for name, item in rewritten.items() if not item.is_reduction
    )
    items = [
        item.replace(is_reduction=item.is_reduction and item.var not in told_apart)
        for item in items
    ]
    ordered = _parents_first(items, stmt.name)
    return ordered, PartPlaces(coordinates, new_vars, values, domains)


def _range(item: SpIterVar) -> Range:
    kind = item.var.dtype
    return Range(const(0, kind), item.axis.length.astype(kind))


def old_coordinates(
    part: FormatPart,
    new_vars: Mapping[Axis, Var],
    wanted: Sequence[str],
    domains: Mapping[Var, Range],
    name: str,
) -> dict[str, Expr]:
    """The coordinates on some rewritten axes, where new axes are at some variables.

    Raises:
        UnsupportedError: one depends on a new axis that has no variable.
    """
    given, before = part.inv_idx_map, part.rule.axes_before_rewrite
    arguments = [new_vars.get(axis) for axis in part.mapped]
    finals = dict(zip(before, given.final_indices, strict=True))
    for var, axis, argument in zip(given.initial_indices, part.mapped, arguments, strict=True):
        for old in wanted:
            if argument is None and var in free_vars(finals[old]):
                raise UnsupportedError(
                    f"the coordinate on axis {old!r} depends on that on {axis.name!r}, which "
                    f"iteration {name!r} over part {part.rule.name!r} does not run over"
                )
    found = given.map_indices([0 if var is None else var for var in arguments], Analyzer(domains))
    all_old = dict(zip(before, found, strict=True))
    return {old: all_old[old] for old in wanted}


def copy_places(rule: AppliedRule, old: SparseBuffer, items: Sequence[SpIterVar]) -> PartPlaces:
    """Where variables over axes of a new buffer stand in terms of the axes of the old one."""
    new_vars = {item.axis: item.var for item in items}
    domains = {item.var: _range(item) for item in items}
    names = [axis.name for axis in old.axes]
    found = old_coordinates(rule.part, new_vars, names, domains, f"rewrite_{old.name}")
    typed = {axis.name: found[axis.name].astype(axis.idtype) for axis in old.axes}
    return PartPlaces(typed, new_vars, {}, domains)


def _parents_first(items: Sequence[SpIterVar], name: str) -> tuple[SpIterVar, ...]:
    """The variables in their order, but for children that stand before their parents."""
    waiting = list(items)
    found: list[SpIterVar] = []
    while waiting:
        later = {item.axis for item in waiting}
        ready = next((item for item in waiting if later.isdisjoint(item.axis.ancestors)), None)
        if ready is None:
            raise ShapeError(f"the axes of iteration {name!r} are below each other in a circle")
        waiting.remove(ready)
        found.append(ready)
    return tuple(found)


def _inside(rule: AppliedRule, places: PartPlaces) -> list[Expr]:
    """The conditions under which coordinates are those of the tensor, where they may not be."""
    analyzer, found = places.analyzer, []
    for name, coordinate in places.coordinates.items():
        kind = coordinate.dtype
        found += [
            binary(LE, const(0, kind), coordinate),
            binary(LT, coordinate, rule.axes[name].length.astype(kind)),
        ]
    return [condition for condition in found if not analyzer.can_prove(condition)]


def _has_plain_buffers(stmt: Stmt) -> bool:
    """Whether buffers are accessed that do not know which coordinates they have."""
    return any(not isinstance(buffer, SparseBuffer) for buffer, _ in buffer_accesses(stmt))


class _InPart(BufferRewriter):
    """Puts new coordinates for old ones, and new buffers for rewritten ones."""

    def __init__(self, rule: AppliedRule, places: PartPlaces, nested: list[PartIteration]) -> None:
        self.rule = rule
        self.places = places
        self.nested = nested
        self.analyzer = places.analyzer

    def visit_SparseIteration(self, stmt: SparseIteration) -> Stmt:
        made = part_iteration(self.rule, stmt, self.places)
        self.nested.append(made)
        return made.stmt

    def visit_expr(self, expr: Expr) -> Expr:
        return rewrite(expr, self._new)

    def _new(self, expr: Expr) -> Expr | None:
        if isinstance(expr, Var):
            return self.places.values.get(expr)
        if isinstance(expr, BufferLoad):
            buffer, indices = self._element(expr.buffer, expr.indices)
            return BufferLoad(buffer, indices, expr.predicate)
        return None

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        value, at = self.visit_expr(stmt.value), self.all(stmt.indices, self.visit_expr)
        buffer, indices = self._element(stmt.buffer, at)
        predicate = None if stmt.predicate is None else self.visit_expr(stmt.predicate)
        return stmt.replace(buffer=buffer, value=value, indices=tuple(indices), predicate=predicate)

    def _element(self, buffer: Buffer, indices: Sequence[Expr]) -> tuple[Buffer, Sequence[Expr]]:
        """An access in terms of new variables; `indices` are so already."""
        new = self.rule.buffers.get(buffer) if isinstance(buffer, SparseBuffer) else None
        if new is None or not isinstance(buffer, SparseBuffer):
            return buffer, [self.analyzer.simplify(index) for index in indices]
        at = {axis.name: index for axis, index in zip(buffer.axes, indices, strict=True)}
        here, new_vars = self.places.coordinates, self.places.new_vars
        stands_here = all(here.get(name) is index for name, index in at.items())
        if stands_here and all(axis in new_vars for axis in new.axes):
            return new, [new_vars[axis] for axis in new.axes]
        old = [at.get(name, const(0)) for name in self.rule.part.rule.axes_before_rewrite]
        found = self.rule.part.idx_map.map_indices(old, self.analyzer)
        mapped = dict(zip(self.rule.part.mapped, found, strict=True))
        return new, [mapped[axis] for axis in new.axes]
