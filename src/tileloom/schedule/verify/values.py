"""The values of a program, one step at a time: what an expression in a store is made of.

A value is asked for by a *question*, a point of any set; a `ValueNode` is an expression together
with the store in which it stands and a map from questions to runs of that store. A run is an
instance, named by the values of the iteration variables wherever these tell instances apart: what
is known of them is simpler to say than of loops. `Side.resolve` says what it is, as cases: a
constant, an element of an argument, the value of another store, an operation. Copies are looked
through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...base import DType
from ...expr import (
    GE,
    GT,
    LE,
    LT,
    Broadcast,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Select,
    StringImm,
    Var,
)
from ...tir import BufferLoad
from .flow import Flow
from .model import Access, Memory
from .tidy import tidy_map, tidy_set

_DEEPEST = 100


class NotComparable(Exception):
    """Something that cannot be told; the text says what."""


@cache
def placeholder(kind: str, position: int, dtype: DType) -> Var:
    """The same variable for the same position, in every program."""
    return Var(f"{kind}{position}", dtype)


@dataclass(frozen=True, slots=True, eq=False)
class ValueNode:
    """An expression as written in a store, or in what the store stands in."""

    expr: Expr
    write: Access
    start: Any  # from questions to runs of the store
    statement: int  # of which statement it is part, and the slots of that statement's loads
    loads: Mapping[Expr, int]


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A number or a text."""

    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Element:
    """An element of an argument, as it was given; one of the original's layout."""

    param: int
    cells: Any  # from questions to indices


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """An expression over the iterations: an integer, or a condition as 0 and 1."""

    values: Any  # from questions to numbers


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """What a store left."""

    write: Access
    start: Any  # from questions to its runs


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """Anything else that is computed from other values."""

    shape: Expr  # with a placeholder for each operand
    node: ValueNode

    @property
    def operands(self) -> list[ValueNode]:
        """The values that it is computed from."""
        return [_part(self.node, child) for child in _operands(self.node.expr)]


@dataclass(frozen=True, slots=True, eq=False)
class Indirect:
    """An element whose place depends on data: for each value that the data may have."""

    read: Access
    runs: Any  # from questions to runs of the load, for all values of its symbols
    symbols: tuple[ValueNode, ...]


Resolved = Constant | Element | Number | Stored | Operation | Indirect
Case = tuple[Any, Resolved]  # the questions for which it holds


def _part(node: ValueNode, expr: Expr) -> ValueNode:
    return ValueNode(expr, node.write, node.start, node.statement, node.loads)


def stored_node(write: Access, start: Any) -> ValueNode:
    """The value of a store."""
    if write.value is None:
        raise NotComparable(f"what an intrinsic in block {write.block!r} stores")
    return ValueNode(write.value, write, start, write.statement, write.loads)


