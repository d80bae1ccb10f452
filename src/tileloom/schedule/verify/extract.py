"""From a function in blocks form to its `Model`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from ...expr import (
    EQ,
    REDUCE,
    And,
    Call,
    Cast,
    Expr,
    Let,
    Not,
    Or,
    Ramp,
    Reduce,
    Var,
    const,
    find_op,
    free_vars,
    has_load,
    post_order,
    substitute,
)
from ...tir import (
    THREAD_BINDING,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
    is_no_op,
)
from ..integer_sets import Integers, Space
from .frame import Frame, Statement
from .intrinsics import Readings
from .model import BODY, INIT, READ, WRITE, Access, Instance, LoopDim, Memory, Model
from .names import given_vars, note_names
from .tables import Tables
from .views import note_views

_HARMLESS = {"tir.assume", "tir.prefetch", "tir.undef"}


def extract(func: PrimFunc, integers: Integers) -> Model:
    """The model of a function whose symbolic integers are `integers.params`."""
    no_tables: set[Buffer] = set()
    while True:
        model = Model(func, integers)
        walk = _Walk(model, no_tables)
        walk.run()
        if not walk.tables.broken:
            return model
        no_tables |= walk.tables.broken


def symbolic_params(func: PrimFunc) -> tuple[Var, ...]:
    """Scalar integer parameters and the variables of buffer shapes."""
    found = {p: None for p in func.params if p.dtype.is_int}
    for buffer in func.buffers:
        for extent in buffer.shape:
            found.update(dict.fromkeys(sorted(free_vars(extent), key=lambda var: var.serial)))
    return tuple(found)


class _Walk:
    def __init__(self, model: Model, no_tables: Collection[Buffer]) -> None:
        self.model = model
        self.memories: dict[Buffer, Memory] = {}
        self.pointers: dict[Var, Buffer] = {}
        self.views: dict[Buffer, tuple[Buffer, tuple[Expr, ...]]] = {}
        self.tables = Tables(model.integers, no_tables)
        self.readings = Readings(model.func)
        self.statements = 0
        self.given = given_vars(model.func)

    def run(self) -> None:
        model = self.model
        space = model.integers.space(())
        domain = space.universe
        for k, buffer in enumerate(model.func.buffers):
            self.allocate(buffer, k, ())
            for extent in buffer.shape:
                known = space.condition(extent >= 1 if free_vars(extent) else extent >= 0)
                if free_vars(extent):
                    model.note("sizes that are not known yet are taken to be at least 1")
                domain = domain if known is None else domain.intersect(known)
        model.parameters = domain
        self.stmt(model.func.body, Frame((), space, domain, True, (), {}))

    def allocate(self, buffer: Buffer, param: int | None, dims: tuple[LoopDim, ...]) -> None:
        if self.pointers.setdefault(buffer.data, buffer) is not buffer:
            self.model.doubt(f"buffer {buffer.name!r} shares its memory with another one")
        memory = Memory(len(self.model.memories), buffer, param, len(dims))
        self.memories[buffer] = memory
        self.model.memories.append(memory)

    # ------------------------------------------------------------------ statements

    def stmt(self, stmt: Stmt, frame: Frame) -> None:
        note_names(self.model, stmt, frame, self.given)
        match stmt:
            case For():
                self.loop(stmt, frame)
            case SeqStmt():
                for k, part in enumerate(stmt.seq):
                    self.stmt(part, frame.at(k))
            case BlockRealize():
                self.block(stmt, frame)
            case BufferStore():
                branches = _by_branches(stmt)
                if branches is None:
                    self.store(stmt, frame)
                else:
                    self.stmt(branches, frame)
            case IfThenElse():
                condition = self.evaluate(stmt.condition, frame.at(0))
                self.stmt(stmt.then_case, frame.where(condition).at(1))
                if stmt.else_case is not None:
                    self.stmt(stmt.else_case, frame.where(Not(condition)).at(1))
            case LetStmt():
                self.stmt(stmt.body, self.let(stmt, frame).at(1))
            case AssertStmt():
                condition = self.evaluate(stmt.condition, frame.at(0))
                self.stmt(stmt.body, frame.where(condition).at(1))
            case While():
                self.model.doubt("a while loop runs an unknown number of times")
                self.evaluate(stmt.condition, frame.maybe().at(0))
                self.stmt(stmt.body, frame.maybe().at(1))
            case Evaluate() if not is_no_op(stmt):
                if not (isinstance(stmt.value, Call) and stmt.value.op in _HARMLESS):
                    self.evaluate(stmt.value, frame, for_effect=True)
            case AttrStmt() if stmt.attr_key not in ("thread_extent", "virtual_thread"):
                self.stmt(stmt.body, frame)
            case Evaluate():
                pass
            case _:
                self.model.doubt(f"{type(stmt).__name__} is not part of the blocks form")

    def let(self, stmt: LetStmt, frame: Frame) -> Frame:
        """The frame in which a name stands for a value; one that was loaded is loaded once."""
        if has_load(stmt.value):
            statement = self.begin()
            self.loads(stmt.value, frame.at(0), statement)
            return replace(frame, lets={**frame.lets, stmt.var: (stmt.value, statement)})
        value = self.evaluate(stmt.value, frame.at(0))
        return replace(frame, values={**frame.values, stmt.var: value})

    def loop(self, loop: For, frame: Frame) -> None:
        low, extent = self.evaluate(loop.min, frame), self.evaluate(loop.extent, frame)
        binding = loop.thread_binding
        tag = binding.thread_tag if binding is not None and loop.kind == THREAD_BINDING else ""
        dim = LoopDim(loop.loop_var.with_name(loop.loop_var.name), loop, tag)
        inner = self.unbounded(frame, dim)
        space, domain = inner.space, inner.domain
        within = space.between(low, space.number(dim.var), extent)
        if within is None:
            self.model.doubt(f"the range of loop {dim.name!r} is not affine")
        else:
            domain = domain.intersect(within)
        for other in frame.dims:
            # A thread has one number, however many loops ask for it.
            if tag and other.tag == tag:
                domain = domain.intersect(space.condition(EQ(dim.var, other.var)))
        values = {**frame.values, loop.loop_var: dim.var}
        if binding is not None:
            values[binding.var] = dim.var
        path = frame.path if dim.is_lane else (*frame.path, ("loop", len(frame.dims)))
        exact = frame.exact and within is not None
        self.stmt(loop.body, replace(inner, domain=domain, exact=exact, path=path, values=values))

    def block(self, realize: BlockRealize, frame: Frame) -> None:
        block = realize.block
        running = frame.where(self.evaluate(realize.predicate, frame.at(0)))
        values = tuple(self.evaluate(value, running.at(0)) for value in realize.iter_values)
        frame = running.at(1)
        place = Instance(
            block, frame.place, values, len(frame.dims), frame.path, frame.domain, frame.exact,
            frame.space,
        )  # fmt: skip
        self.model.places.append(place)
        seen = dict(frame.values)
        seen.update((a.var, v) for a, v in zip(block.iter_vars, values, strict=True))
        frame = replace(frame, values=seen, place=place)
        note_names(self.model, block, frame, self.given)
        note_views(self.model, block)
        for buffer in block.alloc_buffers:
            self.allocate(buffer, None, frame.dims)
            self.tables.declare(buffer, len(frame.dims), frame.domain)
        for match in block.match_buffers:
            lows = tuple(frame.expr(part.min) for part in match.source.region)
            self.views[match.buffer] = (match.source.buffer, lows)
            sizes = [frame.expr(part.extent) for part in match.source.region]
            for extent, size in zip(reversed(match.buffer.shape), reversed(sizes)):
                if isinstance(extent, Var) and extent not in seen:
                    seen[extent] = size
        init, body = self.meant(block)
        if init is not None:
            start = frame
            for axis in block.iter_vars:
                if axis.iter_type == REDUCE:
                    start = start.where(frame.expr(EQ(axis.var, axis.domain.min)))
            self.stmt(init, replace(start.at(0), role=INIT))
        self.stmt(body, frame.at(1))

    def meant(self, block: Block) -> tuple[Stmt | None, Stmt]:
        """The init and the body of a block; of a tensorized one, what the intrinsic computes."""
        found = self.readings.described(block)
        if found is None:
            return block.init, block.body
        name, root, views = found
        self.model.note(f"the intrinsic {name!r} computes what its description says")
        self.views.update({buffer: self.views[view] for buffer, view in views.items()})
        return block.init if root.init is None else root.init, root.body

    def store(self, stmt: BufferStore, frame: Frame) -> None:
        statement = self.begin()
        for expr in (stmt.value, *stmt.indices):
            self.loads(expr, frame.at(0), statement)
        if stmt.predicate is not None:
            self.loads(stmt.predicate, frame.at(0), statement)
            frame = frame.maybe()
        indices = [frame.expr(index) for index in stmt.indices]
        access = self.access(WRITE, stmt.buffer, indices, frame.at(1), statement)
        if access is not None:
            self.learn(access, stmt, frame)
            access.value, access.site, access.loads = stmt.value, frame, statement.loads
            plain = isinstance(stmt.value, BufferLoad) and stmt.value.dtype is stmt.buffer.dtype
            access.is_copy = plain and frame.role == BODY and stmt.predicate is None
            access.span = stmt.span

    def learn(self, access: Access, stmt: BufferStore, frame: Frame) -> None:
        """Remember what integers a store leaves, in case they are used as indices."""
        value, number = frame.expr(stmt.value), None
        if not (value.dtype.is_int or value.dtype.is_bool):
            return
        if access.affine and value.dtype.is_bool:
            holds = frame.space.condition(value)
            number = None if holds is None else holds.indicator_function()
        elif access.affine:
            number = frame.space.number(value)
        into = self.model.integers.in_dim
        element = access.element.reset_tuple_id(into)
        self.tables.store(access.memory.buffer, element, number)

    def begin(self) -> Statement:
        self.statements += 1
        return Statement(self.statements, {})

    def evaluate(self, expr: Expr, frame: Frame, for_effect: bool = False) -> Expr:
        """The expression over the loops; what it loads is loaded now."""
        if for_effect or any(isinstance(part, BufferLoad | Call) for part in post_order(expr)):
            self.loads(expr, frame, self.begin())
        return frame.expr(expr)

    # ------------------------------------------------------------------ expressions

    def loads(self, expr: Expr, frame: Frame, statement: Statement) -> None:
        match expr:
            case BufferLoad():
                for index in expr.indices:
                    self.loads(index, frame, statement)
                self.load(expr, frame, statement)
            case Call(_, "tir.if_then_else", (condition, yes, no)):
                self.loads(condition, frame, statement)
                holds = frame.expr(condition)
                self.loads(yes, frame.where(holds), statement)
                self.loads(no, frame.where(Not(holds)), statement)
            case Call() if _is_opaque(expr):
                self.opaque(expr, frame)
            case And(a, b):
                self.loads(a, frame, statement)
                self.loads(b, frame.where(frame.expr(a)).maybe(), statement)
            case Or(a, b):
                self.loads(a, frame, statement)
                self.loads(b, frame.where(Not(frame.expr(a))).maybe(), statement)
            case Let(var, value, body):
                self.loads(substitute(body, {var: value}), frame, statement)
            case Reduce():
                self.model.doubt("a Reduce expression stands in a program of blocks")
            case _:
                for child in expr.children:
                    self.loads(child, frame, statement)

    def load(self, load: BufferLoad, frame: Frame, statement: Statement) -> None:
        # Every occurrence is an access of its own, as guards differ; the first names the load.
        slot = statement.loads.setdefault(load, len(statement.loads))
        if load.predicate is not None:
            self.loads(load.predicate, frame, statement)
            frame = frame.maybe()
        frame, indices, symbols = self.symbolic(load, frame)
        access = self.access(READ, load.buffer, indices, frame, statement, len(symbols))
        if access is not None:
            access.slot, access.symbols = slot, symbols
            access.affine = access.affine and not symbols

    def symbolic(
        self, load: BufferLoad, frame: Frame
    ) -> tuple[Frame, list[Expr], tuple[Expr, ...]]:
        """The indices of a load with variables for what they take from data."""
        symbols: dict[Expr, Var] = {}
        indices = []
        for index in load.indices:
            over = frame.expr(index)
            if frame.space.number(over) is None and not isinstance(index, Ramp):
                over = frame.expr(_abstract(index, frame, symbols))
            indices.append(over)
        for var in symbols.values():
            frame = self.unbounded(frame, _dimension(var, const(1, var.dtype)))
        return frame, indices, tuple(symbols)

    def unbounded(self, frame: Frame, dim: LoopDim) -> Frame:
        """One more dimension of instances, of any value."""
        dims = (*frame.dims, dim)
        space = self.model.integers.space([d.var for d in dims])
        domain = frame.domain.add_dims(self.model.integers.set_dim, 1)
        return replace(frame, dims=dims, space=space, domain=domain)

    def opaque(self, call: Call, frame: Frame) -> None:
        """An intrinsic that may touch memory by itself: the block's declared regions count."""
        name = frame.place.name if frame.place is not None else "the function"
        self.model.doubt(f"{call.op} in block {name!r} is taken at what the block declares")
        if frame.place is None:
            return
        block, statement = frame.place.block, self.begin()
        for kind, regions in ((READ, block.reads), (WRITE, block.writes)):
            for region in regions:
                outer, bounds = frame, []
                for part in region.region:
                    extent = frame.expr(part.extent)
                    var = Var("e", part.min.dtype)
                    outer = self.inside(outer, var, extent)
                    bounds.append(frame.expr(part.min) + outer.dims[-1].var)
                self.access(kind, region.buffer, bounds, outer.at(kind), statement)

    def inside(self, frame: Frame, var: Var, extent: Expr) -> Frame:
        """One more dimension of instances that is not a loop of the program."""
        frame = self.unbounded(frame, _dimension(var, extent))
        within = frame.space.between(const(0, var.dtype), frame.space.number(var), extent)
        if within is None:
            return frame.maybe()
        return replace(frame, domain=frame.domain.intersect(within))

    def access(
        self,
        kind: int,
        buffer: Buffer,
        indices: Sequence[Expr],
        frame: Frame,
        statement: Statement,
        symbols: int = 0,
    ) -> Access | None:
        indices = list(indices)
        for k, index in enumerate(indices):
            if isinstance(index, Ramp):
                frame = self.inside(frame, Var("lane", index.base.dtype), const(index.lanes))
                lane = frame.dims[-1].var
                indices[k] = index.base + index.stride * lane
        outside = frame.space.universe.complement()
        while buffer in self.views:
            frame = self.within(buffer, indices, frame, symbols)
            outside = outside.union(self.outside(buffer, indices, frame))
            buffer, lows = self.views[buffer]
            padded = [const(0, low.dtype) for low in lows[: len(lows) - len(indices)]] + indices
            indices = [low + index for low, index in zip(lows, padded, strict=True)]
        memory = self.memories.get(buffer)
        if memory is None:
            self.model.doubt(f"buffer {buffer.name!r} is not declared by the function or a block")
            return None
        frame = self.within(buffer, indices, frame, symbols)
        if symbols:
            self.depends_on_data(memory, frame)
        outside = outside.union(self.outside(buffer, indices, frame))
        return self.record(kind, memory, indices, frame, statement, outside)

    def record(
        self,
        kind: int,
        memory: Memory,
        indices: Sequence[Expr],
        frame: Frame,
        statement: Statement,
        outside: Any,
    ) -> Access:
        integers = self.model.integers
        name = f"S{len(self.model.accesses)}"
        element, exact = self.element(memory, indices, frame)
        place = frame.place
        iters = self.iters(place, frame)
        access = Access(
            name, kind, memory, place, frame.role, frame.dims, frame.path,
            frame.domain.set_tuple_name(name),
            element.set_tuple_name(integers.in_dim, name).intersect_domain(
                frame.domain.set_tuple_name(name)
            ),
            frame.domain.intersect(outside).set_tuple_name(name),
            frame.exact, exact, statement.number, 0,
            None if iters is None else iters.set_tuple_name(integers.in_dim, name),
        )  # fmt: skip
        self.model.accesses.append(access)
        memory.accesses.append(access)
        return access

    def iters(self, place: Instance | None, frame: Frame) -> Any | None:
        space, depth = frame.space, 0 if place is None else place.depth
        axes = () if place is None else place.axes()
        numbers = [space.number(value) for _, _, _, value in axes]
        numbers += [space.number(dim.var) for dim in frame.dims[depth:]]
        return None if any(number is None for number in numbers) else space.map(numbers)

    def element(self, memory: Memory, indices: Sequence[Expr], frame: Frame) -> tuple[Any, bool]:
        """Which elements an access may touch, and whether it touches no others."""
        isl, space, exact = self.model.integers.isl, frame.space, True
        result = isl.Map.from_domain(space.universe)
        for index, extent in zip(indices, memory.buffer.shape, strict=True):
            number = space.number(index)
            if number is not None:
                part = isl.Map.from_pw_aff(number)
            else:
                part, exact = self.anywhere(extent, space), False
                self.not_affine(memory, index, frame)
            result = result.flat_range_product(part)
        return result, exact

    def anywhere(self, extent: Expr, space: Space) -> Any:
        """From any instance to every index of an axis."""
        var = Var("x", extent.dtype)
        wider = self.model.integers.space([*space.variables, var])
        within = wider.between(const(0, extent.dtype), wider.number(var), extent)
        points = wider.universe if within is None else within
        dims, last = self.model.integers, len(space.variables)
        return (
            self.model.integers.isl.Map.from_domain(points)
            .move_dims(dims.out_dim, 0, dims.in_dim, last, 1)
        )  # fmt: skip

    def not_affine(self, memory: Memory, index: Expr, frame: Frame) -> None:
        block = frame.place.name if frame.place is not None else "the function"
        if has_load(index):
            self.depends_on_data(memory, frame)
        else:
            what = f"an index of {memory.name!r} in block {block!r}"
            self.model.doubt(f"{what} is not affine: {index}")

    def depends_on_data(self, memory: Memory, frame: Frame) -> None:
        block = frame.place.name if frame.place is not None else "the function"
        what = f"an index of {memory.name!r} in block {block!r}"
        self.model.note(f"{what} depends on data: any element is assumed, bounds unchecked")

    def within(self, buffer: Buffer, indices: Sequence[Expr], frame: Frame, symbols: int) -> Frame:
        """Only values of symbols that stay in bounds."""
        data = {dim.var for dim in frame.dims[len(frame.dims) - symbols :]}
        for index, extent in zip(indices, buffer.shape, strict=True) if symbols else ():
            number = frame.space.number(index) if data & free_vars(index) else None
            if number is not None:
                low = const(0, extent.dtype)
                known = frame.space.between(low, number, frame.expr(extent))
                if known is not None:
                    frame = replace(frame, domain=frame.domain.intersect(known))
        return frame

    def outside(self, buffer: Buffer, indices: Sequence[Expr], frame: Frame) -> Any:
        space = frame.space
        bad = space.universe.complement()
        for index, extent in zip(indices, buffer.shape, strict=True):
            number = space.number(index)
            if number is None:
                continue
            within = space.between(const(0, extent.dtype), number, frame.expr(extent))
            if within is None:
                self.model.doubt(f"an extent of {buffer.name!r} is not affine: {extent}")
            else:
                bad = bad.union(space.universe.subtract(within))
        return bad


