"""Which combiner a reduction block uses, told from its statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...expr import Add, BinaryOp, Call, Expr, Max, Min, Mul, Not, Select, Var, substitute
from ...expr.nodes import EQ, GE, GT, LE, LT, And, Or
from ...tir import Block, BufferLoad, BufferStore, LetStmt, SeqStmt, Stmt
from ..errors import refuse

Pair = Sequence[Expr]
Combine = Callable[[Pair, Pair], list[Expr]]


@dataclass(frozen=True)
class Reduction:
    """`stores[k].buffer[...] = combine(old, new)[k]`, starting at `start`.

    Attributes:
        stores: one for each component, with its place; the values do not matter.
        start: the first values.
        new: what is combined in.
        combine: the new values of old and new ones.
    """

    stores: tuple[BufferStore, ...]
    start: tuple[Expr, ...]
    new: tuple[Expr, ...]
    combine: Combine


def reduction_of(block: Block) -> Reduction:
    """The parts of a reduction block's statements; refuses what it does not recognise."""
    stores, values = _stores(block, block.body)
    starts, first = _stores(block, block.init) if block.init is not None else ((), ())
    if [s.buffer for s in starts] != [s.buffer for s in stores]:
        raise refuse(
            f"the block {block.name_hint!r} does not start and update the same buffers",
            at=[block],
        )
    old = [BufferLoad(s.buffer, s.indices) for s in stores]
    for combine in _COMBINERS.get(len(stores), ()):
        new = _match(combine, old, values)
        if new is not None:
            return Reduction(stores, first, tuple(new), combine)
    raise refuse(
        f"the combiner of the block {block.name_hint!r} is not known: "
        + ", ".join(map(str, values)),
        at=[block],
        hint="sums, products, minima, maxima, pairs of sums, argmin and argmax can be split",
        fast="No matched reducer for identity and combiner",
    )


def _stores(block: Block, stmt: Stmt) -> tuple[tuple[BufferStore, ...], tuple[Expr, ...]]:
    """The stores of a body, and their values with `let` variables put in."""
    bound: dict[Var, Expr] = {}
    while isinstance(stmt, LetStmt):
        bound[stmt.var] = substitute(stmt.value, bound)
        stmt = stmt.body
    parts = stmt.seq if isinstance(stmt, SeqStmt) else (stmt,)
    stores = tuple(part for part in parts if isinstance(part, BufferStore))
    if len(stores) != len(parts) or any(s.predicate is not None for s in stores):
        raise refuse(f"the block {block.name_hint!r} does more than store its results", at=[block])
    values = tuple(substitute(store.value, bound) for store in stores)
    return stores, values


def _match(combine: Combine, old: Pair, values: Pair) -> list[Expr] | None:
    """What stands for the new values, if `values` are a combination of `old` with anything."""
    holes = [Var(f"new{k}", value.dtype) for k, value in enumerate(old)]
    found: dict[Var, Expr] = {}
    pattern = combine(old, holes)
    fits = all(_unify(p, v, set(holes), found) for p, v in zip(pattern, values, strict=True))
    return [found[hole] for hole in holes] if fits and len(found) == len(holes) else None


def _unify(pattern: Expr, value: Expr, holes: set[Var], found: dict[Var, Expr]) -> bool:
    if isinstance(pattern, Var) and pattern in holes:
        if pattern.dtype is not value.dtype:
            return False
        return found.setdefault(pattern, value) is value
    if pattern is value:
        return True
    if type(pattern) is not type(value) or pattern.dtype is not value.dtype:
        return False
    if isinstance(pattern, BufferLoad):
        return False
    return _unify_children(pattern, value, holes, found)


def _unify_children(pattern: Expr, value: Expr, holes: set[Var], found: dict[Var, Expr]) -> bool:
    orders = [list(value.children)]
    if isinstance(pattern, BinaryOp) and pattern.commutative:
        orders.append(orders[0][::-1])
    for order in orders:
        trial = dict(found)
        if len(order) == len(pattern.children) and all(
            _unify(p, v, holes, trial) for p, v in zip(pattern.children, order, strict=True)
        ):
            found.update(trial)
            return True
    return False


def _each(op: type[BinaryOp]) -> Combine:
    return lambda old, new: [op(a, b) for a, b in zip(old, new, strict=True)]


def _pick(better: type[BinaryOp], ties: str) -> Combine:
    """argmin and argmax of (index, value), as people write them.

    Of equal values, the old one stays (`ties="old"`) or the one with the smaller index ("index");
    "nan" lets a NaN win as well, as NumPy does.
    """

    def combine(old: Pair, new: Pair) -> list[Expr]:
        keep: Expr = better(old[1], new[1])
        if ties != "old":
            earlier = LT(old[0], new[0])
            keep = Or(keep, And(EQ(old[1], new[1]), earlier))
            if ties == "nan":
                keep = Or(keep, And(_isnan(old[1]), Or(Not(_isnan(new[1])), earlier)))
        return [Select(keep, old[0], new[0]), Select(keep, old[1], new[1])]

    return combine


def _isnan(value: Expr) -> Expr:
    return Call("bool", "tir.isnan", (value,))


_COMBINERS: Mapping[int, Sequence[Combine]] = {
    1: [_each(Add), _each(Mul), _each(Max), _each(Min)],
    2: [
        _each(Add),
        *(_pick(op, ties) for op in (GE, GT, LE, LT) for ties in ("old", "index", "nan")),
    ],
}