class Side:
    """One of two programs.

    Args:
        flow: the program.
        layouts: for parameters in another layout than the original's: from theirs to the
            original's indices.
    """

    def __init__(self, flow: Flow, layouts: Mapping[int, Any] | None = None) -> None:
        self.flow = flow
        self.layouts = layouts or {}
        self._reads: dict[int, list[Access]] = {}
        self._places: dict[Access, Any] = {}
        self._steps: dict[tuple[Access, Access], Any] = {}
        self._sources: dict[Memory, dict[str, list[tuple[Access, Any]]]] = {}
        self._bare: dict[Memory, dict[str, Any]] = {}
        for read in flow.model.reads():
            self._reads.setdefault(read.statement, []).append(read)

    # ------------------------------------------------------------------ flow

    def place(self, access: Access) -> Any:
        """From instances of an access to its runs."""
        if access not in self._places:
            out = self.flow.model.integers.out_dim
            found = None if access.iters is None else access.iters.intersect_domain(access.domain)
            if found is None or not found.is_injective():
                found = access.domain.identity()
            self._places[access] = self.tidy(found.set_tuple_name(out, access.name))
        return self._places[access]

    def tidy(self, relation: Any) -> Any:
        """The same map in a simpler form."""
        return tidy_map(self.flow.model.integers, relation)

    def runs(self, access: Access) -> Any:
        """All runs of an access."""
        return self.place(access).range()

    def of_runs(self, access: Access, relation: Any) -> Any:
        """A map from instances of an access as one from its runs."""
        return self.tidy(self.place(access).reverse().apply_range(relation))

    def sources(self, memory: Memory, name: str) -> list[tuple[Access, Any]]:
        """The stores that runs of a load (or elements at the end) get their values from."""
        if memory not in self._sources:
            self._learn(memory)
        return self._sources[memory].get(name, [])

    def bare(self, memory: Memory, name: str) -> Any | None:
        """The runs of a load that no store precedes for sure."""
        if memory not in self._sources:
            self._learn(memory)
        return self._bare[memory].get(name)

    def _learn(self, memory: Memory) -> None:
        solved = self.flow.sources(memory)
        known = {access.name: access for access in memory.accesses}
        found: dict[str, list[tuple[Access, Any]]] = {}
        for part in maps_of(solved.last):
            source, name = known[part.range().get_tuple_name()], part.domain().get_tuple_name()
            runs = part.apply_range(self.place(source))
            runs = self.of_runs(known[name], runs) if name in known else self.tidy(runs)
            found.setdefault(name, []).append((source, runs))
        bare = {}
        for some in sets_of(solved.unwritten):
            name = some.get_tuple_name()
            plain = some.apply(self.place(known[name])) if name in known else some
            bare[name] = tidy_set(self.flow.model.integers, plain)
        self._sources[memory], self._bare[memory] = found, bare

    # ------------------------------------------------------------------ cases

    def resolve(self, node: ValueNode, where: Any, depth: int = 0) -> list[Case]:
        """What a value is, by cases that cover the questions.

        Raises:
            NotComparable: when that is not known.
        """
        if depth > _DEEPEST:
            raise NotComparable("values that are handed on in a circle")
        expr, site = node.expr, node.write.site
        match expr:
            case BufferLoad():
                return self._load(node, where, depth)
            case Var() if expr in site.lets:
                value, statement = site.lets[expr]
                inner = ValueNode(value, node.write, node.start, statement.number, statement.loads)
                return self.resolve(inner, where, depth + 1)
            case IntImm() | FloatImm() | StringImm():
                return [(where, Constant(expr))]
            case Call(_, "tir.likely", (value,)) | Broadcast(value, _):
                return self.resolve(_part(node, value), where, depth + 1)
            case Select(condition, yes, no) | Call(_, "tir.if_then_else", (condition, yes, no)):
                return self._choice(node, where, (condition, yes, no), depth)
            case Cast(kind, value) if _holds(value.dtype, kind):
                return self._narrowed(node, where, value, depth)
        kind = expr.dtype
        if kind.is_int or kind.is_bool:
            numbers = self._number(node)
            if numbers is not None:
                return [(where, Number(numbers))]
        if isinstance(expr, Var):
            return self._variable(node, expr, where, depth)
        return [(where, Operation(_outline(expr), node))]

    def _narrowed(self, node: ValueNode, where: Any, value: Expr, depth: int) -> list[Case]:
        """A conversion; one back from a wider type to which it was converted is none."""
        result: list[Case] = []
        for part, head in self.resolve(_part(node, value), where, depth + 1):
            wide = None
            if isinstance(head, Stored) and head.write.value is not None:
                wide = stored_node(head.write, head.start)
            elif isinstance(head, Operation):
                wide = head.node
            if wide is not None and isinstance(wide.expr, Cast):
                inner = wide.expr.value
                if inner.dtype is node.expr.dtype:
                    result += self.resolve(_part(wide, inner), part, depth + 1)
                    continue
            result.append((part, Operation(_outline(node.expr), node)))
        return result

    def _variable(self, node: ValueNode, expr: Var, where: Any, depth: int) -> list[Case]:
        values = node.write.site.values
        if expr in values and values[expr] is not expr:
            return self.resolve(_part(node, values[expr]), where, depth + 1)
        params = self.flow.model.func.params
        if expr not in params or expr.dtype.is_handle:
            raise NotComparable(f"{expr.name!r} in block {node.write.block!r}")
        position = params.index(expr)
        return [(where, Operation(placeholder("param", position, expr.dtype), node))]

    def _number(self, node: ValueNode) -> Any | None:
        """From questions to the value of an integer expression, or to whether it holds."""
        site, integers = node.write.site, self.flow.model.integers
        over = site.expr(node.expr)
        if node.expr.dtype.is_bool:
            holds = site.space.condition(over)
            number = None if holds is None else holds.indicator_function()
        else:
            number = site.space.number(over)
        if number is None:
            return None
        values = integers.isl.Map.from_pw_aff(number)
        values = self.of_runs(node.write, values.set_tuple_name(integers.in_dim, node.write.name))
        return node.start.apply_range(values)

    def _choice(
        self, node: ValueNode, where: Any, parts: tuple[Expr, Expr, Expr], depth: int
    ) -> list[Case]:
        condition, yes, no = parts
        site = node.write.site
        holds = site.space.condition(site.expr(condition))
        if holds is None:
            return [(where, Operation(_outline(node.expr), node))]
        runs = holds.set_tuple_name(node.write.name).apply(self.place(node.write))
        runs = tidy_set(self.flow.model.integers, runs)
        chosen = node.start.intersect_range(runs).domain().intersect(where)
        result: list[Case] = []
        for value, some in ((yes, chosen), (no, where.subtract(chosen))):
            questions = tidy_set(self.flow.model.integers, some)
            if not questions.is_empty():
                result += self.resolve(_part(node, value), questions, depth + 1)
        return result

    # ------------------------------------------------------------------ loads

    def _load(self, node: ValueNode, where: Any, depth: int) -> list[Case]:
        slot = node.loads.get(node.expr)
        reads = [r for r in self._reads.get(node.statement, ()) if r.slot == slot]
        result: list[Case] = []
        for read in reads:
            if where.is_empty():
                break
            reached = node.start.intersect_domain(where).apply_range(self._step(node.write, read))
            part = reached.domain()
            if part.is_empty():
                continue
            where = where.subtract(part)
            if read.symbols:
                symbols = tuple(_part(node, symbol) for symbol in read.symbols)
                result.append((part, Indirect(read, reached, symbols)))
            else:
                result += self.loaded(read, reached, depth)
        if not where.is_empty():
            name = reads[0].memory.name if reads else "a buffer"
            raise NotComparable(f"what block {node.write.block!r} loads from {name!r}")
        return result

    def _step(self, write: Access, read: Access) -> Any:
        """From runs of a store to those of a load that belongs to it."""
        if (write, read) not in self._steps:
            raw = self._same_loops(write, read).apply_range(self.place(read))
            self._steps[write, read] = self.of_runs(write, raw)
        return self._steps[write, read]

    def _same_loops(self, write: Access, read: Access) -> Any:
        size = len(read.dims) - len(read.symbols)
        if read.dims[:size] != write.dims[:size]:
            raise NotComparable(f"a load of {read.memory.name!r} in a loop of its own")
        left = [f"d{k}" for k in range(len(write.dims))]
        right = left[:size] + [f"s{k}" for k in range(len(read.symbols))]
        text = f"{{ {write.name}[{','.join(left)}] -> {read.name}[{','.join(right)}] }}"
        return self.flow.model.integers.map(text).intersect_range(read.domain)

    def loaded(self, read: Access, reached: Any, depth: int = 0) -> list[Case]:
        """What runs of a load get."""
        memory, where = read.memory, reached.domain()
        if not read.affine and not read.symbols:
            raise NotComparable(f"an index of {memory.name!r} in block {read.block!r}")
        result: list[Case] = []
        for write, last in self.sources(memory, read.name):
            start = reached.apply_range(last)
            part = start.domain()
            if not part.is_empty():
                where = where.subtract(part)
                result += self.stored(write, start, depth)
        bare = self.bare(memory, read.name)
        given = None if bare is None else reached.intersect_range(bare)
        if memory.param is not None and given is not None and not given.is_empty():
            cells = self.given(memory.param, given.apply_range(self.of_runs(read, read.element)))
            where = where.subtract(cells.domain())
            result.append((cells.domain(), Element(memory.param, cells)))
        if not where.is_empty():
            raise NotComparable(
                f"what block {read.block!r} reads from {memory.name!r} may not have been written"
            )
        return result

    def given(self, param: int, cells: Any) -> Any:
        """Indices into a parameter as indices of the original's layout."""
        out = self.flow.model.integers.out_dim
        plain = cells.reset_tuple_id(out)
        if param in self.layouts:
            plain = plain.apply_range(self.layouts[param])
        return plain.set_tuple_name(out, f"G{param}")

    def stored(self, write: Access, start: Any, depth: int = 0) -> list[Case]:
        """What a store left; one that hands on what is there is looked through."""
        if not write.exact:
            raise NotComparable(f"it is not known exactly what block {write.block!r} stores")
        if write.value is not None and _hands_on(write.value):
            return self.resolve(stored_node(write, start), start.domain(), depth + 1)
        return [(start.domain(), Stored(write, start))]

    def each_symbol(self, value: Indirect, where: Any) -> tuple[Any, Any]:
        """From questions to values of the symbols; from such pairs to runs of the load."""
        read, integers = value.read, self.flow.model.integers
        rank = self.runs(read).dim(integers.set_dim)
        dims = [f"d{k}" for k in range(rank)]
        symbols = dims[rank - len(read.symbols) :]
        pick = integers.map(f"{{ {read.name}[{','.join(dims)}] -> [{','.join(symbols)}] }}")
        runs = value.runs.intersect_domain(where)
        asked = runs.apply_range(pick)
        full = asked.domain_map().apply_range(runs)
        same = asked.range_map().apply_range(pick.reverse())
        return asked, full.intersect(same)