def _dimension(var: Var, extent: Expr) -> LoopDim:
    """A dimension of instances that is not a loop of the program."""
    return LoopDim(var, For(var, const(0, var.dtype), extent, "serial", Evaluate(const(0))))


def _abstract(expr: Expr, frame: Frame, symbols: dict[Expr, Var]) -> Expr:
    """An index with variables for its least parts that are not affine."""
    if frame.space.number(frame.expr(expr)) is not None:
        return expr
    if expr not in symbols and expr.children and not isinstance(expr, BufferLoad | Call):
        parts = [_abstract(child, frame, symbols) for child in expr.children]
        whole = expr.with_children(parts)
        space = frame.space.integers.space([*frame.space.variables, *symbols.values()])
        if space.number(frame.expr(whole)) is not None:
            return whole
    return symbols.setdefault(expr, Var(f"s{len(symbols)}", expr.dtype))


def _by_branches(stmt: BufferStore) -> IfThenElse | None:
    """A choice between accumulating and something else, as two stores of which one runs."""
    value = stmt.value
    if not isinstance(value, Call) or value.op != "tir.if_then_else":
        return None
    condition, yes, no = value.args
    own = BufferLoad(stmt.buffer, stmt.indices)
    if all(own not in post_order(part) for part in (yes, no)):
        return None
    return IfThenElse(condition, stmt.replace(value=yes), stmt.replace(value=no))


def _is_opaque(call: Call) -> bool:
    op = find_op(call.op)
    if op is None or not op.pure:
        return True
    return any(arg.dtype.is_handle and not isinstance(arg, Cast) for arg in call.args)
