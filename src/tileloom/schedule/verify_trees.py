"""What a store computes, as a formula over values with names.

A value has a name: the block and iteration that made it, the constant that it is, or the element
of an argument. Copies, and blocks that the other program does not have, are looked through: what
they compute becomes part of the formula. The leaves of a formula are relations from iterations of
the root to names, or to the numbers of an index expression.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ..base import DType
from ..expr import Call, Expr, Var, free_vars, post_order
from ..tir import BufferLoad
from .verify_flow import Flow, follow, made_by, union, values_of
from .verify_model import BODY, Access, Instance, Memory

_DEEPEST = 64


class NotComparable(Exception):
    """Something that has no formula here."""


@cache
def placeholder(kind: str, position: int, dtype: DType) -> Var:
    """The same variable for the same position, in every program."""
    return Var(f"{kind}{position}", dtype)


@dataclass(slots=True)
class Leaf:
    """Something that a formula depends on: from iterations to names or numbers."""

    values: Any
    runs: Any  # the iterations that need it
    name: str = ""


@dataclass(slots=True)
class Formula:
    """What is computed: `shape` has a placeholder for each leaf."""

    shape: Expr
    leaves: list[Leaf] = field(default_factory=list)


class Side:
    """One of two programs, with names for what its stores make.

    Args:
        flow: the program.
        names: names of the blocks that the other program has too.
        constants: numbers of constants, shared by both programs.
    """

    def __init__(
        self, flow: Flow, names: Mapping[Instance, str], constants: dict[Expr, int]
    ) -> None:
        self.flow = flow
        self.names = names
        self.constants = constants
        self._made: dict[Access, Any] = {}
        self._open: set[Access] = set()
        self._reads: dict[int, list[Access]] = {}
        for read in flow.model.reads():
            self._reads.setdefault(read.statement, []).append(read)

    # ------------------------------------------------------------------ names

    def made(self, write: Access) -> Any:
        """From instances of a store to names of what they store."""
        if write not in self._made:
            if write in self._open:  # a copy that hands on its own results
                return made_by(self.flow, write, f"U{write.name}")
            self._open.add(write)
            self._made[write] = self._make(write)
            self._open.discard(write)
        return self._made[write]

    def _make(self, write: Access) -> Any:
        integers = self.flow.model.integers
        read = self._copied(write)
        if read is not None:
            return self._step(write, read).apply_range(values_of(self.flow, read, self.made))
        if write.value is not None and is_constant(write):
            number = self.constants.setdefault(write.value, len(self.constants))
            dims = ",".join(f"d{k}" for k in range(len(write.dims)))
            text = f"{{ {write.name}[{dims}] -> K{number}[] }}"
            return integers.map(text).intersect_domain(write.domain).to_union_map()
        name = None if write.place is None else self.names.get(write.place)
        if name is None:
            return made_by(self.flow, write, f"U{write.name}")
        return made_by(self.flow, write, f"{name}_{write.role}_{write.ordinal}")

    def _copied(self, write: Access) -> Access | None:
        """The load whose value a store hands on unchanged."""
        if not write.is_copy or not write.exact:
            return None
        for read in self._reads.get(write.statement, ()):
            if read.exact and read.slot == 0 and read.dims == write.dims:
                return read
        return None

    def _step(self, write: Access, read: Access) -> Any:
        """From instances of a store to those of a load in its block."""
        out = self.flow.model.integers.out_dim
        step = write.domain.identity().set_tuple_name(out, read.name)
        return step.intersect_range(read.domain).to_union_map()

    def bases(self, write: Access) -> Any:
        """From iterations of an accumulation to names of what it starts from."""
        update = self.flow.updates[write]
        integers = self.flow.model.integers
        result = follow(self.flow, update.base, write.memory, self.made)
        if write.memory.param is not None:
            name = f"G{write.memory.param}"
            given = update.read.element.set_tuple_name(integers.out_dim, name)
            result = result.union(given.to_union_map().intersect_domain(update.fresh))
        iters = update.read.iters.intersect_domain(update.read.domain)
        return iters.reverse().to_union_map().apply_range(result)

    # ------------------------------------------------------------------ formulas

    def block(self, write: Access) -> Formula:
        """What a store computes in each iteration of its block."""
        if write.value is None or write.iters is None or not write.sure:
            raise NotComparable
        start = write.iters.intersect_domain(write.domain).reverse().to_union_map()
        formula = Formula(write.value)
        formula.shape = self._node(write.value, write, start, formula.leaves, 0)
        return formula

    def output(self, memory: Memory) -> Formula:
        """What each element of a parameter holds at the end."""
        dtype, formula = memory.buffer.dtype, Formula(placeholder("leaf", 0, memory.buffer.dtype))
        if not any(access.is_write for access in memory.accesses):
            nothing = self.flow.model.integers.no_maps()
            formula.leaves.append(Leaf(nothing, nothing.domain(), memory.name))
            return formula
        last = self.flow.final(memory)
        write = self._single(memory, last)
        if write is not None:
            formula.shape = self._whole(write, last, formula.leaves, 0)
        else:
            named = follow(self.flow, last, memory, self.made)
            formula.shape = placeholder("leaf", 0, dtype)
            formula.leaves.append(Leaf(named, last.domain(), memory.name))
        return formula

    def _whole(self, write: Access, start: Any, leaves: list[Leaf], depth: int) -> Expr:
        if write.value is None or depth > _DEEPEST:
            raise NotComparable
        return self._node(write.value, write, start, leaves, depth)

    def _single(self, memory: Memory, last: Any) -> Access | None:
        """The one store that is looked through, if it made all of these values."""
        found = None
        for write in memory.accesses:
            if not write.is_write:
                continue
            if last.intersect_range(write.domain.to_union_set()).is_empty():
                continue
            if found is not None or not self._transparent(write):
                return None
            found = write
        return found

    def _transparent(self, write: Access) -> bool:
        if write.value is None or not write.exact or write in self.flow.updates:
            return False
        if is_constant(write) or write.role != BODY or any(write.reduces):
            return False
        return write.is_copy or write.place is None or write.place not in self.names

    def _node(self, expr: Expr, write: Access, start: Any, leaves: list[Leaf], depth: int) -> Expr:
        site = write.site
        if isinstance(expr, BufferLoad):
            return self._load(expr, (write.statement, write.loads), write, start, leaves, depth)
        if isinstance(expr, Var) and expr in site.lets:
            value, statement = site.lets[expr]
            return self._let(value, statement, write, start, leaves, depth)
        if isinstance(expr, Var) and expr in site.values and not expr.dtype.is_int:
            raise NotComparable
        if self._is_index(expr, site):
            index = self._index(expr, write)
            if index is not None:
                leaves.append(Leaf(start.apply_range(index), start.domain(), "an index"))
                return placeholder("leaf", len(leaves) - 1, expr.dtype)
        if isinstance(expr, Var):
            raise NotComparable
        if not expr.children:
            return expr
        return expr.with_children(
            [self._node(child, write, start, leaves, depth) for child in expr.children]
        )

    def _let(
        self, value: Expr, statement: Any, write: Access, start: Any, leaves: list[Leaf], depth: int
    ) -> Expr:
        if isinstance(value, BufferLoad):
            place = (statement.number, statement.loads)
            return self._load(value, place, write, start, leaves, depth)
        if not any(isinstance(part, BufferLoad) for part in post_order(value)):
            return self._node(value, write, start, leaves, depth)
        return value.with_children(
            [self._let(child, statement, write, start, leaves, depth) for child in value.children]
        )

    @staticmethod
    def _is_index(expr: Expr, site: Any) -> bool:
        kind = expr.dtype
        if not (kind.is_int or kind.is_bool) or not free_vars(expr):
            return False
        return not any(isinstance(p, BufferLoad) or p in site.lets for p in post_order(expr))

    def _index(self, expr: Expr, write: Access) -> Any | None:
        """From instances of a store to the value of an expression, or to whether it holds."""
        site, integers = write.site, self.flow.model.integers
        over = site.expr(expr)
        if expr.dtype.is_bool:
            holds = site.space.condition(over)
            number = None if holds is None else holds.indicator_function()
        else:
            number = site.space.number(over)
        if number is None:
            return None
        result = integers.isl.Map.from_pw_aff(number).set_tuple_name(integers.in_dim, write.name)
        return result.set_tuple_name(integers.out_dim, "N").to_union_map()

    def _load(
        self,
        load: BufferLoad,
        place: tuple[int, Mapping[Expr, int]],
        write: Access,
        start: Any,
        leaves: list[Leaf],
        depth: int,
    ) -> Expr:
        statement, slots = place
        slot = slots.get(load)
        reads = [read for read in self._reads.get(statement, ()) if read.slot == slot]
        if not reads or any(read.dims != write.dims for read in reads):
            raise NotComparable
        own = self._own(reads[0], write)
        if own is not None:
            return placeholder("own", own, load.dtype)
        steps = [start.apply_range(self._step(write, read)) for read in reads]
        through = self._through(reads, steps)
        if through is not None:
            last, source = through
            return self._whole(source, last, leaves, depth + 1)
        named = [
            step.apply_range(values_of(self.flow, read, self.made))
            for step, read in zip(steps, reads)
        ]
        kind = self.flow.model.integers.isl.UnionMap
        needed = union(steps, kind)
        leaves.append(Leaf(union(named, kind), needed.domain(), reads[0].memory.name))
        leaf = placeholder("leaf", len(leaves) - 1, load.dtype)
        if all(read.affine for read in reads):
            return leaf
        # An argument that stays as it was, at an index that depends on data.
        if any(access.is_write for access in reads[0].memory.accesses):
            raise NotComparable
        rest = [self._node(i, write, start, leaves, depth) for i in load.indices]
        return Call(load.dtype, "tir.load", (leaf, *rest))

    def _own(self, read: Access, write: Access) -> int | None:
        """Which accumulator of its block a load reads."""
        for other, update in self.flow.updates.items():
            if other.place is write.place and other.memory is read.memory:
                renamed = read.cell.set_tuple_name(self.flow.model.integers.in_dim, other.name)
                if read.dims == other.dims and renamed.is_equal(update.write.cell):
                    return other.ordinal
        return None

    def _through(self, reads: list[Access], steps: list[Any]) -> tuple[Any, Access] | None:
        """The store to look through, and the relation that leads there."""
        memory = reads[0].memory
        sources = self.flow.sources(memory)
        kind = self.flow.model.integers.isl.UnionMap
        reached = union([step.apply_range(sources.last) for step in steps], kind)
        bare = union([step.intersect_range(sources.unwritten) for step in steps], kind)
        if not bare.is_empty() or not all(read.affine for read in reads):
            return None
        write = self._single(memory, reached)
        return None if write is None else (reached, write)


def is_constant(write: Access) -> bool:
    """Whether a store always stores the same."""
    if write.value is None:
        return False
    return not any(isinstance(part, Var | BufferLoad | Call) for part in post_order(write.value))
