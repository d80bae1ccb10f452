"""Statements as Python source for the interpreter: one Python function for each `PrimFunc`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..base import DType, dtype
from ..base.errors import UnsupportedError, VerifyError
from ..expr import REDUCE, Call, Expr, IntImm, IterVar, Var, cast, free_vars, has_load
from ..expr.bounds import type_range
from ..expr.effects import CHECK_INDEX, RETURN
from .analysis import used_buffers
from .atomic_blocks import ATOMIC, added_atomically
from .nodes import (
    THREAD_BINDING,
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
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
)
from .run_exprs import ExprCompiler, View
from .run_ints import ValueCode
from .walk import pre_order

# CPython allows 20 nested loops in one function.
_LOOPS_IN_A_FUNCTION = 15
# Loops are merged into one over `itertools.product`, which first stores their ranges.
_LONGEST_MERGED = 1 << 16
_IGNORED_CALLS = {"tir.assume", "tir.prefetch", "tir.undef", "tir.memory_fence"}
_SYNCHRONISING = ("storage_sync", "barrier", "allreduce", "shuffle", "warp", "mma", "async")


def compile_func(func: PrimFunc, strict: bool) -> Callable[[Mapping[Any, Any]], Any]:
    """The Python function that runs `func`, given values for what its head declares.

    Its argument maps each variable to its value, each pointer to its memory (a flat array) and each
    buffer of a parameter to its array.
    """
    return StmtCompiler(func, strict).function()


def head_variables(func: PrimFunc) -> tuple[Var, ...]:
    """Scalar parameters and the variables in the shapes of buffer parameters."""
    found = {p: None for p in func.params if not p.dtype.is_handle}
    for buffer in func.buffers:
        offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
        for expr in (*buffer.shape, *buffer.strides, *offset):
            found.update(dict.fromkeys(sorted(free_vars(expr), key=lambda v: v.name)))
    return tuple(found)


class StmtCompiler(ExprCompiler):
    """Adds statements, scopes and memory to the expressions."""

    def __init__(self, func: PrimFunc, strict: bool) -> None:
        super().__init__(strict)
        self.func = func
        self.memory: dict[Var, tuple[str, str | None]] = {}  # array and mask of a pointer
        self.loops = 0
        self.threads: dict[str, ValueCode] = {}
        declared = set(func.buffers)
        for node in pre_order(func.body):
            if isinstance(node, Block):
                declared.update(node.alloc_buffers)
                declared.update(match.buffer for match in node.match_buffers)
            elif isinstance(node, DeclBuffer):
                declared.add(node.buffer)
        # Later stages use buffers over a pointer without declaring them.
        self.implicit: dict[Var, list[Buffer]] = {}
        for buffer in used_buffers(func.body):
            if buffer not in declared:
                self.implicit.setdefault(buffer.data, []).append(buffer)

    def function(self) -> Callable[[Mapping[Any, Any]], Any]:
        """The Python function of the whole program."""
        self.head()
        self.stmt(self.func.body)
        source = "\n".join(["def main(given):", *self.lines, " return None"])
        try:
            exec(compile(source, f"<tileloom {self.func.name}>", "exec"), self.globals)
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise UnsupportedError(
                f"{self.func.name!r} is nested too deeply for the interpreter: {error}"
            ) from error
        return self.globals["main"]  # type: ignore[no-any-return]

    # ------------------------------------------------------------------ memory

    def head(self) -> None:
        """Unpack the arguments."""
        for var in head_variables(self.func):
            name = self.fresh(var.name)
            self.emit(f"{name} = given[{self.constant(var)}]")
            low, high = type_range(var.dtype) if not var.dtype.is_float else (0, 0)
            self.vars[var] = ValueCode(name, low, high)
        for param in self.func.params:
            if param.dtype.is_handle and param not in self.func.buffer_map:
                self.given_memory(param)
        for buffer in self.func.buffers:
            if buffer.data not in self.memory:
                self.given_memory(buffer.data)
            name = self.fresh(buffer.name)
            self.emit(f"{name} = given[{self.constant(buffer)}]")
            self.enter_view(buffer, name, f"np.ones({name}.shape, bool)" if self.strict else None)
        for param in self.func.params:
            if param.dtype.is_handle:
                buffer_ = self.func.buffer_map.get(param)
                self.declare_implicit(param if buffer_ is None else buffer_.data)

    def given_memory(self, pointer: Var) -> None:
        name = self.fresh(f"{pointer.name}_data")
        self.emit(f"{name} = given[{self.constant(pointer)}]")
        mask = None
        if self.strict:
            mask = self.fresh("mask")
            self.emit(f"{mask} = np.ones(len({name}), bool)")
        self.memory[pointer] = (name, mask)

    def pointed_to(self, data: Var, kind: DType) -> tuple[str, str | None]:
        if data not in self.memory:
            raise VerifyError(f"an atomic call goes through {data.name!r}, which has no memory")
        return self.memory[data]

    def enter_memory(self, pointer: Var, code: str, written: bool) -> None:
        name = self.fresh(f"{pointer.name}_data")
        self.emit(f"{name} = {code}")
        mask = None
        if self.strict:
            mask = self.fresh("mask")
            self.emit(f"{mask} = np.full(len({name}), {written})")
        self.memory[pointer] = (name, mask)

    def enter_view(self, buffer: Buffer, name: str, mask_code: str | None) -> None:
        """Declare that `name` holds the array of `buffer`."""
        mask = None
        if mask_code is not None:
            mask = self.fresh("mask")
            self.emit(f"{mask} = {mask_code}")
        shape = []
        for axis, extent in enumerate(buffer.shape):
            if isinstance(extent, IntImm):
                shape.append(str(extent.value))
            else:
                shape.append(self.fresh("extent"))
                self.emit(f"{shape[-1]} = {name}.shape[{axis}]")
        self.views[buffer] = View(name, tuple(shape), mask)

    def declare(self, buffer: Buffer) -> None:
        """A buffer over memory that is there."""
        if buffer.data not in self.memory:
            raise VerifyError(f"buffer {buffer.name!r} stands over a pointer without memory")
        memory, mask = self.memory[buffer.data]
        shape = self.row(buffer.shape)
        strides = self.row(buffer.strides) if buffer.strides else "None"
        offset = "0" if buffer.elem_offset is None else self.compile(buffer.elem_offset).code
        name = self.fresh(buffer.name)
        rest = f"{shape}, {strides}, {offset}, {buffer.name!r}"
        self.emit(f"{name} = _view({memory}, {self.dtype(buffer.dtype)}, {rest})")
        one = self.dtype(dtype("bool"))
        self.enter_view(buffer, name, mask and f"_view({mask}, {one}, {rest})")

    def declare_implicit(self, pointer: Var) -> None:
        for buffer in self.implicit.get(pointer, ()):
            self.declare(buffer)

    def row(self, exprs: tuple[Expr, ...]) -> str:
        return "(" + "".join(f"{self.compile(expr).code}, " for expr in exprs) + ")"

    def allocate(self, pointer: Var, kind: DType, extents: tuple[Expr, ...]) -> None:
        self.enter_memory(pointer, f"_allocate({self.dtype(kind)}, {self.row(extents)})", False)
        self.declare_implicit(pointer)

    def allocate_buffer(self, buffer: Buffer) -> None:
        if buffer.strides or buffer.elem_offset is not None:
            # As long as its last element requires.
            span = " + ".join(
                f"({self.compile(n).code} - 1) * {self.compile(s).code}"
                for n, s in zip(buffer.shape, buffer.strides)
            )
            if not buffer.strides:
                span = " * ".join(self.compile(n).code for n in buffer.shape) + " - 1"
            offset = "0" if buffer.elem_offset is None else self.compile(buffer.elem_offset).code
            code = f"_allocate({self.dtype(buffer.dtype)}, ({span or '0'} + 1 + {offset},))"
            self.enter_memory(buffer.data, code, False)
            self.declare_implicit(buffer.data)
        else:
            self.allocate(buffer.data, buffer.dtype, buffer.shape)
        self.declare(buffer)

    # ------------------------------------------------------------------ statements

    def stmt(self, stmt: Stmt) -> None:
        method = getattr(self, f"run_{type(stmt).__name__}", None)
        if method is None:
            raise UnsupportedError(f"the interpreter does not know {type(stmt).__name__}")
        method(stmt)

    def inside(self, head: str, body: Callable[[], None]) -> None:
        """A compound statement of Python."""
        self.emit(head)
        self.indent += 1
        first = len(self.lines)
        body()
        if len(self.lines) == first:
            self.emit("pass")
        self.indent -= 1

    def loop(self, head: str, body: Callable[[], None]) -> None:
        """A loop; very deep ones are moved into a function of their own."""
        if self.loops >= _LOOPS_IN_A_FUNCTION:
            name, outer = self.fresh("_loop"), self.loops
            self.loops = 0
            self.inside(f"def {name}():", lambda: self.loop(head, body))
            self.loops = outer
            self.emit(f"{name}()")
            return
        self.loops += 1
        self.inside(head, body)
        self.loops -= 1

    def run_For(self, stmt: For) -> None:
        chain = [stmt]
        while isinstance(chain[-1].body, For) and _mergeable(chain, chain[-1].body):
            chain.append(chain[-1].body)
        names, ranges, before = [], [], dict(self.threads)
        for loop in chain:
            low, extent = self.compile(loop.min), self.compile(loop.extent)
            start = "" if low.code == "0" else f"{low.code}, "
            stop = extent.code if low.code == "0" else f"{low.code} + {extent.code}"
            ranges.append(f"range({start}{stop})")
            names.append(self.fresh(loop.loop_var.name))
            top = max(low.lo, low.hi + extent.hi - 1)
            known = loop.extent if low.code == "0" else None
            value = ValueCode(names[-1], low.lo, top, extent=known)
            self.vars[loop.loop_var] = value
            if loop.kind == THREAD_BINDING and loop.thread_binding is not None:
                self.vars[loop.thread_binding.var] = value
                self.threads[loop.thread_binding.thread_tag] = value
        over = ranges[0] if len(ranges) == 1 else f"_product({', '.join(ranges)})"
        self.loop(f"for {', '.join(names)} in {over}:", lambda: self.stmt(chain[-1].body))
        self.threads = before

    def run_While(self, stmt: While) -> None:
        condition = self.compile(stmt.condition).code
        self.loop(f"while {condition}:", lambda: self.stmt(stmt.body))

    def run_SeqStmt(self, stmt: SeqStmt) -> None:
        for part in stmt.seq:
            self.stmt(part)

    def run_IfThenElse(self, stmt: IfThenElse) -> None:
        condition = self.whole(stmt.condition).code
        self.inside(f"if {condition}:", lambda: self.stmt(stmt.then_case))
        if stmt.else_case is not None:
            no = stmt.else_case
            self.inside("else:", lambda: self.stmt(no))

    def run_LetStmt(self, stmt: LetStmt) -> None:
        value = self.whole(stmt.value)
        name = self.fresh(stmt.var.name)
        self.emit(f"{name} = {value.code}")
        self.vars[stmt.var] = ValueCode(name, value.lo, value.hi, extent=value.extent)
        self.stmt(stmt.body)

    def run_AttrStmt(self, stmt: AttrStmt) -> None:
        if stmt.attr_key not in ("thread_extent", "virtual_thread"):
            self.stmt(stmt.body)
            return
        if not isinstance(stmt.node, IterVar):
            raise VerifyError(f"{stmt.attr_key!r} needs an iteration variable, got {stmt.node}")
        axis, tag = stmt.node, stmt.node.thread_tag
        known = self.threads.get(tag)
        if known is not None:
            self.vars[axis.var] = known
            self.stmt(stmt.body)
            return
        extent, name = self.compile(stmt.value), self.fresh(axis.var.name)
        value = ValueCode(name, 0, max(0, extent.hi - 1), extent=stmt.value)
        self.vars[axis.var] = self.threads[tag] = value
        self.loop(f"for {name} in range({extent.code}):", lambda: self.stmt(stmt.body))
        del self.threads[tag]

    def run_AssertStmt(self, stmt: AssertStmt) -> None:
        condition = self.compile(stmt.condition).code
        message = getattr(stmt.message, "value", stmt.message)
        self.inside(f"if not {condition}:", lambda: self.emit(f"_failed({str(message)!r})"))
        self.stmt(stmt.body)

    def run_Evaluate(self, stmt: Evaluate) -> None:
        value = stmt.value
        if isinstance(value, Call):
            if value.op in _IGNORED_CALLS:
                return
            if value.op == RETURN:
                kind, result = self.func.ret_type, value.args[0]
                result = result if kind == "void" else cast(kind, result)
                self.emit(f"raise _Return({self.compile(result).code})")
                return
            if value.op == CHECK_INDEX:
                codes = [self.compile(part).code for part in (*value.args[:2], *value.args[3:])]
                message = getattr(value.args[2], "value", "")
                self.emit(f"_check_index({message!r}, {', '.join(codes)})")
                return
            if any(word in value.op for word in _SYNCHRONISING):
                raise UnsupportedError(
                    f"the interpreter runs threads one after another and cannot run {value.op!r}"
                )
        if value.children:
            self.emit(self.compile(value).code)

    def run_Allocate(self, stmt: Allocate) -> None:
        self.allocate(stmt.buffer_var, stmt.dtype, stmt.extents)
        self.stmt(stmt.body)

    def run_AllocateConst(self, stmt: AllocateConst) -> None:
        data = np.ascontiguousarray(stmt.data).reshape(-1)
        self.enter_memory(stmt.buffer_var, f"{self.constant(data)}.copy()", True)
        self.declare_implicit(stmt.buffer_var)
        self.stmt(stmt.body)

    def run_DeclBuffer(self, stmt: DeclBuffer) -> None:
        self.declare(stmt.buffer)
        self.stmt(stmt.body)

    def run_BufferStore(self, stmt: BufferStore) -> None:
        buffer, view = stmt.buffer, self.view(stmt.buffer)
        if stmt.value.dtype.element is not buffer.dtype.element:
            raise VerifyError(
                f"a {stmt.value.dtype} is stored into buffer {buffer.name!r} of {buffer.dtype}"
            )
        value = self.whole(stmt.value).code
        if stmt.value.dtype.lanes > buffer.dtype.lanes or stmt.predicate is not None:
            mask = "None" if stmt.predicate is None else self.compile(stmt.predicate).code
            where = f"{buffer.name!r}, {self.vector_indices(stmt.indices).code}"
            self.emit(f"_scatter({view.name}, {where}, {value}, {mask})")
            if view.written is not None:
                self.emit(f"_scatter({view.written}, {where}, np.True_, {mask})")
            return
        code, _ = self.indices(buffer, stmt.indices, view)
        self.emit(f"{view.name}[{code or '()'}] = {value}")
        if view.written is not None:
            self.emit(f"{view.written}[{code or '()'}] = True")

    # ------------------------------------------------------------------ blocks

    def run_BlockRealize(self, stmt: BlockRealize) -> None:
        if isinstance(stmt.predicate, IntImm) and stmt.predicate.value:
            self.block(stmt)
        else:
            self.inside(f"if {self.compile(stmt.predicate).code}:", lambda: self.block(stmt))

    def run_Block(self, stmt: Block) -> None:
        raise VerifyError(f"block {stmt.name_hint!r} is not realised")

    def block(self, stmt: BlockRealize) -> None:
        block = stmt.block
        if block.annotations.get(ATOMIC):
            block = added_atomically(block) or block
        starts = []
        for axis, binding in zip(block.iter_vars, stmt.iter_values, strict=True):
            self.bind(block, axis, self.compile(binding))
            if axis.iter_type == REDUCE:
                low = self.compile(axis.domain.min)
                starts.append(f"{self.vars[axis.var].code} == {low.code}")
        for buffer in block.alloc_buffers:
            self.allocate_buffer(buffer)
        for match in block.match_buffers:
            self.match(match)
        if block.init is not None:
            init = block.init
            if starts:
                self.inside(f"if {' and '.join(starts)}:", lambda: self.stmt(init))
            else:
                self.stmt(init)
        self.stmt(block.body)

    def bind(self, block: Block, axis: IterVar, value: ValueCode) -> None:
        """Give a block's iteration variable its value, checked against the domain if in doubt."""
        if not value.code.isidentifier():
            name = self.fresh(axis.var.name)
            self.emit(f"{name} = {value.code}")
            value = ValueCode(name, value.lo, value.hi, extent=value.extent)
        low, extent = axis.domain.min, axis.domain.extent
        if isinstance(low, IntImm) and isinstance(extent, IntImm):
            first, last = low.value, low.value + extent.value - 1
            if value.lo < first or value.hi > last:
                error = f"_outside({axis.var.name!r}, {block.name_hint!r}, {value.code}"
                check = f"if not {first} <= {value.code} <= {last}:"
                self.inside(check, lambda: self.emit(f"{error}, {first}, {last + 1})"))
                lo, hi = max(value.lo, first), min(value.hi, last)
                value = ValueCode(value.code, lo, max(lo, hi), extent=value.extent)
        self.vars[axis.var] = value

    def match(self, match: MatchBufferRegion) -> None:
        """Enter another name for a region; its symbolic strides, offset and shape take values."""
        buffer, source = match.buffer, match.source
        view = self.view(source.buffer)
        lows = self.row(tuple(part.min for part in source.region))
        extents = tuple(part.extent for part in source.region)[len(source.region) - buffer.ndim :]
        name = self.fresh(buffer.name)
        rest = f"{lows}, {self.row(extents)}, {source.buffer.name!r})"
        self.emit(f"{name} = _subregion({view.name}, {rest}")
        if buffer.data not in self.memory:
            self.memory[buffer.data] = self.memory[source.buffer.data]
        memory, _ = self.memory[buffer.data]
        lanes, what = buffer.dtype.lanes, f"of buffer {buffer.name!r}"
        for axis, extent in enumerate(buffer.shape):
            self.unify(extent, f"{name}.shape[{axis}]", f"extent {axis} {what}")
        for axis, stride in enumerate(buffer.strides):
            code = f"_element_strides({name}, {buffer.ndim}, {lanes})[{axis}]"
            self.unify(stride, code, f"stride {axis} {what}")
        if buffer.elem_offset is not None:
            code = f"_element_offset({name}, {memory}, {lanes})"
            self.unify(buffer.elem_offset, code, f"offset {what}")
        mask = view.written and f"_subregion({view.written}, {rest}"
        self.enter_view(buffer, name, mask)
        self.declare_implicit(buffer.data)

    def unify(self, expr: Expr, code: str, what: str) -> None:
        """Bind a variable to a value, or check that a known expression has it."""
        if isinstance(expr, Var) and expr not in self.vars:
            name = self.fresh(expr.name)
            self.emit(f"{name} = {code}")
            self.vars[expr] = ValueCode(name, *type_range(expr.dtype))
        else:
            self.emit(f"_expect({code}, {self.compile(expr).code}, {what!r})")


def _mergeable(chain: list[For], loop: For) -> bool:
    """Whether a loop can join those around it: its range is short and fixed by what is outside."""
    outer = {outside.loop_var for outside in chain}
    outer |= {o.thread_binding.var for o in chain if o.thread_binding is not None}
    for each in (*chain, loop):
        if isinstance(each.extent, IntImm) and each.extent.value > _LONGEST_MERGED:
            return False
    pure = not any(map(has_load, _range(loop)))
    return pure and not any(free_vars(e) & outer for e in _range(loop))


def _range(loop: For) -> tuple[Expr, Expr]:
    return loop.min, loop.extent
