"""Which programs are legal at which stage.

* **blocks**: what people and planners write: blocks in loops over multi-dimensional buffers.
* **loops**: no blocks; buffers may have several dimensions; memory by `Allocate`.
* **flat**: every access has one index, into a buffer without strides and offset; no vector loops.

At every stage each variable is defined once and before its use, each buffer has memory where it is
used, and types, lanes and numbers of indices fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..base.errors import UserError, VerifyError
from ..expr import Expr, IntImm, IterVar, Let, Range, Var, free_vars, post_order
from .nodes import (
    FOR_KINDS,
    THREAD_BINDING,
    VECTORIZED,
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
    IRModule,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
    first_line,
)
from .spec_exprs import expr_complaints, index_complaints
from .walk import buffer_exprs

STAGES = ("blocks", "loops", "flat")
_THREAD_KEYS = ("thread_extent", "virtual_thread")


def verify(program: PrimFunc | IRModule, stage: str = "blocks") -> None:
    """Does nothing if the program is legal at the stage: "blocks", "loops" or "flat".

    Raises:
        VerifyError: names the function, the statements around, the node and what is wrong with it.
    """
    if stage not in STAGES:
        raise UserError(f"unknown stage {stage!r}", hint=f"one of {', '.join(STAGES)}")
    functions = program.functions.values() if isinstance(program, IRModule) else (program,)
    for func in functions:
        _Verifier(stage).function(func)


class _Verifier:
    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.where: list[str] = []
        self.scope: set[Var] = set()
        self.hidden: set[Var] = set()  # loop variables outside of the block we are in
        self.loop_vars: set[Var] = set()
        self.buffers: set[Buffer] = set()
        self.defined: dict[Var, Any] = {}
        self.checked: set[Expr] = set()

    # ------------------------------------------------------------------ errors and scopes

    def fail(self, problem: str, node: Any = None) -> None:
        shown = "" if node is None else f"\n  at: {first_line(node)}"
        place = f"\n  in: {' > '.join(self.where)}"
        raise VerifyError(f"not legal at the stage {self.stage!r}: {problem}{place}{shown}")

    @contextmanager
    def inside(self, label: str) -> Iterator[None]:
        """A statement's body: what is defined in it is gone after it."""
        scope, buffers, hidden = set(self.scope), set(self.buffers), set(self.hidden)
        loop_vars = set(self.loop_vars)
        self.where.append(label)
        yield
        self.where.pop()
        self.scope, self.buffers, self.hidden = scope, buffers, hidden
        self.loop_vars = loop_vars

    def define(self, var: Var, by: Any) -> None:
        if var in self.defined and self.defined[var] is not by:
            self.fail(f"variable {var.name!r} is defined a second time", by)
        self.defined[var] = by
        self.scope.add(var)

    # ------------------------------------------------------------------ functions

    def function(self, func: PrimFunc) -> None:
        self.where.append(f"function {func.name!r}")
        for param in func.params:
            if param in self.scope:
                self.fail(f"parameter {param.name!r} stands twice in the list")
            self.define(param, func)
        for param, buffer in func.buffer_map.items():
            if param not in self.scope:
                self.fail(f"buffer {buffer.name!r} belongs to {param.name!r}, not a parameter")
            if not param.dtype.is_handle:
                self.fail(f"parameter {param.name!r} of a buffer is a {param.dtype}, not a handle")
            if buffer.data not in self.scope:
                self.define(buffer.data, buffer)
            self.declare(buffer, binds=True)
        for buffer in func.buffers:
            for expr in buffer_exprs(buffer):
                self.expr(expr, f"in the declaration of buffer {buffer.name!r}")
        self.stmt(func.body)

    def declare(self, buffer: Buffer, binds: bool = False) -> None:
        """Enter a buffer whose pointer is known; unknown variables in it are bound if it may."""
        if not buffer.data.dtype.is_handle:
            self.fail(f"the pointer of buffer {buffer.name!r} is a {buffer.data.dtype}")
        if buffer.data not in self.scope:
            self.fail(f"buffer {buffer.name!r} stands over a pointer that is not defined")
        if buffer.strides and len(buffer.strides) != buffer.ndim:
            self.fail(
                f"buffer {buffer.name!r} has {buffer.ndim} dimensions and {len(buffer.strides)}"
                " strides"
            )
        for expr in buffer_exprs(buffer):
            if expr.dtype.lanes > 1 or not expr.dtype.is_int:
                self.fail(
                    f"buffer {buffer.name!r} has a {expr.dtype} in its shape or strides", expr
                )
            if binds:
                for var in free_vars(expr) - self.scope:
                    self.define(var, buffer)
        self.buffers.add(buffer)

    # ------------------------------------------------------------------ expressions

    def expr(self, expr: Expr, role: str, kind: str | None = None) -> None:
        """Check an expression; `kind` is the type it must have."""
        if kind is not None and expr.dtype != kind:
            self.fail(f"{role} is a {expr.dtype}, not a {kind}", expr)
        missing = free_vars(expr) - self.scope
        for var in sorted(missing, key=lambda v: v.name):
            if var in self.hidden:
                self.fail(
                    f"loop variable {var.name!r} is used inside of a block, which may only use its"
                    " own iteration variables",
                    expr,
                )
            self.fail(f"variable {var.name!r} is used where it is not defined", expr)
        for node in post_order(expr):
            if isinstance(node, BufferLoad):
                self.use(node.buffer, node)
            if node in self.checked:
                continue
            self.checked.add(node)
            for problem in expr_complaints(node):
                self.fail(problem, node)
            if isinstance(node, Let):
                if node.var.dtype is not node.value.dtype:
                    self.fail(f"{node.var.name!r} is a {node.var.dtype}", node)
                if node.var in self.defined and self.defined[node.var] is not node:
                    self.fail(f"variable {node.var.name!r} is defined a second time", node)
                self.defined[node.var] = node

    def use(self, buffer: Buffer, node: Any) -> None:
        if buffer not in self.buffers and (self.stage == "blocks" or buffer.data not in self.scope):
            self.fail(f"buffer {buffer.name!r} is used where it is not declared", node)
        if self.stage == "flat" and (buffer.ndim != 1 or buffer.strides or _offset(buffer)):
            self.fail(f"buffer {buffer.name!r} is not flat: {buffer}", node)

    def region(self, region: BufferRegion, role: str) -> None:
        buffer = region.buffer
        self.use(buffer, region)
        if len(region.region) != buffer.ndim:
            self.fail(
                f"{role} region of buffer {buffer.name!r} has {len(region.region)} ranges for"
                f" {buffer.ndim} dimensions"
            )
        for part in region.region:
            self.range(part, f"the {role} region of buffer {buffer.name!r}")

    def range(self, part: Range, role: str, kind: str | None = None) -> None:
        for expr in (part.min, part.extent):
            self.expr(expr, role, kind)
            if not expr.dtype.is_int or expr.dtype.lanes > 1:
                self.fail(f"{role} has a bound of type {expr.dtype}", expr)

    # ------------------------------------------------------------------ statements

    def stmt(self, stmt: Stmt) -> None:
        rule = _RULES.get(type(stmt))
        if rule is None:
            self.fail(f"{type(stmt).__name__} is no statement of this stage", stmt)
            return
        rule(self, stmt)

    def loop(self, stmt: For) -> None:
        var = stmt.loop_var
        label = f"loop {var.name!r}"
        if not var.dtype.is_int or var.dtype.lanes > 1:
            self.fail(f"{label} has a variable of type {var.dtype}", stmt)
        self.expr(stmt.min, f"the start of {label}", var.dtype)
        self.expr(stmt.extent, f"the extent of {label}", var.dtype)
        if stmt.kind not in FOR_KINDS:
            self.fail(f"{label} is of the unknown kind {stmt.kind!r}")
        if self.stage == "flat" and stmt.kind == VECTORIZED:
            self.fail(f"{label} is still to be vectorised")
        binding = stmt.thread_binding
        if (binding is not None) != (stmt.kind == THREAD_BINDING):
            self.fail(f"{label} is {stmt.kind}, with{'out' * (binding is None)} a thread binding")
        if binding is not None and not binding.thread_tag:
            self.fail(f"{label} is bound to a thread without a tag")
        with self.inside(label):
            self.define(var, stmt)
            self.loop_vars.add(var)
            if binding is not None:
                self.scope.add(binding.var)
                self.loop_vars.add(binding.var)
            self.stmt(stmt.body)

    def realize(self, stmt: BlockRealize) -> None:
        block = stmt.block
        if self.stage != "blocks":
            self.fail(f"block {block.name_hint!r} must be gone by now")
        label = f"block {block.name_hint!r}"
        if len(stmt.iter_values) != len(block.iter_vars):
            self.fail(
                f"{label} has {len(block.iter_vars)} iteration variables and is realised for"
                f" {len(stmt.iter_values)} values"
            )
        for axis, value in zip(block.iter_vars, stmt.iter_values):
            self.expr(value, f"the value of {axis.var.name!r} of {label}", axis.var.dtype)
        self.expr(stmt.predicate, f"the predicate of {label}", "bool")
        with self.inside(label):
            self.block(block)

    def block(self, block: Block) -> None:
        for axis in block.iter_vars:
            what = f"the domain of {axis.var.name!r}"
            if axis.dom is None:
                self.fail(f"{what} is missing")
            self.range(axis.domain, what, axis.var.dtype)
            if isinstance(axis.domain.extent, IntImm) and axis.domain.extent.value < 0:
                self.fail(f"{what} is negative")
            if not 0 <= axis.iter_type <= 8:
                self.fail(f"{axis.var.name!r} is of the unknown type {axis.iter_type}")
        self.hidden |= self.loop_vars
        self.scope -= self.loop_vars
        for axis in block.iter_vars:
            self.define(axis.var, block)
        for buffer in block.alloc_buffers:
            self.define(buffer.data, buffer)
            self.declare(buffer)
            for expr in buffer_exprs(buffer):
                self.expr(expr, f"in the shape of buffer {buffer.name!r}")
        for region, role in ((block.reads, "read"), (block.writes, "write")):
            for part in region:
                self.region(part, role)
        for match in block.match_buffers:
            self.region(match.source, "matched")
            if match.buffer.dtype is not match.source.buffer.dtype:
                self.fail(f"buffer {match.buffer.name!r} matches one of another type")
            if match.buffer.data not in self.scope:
                self.define(match.buffer.data, match.buffer)
            self.declare(match.buffer, binds=True)
        for part_ in (block.init, block.body):
            if part_ is not None:
                self.stmt(part_)

    def bare_block(self, stmt: Block) -> None:
        self.fail(f"block {stmt.name_hint!r} stands outside of a BlockRealize")

    def store(self, stmt: BufferStore) -> None:
        buffer = stmt.buffer
        self.use(buffer, stmt)
        for problem in index_complaints(buffer, stmt.indices, stmt.predicate):
            self.fail(problem, stmt)
        for index in stmt.indices:
            self.expr(index, f"an index of buffer {buffer.name!r}")
        if stmt.predicate is not None:
            self.expr(stmt.predicate, f"the predicate of the store to buffer {buffer.name!r}")
        lanes = stmt.indices[-1].dtype.lanes if stmt.indices else 1
        kind = buffer.dtype.with_lanes(buffer.dtype.lanes * lanes)
        self.expr(stmt.value, f"the value stored to buffer {buffer.name!r}", kind)

    def branch(self, stmt: IfThenElse) -> None:
        self.expr(stmt.condition, "the condition of a branch", "bool")
        for part in (stmt.then_case, stmt.else_case):
            if part is not None:
                with self.inside("branch"):
                    self.stmt(part)

    def repeat(self, stmt: While) -> None:
        self.expr(stmt.condition, "the condition of a while loop", "bool")
        with self.inside("while"):
            self.stmt(stmt.body)

    def let(self, stmt: LetStmt) -> None:
        self.expr(stmt.value, f"the value of {stmt.var.name!r}", stmt.var.dtype)
        with self.inside(f"let {stmt.var.name!r}"):
            self.define(stmt.var, stmt)
            self.stmt(stmt.body)

    def attribute(self, stmt: AttrStmt) -> None:
        self.expr(stmt.value, f"the value of attribute {stmt.attr_key!r}")
        with self.inside(f"attribute {stmt.attr_key!r}"):
            if stmt.attr_key in _THREAD_KEYS:
                if not isinstance(stmt.node, IterVar) or not stmt.node.thread_tag:
                    self.fail(f"{stmt.attr_key!r} needs an iteration variable with a thread tag")
                # One thread may be launched around several parts, by one variable.
                self.scope.add(stmt.node.var)
                self.loop_vars.add(stmt.node.var)
            self.stmt(stmt.body)

    def assertion(self, stmt: AssertStmt) -> None:
        self.expr(stmt.condition, "the condition of an assertion", "bool")
        self.stmt(stmt.body)

    def allocate(self, stmt: Allocate | AllocateConst) -> None:
        var, extents = stmt.buffer_var, stmt.extents
        if not var.dtype.is_handle:
            self.fail(f"memory is allocated for {var.name!r}, a {var.dtype}")
        for extent in extents:
            self.expr(extent, f"an extent of the memory of {var.name!r}")
            if not extent.dtype.is_int or extent.dtype.lanes > 1:
                self.fail(f"memory of {var.name!r} has an extent of type {extent.dtype}", extent)
        if self.stage == "flat" and len(extents) != 1:
            self.fail(f"memory of {var.name!r} has {len(extents)} extents, not one")
        if isinstance(stmt, Allocate):
            self.expr(stmt.condition, f"the condition of the memory of {var.name!r}", "bool")
        elif stmt.data.dtype != stmt.dtype.numpy:
            self.fail(f"constant data of {var.name!r} is {stmt.data.dtype}, not {stmt.dtype}")
        with self.inside(f"memory of {var.name!r}"):
            self.define(var, stmt)
            self.stmt(stmt.body)

    def declaration(self, stmt: DeclBuffer) -> None:
        with self.inside(f"buffer {stmt.buffer.name!r}"):
            self.declare(stmt.buffer)
            for expr in buffer_exprs(stmt.buffer):
                self.expr(expr, f"in the declaration of buffer {stmt.buffer.name!r}")
            self.stmt(stmt.body)

    def evaluate(self, stmt: Evaluate) -> None:
        self.expr(stmt.value, "the expression")

    def sequence(self, stmt: SeqStmt) -> None:
        for part in stmt.seq:
            self.stmt(part)


def _offset(buffer: Buffer) -> bool:
    offset = buffer.elem_offset
    return offset is not None and not (isinstance(offset, IntImm) and offset.value == 0)


_RULES: dict[type[Stmt], Callable[[_Verifier, Any], None]] = {
    For: _Verifier.loop,
    BlockRealize: _Verifier.realize,
    Block: _Verifier.bare_block,
    BufferStore: _Verifier.store,
    SeqStmt: _Verifier.sequence,
    IfThenElse: _Verifier.branch,
    While: _Verifier.repeat,
    LetStmt: _Verifier.let,
    AttrStmt: _Verifier.attribute,
    AssertStmt: _Verifier.assertion,
    Evaluate: _Verifier.evaluate,
    Allocate: _Verifier.allocate,
    AllocateConst: _Verifier.allocate,
    DeclBuffer: _Verifier.declaration,
}