def _hands_on(value: Expr) -> bool:
    """Whether an expression computes nothing: it only chooses."""
    match value:
        case BufferLoad() | FloatImm() | IntImm():
            return True
        case Call(_, "tir.likely", (inner,)):
            return _hands_on(inner)
        case Select(_, yes, no) | Call(_, "tir.if_then_else", (_, yes, no)):
            return _hands_on(yes) and _hands_on(no)
    return False


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether a type has all values of another one, and more."""
    if wide.is_float and narrow.is_float:
        return wide.bits > narrow.bits and wide.bits >= 32
    return wide.is_int and wide.code == narrow.code and wide.bits > narrow.bits


def _operands(expr: Expr) -> tuple[Expr, ...]:
    """What an operation is computed from; `a > b` is `b < a`."""
    match expr:
        case Var():
            return ()
        case GT(a, b) | GE(a, b):
            return b, a
    return tuple(expr.children)


def _outline(expr: Expr) -> Expr:
    """An operation with placeholders for its operands."""
    operands = _operands(expr)
    if not operands:
        return expr
    parts = [placeholder("part", k, operand.dtype) for k, operand in enumerate(operands)]
    match expr:
        case GT():
            return LT(*parts)
        case GE():
            return LE(*parts)
    return expr.with_children(parts)


def maps_of(union: Any) -> Iterator[Any]:
    """The maps of a union, each between two spaces."""
    parts = union.get_map_list()
    for k in range(parts.n_map()):
        yield parts.get_at(k)


def sets_of(union: Any) -> Iterator[Any]:
    """The sets of a union, each in one space."""
    parts = union.get_set_list()
    for k in range(parts.n_set()):
        yield parts.get_at(k)
