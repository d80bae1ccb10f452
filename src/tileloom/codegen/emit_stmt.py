"""Statements of flat tensor IR to LLVM instructions, inside one LLVM function."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager

import llvmlite.ir as ir

from ..base import DType
from ..base.errors import UnsupportedError
from ..base.faults import FAULTS
from ..expr import Call, Expr, IntImm, StringImm, Var, cast, is_int
from ..expr.effects import CALL_FUNCTION, CHECK_INDEX, RETURN
from ..tir import (
    PARALLEL,
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Buffer,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from . import arith, memory
from .emit_expr import ExprEmitter
from .returns import store_result
from .types import I1, I8, I32, I64, PTR, element_bytes, lanes_of, memory_type, opaque, splat

#: Local arrays up to this many bytes live on the stack, as long as all of a function's are not more
#: than the total; threads have at least 2 MiB of it.
STACK_LIMIT = 1 << 18
STACK_TOTAL = 1 << 20
ALIGNMENT = 64


#: `T.attr(A.data, "pragma_nontemporal", 16)`: vectors stored to A go past the caches to memory, as
#: what is written is not read again soon; their addresses are multiples of so many bytes.
NONTEMPORAL = "pragma_nontemporal"

#: Calls that may name functions of the same module.
_CALLS = ("tir.call_extern", CALL_FUNCTION)


class StmtEmitter(ExprEmitter):
    """Emits statements; `outline` (a parallel loop to a function) is the subclass's."""

    #: Whether loops of vectors are unrolled where the number of steps is not known.
    unrolls_open_vector_loops = False

    def __init__(
        self,
        builder: ir.IRBuilder,
        error: ir.Value,
        messages: list[str],
        kernels: Container[str],
    ) -> None:
        super().__init__(builder)
        self.error = error  # where the number of a failed assertion goes
        self.messages = messages
        self.kernels = kernels  # the functions of this module, by name
        self.in_parallel = False
        self.result: tuple[ir.Value, DType] | None = None  # where the function's result goes
        self.stack_bytes = 0
        self._streams: dict[Var, int] = {}
        self.views: set[Var] = set()  # pointers into the memory of others
        self.live: list[ir.Value] = []  # memory to be freed when the function ends early

    def stmt(self, stmt: Stmt) -> None:
        """Emit a statement."""
        self.forget_loads()
        match stmt:
            case SeqStmt(seq):
                for part in seq:
                    self.stmt(part)
            case BufferStore():
                memory.store(self, stmt)
            case For():
                self.loop(stmt)
            case IfThenElse():
                self._branch(stmt)
            case LetStmt():
                self._let(stmt)
            case AttrStmt() if stmt.attr_key == NONTEMPORAL:
                self._streaming(stmt)
            case AttrStmt() | DeclBuffer():
                self.stmt(stmt.body)
            case Evaluate(value):
                self._evaluate(value)
            case Allocate():
                self._allocate(stmt)
            case AllocateConst():
                self._constant_data(stmt)
            case AssertStmt():
                self._assert(stmt)
            case While():
                self._while(stmt)
            case _:
                raise UnsupportedError(
                    f"no CPU code for {type(stmt).__name__}; the function is not in flat form"
                )

    def streamed(self, buffer: Buffer) -> int:
        """The bytes that vectors stored past the caches are aligned to; 0 where none are."""
        return self._streams.get(buffer.data, 0)

    def _streaming(self, stmt: AttrStmt) -> None:
        """Stores of vectors past the caches, all of them done when the statement is."""
        if not isinstance(stmt.value, IntImm):
            raise UnsupportedError(f"{NONTEMPORAL} takes an alignment in bytes, not {stmt.value}")
        before = dict(self._streams)
        self._streams[stmt.node] = stmt.value.value
        self.stmt(stmt.body)
        self._streams = before
        self.builder.fence("seq_cst")

    def _evaluate(self, value: Expr) -> None:
        if isinstance(value, IntImm):
            return
        if isinstance(value, Call) and value.op == CHECK_INDEX:
            self._check_index(value)
            return
        if isinstance(value, Call) and value.op == RETURN:
            self._return(value.args[0])
            return
        result = self.value(value)
        if value.dtype != "void" and isinstance(value, Call) and value.op == CALL_FUNCTION:
            return
        match value:
            case Call(op=op, args=[StringImm(name), *_]) if op in _CALLS and name in self.kernels:
                with self.builder.if_then(self.builder.icmp_signed("!=", result, I32(0))):
                    self._leave(result)

    def _return(self, value: Expr) -> None:
        """Leave the function's result, and the function; what follows is never reached."""
        if self.in_parallel:
            raise UnsupportedError("a parallel loop cannot return from the function around it")
        if self.result is not None:
            pointer, kind = self.result
            store_result(self.builder, self.value(cast(kind, value)), pointer)
        elif not isinstance(value, IntImm):
            raise UnsupportedError(
                f"the function returns {value} and does not say so", hint="write `-> T.int32`"
            )
        self._leave(I32(0))
        self.builder.position_at_end(self.builder.append_basic_block("after"))

    def check_call(self, number: ir.Value) -> None:
        """End the function as the one did that it called."""
        with self.builder.if_then(self.builder.icmp_signed("!=", number, I32(0)), likely=False):
            self._leave(number)

    def _let(self, stmt: LetStmt) -> None:
        value = self.value(stmt.value)
        if stmt.var.dtype.is_handle:
            self.views.add(stmt.var)
        if self.is_non_negative(stmt.value):
            self.non_negative.add(stmt.var)
        else:
            self.non_negative.discard(stmt.var)
        with self.bound(stmt.var, value):
            self.stmt(stmt.body)

    # ------------------------------------------------------------------ loops

    def loop(self, stmt: For) -> None:
        """A loop, counted in 64 bits from its own minimum."""
        if stmt.kind == PARALLEL and not self.in_parallel:
            self.outline(stmt)
            return
        if isinstance(stmt.extent, IntImm) and stmt.extent.value <= 0:
            return
        low = self.index(stmt.min)
        extent = self.index(stmt.extent)
        high = extent if is_int(stmt.min, 0) else self.builder.add(low, extent, flags=("nsw",))
        self.counted(stmt, low, high, known=isinstance(stmt.extent, IntImm))

    def counted(self, stmt: For, low: ir.Value, high: ir.Value, known: bool) -> None:
        """The loop over [low, high); `known` says that it runs at least once."""
        if known:
            self._rotated(stmt, low, high)
        else:
            with self.builder.if_then(self.builder.icmp_signed("<", low, high)):
                self._rotated(stmt, low, high)

    def _rotated(self, stmt: For, low: ir.Value, high: ir.Value) -> None:
        b = self.builder
        before = b.block
        body = b.append_basic_block(f"loop.{stmt.loop_var.name}")
        b.branch(body)
        b.position_at_end(body)
        phi = b.phi(I64, stmt.loop_var.name)
        phi.add_incoming(low, before)
        if self.is_non_negative(stmt.min):
            self.non_negative.add(stmt.loop_var)
        else:
            self.non_negative.discard(stmt.loop_var)
        with self.bound(stmt.loop_var, phi):
            self.stmt(stmt.body)
        following = b.add(phi, I64(1), flags=("nsw", "nuw") if is_int(stmt.min, 0) else ("nsw",))
        phi.add_incoming(following, b.block)
        after = b.append_basic_block(f"end.{stmt.loop_var.name}")
        again = b.icmp_signed("<", following, high)
        branch = b.cbranch(again, body, after)
        is_open = not isinstance(stmt.extent, IntImm)
        if is_open and not self.unrolls_open_vector_loops and self._has_vectors(body):
            branch.set_metadata("llvm.loop", _never_unrolled(b.module))
        b.position_at_end(after)

    def _has_vectors(self, first: ir.Block) -> bool:
        """Whether there are vectors in what was emitted from a block on."""
        blocks = self.builder.function.blocks
        since = blocks[blocks.index(first) :]
        return any(isinstance(i.type, ir.VectorType) for block in since for i in block.instructions)

    def outline(self, stmt: For) -> None:
        """Run a parallel loop; overridden where functions can be made."""
        raise NotImplementedError

    def _while(self, stmt: While) -> None:
        b = self.builder
        head, body, after = (b.append_basic_block(name) for name in ("while", "do", "done"))
        b.branch(head)
        b.position_at_end(head)
        with self.scope():
            b.cbranch(self.value(stmt.condition), body, after)
        b.position_at_end(body)
        with self.scope():
            self.stmt(stmt.body)
        b.branch(head)
        b.position_at_end(after)

    # ------------------------------------------------------------------ branches

    def _branch(self, stmt: IfThenElse) -> None:
        test = self.value(stmt.condition)
        if stmt.else_case is None:
            with self.builder.if_then(test), self.scope():
                self.stmt(stmt.then_case)
            return
        with self.builder.if_else(test) as (then, otherwise):
            with then, self.scope():
                self.stmt(stmt.then_case)
            with otherwise, self.scope():
                self.stmt(stmt.else_case)

    def _assert(self, stmt: AssertStmt) -> None:
        with self._unless_failed(self.value(stmt.condition), stmt.message):
            self.stmt(stmt.body)

    @contextmanager
    def _unless_failed(self, condition: ir.Value, message: str) -> Iterator[None]:
        """What is emitted inside runs if the condition holds; else the message is due."""
        with self.builder.if_else(condition) as (then, otherwise):
            with then, self.scope():
                yield
            with otherwise:
                self._fail(message)

    def _fail(self, message: str) -> None:
        self.messages.append(message)
        self._leave(I32(len(self.messages)))

    def _leave(self, number: ir.Value) -> None:
        """End the function, or this worker's part of a loop, for the reason with this number."""
        for pointer in reversed(self.live):
            self.builder.call(self._external("free", ir.VoidType(), [PTR]), [pointer])
        self.leave(number)

    def leave(self, number: ir.Value) -> None:
        """Return from the LLVM function; overridden where functions can be made."""
        raise NotImplementedError

    def _check_index(self, call: Call) -> None:
        """End the kernel where an index is not below its extent, and keep both numbers."""
        b, message = self.builder, call.args[2]
        index, extent = (self._wide(part) for part in call.args[:2])
        mask = self.value(call.args[3]) if len(call.args) > 3 else None
        lanes = max(lanes_of(x) for x in (index, extent, mask) if x is not None)
        if lanes > 1:
            index, extent = (x if lanes_of(x) > 1 else splat(b, x, lanes) for x in (index, extent))
        bad = b.icmp_unsigned(">=", index, extent)
        if mask is not None:
            bad = b.and_(bad, mask)
        if lanes_of(bad) > 1:
            index = self._greatest(b.select(bad, index, index.type(None)))
            extent = self._greatest(b.select(bad, extent, extent.type(None)))
            reduce = arith.intrinsic(b, "llvm.vector.reduce.or", I1, [bad.type], (bad.type,))
            bad = b.call(reduce, [bad])
        with b.if_then(bad, likely=False):
            fault = ir.ArrayType(I64, 2)
            kept = ir.GlobalVariable(b.module, fault, f"{FAULTS}.{len(self.messages) + 1}")
            kept.initializer, kept.linkage = ir.Constant(fault, None), "internal"
            for k, number in enumerate((index, extent)):
                b.store(number, b.gep(opaque(kept), [I64(k)], source_etype=I64), align=8)
            self._fail(message.value if isinstance(message, StringImm) else str(message))

    def _wide(self, expr: Expr) -> ir.Value:
        """An integer as `i64`, or a vector of them."""
        if expr.dtype.lanes == 1:
            return self.index(expr)
        value, kind = self.value(expr), ir.VectorType(I64, expr.dtype.lanes)
        if value.type == kind:
            return value
        extend = self.builder.zext if expr.dtype.is_unsigned else self.builder.sext
        return extend(value, kind)

    def _greatest(self, value: ir.Value) -> ir.Value:
        """The greatest of a vector, as unsigned numbers."""
        kind = value.type
        reduce = arith.intrinsic(self.builder, "llvm.vector.reduce.umax", I64, [kind], (kind,))
        return self.builder.call(reduce, [value])

    # ------------------------------------------------------------------ memory

    def _allocate(self, stmt: Allocate) -> None:
        kind = stmt.dtype
        size = element_bytes(kind) * kind.lanes
        count = 1
        for extent in stmt.extents:
            count = count * extent.value if isinstance(extent, IntImm) and count >= 0 else -1
        fits = 0 <= count * size <= STACK_LIMIT
        if fits and self.stack_bytes + count * size <= STACK_TOTAL:
            self.stack_bytes += count * size
            with self.builder.goto_entry_block():
                array = ir.ArrayType(memory_type(kind), max(1, count))
                pointer = self.builder.alloca(array)
                pointer.align = ALIGNMENT
            self.env[stmt.buffer_var] = opaque(pointer)
            self.stmt(stmt.body)
            return
        pointer = self._heap(self._bytes(stmt.extents, size))
        self.env[stmt.buffer_var] = pointer
        there = self.builder.icmp_unsigned("!=", pointer, ir.Constant(PTR, None))
        with self._unless_failed(there, f"no memory for {stmt.buffer_var.name!r}"):
            self.live.append(pointer)
            self.stmt(stmt.body)
            self.live.pop()
            self.builder.call(self._external("free", ir.VoidType(), [PTR]), [pointer])

    def _bytes(self, extents: tuple[Expr, ...], size: int) -> ir.Value:
        b, total = self.builder, I64(size)
        for extent in extents:
            total = b.mul(total, self.index(extent))
        rounded = b.add(total, I64(2 * ALIGNMENT - 1))  # aligned_alloc wants a multiple, never 0
        return b.and_(rounded, I64(-ALIGNMENT))

    def _heap(self, size: ir.Value) -> ir.Value:
        allocate = self._external("aligned_alloc", PTR, [I64, I64])
        return self.builder.call(allocate, [I64(ALIGNMENT), size])

    def _external(self, name: str, result: ir.Type, args: list[ir.Type]) -> ir.Function:
        found = self.builder.module.globals.get(name)
        return found or ir.Function(self.builder.module, ir.FunctionType(result, args), name)

    def _constant_data(self, stmt: AllocateConst) -> None:
        module = self.builder.module
        raw = bytearray(stmt.data.tobytes())
        data = ir.Constant(ir.ArrayType(I8, len(raw)), raw)
        variable = ir.GlobalVariable(module, data.type, module.get_unique_name("constant"))
        variable.initializer, variable.global_constant = data, True
        variable.linkage, variable.align = "private", ALIGNMENT
        self.env[stmt.buffer_var] = opaque(variable)
        self.stmt(stmt.body)


class _LoopId(ir.MDValue):  # type: ignore[misc]
    """Metadata of one loop: itself, then what is said of the loop."""

    def descr(self, buf: list[str]) -> None:
        operands = (self, *self.operands)
        buf += ("distinct !{", ", ".join(o.get_reference() for o in operands), "}\n")


def _never_unrolled(module: ir.Module) -> ir.MDValue:
    """Metadata for a loop of an unknown number of steps that is not unrolled.

    Such a loop of vectors gains little: each remainder is another loop to leave at a time that is
    hard to predict, which costs more in rows of some hundred elements.
    """
    advice = module.add_metadata(["llvm.loop.unroll.runtime.disable"])
    return _LoopId(module, [advice], name=str(len(module.metadata)))
