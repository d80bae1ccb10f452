"""A module of flat functions to LLVM IR text.

Every function becomes `name(a, b, ..., scalars...)` with one pointer for each buffer, and for calls
from outside also `name__packed(args)` that takes them from an array of addresses (of the data for a
buffer, of the value for a scalar). One that returns a value takes the address for it last. Both
return 0, or the number of the assertion that failed. Assertions are numbered through the module, so
that a function hands on what those that it calls return. In a module whose code checks indices,
`tileloom_fault(number)` is where the index and the extent of a check that failed are. What only
other functions of the module call is internal and not inlined: it is compiled once.

A parallel loop becomes a function of its own that runs some iterations that follow each other.
`tileloom_parallel(body, context, max_workers)` lets every worker call it, at first for its share:
the same one each time, so that what one loop leaves in the caches of a core is where the next one
looks for it. Of many iterations the last ones are shared later, a few at a time, among those
workers that are done first: cores are not equally fast, nor left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass

import llvmlite.ir as ir

from ..base.faults import FAULTS
from ..expr import Call, Expr, IntImm, Var, post_order
from ..expr.effects import CALL_FUNCTION, has_effect
from ..tir import For, IRModule, PrimFunc, Stmt, pre_order, undefined_vars
from ..tir.walk import stmt_exprs
from .arith import FEATURES
from .emit_stmt import StmtEmitter
from .returns import load_scalar, store_result
from .types import I32, I64, PTR, constant, opaque, register_type

PARALLEL_RUNTIME = "tileloom_parallel"
#: More than any machine has.
MOST_WORKERS = 1 << 16
#: One iteration of so many is shared later, in so many parts for each worker. There have to be half
#: as many as that: fewer, larger ones would even little out.
LATER, PARTS = 8, 8
#: A parallel loop with this annotation "dynamic" shares all its iterations, one at a time.
SCHEDULE = "schedule"


@dataclass(frozen=True)
class EmittedModule:
    """LLVM IR text and what the loader needs to know beside it."""

    ir_text: str
    messages: Sequence[str]  # the message of assertion k at k - 1


def emit_module(
    module: IRModule, features: Collection[str] = (), entries: Collection[str] | None = None
) -> EmittedModule:
    """LLVM IR of all functions of a flat module, for CPUs that have these features of LLVM's.

    Args:
        entries: the functions that are called from outside, by `name__packed` alone; by default
            all are, by both names.
    """
    out = ir.Module(name="tileloom")
    setattr(out, FEATURES, frozenset(features))
    for name, func in module.functions.items():  # first: they may call each other
        ir.Function(out, ir.FunctionType(I32, _parameter_types(func)), name)
    messages: list[str] = []
    for name, func in module.functions.items():
        function = out.globals[name]
        _FunctionEmitter.emit(function, func, module.functions, messages)
        if entries is not None:
            function.linkage = "internal"
        if entries is None or name in entries:
            _emit_packed(out, function, _parameter_types(func))
        else:
            function.attributes.add("noinline")  # where calls follow each other, they stay apart
    _emit_faults(out, len(messages))
    return EmittedModule(str(out), tuple(messages))


def _emit_faults(out: ir.Module, count: int) -> None:
    """`ptr tileloom_fault(i32 number)`, if there are any numbers kept."""
    kept = {k: out.globals.get(f"{FAULTS}.{k}") for k in range(1, count + 1)}
    if not any(kept.values()):
        return
    function = ir.Function(out, ir.FunctionType(PTR, [I32]), FAULTS)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    nothing = function.append_basic_block("nothing")
    choice = b.switch(function.args[0], nothing)
    for k, numbers in kept.items():
        if numbers is not None:
            block = function.append_basic_block(f"fault{k}")
            choice.add_case(I32(k), block)
            ir.IRBuilder(block).ret(opaque(numbers))
    ir.IRBuilder(nothing).ret(ir.Constant(PTR, None))


def _parameter_types(func: PrimFunc) -> list[ir.Type]:
    result = [] if func.ret_type == "void" else [PTR]
    params = [PTR if p in func.buffer_map else register_type(p.dtype) for p in func.params]
    return params + result


class _FunctionEmitter(StmtEmitter):
    """One function of tensor IR, with the functions of its parallel loops."""

    def __init__(
        self,
        function: ir.Function,
        error: ir.Value,
        messages: list[str],
        kernels: Container[str],
        noalias: bool,
    ) -> None:
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        super().__init__(builder, error, messages, kernels)
        self.function = function
        self.noalias = noalias

    @classmethod
    def emit(
        cls, function: ir.Function, func: PrimFunc, kernels: Container[str], messages: list[str]
    ) -> None:
        """Give `function` the body of `func`; the messages of its assertions are appended."""
        noalias = bool(func.attrs.get("tir.noalias", False))
        self = cls(function, None, messages, kernels, noalias)
        if func.attrs.get("tir.exact"):
            self.flags = ()
        self.error = opaque(self.builder.alloca(I32))
        self.builder.store(I32(0), self.error)
        if func.ret_type != "void":
            self.result = function.args[-1], func.ret_type
            store_result(self.builder, constant(func.ret_type, 0), function.args[-1])
        for param, value in zip(func.params, function.args):
            buffer = func.buffer_map.get(param)
            value.name = param.name if buffer is None else buffer.name
            self.env[param] = value
            if buffer is not None:
                self.env[buffer.data] = value
                if noalias:
                    value.add_attribute("noalias")
        self.stmt(func.body)
        self.builder.ret(self.builder.load(self.error, typ=I32))

    def leave(self, number: ir.Value) -> None:
        if self.in_parallel:  # another worker may have failed before
            self.builder.cmpxchg(self.error, I32(0), number, "monotonic")
            self.builder.ret_void()
        else:
            self.builder.ret(number)

    def outline(self, stmt: For) -> None:
        needed = (var for var in undefined_vars(stmt.body) if var is not stmt.loop_var)
        captured = [var for var in needed if var in self.env]
        known = len(self.messages)
        body = self._share_function(stmt, captured)
        low = self.index(stmt.min)
        extent = self.index(stmt.extent)
        values = [self.env[var] for var in captured] + [self.error, low, extent, I64(0)]
        context, kind = self._pack(values)
        is_dynamic = stmt.annotations.get(SCHEDULE) == "dynamic"
        runner = _trampoline(self.builder.module, body, kind, is_dynamic)
        workers = self._most_workers(stmt, extent)
        launch = self._external(PARALLEL_RUNTIME, I32, [PTR, PTR, I32])
        self.builder.call(launch, [runner, context, workers])
        if len(self.messages) > known or self.calls_kernels(stmt):
            error = self.builder.load(self.error, typ=I32)
            failed = self.builder.icmp_signed("!=", error, I32(0))
            with self.builder.if_then(failed, likely=False):
                self._leave(error)

    def _most_workers(self, stmt: For, extent: ir.Value) -> ir.Value:
        """How many workers a loop may have: as it says, and no more than there are iterations."""
        limit = stmt.annotations.get("max_workers", 0)
        if not isinstance(limit, Expr) and isinstance(stmt.extent, IntImm):
            return I32(min(int(limit) or MOST_WORKERS, max(1, stmt.extent.value)))
        b, one = self.builder, I64(1)
        steps = b.select(b.icmp_signed("<", extent, one), one, extent)
        most = self.index(limit) if isinstance(limit, Expr) else I64(int(limit) or MOST_WORKERS)
        return b.trunc(b.select(b.icmp_signed("<", steps, most), steps, most), I32)

    def calls_kernels(self, stmt: Stmt) -> bool:
        """Whether a function of this module, which may fail, is called inside a statement."""
        return any(
            part.op in ("tir.call_extern", CALL_FUNCTION)
            and getattr(part.args[0], "value", None) in self.kernels
            for node in pre_order(stmt)
            for expr in stmt_exprs(node)
            if has_effect(expr)
            for part in post_order(expr)
            if isinstance(part, Call) and part.args
        )

    def _pack(self, values: list[ir.Value]) -> tuple[ir.Value, ir.LiteralStructType]:
        kind = ir.LiteralStructType([value.type for value in values])
        with self.builder.goto_entry_block():
            context = opaque(self.builder.alloca(kind))
        for k, value in enumerate(values):
            slot = self.builder.gep(context, [I32(0), I32(k)], inbounds=True, source_etype=kind)
            self.builder.store(value, slot)
        return context, kind

    def _share_function(self, stmt: For, captured: list[Var]) -> ir.Function:
        """`void share(captured..., error, begin, end)`."""
        module = self.builder.module
        types = [self.env[var].type for var in captured]
        types = [PTR if isinstance(t, ir.PointerType) else t for t in types]
        signature = ir.FunctionType(ir.VoidType(), [*types, PTR, I64, I64])
        name = module.get_unique_name(f"{self.function.name}.{stmt.loop_var.name}")
        function = ir.Function(module, signature, name)
        function.linkage = "internal"
        function.attributes.add("noinline")  # keeps the promise that pointers do not overlap
        *values, error, begin, end = function.args
        noalias = self.noalias and self.views.isdisjoint(captured)
        inner = _FunctionEmitter(function, error, self.messages, self.kernels, noalias)
        inner.in_parallel = True
        inner.result = self.result
        inner.flags = self.flags
        inner.non_negative = set(self.non_negative)
        for var, value in zip(captured, values, strict=True):
            inner.env[var] = value
            value.name = var.name
            if noalias and isinstance(value.type, ir.PointerType):
                value.add_attribute("noalias")
        inner.counted(stmt, begin, end, known=False)
        inner.builder.ret_void()
        return function


def _trampoline(
    module: ir.Module, body: ir.Function, kind: ir.LiteralStructType, is_dynamic: bool
) -> ir.Function:
    """`void f(context, worker, workers)`: all that a worker does of a loop.

    The context ends with the first iteration, how many there are, and how many of those that are
    shared later somebody has taken.
    """
    signature = ir.FunctionType(ir.VoidType(), [PTR, I32, I32])
    function = ir.Function(module, signature, f"{body.name}.run")
    function.linkage = "internal"
    b = ir.IRBuilder(function.append_basic_block("entry"))
    context, *who = function.args
    slots = [
        b.gep(context, [I32(0), I32(k)], inbounds=True, source_etype=kind)
        for k in range(len(kind.elements))
    ]
    *values, low, extent = (b.load(at, typ=t) for at, t in zip(slots[:-1], kind.elements))
    worker, workers = (b.zext(value, I64) for value in who)

    def run(begin: ir.Value, end: ir.Value) -> None:
        b.call(body, [*values, b.add(low, begin), b.add(low, end)])

    last = extent if is_dynamic else b.sdiv(extent, I64(LATER))
    is_shared = b.icmp_signed(">", workers, I64(1))
    if not is_dynamic:
        is_enough = b.icmp_signed(">=", last, b.mul(workers, I64(PARTS // 2)))
        is_shared = b.and_(is_enough, is_shared)
    now = b.select(is_shared, b.sub(extent, last), extent)
    run(*(b.sdiv(b.mul(now, number), workers) for number in (worker, b.add(worker, I64(1)))))
    with b.if_then(is_shared):
        part = I64(0) if is_dynamic else b.sdiv(last, b.mul(workers, I64(PARTS)))
        part = b.select(b.icmp_signed(">", part, I64(1)), part, I64(1))
        take = b.append_basic_block("take")
        b.branch(take)
        b.position_at_end(take)
        begin = b.add(now, b.atomic_rmw("add", slots[-1], part, "monotonic"))
        with b.if_then(b.icmp_signed("<", begin, extent)):
            end = b.add(begin, part)
            run(begin, b.select(b.icmp_signed("<", end, extent), end, extent))
            b.branch(take)
    b.ret_void()
    return function


def _emit_packed(module: ir.Module, function: ir.Function, types: list[ir.Type]) -> None:
    packed = ir.Function(module, ir.FunctionType(I32, [PTR]), f"{function.name}__packed")
    b = ir.IRBuilder(packed.append_basic_block("entry"))
    values = []
    for k, kind in enumerate(types):
        slot = b.gep(packed.args[0], [I64(k)], inbounds=True, source_etype=PTR)
        pointer = b.load(slot, typ=PTR)
        values.append(pointer if kind is PTR else load_scalar(b, pointer, kind))
    b.ret(b.call(function, values))
