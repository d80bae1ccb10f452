"""Random functions that use every statement and expression a script can hold."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from tileloom.base import DType, dtype
from tileloom.expr import (
    EQ,
    GE,
    LE,
    LT,
    NE,
    OPAQUE,
    REDUCE,
    SPATIAL,
    THREAD,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Range,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
    const,
)
from tileloom.tir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
    make_buffer,
)

INT32, INT64, FLOAT32, BOOL = dtype("int32"), dtype("int64"), dtype("float32"), dtype("bool")
NAMES = ["i", "x", "A", "a.b", "1st", "for", "T", "i_1", "ünder"]
ARITHMETIC = [Add, Sub, Mul, Min, Max, FloorDiv, FloorMod, Div, Mod]
COMPARISONS = [EQ, NE, LT, LE, GE]
STRINGS = ["global", 'a "quote"', "line\nbreak", "back\\slash", "it's", "ü"]


class Programs:
    """Draws programs; what is in scope is in `vars`, `buffers` and `loops`."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.vars: dict[DType, list[Var]] = {INT32: [], INT64: [], FLOAT32: [], BOOL: []}
        self.buffers: list[Buffer] = []
        self.loops: list[For] = []
        self.in_block = False

    def pick(self, items: Sequence[Any]) -> Any:
        return items[self.random.randrange(len(items))]

    def name(self) -> Any:
        return self.pick(NAMES)

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    # ---------------------------------------------------------------- expressions

    def expr(self, kind: DType, depth: int = 3) -> Any:
        if depth == 0 or self.chance(0.25):
            return self.leaf(kind)
        if kind is BOOL:
            return self.condition(depth - 1)
        draw = self.random.randrange(12)
        operands: Any = lambda: (self.expr(kind, depth - 1), self.expr(kind, depth - 1))  # noqa: E731
        if draw < 5:
            return self.pick(ARITHMETIC)(*operands())
        if draw == 5:
            return Select(self.expr(BOOL, depth - 1), *operands())
        if draw == 6:
            return Call(kind, "tir.if_then_else", (self.expr(BOOL, depth - 1), *operands()))
        if draw == 7:
            other = self.pick([INT32, INT64, FLOAT32])
            return Cast(kind, self.expr(other, depth - 1))
        if draw == 8:
            return self.let(kind, depth - 1)
        if draw == 9:
            return self.call(kind, depth - 1)
        if draw == 10:
            return Shuffle([Ramp(*operands(), 4)], [self.random.randrange(4)])  # type: ignore[call-arg]
        return self.load(kind, depth - 1)

    def leaf(self, kind: DType) -> Any:
        if self.vars[kind] and self.chance(0.7):
            return self.pick(self.vars[kind])
        if kind is FLOAT32:
            values = [0.0, -0.0, 1.5, -2.0, 0.1, 1e30, float("inf"), float("-inf"), float("nan")]
            return FloatImm(kind, self.pick(values))
        return IntImm(kind, self.pick([0, 1, -1, 2, 7, 128, 2**31 - 1]))

    def condition(self, depth: int) -> Any:
        draw = self.random.randrange(5)
        if draw == 0:
            return Not(self.expr(BOOL, depth))
        if draw < 3:
            return self.pick([And, Or])(self.expr(BOOL, depth), self.expr(BOOL, depth))
        kind = self.pick([INT32, INT64, FLOAT32])
        return self.pick(COMPARISONS)(self.expr(kind, depth), self.expr(kind, depth))

    def let(self, kind: DType, depth: int) -> Expr:
        value = self.expr(kind, depth)
        var = Var(self.name(), kind)
        self.vars[kind].append(var)
        body = self.expr(kind, depth)
        self.vars[kind].remove(var)
        return Let(var, value, body)

    def call(self, kind: DType, depth: int) -> Any:
        arg = self.expr(kind, depth)
        options = [
            Call(kind, "tir.call_extern", (StringImm(self.pick(STRINGS)), arg)),
            Call(kind, "my.own_op", (arg,)),
            Call(kind, "tir.reinterpret", (arg,)),
            Call(kind, "tir.tvm_struct_get", (arg, const(1))),
        ]
        if kind is FLOAT32:
            options += [Call(kind, f"tir.{name}", (arg,)) for name in ("exp", "sqrt", "tanh")]
            options.append(Call(kind, "tir.pow", (arg, arg)))
        else:
            options += [
                Call(kind, "tir.bitwise_and", (arg, self.expr(kind, depth))),
                Call(kind, "tir.shift_left", (arg, self.expr(kind, depth))),
                Call(kind, "tir.exp", (arg,)),  # of a type that T.exp refuses
            ]
        return self.pick(options)

    def load(self, kind: DType, depth: int) -> Any:
        found = [buffer for buffer in self.buffers if buffer.dtype is kind]
        if not found:
            return self.leaf(kind)
        buffer = self.pick(found)
        return BufferLoad(buffer, [self.expr(INT32, depth) for _ in buffer.shape])

    # ---------------------------------------------------------------- statements

    def stmt(self, depth: int) -> Any:
        if depth == 0:
            return self.simple()
        kinds = [
            self.sequence, self.loop, self.loop, self.loop, self.block, self.block, self.branch,
            self.let_stmt, self.attr, self.assertion, self.while_loop, self.allocate,
            self.allocate_const, self.launch, self.simple,
        ]  # fmt: skip
        return self.pick(kinds)(depth - 1)

    def simple(self, _depth: int = 0) -> Stmt:
        if not self.buffers or self.chance(0.2):
            return Evaluate(self.expr(self.pick([INT32, FLOAT32]), 2))
        buffer = self.pick(self.buffers)
        indices = [self.expr(INT32, 1) for _ in buffer.shape]
        value = self.expr(buffer.dtype, 3)
        if indices and self.chance(0.2):
            base = self.expr(INT32, 1)
            step = self.pick([const(1), const(1), const(2), self.expr(INT32, 1)])
            indices[-1] = Ramp(base, step, 4)
            value = Broadcast(value, 4)
            if self.chance(0.3):
                mask = Broadcast(self.expr(BOOL, 1), 4)
                return BufferStore(buffer, value, tuple(indices), mask)
        return BufferStore(buffer, value, tuple(indices))

    def sequence(self, depth: int) -> Stmt:
        parts: list[Any] = []
        for _ in range(self.random.randrange(2, 4)):
            part = self.stmt(depth)
            parts.extend(part.seq if isinstance(part, SeqStmt) else (part,))
        return SeqStmt(tuple(parts))

    def loop(self, depth: int) -> Stmt:
        kind = self.pick([INT32, INT32, INT64])
        low = self.pick([IntImm(kind, 0), IntImm(kind, 0), self.expr(kind, 1)])
        extent = self.pick([IntImm(kind, 8), IntImm(kind, 1), self.expr(kind, 1)])
        if (low + extent).dtype != kind:  # a loop whose end its variable cannot hold
            low = IntImm(kind, 0)
        how = self.pick(["serial"] * 4 + ["parallel", "vectorized", "unrolled", "thread_binding"])
        thread = None
        if how == "thread_binding":
            thread = IterVar(None, Var("", kind), THREAD, "threadIdx.x")
        extra = {"pragma": 1, "list": [1, "a", None]} if self.chance(0.2) else {}
        var = Var(self.name(), kind)
        shell = For(var, low, extent, how, Evaluate(const(0)), thread, extra)
        self.vars[kind].append(var)
        self.loops.append(shell)
        body = self.stmt(depth)
        self.loops.pop()
        self.vars[kind].remove(var)
        return shell.replace(body=body)

    def block(self, depth: int) -> Stmt:
        axes, values = [], []
        for _ in range(self.random.randrange(1, 4)):
            if self.loops and self.chance(0.7):
                loop = self.pick(self.loops)
                dom, value = Range(loop.min, loop.extent), loop.loop_var
            else:
                dom = self.pick(
                    [Range(0, 8), Range(2, 6), Range(const(0, "int64"), const(8, "int64"))]
                )
                value = self.expr(dom.extent.dtype, 1)
            var = Var(self.name(), dom.extent.dtype)
            axes.append(IterVar(dom, var, self.pick([SPATIAL, SPATIAL, REDUCE, OPAQUE])))
            values.append(value)
        predicate = const(True) if self.chance(0.6) else self.expr(BOOL, 2)
        for axis in axes:
            self.vars[axis.var.dtype].append(axis.var)
        reads = tuple(self.region() for _ in range(self.random.randrange(3)) if self.buffers)
        writes = tuple(self.region() for _ in range(self.random.randrange(3)) if self.buffers)
        count = len(self.buffers)
        matches: tuple[Any, ...] = ()
        if self.buffers and self.chance(0.4):
            matches = (self.match(),)
        allocs = tuple(self.new_buffer() for _ in range(self.random.randrange(2)))
        init = self.simple() if self.chance(0.4) else None
        body = self.stmt(depth)
        del self.buffers[count:]
        for axis in axes:
            self.vars[axis.var.dtype].remove(axis.var)
        extra = {"axis": 1, "tiles": [1, 2], "on": True} if self.chance(0.3) else {}
        block = Block(
            tuple(axes), reads, writes, self.pick(STRINGS), body, init, allocs, matches, extra
        )
        return BlockRealize(tuple(values), predicate, block)

    def region(self) -> BufferRegion:
        buffer = self.pick(self.buffers)
        ranges = []
        for _ in buffer.shape:
            low, extent = self.expr(INT32, 1), self.expr(INT32, 1)
            if isinstance(low, IntImm):  # what a region ends with is an int32, too
                low = const(low.value % 1024)
            if isinstance(extent, IntImm):
                extent = const(abs(extent.value) % 1024)
            ranges.append(Range(low, self.pick([const(1), const(4), extent])))
        return BufferRegion(buffer, tuple(ranges))

    def match(self) -> MatchBufferRegion:
        source = self.region()
        shape = tuple(item.extent for item in source.region)
        old = source.buffer
        fields: dict[Any, Any] = {}
        if self.chance(0.5) and shape:
            fields["strides"] = tuple(Var(f"s{i}", "int32") for i in range(len(shape)))
        if self.chance(0.5):
            fields["elem_offset"] = Var("off", "int32")
            fields["offset_factor"] = self.pick([0, 1, 16])
        new = make_buffer(shape, old.dtype, self.name(), scope=old.scope, **fields)
        self.buffers.append(new)
        return MatchBufferRegion(new, source)

    def new_buffer(self, data: Any = None) -> Buffer:
        kind = self.pick([FLOAT32, FLOAT32, INT32, INT64])
        shape = [(8,), (4, 4), (), (1, 3, 5)][self.random.randrange(4)]
        scope = self.pick(["global", "shared", "local"])
        if data is not None:
            kind, scope = data.pointee
        fields: dict[Any, Any] = {}
        if self.chance(0.2):
            fields["data_alignment"] = 128
        if self.chance(0.1) and shape:
            fields["axis_separators"] = (1,)
        if self.chance(0.1):
            fields["buffer_type"] = "auto_broadcast"
        if self.chance(0.1):
            fields["elem_offset"] = self.pick([const(0), const(4)])
        buffer = make_buffer(shape, kind, self.name(), scope=scope, data=data, **fields)
        self.buffers.append(buffer)
        return buffer

    def branch(self, depth: int) -> Stmt:
        no = self.stmt(depth) if self.chance(0.5) else None
        return IfThenElse(self.expr(BOOL, 2), self.stmt(depth), no)

    def let_stmt(self, depth: int) -> Stmt:
        kind = self.pick([INT32, INT64, FLOAT32, BOOL])
        value = self.expr(kind, 2)
        var = Var(self.name(), kind)
        self.vars[kind].append(var)
        body = self.stmt(depth)
        self.vars[kind].remove(var)
        return LetStmt(var, value, body)

    def attr(self, depth: int) -> Stmt:
        node = self.pick([const(0), *self.buffers, *self.vars[INT32], "text"])
        return AttrStmt(node, self.pick(STRINGS), self.expr(INT32, 1), self.stmt(depth))

    def assertion(self, depth: int) -> Stmt:
        return AssertStmt(self.expr(BOOL, 2), self.pick(STRINGS), self.stmt(depth))

    def while_loop(self, depth: int) -> Stmt:
        return While(self.expr(BOOL, 2), self.stmt(depth))

    def launch(self, depth: int) -> Stmt:
        tag = self.pick(["threadIdx.x", "vthread.y"])
        var = Var(self.name(), "int32")
        axis = IterVar(Range(0, 32), var, THREAD, tag)
        key = "virtual_thread" if tag.startswith("v") else "thread_extent"
        self.vars[INT32].append(var)
        body = self.stmt(depth)
        self.vars[INT32].remove(var)
        result = AttrStmt(axis, key, const(32), body)
        if self.chance(0.3):
            return SeqStmt((result, AttrStmt(axis, key, const(32), self.simple())))
        return result

    def allocate(self, depth: int) -> Stmt:
        kind, scope = self.pick([FLOAT32, INT32]), self.pick(["global", "local"])
        pointer = Var(self.name(), "handle", (kind, scope))
        condition = const(True) if self.chance(0.7) else self.expr(BOOL, 1)
        buffer = self.new_buffer(pointer)
        body = self.stmt(depth)
        self.buffers.remove(buffer)
        if self.chance(0.6):  # else the buffer is used without a declaration
            body = DeclBuffer(buffer, body)
        extra = {"hint": "x"} if self.chance(0.2) else {}
        return Allocate(pointer, kind, (const(32),), condition, body, extra)

    def allocate_const(self, depth: int) -> Stmt:
        data = np.array([1.0, np.nan, np.inf, -0.0], "float32").reshape(2, 2)
        pointer = Var(self.name(), "handle", (FLOAT32, "global"))
        return AllocateConst(pointer, FLOAT32, (const(2), const(2)), data, self.stmt(depth))

    # ---------------------------------------------------------------- functions

    def function(self, depth: int = 4) -> PrimFunc:
        params, buffer_map = [], {}
        for _ in range(self.random.randrange(1, 4)):
            param = Var(self.name(), "handle")
            params.append(param)
            buffer_map[param] = self.new_buffer()
        kind = self.pick([INT32, INT64])
        scalar = self.pick([Var, SizeVar])(self.name(), kind)
        params.append(scalar)
        self.vars[kind].append(scalar)
        if self.chance(0.5):
            size = self.pick([Var, SizeVar])("n", INT32)
            self.vars[INT32].append(size)
            param = Var("p", "handle")
            params.append(param)
            buffer = make_buffer((size, size * 2), "float32", "N")
            buffer_map[param] = buffer
            self.buffers.append(buffer)
        body = self.stmt(depth)
        attrs = {"global_symbol": "main", "tir.noalias": True} if self.chance(0.7) else {}
        return PrimFunc(tuple(params), with_root(body), buffer_map, attrs)


def with_root(body: Stmt) -> Stmt:
    """The body in a root block if there is a block in it, as the rules of scripts want it."""
    from tileloom.tir import collect

    if not collect(body, BlockRealize):
        return body
    return BlockRealize((), const(True), Block((), (), (), "root", body))
