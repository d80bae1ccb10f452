"""Functions and statements as text, line by line."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING
from ..expr import Add, Call, Expr, IntImm, IterVar, Var, binary, free_vars
from ..tir import (
    PARALLEL,
    SERIAL,
    THREAD_BINDING,
    UNROLLED,
    VECTORIZED,
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
    PrimFunc,
    SeqStmt,
    SparseBuffer,
    SparseIteration,
    Stmt,
    While,
    buffer_exprs,
)
from .names import Names
from .show_block import axis_lines, implicit_root, unbound_axis_lines
from .show_buffer import BufferPrinter, declaration, is_simple, type_text
from .show_expr import ExprPrinter, show_string
from .show_sparse import buffer_text, declaration_text, iteration_text
from .survey import Survey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_LOOPS = {PARALLEL: "parallel", VECTORIZED: "vectorized", UNROLLED: "unroll"}


class FunctionPrinter:
    """Collects the lines of functions and statements."""

    def __init__(self, sugar: bool = True, indent: int = 0) -> None:
        self.lines: list[str] = []
        self.sugar = sugar
        self.names = Names()
        self.expr = ExprPrinter(self.names)
        self.buffers = BufferPrinter(self.expr)
        self._indent = "    " * indent
        self._loops: dict[Var, For] = {}  # those around the current statement
        self._waiting: list[Buffer] = []  # undeclared buffers over pointers not bound yet
        self._print: dict[type[Stmt], Callable[[Any, bool], Stmt | None]] = {
            For: self._for,
            BlockRealize: self._realize,
            Block: self._bare_block,
            SparseIteration: self._iteration,
            BufferStore: self._store,
            SeqStmt: self._seq,
            IfThenElse: self._if,
            LetStmt: self._let,
            AttrStmt: self._attr,
            AssertStmt: self._assert,
            While: self._while,
            Evaluate: self._evaluate,
            Allocate: self._allocate,
            AllocateConst: self._allocate_const,
            DeclBuffer: self._decl_buffer,
        }

    def line(self, text: str) -> None:
        """Add a line at the current indentation."""
        self.lines.append(self._indent + text)

    def stmt(self, stmt: Stmt, tail: bool) -> None:
        """Print a statement; `tail` says that nothing follows it in its scope."""
        rest: Stmt | None = stmt
        while rest is not None:
            rest = self.print_one(rest, tail)

    def print_one(self, stmt: Stmt, tail: bool) -> Stmt | None:
        """Print a statement up to a last one in the same scope, which is given back.

        So long chains of declarations do not nest calls.
        """
        handler = self._print.get(type(stmt))
        if handler is not None:
            return handler(stmt, tail)
        self.line(f"# {type(stmt).__name__}: {object.__repr__(stmt)}")  # of a room above
        return None

    def function(self, func: PrimFunc, name: str) -> None:
        """Print a function under a name."""
        self.names.push()
        survey = Survey(func)
        params, matches = self._params(func, survey)
        private = "" if "global_symbol" in func.attrs else "(private=True)"
        returns = "" if func.ret_type == "void" else f" -> T.{func.ret_type}"
        self.line(f"@T.prim_func{private}")
        self.line(f"def {name}({', '.join(params)}){returns}:")
        self._open()
        attrs = {k: v for k, v in func.attrs.items() if (k, v) != ("global_symbol", name)}
        if attrs:
            self.line(f"T.func_attr({self.expr.value(attrs)})")
        self._head(func, survey, matches)
        root = implicit_root(func)
        if root is None:
            self.stmt(func.body, True)
        else:
            self.line('# with T.block("root"):')
            self._alloc_buffers(root)
            self.stmt(root.body, True)
        self._close()
        self.names.pop()

    # ------------------------------------------------------------------------ functions

    def _params(self, func: PrimFunc, survey: Survey) -> tuple[list[str], list[tuple[Var, Buffer]]]:
        params, matches = [], []
        for param in func.params:
            buffer = func.buffer_map.get(param)
            plain = buffer is not None and is_simple(buffer) and param.pointee is None
            plain = plain and not isinstance(buffer, SparseBuffer)
            if buffer and plain and param not in survey.used and survey.pointers[buffer.data] == 1:
                params.append(f"{self.buffers.define(buffer)}: {self.buffers.annotation(buffer)}")
                continue
            params.append(f"{self.names.define(param, param.name)}: {type_text(param)}")
            if buffer is not None:
                matches.append((param, buffer))
        return params, matches

    def _head(self, func: PrimFunc, survey: Survey, matches: list[tuple[Var, Buffer]]) -> None:
        for var in survey.free():
            self._define(var, declaration(var))
        for axis in func.sp_axes:
            name = self.names.define(axis, axis.name, free="I")
            self.line(f"{name} = {declaration_text(axis, name, self.expr)}")
        for param, buffer in matches:
            self._define_buffer(buffer, "T.match_buffer", self.expr(param))
        for var, count in survey.launches.items():
            if count > 1:
                tag = f'"{survey.tags[var]}"' + ("" if var.dtype == "int32" else f', "{var.dtype}"')
                self._define(var, f"T.env_thread({tag})")
        for buffer in survey.undeclared():
            if buffer.data not in survey.bound and buffer.data not in self.names:
                self._define_buffer(buffer, "T.Buffer")
        self._waiting = [b for b in survey.undeclared() if b not in self.names]
        self._declare_ready()
        for known in func.buffer_domains:
            bounds = f"[{self.expr(known.low)}, {self.expr(known.high)}]"
            self.line(f"T.assume_buffer_domain({self.expr.buffer(known.buffer)}, {bounds})")

    def _declare_ready(self) -> None:
        """Define the waiting buffers whose pointer and variables all have names by now."""
        if not self._waiting:
            return
        ready = [b for b in self._waiting if self._is_ready(b)]
        self._waiting = [b for b in self._waiting if b not in ready]
        for buffer in ready:
            self._define_buffer(buffer, "T.Buffer", data=buffer.data)

    def _is_ready(self, buffer: Buffer) -> bool:
        needed = {buffer.data, *(v for e in buffer_exprs(buffer) for v in free_vars(e))}
        return all(var in self.names for var in needed)

    def _define(self, var: Var, text: str) -> None:
        self.line(f"{self.names.define(var, var.name)} = {text}")
        self._declare_ready()

    def _define_buffer(
        self, buffer: Buffer, function: str, *leading: str, data: Expr | None = None
    ) -> None:
        if isinstance(buffer, SparseBuffer):
            param = leading[0] if leading else None
            text = buffer_text(buffer, param, self.expr)
            self.line(f"{self.buffers.define(buffer)} = {text}")
            self._declare_ready()
            return
        if data is None and buffer.data in self.names:
            data = buffer.data  # an alias of what has a name
        name = self.buffers.define(buffer)
        text = self.buffers.call(function, *leading, buffer=buffer, data=data)
        self.line(f"{name} = {text}")
        self._declare_ready()

    # ------------------------------------------------------------------------ scopes

    def _open(self) -> None:
        self._indent += "    "
        self.names.push()

    def _close(self) -> None:
        self.names.pop()
        self._indent = self._indent[4:]

    def _suite(self, head: str, body: Stmt) -> None:
        self.line(head)
        self._open()
        self.stmt(body, True)
        self._close()

    def _scoped(
        self, text: str, var: Var, body: Stmt, tail: bool, concise: str = ""
    ) -> Stmt | None:
        """`var = text` with the rest of the scope as body; `with text as var:` where more comes."""
        if tail:
            self.line(concise or f"{self.names.define(var, var.name)} = {text}")
            self._declare_ready()
            return body
        self._open()
        name = self.names.define(var, var.name)
        self.lines.append(f"{self._indent[4:]}with {text} as {name}:")
        self._declare_ready()
        self.stmt(body, True)
        self._close()
        return None

    # ------------------------------------------------------------------------ statements

    def _seq(self, stmt: SeqStmt, tail: bool) -> Stmt | None:
        last = stmt.seq[-1]
        for part in stmt.seq[:-1]:
            self.stmt(part, False)
        if tail:
            return last
        self.stmt(last, False)
        return None

    def _for(self, stmt: For, _tail: bool) -> None:
        nest = [stmt]
        while self.sugar and _is_grid(stmt) and isinstance(stmt.body, For):
            inner = stmt.body
            outer_vars = {loop.loop_var for loop in nest}
            if not _is_grid(inner) or not free_vars(inner.extent).isdisjoint(outer_vars):
                break
            nest.append(inner)
            stmt = inner
        if len(nest) > 1:
            source = f"T.grid({self.expr.list([loop.extent for loop in nest])})"
        else:
            source = self._loop_source(stmt)
        self._open()
        names = ", ".join([self.names.define(loop.loop_var, loop.loop_var.name) for loop in nest])
        self.lines.append(f"{self._indent[4:]}for {names} in {source}:")
        self._loops.update((loop.loop_var, loop) for loop in nest)
        self._declare_ready()
        self.stmt(stmt.body, True)
        for loop in nest:
            del self._loops[loop.loop_var]
        self._close()

    def _loop_source(self, loop: For) -> str:
        bounds = self.expr(loop.extent)
        if not (isinstance(loop.min, IntImm) and loop.min.value == 0):
            bounds = f"{self.expr(loop.min)}, {self.expr(binary(Add, loop.min, loop.extent))}"
        extras = ""
        if loop.annotations:
            extras = f", annotations={self.expr.value(loop.annotations)}"
        if loop.kind == THREAD_BINDING:
            tag = loop.thread_binding.thread_tag if loop.thread_binding is not None else ""
            return f"T.thread_binding({bounds}, thread={show_string(tag)}{extras})"
        if loop.kind == SERIAL:
            return f"T.serial({bounds}{extras})" if extras else f"range({bounds})"
        return f"T.{_LOOPS[loop.kind]}({bounds}{extras})"

    def _realize(self, stmt: BlockRealize, _tail: bool) -> None:
        self._block(stmt.block, stmt)

    def _bare_block(self, stmt: Block, _tail: bool) -> None:
        self._block(stmt, None)

    def _block(self, block: Block, realize: BlockRealize | None) -> None:
        bare = "" if realize is not None else ", no_realize=True"
        self.line(f"with T.block({show_string(block.name_hint)}{bare}):")
        self._open()
        if realize is None:
            axes = unbound_axis_lines(block.iter_vars, self.expr)
        else:
            axes = axis_lines(realize, self._loops, self.expr, self.sugar)
        for text in axes:
            self.line(text)
        if realize is not None and not _is_true(realize.predicate):
            self.line(f"T.where({self.expr(realize.predicate)})")
        self._block_head(block)
        if block.init is not None:
            self._suite("with T.init():", block.init)
        self.stmt(block.body, True)
        self._close()

    def _iteration(self, stmt: SparseIteration, _tail: bool) -> None:
        self._open()
        self.lines.append(self._indent[4:] + iteration_text(stmt, self.expr))
        if stmt.annotations:
            self.line(f"T.sp_iter_attr({self.expr.value(stmt.annotations)})")
        if stmt.init is not None:
            self._suite("with T.init():", stmt.init)
        self.stmt(stmt.body, True)
        self._close()

    def _block_head(self, block: Block) -> None:
        # Regions may name the block's own buffers, so the buffers come first for the names.
        mark = len(self.lines)
        if block.annotations:
            self.line(f"T.block_attr({self.expr.value(block.annotations)})")
        self._alloc_buffers(block)
        for match in block.match_buffers:
            self._define_buffer(match.buffer, "T.match_buffer", self.expr.region(match.source))
        regions = [("reads", block.reads), ("writes", block.writes)]
        self.lines[mark:mark] = [
            f"{self._indent}T.{name}({', '.join(map(self.expr.region, found))})"
            for name, found in regions
        ]

    def _alloc_buffers(self, block: Block) -> None:
        for buffer in block.alloc_buffers:
            self._define_buffer(buffer, "T.alloc_buffer")

    def _store(self, stmt: BufferStore, _tail: bool) -> None:
        buffer = self.expr.buffer(stmt.buffer)
        value = self.expr(stmt.value)
        if stmt.predicate is None:
            self.line(f"{buffer}[{self.expr.index(stmt.indices)}] = {value}")
        else:
            indices, mask = self.expr.list(stmt.indices), self.expr(stmt.predicate)
            self.line(f"{buffer}.vstore([{indices}], {value}, predicate={mask})")

    def _if(self, stmt: IfThenElse, _tail: bool) -> None:
        self._suite(f"if {self.expr(stmt.condition)}:", stmt.then_case)
        if stmt.else_case is not None:
            self._suite("else:", stmt.else_case)

    def _while(self, stmt: While, _tail: bool) -> None:
        self._suite(f"while {self.expr(stmt.condition)}:", stmt.body)

    def _let(self, stmt: LetStmt, tail: bool) -> Stmt | None:
        value = self.expr(stmt.value)
        if tail:
            name = self.names.define(stmt.var, stmt.var.name)
            concise = f"{name}: {type_text(stmt.var)} = {value}"
            return self._scoped("", stmt.var, stmt.body, True, concise)
        return self._scoped(f"T.LetStmt({value})", stmt.var, stmt.body, False)

    def _attr(self, stmt: AttrStmt, tail: bool) -> Stmt | None:
        node = stmt.node
        if isinstance(node, IterVar) and stmt.attr_key == _launch_key(node):
            return self._launch(node, stmt, tail)
        key = show_string(stmt.attr_key)
        text = f"T.attr({self.expr.value(node)}, {key}, {self.expr(stmt.value)})"
        return self._plain_scope(text, stmt.body, tail)

    def _plain_scope(self, text: str, body: Stmt, tail: bool) -> Stmt | None:
        if tail:
            self.line(text)
            return body
        self._suite(f"with {text}:", body)
        return None

    def _launch(self, node: IterVar, stmt: AttrStmt, tail: bool) -> Stmt | None:
        extent = self.expr(stmt.value)
        known = self.names.get(node.var)
        if known is not None:
            return self._plain_scope(f"T.launch_thread({known}, {extent})", stmt.body, tail)
        text = f"T.launch_thread({show_string(node.thread_tag)}, {extent})"
        return self._scoped(text, node.var, stmt.body, tail)

    def _assert(self, stmt: AssertStmt, tail: bool) -> Stmt | None:
        condition, message = self.expr(stmt.condition), show_string(stmt.message)
        if tail:
            self.line(f"assert {condition}, {message}")
            return stmt.body
        self._suite(f"with T.Assert({condition}, {message}):", stmt.body)
        return None

    def _evaluate(self, stmt: Evaluate, _tail: bool) -> None:
        text = self.expr(stmt.value)
        self.line(text if isinstance(stmt.value, Call) else f"T.evaluate({text})")

    def _allocate(self, stmt: Allocate, tail: bool) -> Stmt | None:
        parts = [f"[{self.expr.list(stmt.extents)}]", f'"{stmt.dtype}"']
        parts.append(
            show_string(stmt.buffer_var.pointee[1] if stmt.buffer_var.pointee else "global")
        )
        if not _is_true(stmt.condition):
            parts.append(f"condition={self.expr(stmt.condition)}")
        parts += self._annotations(stmt.annotations)
        return self._scoped(f"T.allocate({', '.join(parts)})", stmt.buffer_var, stmt.body, tail)

    def _allocate_const(self, stmt: AllocateConst, tail: bool) -> Stmt | None:
        data = _numbers(stmt.data.reshape(-1).tolist())
        parts = [data, f'"{stmt.dtype}"', f"[{self.expr.list(stmt.extents)}]"]
        parts += self._annotations(stmt.annotations)
        return self._scoped(
            f"T.allocate_const({', '.join(parts)})", stmt.buffer_var, stmt.body, tail
        )

    def _annotations(self, annotations: Any) -> list[str]:
        return [f"annotations={self.expr.value(annotations)}"] if annotations else []

    def _decl_buffer(self, stmt: DeclBuffer, tail: bool) -> Stmt | None:
        buffer = stmt.buffer
        if tail:
            self._define_buffer(buffer, "T.decl_buffer", data=buffer.data)
            return stmt.body
        self._open()
        name = self.buffers.define(buffer)
        text = self.buffers.call("T.decl_buffer", buffer=buffer, data=buffer.data)
        self.lines.append(f"{self._indent[4:]}with {text} as {name}:")
        self.stmt(stmt.body, True)
        self._close()
        return None


def _is_grid(loop: For) -> bool:
    zero = isinstance(loop.min, IntImm) and loop.min.value == 0
    return zero and loop.kind == SERIAL and not loop.annotations and loop.thread_binding is None


def _is_true(condition: Expr) -> bool:
    return isinstance(condition, IntImm) and condition.value == 1


def _launch_key(axis: IterVar) -> str:
    return "virtual_thread" if axis.thread_tag.startswith("vthread") else "thread_extent"


def _numbers(values: Sequence[Any]) -> str:
    """A list literal; infinities and NaN as strings."""
    shown = (
        repr(v) if v == v and v not in (float("inf"), float("-inf")) else f'"{v}"' for v in values
    )
    return f"[{', '.join(shown)}]"
