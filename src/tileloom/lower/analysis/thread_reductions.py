"""Which reductions threads can share: what is combined with what, and from where it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from ...base import DType
from ...base.errors import UserError
from ...expr import (
    Add,
    And,
    BinaryOp,
    CommReducer,
    Expr,
    Max,
    Min,
    Mul,
    Or,
    Select,
    Var,
    combiners,
    const,
    free_vars,
    has_load,
    post_order,
    substitute,
)
from ...expr.bounds import type_range
from ...tir import Block, Buffer, BufferLoad, BufferStore, LetStmt, Stmt, make_buffer, parts_of
from ..common import loaded_buffers


@dataclass(frozen=True, slots=True)
class ThreadReduction:
    """`targets = combine(targets, sources)`, `inits` before it; one component or several."""

    stores: tuple[BufferStore, ...]
    sources: tuple[Expr, ...]
    inits: tuple[Expr, ...]
    combiner: CommReducer

    @property
    def targets(self) -> tuple[Buffer, ...]:
        return tuple(store.buffer for store in self.stores)

    def locals(self, suffix: str) -> list[Buffer]:
        """An element for each component, in every thread."""
        return [
            make_buffer((1,), b.dtype, f"{b.name}_{suffix}", scope="local") for b in self.targets
        ]


def recognise(block: Block) -> ThreadReduction:
    """How a block reduces.

    Raises:
        UserError: by nothing that is known to be associative and commutative.
    """
    stores, inits = _stores(block.body, {}), _stores(block.init, {})
    if stores and inits and [s.buffer for s in stores] == [s.buffer for s in inits]:
        loads = [BufferLoad(store.buffer, store.indices) for store in stores]
        known = combiners.recognise([store.value for store in stores], loads)
        if known is not None:
            return _known(stores, known, tuple(init.value for init in inits))
        pairs = zip(stores, loads, strict=True)
        sources = [_source(store.value, load) for store, load in pairs]
        values = tuple(init.value for init in inits)
        found = [source for source in sources if source is not None]
        combiner = _combiner(stores, loads, found, values) if len(found) == len(stores) else None
        if combiner is not None:
            return ThreadReduction(tuple(stores), tuple(found), values, combiner)
    raise UserError(
        f"block {block.name_hint!r} reduces over threads, but not by a sum, product, minimum,"
        " maximum, conjunction or disjunction, nor by a choice between what there is and what comes"
        " (as of an arg-maximum)",
        hint="bind another loop, or rfactor the reduction first",
    )


def recognise_choice(
    body: Stmt,
) -> tuple[Sequence[BufferStore], Sequence[Expr], CommReducer] | None:
    """The stores, the sources and the combination of a body that chooses, as an arg-maximum does.

    Of what there is and what comes, one is kept in all components; which one, all of them tell. So
    the order of steps does not matter, and what there is may be combined again with itself.
    """
    stores = _stores(body, {})
    if len(stores) < 2 or not all(isinstance(store.value, Select) for store in stores):
        return None
    loads = [BufferLoad(store.buffer, store.indices) for store in stores]
    pairs = zip(stores, loads, strict=True)
    sources = [_source(store.value, load) for store, load in pairs]
    found = [source for source in sources if source is not None]
    combiner = _combiner(stores, loads, found, found) if len(found) == len(stores) else None
    if combiner is None:
        return None
    conditions = {r.children[0] for r in combiner.result}
    known = {*combiner.lhs, *combiner.rhs}
    if len(conditions) != 1 or free_vars(conditions.pop()) != known:
        return None
    return stores, found, combiner


def _known(
    stores: Sequence[BufferStore],
    known: tuple[combiners.Combine, Sequence[Expr]],
    inits: tuple[Expr, ...],
) -> ThreadReduction:
    """A reduction by one of the combinations that have a name."""
    combine, sources = known
    lhs, rhs = ([Var(name, store.value.dtype) for store in stores] for name in "xy")
    start = tuple(combiners.neutral(combine, stores[0].value.dtype))
    combiner = CommReducer(lhs, rhs, combine(lhs, rhs), start)
    return ThreadReduction(tuple(stores), tuple(sources), inits, combiner)


def _stores(stmt: Stmt | None, names: Mapping[Var, Expr]) -> list[BufferStore]:
    """The stores that a body consists of, named values put in; none if it is more than that.

    Names are values before any of the stores.
    """
    if isinstance(stmt, LetStmt):
        return _stores(stmt.body, {**names, stmt.var: substitute(stmt.value, names)})
    parts = () if stmt is None else parts_of(stmt)
    stores: list[BufferStore] = []
    for part in parts:
        if not isinstance(part, BufferStore):
            return []
        value = substitute(part.value, names)
        # Without a name it would see what the stores before it have left.
        if value is part.value and loaded_buffers(value) & {s.buffer for s in stores}:
            return []
        stores.append(part.replace(value=value))
    return stores


def _source(value: Expr, own: Expr) -> Expr | None:
    """What is combined with the target's own element."""
    match value:
        case Add(a, b) | Mul(a, b) | Min(a, b) | Max(a, b) | And(a, b) | Or(a, b) | Select(_, a, b):
            return b if a is own else a if b is own else None
    return None


def _replaced(expr: Expr, table: Mapping[Expr, Expr]) -> Expr:
    """Parts replaced, larger ones first: one source may be an index of another."""
    known = table.get(expr)
    if known is not None:
        return known
    return expr.with_children([_replaced(child, table) for child in expr.children])


def _combiner(
    stores: Sequence[BufferStore],
    loads: Sequence[Expr],
    sources: Sequence[Expr],
    inits: Sequence[Expr],
) -> CommReducer | None:
    if not all(set(loads).isdisjoint(post_order(source)) for source in sources):
        return None  # what comes would depend on what there is
    lhs = [Var("x", load.dtype) for load in loads]
    rhs = [Var("y", load.dtype) for load in loads]
    table: dict[Expr, Expr] = {
        **dict(zip(sources, rhs, strict=True)),
        **dict(zip(loads, lhs, strict=True)),
    }
    results = [_replaced(store.value, table) for store in stores]
    known = {*lhs, *rhs}
    if any(has_load(result) or not free_vars(result) <= known for result in results):
        return None
    neutral = tuple(inits)
    operators = [identity(type(s.value), s.value.dtype) for s in stores if _is_operator(s.value)]
    if len(operators) == len(stores):
        neutral = tuple(operators)
    elif len(stores) == 1 or any(map(_counts_again, stores, inits)):
        return None  # a choice without a key, or a start that each thread would add
    return CommReducer(lhs, rhs, results, neutral)


def _counts_again(store: BufferStore, init: Expr) -> bool:
    """Whether combining a start in more than once makes a difference."""
    value = store.value
    return isinstance(value, Add | Mul) and init is not identity(type(value), value.dtype)


def _is_operator(value: Expr) -> TypeGuard[BinaryOp]:
    """Whether a component is combined by itself."""
    return isinstance(value, Add | Mul | Min | Max | And | Or)


def identity(op: type[BinaryOp], kind: DType) -> Expr:
    """The value that an operation leaves others unchanged with.

    >>> from tileloom.base import dtype
    >>> identity(Max, dtype("float32")), identity(Mul, dtype("int8")), identity(Min, dtype("int8"))
    (T.float32("-inf"), T.int8(1), T.int8(127))
    """
    if op in (Add, Mul, And, Or):
        return const(int(op in (Mul, And)), kind)
    if kind.is_float:
        return const(float("inf") if op is Min else float("-inf"), kind)
    low, high = type_range(kind)
    return const(high if op is Min else low, kind)
