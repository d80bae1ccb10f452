"""Which combiner a reduction block uses, told from its statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from ...expr import (
    Add,
    Analyzer,
    BinaryOp,
    Call,
    Expr,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Select,
    Var,
    post_order,
    substitute,
)
from ...expr.combiners import Combine, match_combination, moments, online_softmax, recognise
from ...expr.combiners import Values as Pair
from ...expr.nodes import EQ, GE, GT, LE, LT, And, FloatImm, Or
from ...tir import Block, BufferLoad, BufferStore, LetStmt, Stmt, parts_of
from ..errors import refuse


@dataclass(frozen=True)
class Reduction:
    """`stores[k].buffer[...] = combine(old, new)[k]`, starting at `start`.

    Attributes:
        stores: one for each component, with its place; the values do not matter.
        start: the first values.
        new: what is combined in.
        combine: the new values of old and new ones.
        repeatable: the first values that may be combined in any number of times; None for a
            component stands for any value, as of a maximum.
    """

    stores: tuple[BufferStore, ...]
    start: tuple[Expr, ...]
    new: tuple[Expr, ...]
    combine: Combine
    repeatable: Repeatable


def reduction_in_parts(block: Block) -> Reduction:
    """The parts of a reduction block's statements, for what starts several parts of a result.

    Refuses a start that would then be combined in more than once, and is not neutral.
    """
    found = reduction_of(block)
    for store, start, wanted in zip(found.stores, found.start, found.repeatable, strict=True):
        if wanted is not None and not _is_number(start, wanted):
            raise refuse(
                f"the block {block.name_hint!r} starts {store.buffer.name!r} at {start}, not at "
                f"the neutral {wanted}; parts of the reduction would each count that",
                at=[block],
                hint="start the reduction at the neutral value, and combine the rest in afterwards",
                fast="No matched reducer for identity and combiner",
            )
    return found


def _is_number(value: Expr, number: int) -> bool:
    found = Analyzer().simplify(value)
    return isinstance(found, IntImm | FloatImm) and found.value == number


def reduction_of(block: Block) -> Reduction:
    """The parts of a reduction block's statements; refuses what it does not recognise.

    Components come in the order of the combiner, whatever that of the statements is.
    """
    stores, values = _stores(block, block.body)
    first = _starts(block, stores)
    for order in permutations(range(len(stores))):
        found = _in_order(
            tuple(stores[k] for k in order),
            [values[k] for k in order],
            tuple(first[k] for k in order),
        )
        if found is not None:
            return found
    raise refuse(
        f"the combiner of the block {block.name_hint!r} is not known: "
        + ", ".join(map(str, values)),
        at=[block],
        hint="sums, products, minima, maxima, pairs of sums, argmin and argmax can be split",
        fast="No matched reducer for identity and combiner",
    )


def _in_order(
    stores: tuple[BufferStore, ...], values: Sequence[Expr], first: tuple[Expr, ...]
) -> Reduction | None:
    old = [BufferLoad(s.buffer, s.indices) for s in stores]
    for combine, repeatable in _COMBINERS.get(len(stores), ()):
        new = match_combination(combine, old, values)
        if new is not None:
            return Reduction(stores, first, tuple(new), combine, repeatable)
    known = recognise(values, old)
    if known is None:
        return None
    return Reduction(stores, first, tuple(known[1]), known[0], _KNOWN[known[0]])


def _starts(block: Block, stores: Sequence[BufferStore]) -> tuple[Expr, ...]:
    """The first values of what the stores update, in their order."""
    starts, first = _stores(block, block.init) if block.init is not None else ((), ())
    by_buffer = {store.buffer: value for store, value in zip(starts, first, strict=True)}
    if len(by_buffer) != len(starts) or by_buffer.keys() != {store.buffer for store in stores}:
        raise refuse(
            f"the block {block.name_hint!r} does not start and update the same buffers",
            at=[block],
        )
    for value in first:
        for node in post_order(value):
            if isinstance(node, BufferLoad) and node.buffer in by_buffer:
                raise refuse(
                    f"the block {block.name_hint!r} starts its results from one another: {value}",
                    at=[block],
                )
    return tuple(by_buffer[store.buffer] for store in stores)


def _stores(block: Block, stmt: Stmt) -> tuple[tuple[BufferStore, ...], tuple[Expr, ...]]:
    """The stores of a body, and their values with `let` variables put in."""
    bound: dict[Var, Expr] = {}
    while isinstance(stmt, LetStmt):
        bound[stmt.var] = substitute(stmt.value, bound)
        stmt = stmt.body
    parts = parts_of(stmt)
    stores = tuple(part for part in parts if isinstance(part, BufferStore))
    if len(stores) != len(parts) or any(s.predicate is not None for s in stores):
        raise refuse(f"the block {block.name_hint!r} does more than store its results", at=[block])
    values = tuple(substitute(store.value, bound) for store in stores)
    return stores, values


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


Repeatable = tuple[int | None, ...]
_COMBINERS: Mapping[int, Sequence[tuple[Combine, Repeatable]]] = {
    1: [
        (_each(Add), (0,)), (_each(Mul), (1,)), (_each(Max), (None,)), (_each(Min), (None,)),
    ],
    2: [
        (_each(Add), (0, 0)),
        *(
            (_pick(op, ties), (None, None))
            for op in (GE, GT, LE, LT)
            for ties in ("old", "index", "nan")
        ),
    ],
}  # fmt: skip
_KNOWN: Mapping[Combine, Repeatable] = {online_softmax: (None, 0), moments: (0, 0, 0)}
