"""Kernels of flat tensor IR to LLVM IR for NVIDIA GPUs, and on to PTX.

Kernels share the emitter of the CPU: what differs is where memory lives, what thread variables
are, and the calls that only a GPU has. Pointers are generic; LLVM finds out which memory they point
into. Index arithmetic is done in 32 bits where the program says so, for a GPU has no wider one.

Arrays begin at multiples of 16 bytes, so that neighbours can be loaded together: who launches a
kernel sees to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

import llvmlite.ir as ir

from ...base.errors import UnsupportedError
from ...expr import (
    Add,
    Call,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Sub,
    Var,
    modular_set,
)
from ...target import FAST_MATH, Target
from ...target.instructions import INSTRUCTIONS
from ...tir import Allocate, AttrStmt, Buffer, BufferLoad, For, IfThenElse, IRModule, PrimFunc, Stmt
from .. import arith
from ..emit_expr import is_cheap, reads_memory
from ..emit_stmt import StmtEmitter
from ..types import I8, I32, I64, PTR, element_bytes, memory_type, opaque, register_type
from . import approximations, calls, guards, hopper, wgmma, wmma
from .effects import EFFECTS

SHARED = 3  # the address space
_ALIGNMENT = 16
_BFLOAT_FROM = 80  # the compute capability that rounds to bfloat16 by itself

#: Special registers by thread tag.
_REGISTERS = {
    f"{prefix}.{axis}": f"llvm.nvvm.read.ptx.sreg.{name}.{axis}"
    for prefix, name in (("threadIdx", "tid"), ("blockIdx", "ctaid"))
    for axis in "xyz"
}


def emit_kernels(module: IRModule, target: Target) -> str:
    """LLVM IR text of the kernels of a module, the functions marked "tir.is_global_func".

    Raises:
        UnsupportedError: something in a kernel has no code for a GPU.
    """
    out = ir.Module(name="tileloom")
    setattr(out, arith.ROUNDS_BFLOAT, target.sm >= _BFLOAT_FROM)
    for name, func in module.functions.items():
        if func.attrs.get("tir.is_global_func"):
            KernelEmitter.emit(out, name, func, target)
    return str(out)


class KernelEmitter(StmtEmitter):
    """One kernel."""

    unrolls_open_vector_loops = True

    def __init__(self, function: ir.Function, target: Target) -> None:
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        super().__init__(builder, None, [], ())
        self.function = function
        self.target = target
        self.threads: dict[str, int] = {}
        self.parameters: set[Var] = set()  # pointers
        self.fragments: dict[Var, wmma.Fragments] = {}
        self.layouts: dict[Var, str] = {}
        self.accumulators: dict[Var, tuple[str, int]] = {}
        self.shared_alignment = _ALIGNMENT
        self.shared: dict[Var, ir.Value] = {}  # in the address space of shared memory

    @classmethod
    def emit(cls, out: ir.Module, name: str, func: PrimFunc, target: Target) -> None:
        """Add a kernel to a module."""
        kinds = [_parameter_type(p) if p not in func.buffer_map else PTR for p in func.params]
        function = ir.Function(out, ir.FunctionType(ir.VoidType(), kinds), name)
        function.calling_convention = "ptx_kernel"
        self = cls(function, target)
        extents: Mapping[str, int | Expr] = func.attrs.get("thread_extent", {})
        self.threads = {tag: n for tag, n in extents.items() if isinstance(n, int)}
        for param, value in zip(func.params, function.args, strict=True):
            buffer = func.buffer_map.get(param)
            value.name = param.name if buffer is None else buffer.name
            self.env[param] = value
            if hopper.is_map(param):
                hopper.pass_by_value(function, value)
            if buffer is not None:
                self.env[buffer.data] = value
                self.parameters.add(buffer.data)
                value.attributes.align = _ALIGNMENT
                if func.attrs.get("tir.noalias"):
                    value.add_attribute("noalias")
        self.layouts = wmma.layouts(func.body)
        self.accumulators = wgmma.accumulators(func.body)
        self.shared_alignment = hopper.shared_alignment(func.body, _ALIGNMENT)
        self.stmt(func.body)
        self.builder.ret_void()
        self._bounds(func.attrs.get("tir.min_blocks_per_multiprocessor"))
        hopper.set_cluster(self, func.attrs.get("tir.cluster_dims"))

    def compute_capability(self) -> int:
        return self.target.sm

    def _bounds(self, blocks: int | None) -> None:
        """How many threads a block has, which tells the assembler how many registers fit.

        Args:
            blocks: how many blocks are to be on a multiprocessor together, if that is said.
        """
        module = self.builder.module
        counts = {f"maxntid{axis}": self.threads.get(f"threadIdx.{axis}") for axis in "xyz"}
        for name, count in {**counts, "minctasm": blocks}.items():
            if count is not None:
                facts = [self.function, ir.MetaDataString(module, name), I32(int(count))]
                module.add_named_metadata("nvvm.annotations", facts)

    # ------------------------------------------------------------------ statements

    def stmt(self, stmt: Stmt) -> None:
        if isinstance(stmt, AttrStmt) and stmt.attr_key == "thread_extent":
            self._thread(stmt)
            return
        if isinstance(stmt, IfThenElse) and guards.guarded_stores(self, stmt):
            return
        super().stmt(stmt)

    def _thread(self, stmt: AttrStmt) -> None:
        tag, var = stmt.node.thread_tag, stmt.node.var
        if tag not in _REGISTERS:
            raise UnsupportedError(f"no GPU register holds the thread number {tag!r}")
        read = self._external(_REGISTERS[tag], I32, [])
        value = self.builder.call(read, [])
        if tag in self.threads:  # LLVM knows of threads by itself, but of no grid
            ends = [I32(0), I32(max(1, self.threads[tag]))]
            value.set_metadata("range", self.builder.module.add_metadata(ends))
        if var.dtype.bits == 64:
            value = self.builder.zext(value, I64)
        self.non_negative.add(var)
        with self.bound(var, value):
            self.stmt(stmt.body)

    def outline(self, stmt: For) -> None:
        raise UnsupportedError(
            f"loop {stmt.loop_var.name!r} is parallel; a GPU's loops are bound to threads"
        )

    def _evaluate(self, value: Expr) -> None:
        if isinstance(value, Call) and value.op in EFFECTS:
            if value.op in INSTRUCTIONS:
                INSTRUCTIONS[value.op].check(self.target)
            EFFECTS[value.op](self, value.args)
        elif not isinstance(value, IntImm):
            self.value(value)

    def _allocate(self, stmt: Allocate) -> None:
        scope = "global" if stmt.buffer_var.pointee is None else stmt.buffer_var.pointee[1]
        if scope.startswith("shared"):
            self.env[stmt.buffer_var] = self._shared(stmt, scope)
            self.stmt(stmt.body)
            return
        if scope.startswith("wmma."):
            self.fragments[stmt.buffer_var] = wmma.allocate(self, stmt, scope)
            self.stmt(stmt.body)
            return
        if scope != "local":
            raise UnsupportedError(
                f"kernels cannot allocate {stmt.buffer_var.name!r} in {scope!r} memory"
            )
        with self.builder.goto_entry_block():
            array = self.builder.alloca(_array(stmt))
            array.align = _ALIGNMENT
        self.env[stmt.buffer_var] = opaque(array)
        self.stmt(stmt.body)

    def _shared(self, stmt: Allocate, scope: str) -> ir.Value:
        module = self.builder.module
        # LLVM mends names that PTX does not allow, but not those of external memory.
        wanted = f"{self.function.name}${stmt.buffer_var.name}"
        name = module.get_unique_name(wanted).replace(".", "$")
        kind = ir.ArrayType(I8, 0) if scope == "shared.dyn" else _array(stmt)
        variable = ir.GlobalVariable(module, kind, name, addrspace=SHARED)
        variable.align = self.shared_alignment
        if scope == "shared.dyn":
            variable.linkage = "external"
        else:
            variable.linkage = "internal"
            variable.initializer = ir.Constant(kind, ir.Undefined)
        variable.type = ir.PointerType(addrspace=SHARED)
        self.shared[stmt.buffer_var] = variable
        return self.builder.addrspacecast(variable, PTR)

    def _fail(self, message: str) -> None:
        trap = self._external("llvm.trap", ir.VoidType(), [])
        self.builder.call(trap, [])

    # ------------------------------------------------------------------ expressions

    def _emit(self, expr: Expr) -> ir.Value:
        if isinstance(expr, Call):
            found = calls.HANDLERS.get(expr.op)
            if found is not None:
                return found(self, expr)
        if self.target.has(FAST_MATH):
            fast = approximations.approximate(self, expr)
            if fast is not None:
                return fast
        return super()._emit(expr)

    def where(self, condition: Expr, yes: Expr, no: Expr) -> ir.Value:
        """`yes` or `no`; without a branch if `yes` is a load that can be made to succeed."""
        if isinstance(yes, BufferLoad) and is_cheap(no):
            found = guards.guarded_load(self, condition, yes, no)
            if found is not None:
                return found
        return super().where(condition, yes, no)

    def lookup(self, var: Var) -> ir.Value:
        """The value bound to a variable; fragments have none."""
        if var in self.fragments:
            raise UnsupportedError(
                f"no thread knows which elements of the fragments {var.name!r} are its own",
                hint="load, fill and store whole fragments",
            )
        return super().lookup(var)

    def is_parameter(self, data: Var) -> bool:
        """Whether a pointer is one that the kernel was given: it points to global memory."""
        return data in self.parameters

    def streamed(self, buffer: Buffer) -> int:
        """None are: writing past the caches is asked for on CPUs only."""
        return 0

    def alignment(self, buffer: Buffer, first: Expr) -> int:
        """What the index tells: only whole vectors are moved by one instruction.

        All memory of a kernel begins at a multiple of `_ALIGNMENT`.
        """
        step = gcd(*modular_set(first)) * element_bytes(buffer.dtype)
        return gcd(step, _ALIGNMENT)

    def index(self, expr: Expr) -> ir.Value:
        if isinstance(expr, IntImm):
            return I64(expr.value)
        if expr.dtype.bits == 64 or not expr.dtype.is_int:
            return super().index(expr)
        return self._remember(expr, True, lambda: self._widen(expr))

    def _widen(self, expr: Expr) -> ir.Value:
        value = self._narrow(expr)
        if value.type == I64:
            return value
        unsigned = expr.dtype.code != "int" or self.is_non_negative(expr)
        return (self.builder.zext if unsigned else self.builder.sext)(value, I64)

    def _narrow(self, expr: Expr) -> ir.Value:
        """An index in its own type, which is taken not to overflow."""
        if isinstance(expr, (Add, Sub, Mul, FloorDiv, FloorMod)) and not reads_memory(expr):
            return self.index_operation(expr, self._narrow, expr.dtype)
        return self.value(expr)


def _parameter_type(param: Var) -> ir.Type:
    return hopper.MAP if hopper.is_map(param) else register_type(param.dtype)


def _array(stmt: Allocate) -> ir.ArrayType:
    count = 1
    for extent in stmt.extents:
        if not isinstance(extent, IntImm):
            raise UnsupportedError(
                f"{stmt.buffer_var.name!r} has no constant size; a kernel's arrays need one"
            )
        count *= extent.value
    return ir.ArrayType(memory_type(stmt.dtype), max(1, count))
