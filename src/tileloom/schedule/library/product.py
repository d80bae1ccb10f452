"""Sums of products as products of matrices: what tactics for GPUs see of a contraction.

A matrix product, a batch of them, a convolution: each is `C[b, i, j] += A[b, i, k] * B[b, j, k]`
over rows i, columns j and a depth k, which stand for one iteration variable or for several. The
matrices are never made: `as_matrices` describes them as copies, which a tactic then inlines into
the copies of tiles that it makes anyway (for convolutions that is known as implicit GEMM).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import TYPE_CHECKING

from ...expr import (
    REDUCE,
    Add,
    Analyzer,
    Call,
    Cast,
    Expr,
    IndexMap,
    IntImm,
    Mul,
    Select,
    Var,
    const,
    free_vars,
    has_load,
    post_order,
    substitute,
)
from ...expr.dot_ops import WORD, is_bare_dot
from ...expr.extents import known_extent, usual
from ...tir import Block, Buffer, BufferLoad, BufferStore, buffer_accesses
from ..analysis.blocks import has_trivial_binding, leaf_store
from ..analysis.tree import is_one
from ..instruction import can
from ..rv import BlockRV
from ._common import BlockLike, block_of, wrong
from .inlining import auto_inline

if TYPE_CHECKING:
    from ..schedule import Schedule

_VECTOR_BYTES = 16  # that a thread of a GPU moves at once
_CHOICE = "tir.if_then_else"


@dataclass(frozen=True)
class Factors:
    """The two factors of a sum of products, and what each of its variables runs over.

    `batch`, `rows`, `columns` and `depth` are positions of iteration variables; `left` and `right`
    are the positions of the reads that have the rows and the columns.
    """

    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    depth: tuple[int, ...]
    left: int
    right: int
    plain: bool  # nothing but conversions is applied to what is read


@dataclass(frozen=True)
class Operand:
    """A matrix that tiles are copied of.

    Attributes:
        position: of the read.
        copy: the block that says where its elements come from.
        deep: whether neighbours in memory follow each other along the depth, rather than along
            rows or columns.
        lanes: how many neighbours can be fetched at once.
        bits: of an element.
        moved: whether elements are moved as they are, or zeros.
    """

    position: int
    copy: BlockRV
    deep: bool
    lanes: int
    bits: int
    moved: bool


@dataclass(frozen=True)
class Product:
    """A product of matrices, and the blocks around it.

    Attributes:
        block: `C[b, i, j] += A[b, i, k] * B[b, j, k]`; without b if `batch` is None.
        batch, rows, columns, depth: the extents.
        steps: the extents of the variables that the depth is made of, the outermost first.
        left, right: the operands, of rows and of columns.
        results: the blocks that take the result to where it goes, in program order.
        lanes: how many neighbours of a row of the result can be stored at once.
        kind: of the operands, if `plain`. `total`: of the sum.
        plain: whether the factors are what is read, but for their type.
    """

    block: BlockRV
    batch: int | None
    rows: int
    columns: int
    depth: int
    steps: tuple[int, ...]
    left: Operand
    right: Operand
    results: tuple[BlockRV, ...]
    lanes: int
    kind: str
    total: str
    plain: bool

    @property
    def matrices(self) -> int:
        """How many products of matrices there are."""
        return self.batch or 1

    @property
    def operands(self) -> tuple[Operand, Operand]:
        """The operand of the rows and that of the columns."""
        return self.left, self.right


# ---------------------------------------------------------------------------- what it is


def find_factors(sch: Schedule, block: BlockLike) -> Factors | None:
    """How a block is a product of matrices, or None if it is none.

    >>> from tileloom import Schedule, te
    >>> A, B = te.placeholder((8, 4), name="A"), te.placeholder((6, 4), name="B")
    >>> k = te.reduce_axis((0, 4), name="k")
    >>> C = te.compute((8, 6), lambda i, j: te.sum(B[j, k] * A[i, k], axis=k), name="C")
    >>> found = find_factors(Schedule(te.create_prim_func([A, B, C])), "C")
    >>> found.rows, found.columns, found.depth, found.left, found.right
    ((0,), (1,), (2,), 1, 0)
    """
    rv = block_of(sch, block)
    stmt: Block = sch.get(rv)
    pair = _factors(stmt)
    if pair is None or not has_trivial_binding(sch.state, sch.get_sref(rv)):
        return None
    store = leaf_store(stmt)
    used = [_variables(stmt, side.indices) for side in (*pair, store)]  # type: ignore[union-attr]
    groups: dict[str, list[int]] = {"batch": [], "rows": [], "columns": [], "depth": []}
    for position, axis in enumerate(stmt.iter_vars):
        left, right, result = (axis.var in variables for variables in used)
        name = _NAMES.get((left, right, result))
        if name is None and is_one(axis.domain.extent):
            name = "depth" if axis.iter_type == REDUCE else "rows"  # what moves nothing
        if name is None or (axis.iter_type == REDUCE) != (name == "depth"):
            return None
        groups[name].append(position)
    sizes = [
        prod(_extent(stmt.iter_vars[p].domain.extent) for p in groups[name])
        for name in ("rows", "columns", "depth")
    ]
    if min(map(usual, sizes)) < 2:
        return None  # a product with a vector, an outer product, or of unknown size
    return _oriented(stmt, pair, groups)


_NAMES = {
    (True, True, True): "batch", (True, False, True): "rows",
    (False, True, True): "columns", (True, True, False): "depth",
}  # fmt: skip


def _factors(stmt: Block) -> tuple[BufferLoad, BufferLoad] | None:
    """The two elements that are multiplied and added up."""
    store = leaf_store(stmt)
    if store is None or stmt.init is None or not isinstance(store.value, Add):
        return None
    old = BufferLoad(store.buffer, store.indices)
    a, b = store.value.a, store.value.b
    sides = _sides(b if a is old else a)
    if sides is None or old not in (a, b):
        return None
    loads = [_only_load(side) for side in sides]
    if loads[0] is None or loads[1] is None or loads[0].buffer is loads[1].buffer:
        return None
    if {loads[0].buffer, loads[1].buffer} != {region.buffer for region in stmt.reads}:
        return None
    return loads[0], loads[1]


def _sides(term: Expr) -> tuple[Expr, Expr] | None:
    """What is multiplied: two numbers, or numbers in two words."""
    if isinstance(term, Mul):
        return term.a, term.b
    return (term.children[1], term.children[2]) if is_bare_dot(term) else None


def _only_load(expr: Expr) -> BufferLoad | None:
    loads = {node for node in post_order(expr) if isinstance(node, BufferLoad)}
    return loads.pop() if len(loads) == 1 else None


def _is_plain(expr: Expr) -> bool:
    return isinstance(expr, BufferLoad) or (isinstance(expr, Cast) and _is_plain(expr.value))


def _variables(stmt: Block, indices: Sequence[Expr]) -> frozenset[Var]:
    mine = {axis.var for axis in stmt.iter_vars}
    return frozenset(var for index in indices for var in free_vars(index) if var in mine)


def _oriented(
    stmt: Block, pair: tuple[BufferLoad, BufferLoad], groups: dict[str, list[int]]
) -> Factors:
    """The factors, so that neighbours of the result lie in a row if they can."""
    store = leaf_store(stmt)
    last = store.indices[-1] if store is not None else const(0)
    by_column = any(stmt.iter_vars[p].var in free_vars(last) for p in groups["rows"])
    left, right = (_position(stmt, load.buffer) for load in pair)
    rows, columns = tuple(groups["rows"]), tuple(groups["columns"])
    if by_column:
        rows, columns, left, right = columns, rows, right, left
    value = store.value if store is not None else const(0)
    plain = all(
        _is_plain(side)
        for node in post_order(value)
        for side in _sides(node) or ()
        if has_load(side)
    )
    batch, depth = tuple(groups["batch"]), tuple(groups["depth"])
    return Factors(batch, rows, columns, depth, left, right, plain)


def _position(stmt: Block, buffer: Buffer) -> int:
    return next(k for k, region in enumerate(stmt.reads) if region.buffer is buffer)


# ---------------------------------------------------------------------------- as matrices


def as_matrices(sch: Schedule, block: BlockLike, *, in_pieces: bool = False) -> Product:
    """Let a sum of products run over matrices, and everything around it over their elements.

    Blocks that prepare the operands (padding, conversions) go into their copies; elementwise ops on
    the result become one block, if there is one result. With `in_pieces` a row of the result lies
    in one piece; what else is a column becomes a matrix of its own, as images of a convolution do.

    Raises:
        ScheduleError: the block is no sum of products.

    >>> from tileloom import Schedule, te
    >>> A, B = te.placeholder((5, 8, 4), name="A"), te.placeholder((4, 6), name="B")
    >>> k = te.reduce_axis((0, 4), name="k")
    >>> C = te.compute((5, 8, 6), lambda b, i, j: te.sum(A[b, i, k] * B[k, j], axis=k), name="C")
    >>> sch = Schedule(te.create_prim_func([A, B, C]))
    >>> product = as_matrices(sch, "C")
    >>> [sch.get(loop).extent.value for loop in sch.get_loops(product.block)]
    [40, 6, 4]
    >>> [(operand.deep, operand.lanes) for operand in product.operands], product.lanes
    ([(True, 4), (False, 2)], 2)
    """
    found = find_factors(sch, block)
    if found is None:
        raise wrong(sch, "the block is no product of matrices: a sum of products of two buffers")
    rv = block_of(sch, block)
    results = _join_results(sch, rv)
    makers = [sch.reindex(rv, ("read", position)) for position in (found.left, found.right)]
    taker = sch.reindex(rv, ("write", 0))
    if results and _takes_part(sch, results[0], taker):
        sch.compute_inline(taker)
        taker = results.pop()
    elif results and can(sch.state, "ReverseComputeInline", sch.get_sref(results[0])):
        sch.reverse_compute_inline(results.pop())
    _inline_sources(sch, makers)
    stmt: Block = sch.get(rv)
    sides = [_Access.of(sch, maker, stmt, k) for maker, k in zip(makers, (found.left, found.right))]
    goal = _Access.of_result(sch, taker, stmt)
    found = _sorted(found, sides, goal)
    if in_pieces:
        found = _in_pieces(found, goal)
    steps = tuple(_extent(stmt.iter_vars[p].domain.extent) for p in found.depth)
    extents = _reshape(sch, rv, stmt, found, sides, goal)
    groups = (found.rows, found.columns)
    left, right = (
        side.operand(maker, position, own, found.depth)
        for side, maker, position, own in zip(
            sides, makers, (found.left, found.right), groups, strict=True
        )
    )
    loads = [region.buffer.dtype for region in sch.get(rv).reads]
    kinds = {str(kind.element) for kind in loads}
    total = str(sch.get(rv).writes[0].buffer.dtype)
    batch = extents[0] if found.batch else None
    rows, columns, depth = extents[-3:]
    lanes = goal.lanes(found.columns)
    return Product(
        rv, batch, rows, columns, depth, steps, left, right, (taker,), lanes,
        kinds.pop() if len(kinds) == 1 else "mixed", total, found.plain,
    )  # fmt: skip


def _join_results(sch: Schedule, block: BlockRV) -> list[BlockRV]:
    """Inline the epilogue of a result into its last block; the consumers that are left."""
    after: list[BlockRV] = []
    work = [block]
    while work:
        for consumer in sch.get_consumers(work.pop()):
            if all(sch.get_sref(consumer) is not sch.get_sref(known) for known in after):
                after.append(consumer)
                work.append(consumer)
    names = {sch.get(one).name_hint: one for one in after}
    for gone in auto_inline(sch, after, into_producers=False):
        names.pop(gone, None)
    left: list[BlockRV] = sch.get_consumers(block)
    return left if len(left) == 1 and len(names) == 1 else []


def _takes_part(sch: Schedule, result: BlockRV, taker: BlockRV) -> bool:
    """Whether a block reads the first elements of each row of what is taken, one by one."""
    block: Block = sch.get(result)
    taken: Block = sch.get(taker)
    made = taken.writes[0].buffer
    places = {indices for buffer, indices in buffer_accesses(block.body) if buffer is made}
    variables = tuple(axis.var for axis in block.iter_vars)
    extents = [
        (_extent(a.domain.extent), _extent(b.domain.extent))
        for a, b in zip(block.iter_vars, taken.iter_vars)
    ]
    same = len(variables) == len(taken.iter_vars) > 0
    fewer = same and extents[-1][0] < extents[-1][1]
    return fewer and places == {variables} and all(a == b for a, b in extents[:-1])


def _inline_sources(sch: Schedule, makers: Sequence[BlockRV]) -> None:
    """Let the copies compute what blocks before them prepare."""
    for maker in makers:
        for _ in range(_MANY):
            sources = [
                one
                for one in sch.get_producers(maker)
                if can(sch.state, "ComputeInline", sch.get_sref(one))
            ]
            if not sources:
                break
            sch.compute_inline(sources[0])


_MANY = 64  # more blocks than prepare any operand


def _sorted(found: Factors, sides: Sequence[_Access], goal: _Access) -> Factors:
    """The variables of each group in the order in which memory has them, where one can choose."""
    rows = _order(found.rows, sides[0] if sides[0].runs_along(found.rows) else goal)
    columns = _order(found.columns, goal)
    deep = [side for side in sides if side.runs_along(found.depth)]
    # An operand that has neighbours along the depth only has the say.
    bound = [
        side
        for side, own in zip(sides, (rows, columns), strict=True)
        if side in deep and not side.runs_along(own)
    ]
    depth = _order(found.depth, (bound or deep or list(sides))[0])
    return replace(found, rows=rows, columns=columns, depth=depth)


def _in_pieces(found: Factors, goal: _Access) -> Factors:
    """The columns that lie in one piece in the result; others are matrices of their own."""
    near = set(goal.run_of(found.columns))
    if not near:
        return found
    columns = tuple(p for p in found.columns if p in near or goal.sizes.get(p) == 1)
    batch = (*found.batch, *(p for p in found.columns if p not in columns))
    return replace(found, batch=_order(batch, goal), columns=columns)


def _order(group: tuple[int, ...], access: _Access) -> tuple[int, ...]:
    return tuple(sorted(group, key=lambda p: -abs(usual(access.steps.get(p) or 0))))


def _reshape(
    sch: Schedule,
    rv: BlockRV,
    stmt: Block,
    found: Factors,
    sides: Sequence[_Access],
    goal: _Access,
) -> list[int]:
    """One variable for each group, and matrices with as many axes; the extents."""
    sizes = [_extent(axis.domain.extent) for axis in stmt.iter_vars]
    groups = [g for g in (found.batch, found.rows, found.columns, found.depth) if g]
    given = [Var(axis.var.name, axis.var.dtype) for axis in stmt.iter_vars]
    finals = [_flat([(given[p], sizes[p]) for p in group]) for group in groups]
    sch.transform_block_layout(rv, IndexMap(given, finals))
    accesses = [(("read", side.position), side) for side in sides] + [(("write", 0), goal)]
    for place, access in accesses:
        own = {p: given[p] for p in access.used}
        # Variables of one iteration may be in no index.
        parts = [[(own[p], sizes[p]) for p in group if p in own] for group in groups]
        sch.transform_layout(
            rv, place, IndexMap(list(own.values()), [_flat(p) for p in parts if p])
        )
    return [prod(sizes[p] for p in group) for group in groups]


def _flat(parts: Sequence[tuple[Expr, int]]) -> Expr:
    """A number in a mixed system: digits and their bases, the highest first."""
    (first, _), *rest = parts
    return reduce(lambda value, part: value * part[1] + part[0], rest, first)


def _extent(extent: Expr) -> int:
    """What counts as a number; 0 where nothing is known."""
    known = known_extent(extent)
    return 0 if known is None else known


@dataclass(frozen=True)
class _Access:
    """Where in memory an element of a matrix is, as a function of the product's variables.

    `used` are the positions of variables that it depends on, `steps` how far apart neighbours
    along them are (None: not always as far), `sizes` the extents, `loose` positions of variables
    on which conditions depend, `offset` a constant, `bits` those of an element, `moved` whether
    what is there is taken as it is.
    """

    position: int
    used: tuple[int, ...]
    steps: dict[int, int | None]
    sizes: dict[int, int]
    loose: frozenset[int]
    offset: int
    bits: int
    moved: bool

    @staticmethod
    def of(sch: Schedule, maker: BlockRV, product: Block, position: int) -> _Access:
        """What the copy of an operand reads."""
        used = _positions(product, product.reads[position].region)
        copy: Block = sch.get(maker)
        store = leaf_store(copy)
        value = store.value if store is not None else const(0)
        loads = [node for node in post_order(value) if isinstance(node, BufferLoad)]
        access = _access(copy, loads, conditions(value), position, used, product)
        return replace(access, moved=_is_moved(value))

    @staticmethod
    def of_result(sch: Schedule, taker: BlockRV, product: Block) -> _Access:
        """Where the copy of the result writes."""
        used = _positions(product, product.writes[0].region)
        copy: Block = sch.get(taker)
        store = leaf_store(copy)
        places = [store] if store is not None else []
        return _access(copy, places, [], 0, used, product)

    def runs_along(self, group: tuple[int, ...]) -> bool:
        """Whether neighbours in memory are neighbours along a variable of a group."""
        return any(self.steps.get(p) == 1 and p not in self.loose for p in group)

    def lanes(self, group: tuple[int, ...]) -> int:
        """How many neighbours along a group can be moved at once: a power of two."""
        inside = self._run([p for p in group if p not in self.loose], group)
        run = prod(self.sizes[p] for p in inside)
        others = [s for p, s in self.steps.items() if p not in inside and self.sizes[p] != 1]
        lanes = max(1, _VECTOR_BYTES * 8 // self.bits)
        while lanes > 1 and (
            run % lanes
            or self.offset % lanes
            or any(step is None or step % lanes for step in others)
        ):
            lanes //= 2
        return lanes

    def _run(self, usable: Sequence[int], group: tuple[int, ...]) -> list[int]:
        """The innermost variables of a group that together number neighbours in memory."""
        inside: list[int] = []
        for p in reversed(group):
            if p in self.sizes and self.sizes[p] == 1:
                continue
            if p not in usable or self.steps.get(p) != prod(self.sizes[q] for q in inside):
                break
            inside.append(p)
        return inside

    def run_of(self, group: tuple[int, ...]) -> list[int]:
        """The innermost variables of a group that together number neighbours in memory."""
        return self._run(group, group)

    def operand(
        self, copy: BlockRV, position: int, own: tuple[int, ...], depth: tuple[int, ...]
    ) -> Operand:
        """The operand, to be fetched in the direction in which its neighbours lie."""
        lanes = [self.lanes(group) for group in (own, depth)]
        runs = [prod(self.sizes[p] for p in self.run_of(group)) for group in (own, depth)]
        deep = (lanes[1], usual(runs[1])) > (lanes[0], usual(runs[0]))
        return Operand(position, copy, deep, lanes[deep], self.bits, self.moved)


def _positions(product: Block, region: Sequence[object]) -> tuple[int, ...]:
    used = frozenset(v for part in region for v in free_vars(part.min))  # type: ignore[attr-defined]
    return tuple(k for k, axis in enumerate(product.iter_vars) if axis.var in used)


def _access(
    copy: Block,
    places: Sequence[BufferLoad | BufferStore],
    conditions: Sequence[Expr],
    position: int,
    used: tuple[int, ...],
    product: Block,
) -> _Access:
    variables = dict(zip(used, (axis.var for axis in copy.iter_vars), strict=True))
    sizes = {p: _extent(product.iter_vars[p].domain.extent) for p in used}
    analyzer = Analyzer({axis.var: axis.domain for axis in copy.iter_vars})
    steps: dict[int, int | None] = dict.fromkeys(used, 0)
    offset, bits = 0, 8
    parts = _parts_of_words(copy, analyzer)
    for place in places:
        flat = _offset(place)
        zero = dict.fromkeys(variables.values(), const(0))
        start = analyzer.simplify(substitute(flat, zero))
        offset |= start.value if isinstance(start, IntImm) else 1
        bits = max(bits, place.buffer.dtype.bits)
        for p, var in variables.items():
            step = analyzer.simplify(substitute(flat, {var: var + 1}) - flat)
            found = known_extent(step)
            if found is not None and parts > 1 and usual(found) % parts == 0:
                found = usual(found) // parts
            # Of several buffers the one that moves most counts.
            if found is None or steps[p] is None:
                steps[p] = None
            else:
                steps[p] = max(steps[p] or 0, found, key=lambda n: abs(usual(n)))
    loose = {p for p, var in variables.items() for c in conditions if var in free_vars(c)}
    return _Access(position, used, steps, sizes, frozenset(loose), offset, bits, True)


def _parts_of_words(copy: Block, analyzer: Analyzer) -> int:
    """How many neighbours in memory make a word of what is copied; 1 where it has no words."""
    store = leaf_store(copy)
    for node in post_order(store.value) if store is not None else ():
        if isinstance(node, Call) and node.op == WORD:
            first, second = node.args[:2]
            if isinstance(first, BufferLoad) and isinstance(second, BufferLoad):
                apart = analyzer.simplify(_offset(second) - _offset(first))
                return len(node.args) if isinstance(apart, IntImm) and apart.value == 1 else 1
    return 1


def _is_moved(value: Expr) -> bool:
    if isinstance(value, Call) and value.op == _CHOICE:
        _, yes, no = value.args
        return _is_moved(yes) and getattr(no, "value", None) == 0
    return isinstance(value, BufferLoad)


def _offset(place: BufferLoad | BufferStore) -> Expr:
    flat: Expr = const(0)
    for index, size in zip(place.indices, place.buffer.shape, strict=True):
        flat = flat * size + index
    return flat


def conditions(value: Expr) -> list[Expr]:
    """What decides which parts of a value are taken."""
    return [
        node.args[0] if isinstance(node, Call) else node.condition
        for node in post_order(value)
        if isinstance(node, Select) or (isinstance(node, Call) and node.op == _CHOICE)
    ]
