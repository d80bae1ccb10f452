"""A group of stages over one iteration domain: which axes it has and in which pass each stage runs.

Reductions that follow each other (the maximum, then the sum of a softmax) run as passes over the
same data. A stage belongs to the pass after the reductions that it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ... import compute as te
from ...compute.math import if_then_else
from ...expr import (
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    ProducerLoad,
    Reduce,
    Var,
    const,
    free_vars,
    post_order,
    rewrite,
    substitute,
)
from ...tir import Buffer, make_buffer
from ..symbols import is_symbolic
from .access import Linear, flat_index, linear
from .atoms import Atoms, common_axes, domain, logical_axes
from .frame import Axis, merge_axes
from .layouts import Layout, size_of
from .stages import PlanRefused, Stage


@dataclass(frozen=True, eq=False)
class Member:
    """A stage with its formulas in the variables of the domain.

    Attributes:
        full: whether it has a value at every point of the domain; else only at every row.
        level: how many dependent reductions precede its value.
    """

    stage: Stage
    body: tuple[Expr, ...]
    axes: tuple[Expr, ...]  # of its output, in the domain's variables
    full: bool
    level: int

    @property
    def tensors(self) -> tuple[te.Tensor, ...]:
        """Its outputs."""
        return self.stage.op.outputs

    @property
    def is_reduction(self) -> bool:
        """Whether it reduces."""
        return self.stage.is_reduction


@dataclass(frozen=True, eq=False)
class Cluster:
    """Stages over one domain.

    Attributes:
        spatial: axes that stages have values over, outermost first.
        reduce: axes that are reduced over.
        members: the stages, producers first.
        order: all program axes from the one with the longest step to the shortest.
    """

    spatial: tuple[Axis, ...]
    reduce: tuple[Axis, ...]
    members: tuple[Member, ...]
    order: tuple[Axis, ...]

    @property
    def passes(self) -> int:
        """The number of passes over the data."""
        return 1 + max((m.level for m in self.members), default=0)


def make_cluster(
    stages: Sequence[Stage], layouts: Mapping[te.Tensor, Layout] | None = None
) -> Cluster:
    """The stages over the domain of their first reduction (or of the first stage).

    Shapes that cut the domain's elements differently are walked by the axes that all of them are
    made of.

    Args:
        layouts: of results that lie in another order than the domain.

    Raises:
        PlanRefused: they do not share a domain.
    """
    turned = layouts or {}
    plain = [s for s in stages if s.is_reduction or s.op.outputs[0] not in turned]
    if not plain:
        turned, plain = {}, list(stages)
    lead = next((stage for stage in plain if stage.is_reduction), plain[0])
    atoms = common_axes(lead, stages, turned)
    order = [atom for axis in domain(lead) for atom in atoms.parts(axis)]
    members: dict[te.Tensor, Member] = {}
    result = []
    for stage in stages:
        member = _place(stage, atoms, members, turned)
        members.update((tensor, member) for tensor in member.tensors)
        result.append(member)
    merged = _merge(order, result)
    return Cluster(
        tuple(axis for axis in merged if not axis.reduce),
        tuple(axis for axis in merged if axis.reduce),
        tuple(result),
        tuple(merged),
    )


def _place(
    stage: Stage,
    atoms: Atoms,
    members: Mapping[te.Tensor, Member],
    turned: Mapping[te.Tensor, Layout],
) -> Member:
    full = not stage.is_reduction and size_of(stage.extents) == atoms.size
    if stage.is_reduction:
        renamed = atoms.values_of(logical_axes(stage), stage.op.name, reduces=True)
    elif full or size_of(stage.extents) == atoms.row_size:
        own = [Axis((v,), (n,)) for v, n in zip(stage.axes, stage.extents, strict=True)]
        layout = turned.get(stage.op.outputs[0]) if full else None
        if layout is None:
            renamed = atoms.values_of(own, stage.op.name, rows=not full)
        else:
            renamed = atoms.values_in(own, layout, stage.op.name)
    else:
        raise PlanRefused(f"{stage.op.name} is over another domain")
    body = tuple(_rename(part, renamed) for part in stage.body)
    axes = tuple(renamed[var] for var in stage.axes)
    level = 0
    meant: dict[Expr, Expr] = {}
    for load in _loads(body):
        made = members.get(load.producer)
        if made is not None:
            at_home = _at_home(load, made, atoms)
            if at_home is not load:
                meant[load] = at_home
            level = max(level, made.level + made.is_reduction)
        elif atoms.is_finer and any(map(_is_cut, load.indices)):
            meant[load] = ProducerLoad(load.producer, [atoms.simplify(i) for i in load.indices])
    if meant:
        body = tuple(_replace(part, meant) for part in body)
    if not full and not stage.is_reduction and atoms.reduced & _vars(body):
        raise PlanRefused(f"{stage.op.name} depends on a reduced axis")
    return Member(stage, body, axes, full, level)


def _rename(part: Expr, renamed: Mapping[Var, Expr]) -> Expr:
    """The formula over other variables, also where a reduction binds them itself."""
    if isinstance(part, Reduce):
        return part.with_children([substitute(child, renamed) for child in part.children])
    return substitute(part, renamed)


def _loads(body: Iterable[Expr]) -> list[ProducerLoad]:

    return [n for part in body for n in post_order(part) if isinstance(n, ProducerLoad)]


def _vars(body: Iterable[Expr]) -> set[Var]:

    return set().union(*(free_vars(part) for part in body))


def _at_home(load: ProducerLoad, made: Member, atoms: Atoms) -> ProducerLoad:
    """The load as one of the point where the value is made, which must be the one it wants."""
    shape = load.producer.static_shape
    wanted = [index for index, n in zip(load.indices, shape, strict=True) if n != 1]
    if len(wanted) == len(made.axes) and all(
        a is b for a, b in zip(wanted, made.axes, strict=True)
    ):
        return load
    here = flat_index(load.indices, shape, atoms.variables)
    if here.opaque:
        here = linear(atoms.simplify(here.expr()), atoms.variables)
    there = flat_index(made.axes, made.stage.extents, atoms.variables)
    if not _same(here, there):
        raise PlanRefused(f"{made.stage.op.name} is read at another place than it is made")
    rest = iter(made.axes)
    return ProducerLoad(load.producer, [next(rest) if n != 1 else const(0) for n in shape])


def _same(a: Linear, b: Linear) -> bool:
    return (
        not a.opaque
        and not b.opaque
        and a.offset == b.offset
        and {v: f for v, f in a.coefficients.items() if f}
        == {v: f for v, f in b.coefficients.items() if f}
    )


def _is_cut(index: Expr) -> bool:
    return any(isinstance(node, (FloorDiv, FloorMod)) for node in post_order(index))


def _replace(part: Expr, meant: Mapping[Expr, Expr]) -> Expr:
    return rewrite(part, lambda node: meant.get(node))


def _merge(order: Sequence[Axis], members: Sequence[Member]) -> list[Axis]:
    variables = {axis.parts[0] for axis in order}
    made = {tensor for member in members for tensor in member.tensors}
    forms: list[Linear] = []
    for member in members:
        forms += [
            flat_index(load.indices, load.producer.static_shape, variables)
            for load in _loads(member.body)
            if load.producer not in made
        ]
        if not member.is_reduction and member.full:
            forms.append(flat_index(member.axes, member.stage.extents, variables))
    # To find out where one stands along an axis that conditions look at takes a division, and
    # one by an extent that is no constant is slow.
    apart: set[Var] = set()
    if any(is_symbolic(axis.extent) for axis in order):
        conditions = [m.body[0].condition for m in members if isinstance(m.body[0], Reduce)]
        apart = _vars(conditions)
    return merge_axes(order, forms, apart)


#: Intermediates up to this many bytes are kept; they stay in the cache.
SCRATCH_BYTES = 1 << 17


def intermediates(cluster: Cluster, outputs: Collection[te.Tensor]) -> list[te.Tensor]:
    """What has a value at each point of the domain and is kept, but not written."""
    return [
        tensor
        for member in cluster.members
        if member.full and not member.is_reduction
        for tensor in member.tensors
        if tensor not in outputs
    ]


def column_bytes(cluster: Cluster, outputs: Collection[te.Tensor]) -> int:
    """The bytes of the intermediates for one result of the reductions."""
    kept = sum(tensor.dtype.bytes for tensor in intermediates(cluster, outputs))
    for axis in cluster.reduce:
        kept *= axis.extent
    return kept


def calls_functions(expr: Expr) -> bool:
    """Whether a formula calls functions, such as exp."""
    calls = (n for n in post_order(expr) if isinstance(n, Call))
    return any(call.op != "tir.if_then_else" for call in calls)


def work(expr: Expr) -> int:
    """A rough count of simple operations to evaluate a formula once (memoised)."""
    known = expr.memo.get("plan_work")
    if known is None:
        own = 8 if isinstance(expr, (Call, Div)) else 0 if not expr.children else 1
        inner = () if isinstance(expr, ProducerLoad) else expr.children
        known = expr.memo["plan_work"] = own + sum(map(work, inner))
    return int(known)


def widest_bits(body: Iterable[Expr]) -> int:
    """The widest data type that formulas compute in, subscripts aside."""
    bits, stack = 8, list(body)
    seen: set[Expr] = set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        bits = max(bits, node.dtype.bits)
        if not isinstance(node, ProducerLoad):
            stack.extend(node.children)
            if isinstance(node, Cast):
                bits = max(bits, node.value.dtype.bits)
    return bits


def flat_buffer(tensor: te.Tensor, name: str) -> Buffer:
    """The memory of a tensor as one row of elements."""
    size = 1
    for extent in tensor.static_shape:
        size *= extent
    return make_buffer((size,), tensor.dtype, name)


def reduction_source(part: Expr) -> list[Expr]:
    """What a reduction combines; its identity where its condition does not hold."""

    if not isinstance(part, Reduce):
        raise PlanRefused("a mixture of reductions and formulas")
    return [
        if_then_else(part.condition, value, unit)
        for value, unit in zip(part.source, part.combiner.identity, strict=True)
    ]
