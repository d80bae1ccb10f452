"""Statements of a script: Python's syntax tree to tensor IR.

A scope's statements are collected in a frame. What lasts for the rest of its scope (`x: T.int32 =
...`, `T.allocate`, `T.attr`, ...) is kept as pending there, and takes the statements after it as
its body when the scope ends.
"""

from __future__ import annotations

from ..base import DType, Span, TileloomError, UserError
from ..base.late import TYPE_CHECKING, package
from ..expr import THREAD, Expr, IterVar, Range, Var, as_expr, const
from ..expr.operators import Operators
from ..tir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Axis,
    BlockRealize,
    Buffer,
    BufferDomain,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)
from . import builders
from .evaluate import BINARY, Evaluator, Scopes
from .frame import Frame, starred
from .macro import MacroCall
from .notes import (
    AxisNote,
    BlockFact,
    BlockNote,
    BufferNote,
    EvaluateNote,
    ForNote,
    InitNote,
    Kind,
    MetaVar,
    ScopeNote,
    Sliced,
    StoreNote,
    ThreadNote,
    VarNote,
)
from .parse_block import BlockState
from .parse_buffer import make_buffer, stored_value
from .parse_sparse import declare_sparse_buffer, parse_iteration
from .source import Source
from .sparse import DomainNote, IterationState, SparseBufferNote, SpAxisNote, SpIterNote
from .syntax import ast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn

    import numpy as np

    Wrap = Callable[[Stmt], Stmt]
else:
    np = package("numpy")


# What makes something once it has a name.
_NAMELESS = (
    *(BufferNote, AxisNote, VarNote, ThreadNote, ForNote, BlockNote),
    *(SpAxisNote, SparseBufferNote, SpIterNote),
)


class StatementParser:
    """Parses statements; knows the loops, threads, blocks and buffers around them."""

    def __init__(self, source: Source, captured: Mapping[str, Any]) -> None:
        self.enter_source(source, Scopes(captured))
        self.frames: list[Frame] = []
        self.blocks: list[BlockState] = []
        self.owners: list[BlockState | IterationState] = []  # of an init, innermost last
        self.sp_axes: list[Axis] = []
        self.domains: list[BufferDomain] = []
        self.attrs: dict[str, Any] = {}
        self.buffer_map: dict[Var, Buffer] = {}
        self.buffers: list[Buffer] = []  # all so far
        self.root_allocs: list[Buffer] = []
        self.has_block = False
        self._domains: dict[Var, Range] = {}  # of loops
        self._threads: dict[Var, IterVar] = {}
        self._lets: set[Var] = set()
        self._statements: dict[type[ast.stmt], Callable[[Any], None]] = {
            ast.Expr: self._expression,
            ast.Assign: self._assign,
            ast.AnnAssign: self._annotated,
            ast.AugAssign: self._augmented,
            ast.For: self._for,
            ast.While: self._while,
            ast.If: self._if,
            ast.With: self._with,
            ast.Assert: self._assert,
            ast.Return: self._return,
            ast.Pass: lambda node: None,
        }

    def enter_source(self, source: Source, scopes: Scopes) -> None:
        """Evaluate in other text from now on (a macro's)."""
        self.source = source
        self.scopes = scopes
        self.evaluate = Evaluator(source, scopes)

    # ------------------------------------------------------------------------ scopes

    def statements(self, nodes: Sequence[ast.stmt]) -> None:
        """Parse statements into the current frame."""
        for node in nodes:
            handler = self._statements.get(type(node))
            if handler is None:
                what = type(node).__name__
                self.error(node, f"{what} statements are not part of the script language")
            try:
                handler(node)
            except (TileloomError, RecursionError):
                raise
            except Exception as error:
                self.evaluate.convert(node, error)

    def suite(self, nodes: Sequence[ast.stmt], names: Mapping[str, Any] | None = None) -> Stmt:
        """A scope of its own, with some names in it."""
        frame = Frame()
        self.frames.append(frame)
        with self.scopes.scope() as inner:
            inner.update(names or {})
            self.statements(nodes)
        self.frames.pop()
        return frame.close()

    def emit(self, stmt: Stmt) -> None:
        """Add a statement to the current frame."""
        self.frames[-1].stmts.append(stmt)

    def wait(self, wrap: Wrap) -> None:
        """Let the rest of the current frame be the body of what `wrap` makes."""
        frame = self.frames[-1]
        frame.pending.append((len(frame.stmts), wrap))

    def error(self, node: ast.AST, message: str, hint: str | None = None) -> NoReturn:
        """Raise a `ParseError` at a node."""
        self.source.error(node, message, hint)

    def span(self, node: ast.AST) -> Span:
        """Where a statement is written; of one with a suite, its first line."""
        return self.source.head(node) if hasattr(node, "body") else self.source.span(node)

    def define(self, name: str, value: Any) -> None:
        """Enter a name into the current scope."""
        self.scopes.stack[-1][name] = value

    # ------------------------------------------------------------------------ simple statements

    def _expression(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring, or `...`
        value = self.evaluate.value(node.value)
        match value:
            case BlockFact():
                self._fact(node, value)
            case ScopeNote():
                self.wait(self._enter(node, value, None))
            case EvaluateNote():
                self.emit(Evaluate(value.value, span=self.span(node)))
            case StoreNote():
                self._vstore(node, value)
            case DomainNote():
                self.domains.append(BufferDomain(value.buffer, value.low, value.high))
            case MacroCall():
                self._macro(node, value)
            case Operators():
                self.emit(Evaluate(self.evaluate.as_expr(node.value, value), span=self.span(node)))
            case None:
                pass
            case _ if isinstance(value, _NAMELESS):
                self.error(node, "this must be given a name", "write `name = ...`")
            case _:
                self.error(node, f"this has no effect: {value!r}")

    def _fact(self, node: ast.Expr, fact: BlockFact) -> None:
        with self.evaluate.at(node):
            if fact.kind == "func_attr":
                self.attrs.update(fact.value)
            elif fact.kind == "sp_iter_attr":
                owner = self.owners[-1] if self.owners else None
                if not isinstance(owner, IterationState):
                    raise UserError("T.sp_iter_attr belongs into a sparse iteration")
                owner.annotations.update(fact.value)
            elif not self.blocks:
                raise UserError(f"T.{fact.kind} belongs into a block", hint='with T.block("name"):')
            else:
                self.blocks[-1].add(fact)

    def _vstore(self, node: ast.Expr, note: StoreNote) -> None:
        with self.evaluate.at(node):
            value = stored_value(note.buffer, note.indices, note.value)
        span = self.span(node)
        self.emit(BufferStore(note.buffer, value, note.indices, note.predicate, span=span))

    def _assign(self, node: ast.Assign) -> None:
        if len(node.targets) > 1:
            self.error(node, "one target for each assignment")
        target = node.targets[0]
        value = self.evaluate.value(node.value)
        if isinstance(target, ast.Subscript):
            self._store(node, target, value)
        elif isinstance(target, ast.Name):
            self._bind(node, target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(node, target.elts, value)
        else:
            self.error(target, "cannot assign to this")

    def _unpack(self, node: ast.Assign, targets: list[ast.expr], value: Any) -> None:
        if isinstance(value, MetaVar):
            value = [MetaVar(part) for part in value.value]
        many = isinstance(value, (list, tuple, str, range))
        parts = starred(targets, list(value)) if many else None
        if parts is None:
            count = len(value) if many else 1
            self.error(node, f"{len(targets)} names for {count} values")
        for target, part in zip(targets, parts, strict=True):
            name = target.value if isinstance(target, ast.Starred) else target
            if not isinstance(name, ast.Name):
                self.error(target, "cannot assign to this")
            if name is not target and any(isinstance(item, AxisNote) for item in part):
                self._axes(node, name.id, part)
            else:
                self._bind(node, name.id, part)

    def _bind(self, node: ast.stmt, name: str, value: Any) -> None:
        match value:
            case AxisNote():
                self._axis(node, name, value)
            case BufferNote():
                self._buffer(node, name, value)
            case SpAxisNote():
                axis = value.make(name)
                self.sp_axes.append(axis)
                self.define(name, axis)
            case SparseBufferNote():
                declare_sparse_buffer(self, node, name, value)
            case VarNote():
                self.define(name, value.named(name))
            case ScopeNote():
                self.wait(self._enter(node, value, name))
            case ThreadNote():
                var = Var(name, value.dtype)
                self._threads[var] = IterVar(None, var, THREAD, value.tag)
                self.define(name, var)
            case MetaVar():
                self.define(name, value.value)
            case [AxisNote()]:
                self._axis(node, name, value[0])
            case [AxisNote(), *_]:
                self._axes(node, name, value)
            case Buffer() | str() | None | DType() | Kind() | list() | tuple() | dict():
                self.define(name, value)
            case Operators() | bool() | int() | float() | np.generic():
                self._refuse_mutation(node, name)
                self.wait(self._let(node, name, self.evaluate.as_expr(node, value), None))
            case _:
                self.define(name, value)

    def _refuse_mutation(self, node: ast.stmt, name: str) -> None:
        depth = self.scopes.depth(name)
        if depth is None or depth == len(self.scopes.stack) - 1:
            return
        if self.scopes.stack[depth][name] in self._lets:
            hint = "what changes must be an element of a buffer: T.alloc_buffer((1,), ...)"
            self.error(node, f"{name!r} is bound outside of this scope and cannot change", hint)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name) or node.value is None:
            self.error(node, "an annotated assignment needs a name and a value")
        name, kind = node.target.id, self.evaluate.value(node.annotation)
        value = self.evaluate.value(node.value)
        if isinstance(value, BufferNote | AxisNote | ScopeNote | VarNote):
            self._bind(node, name, value)
            return
        self._refuse_mutation(node, name)
        self.wait(self._let(node, name, value, kind))

    def _augmented(self, node: ast.AugAssign) -> None:
        target = node.target
        function = BINARY.get(type(node.op))
        if function is None or not isinstance(target, ast.Subscript):
            self.error(node, "this augmented assignment is not supported", "write x = x + 1")
        old = self.evaluate.value(target)
        value = self.evaluate.value(node.value)
        with self.evaluate.at(node):
            result = function(old, value)
        self._store(node, target, result)

    def _store(self, node: ast.stmt, target: ast.Subscript, value: Any) -> None:
        buffer = self.evaluate.value(target.value)
        if not isinstance(buffer, Buffer):
            self.error(target, f"only elements of buffers can be stored to, not {buffer!r}")
        parts = self.evaluate.indices(target, buffer)
        if isinstance(value, Buffer):
            self.error(node, f"{value.name} is a buffer", f"write {value.name}[...]")
        try:
            indices = Sliced(buffer, parts).indices()
            stored = stored_value(buffer, indices, value)
        except Exception as error:
            self.evaluate.convert(node, error)
        self.emit(BufferStore(buffer, stored, indices, span=self.source.span(node)))

    def _assert(self, node: ast.Assert) -> None:
        condition = self.evaluate.condition(node.test, self.evaluate.value(node.test))
        message = "" if node.msg is None else self.evaluate.value(node.msg)
        note = ScopeNote("assert", {"condition": condition, "message": str(message)})
        self.wait(self._enter(node, note, None))

    def _return(self, node: ast.Return) -> None:
        if node.value is None:
            self.error(node, "an empty return has no meaning in a script")
        value = builders.ret(self.evaluate.expr(node.value))
        self.emit(Evaluate(value, span=self.span(node)))

    # ------------------------------------------------------------------------ scopes by notes

    def _let(self, node: ast.AST, name: str, value: Any, kind: Any) -> Wrap:
        span = self.span(node)
        with self.evaluate.at(node):
            var = _let_var(name, value, kind)
            expr = as_expr(value, var.dtype if not var.dtype.is_handle else None)
            if expr.dtype is not var.dtype:
                raise UserError(f"{name} is {var.dtype}, but its value is {expr.dtype}")
        self.define(name, var)
        self._lets.add(var)
        return lambda body: LetStmt(var, expr, body, span=span)

    def _enter(self, node: ast.AST, note: ScopeNote | BufferNote, name: str | None) -> Wrap:
        """Bind what a note binds; the answer makes its statement around a body."""
        span = self.span(node)
        if isinstance(note, BufferNote):
            return self._declare(node, note, name or "buffer", span)
        fields = note.fields
        match note.kind:
            case "let":
                var = fields["var"]
                if isinstance(var, VarNote):
                    var = var.named(name or "v")
                if var is not None:
                    self._lets.add(var)
                    value = as_expr(fields["value"], var.dtype)
                    return lambda body: LetStmt(var, value, body, span=span)
                return self._let(node, name or "v", fields["value"], fields["type"])
            case "attr":
                place, key, fact = fields["node"], fields["key"], fields["value"]
                return lambda body: AttrStmt(place, key, fact, body, span=span)
            case "assert":
                condition, text = fields["condition"], fields["message"]
                return lambda body: AssertStmt(condition, text, body, span=span)
            case "launch":
                return self._launch(node, fields, name, span)
            case _:
                return self._allocate(note, name or "data", span)

    def _declare(self, node: ast.AST, note: BufferNote, name: str, span: Span) -> Wrap:
        if note.how != "decl":
            self.error(node, f"T.{note.how} opens no scope", "write `name = ...`")
        own_memory = note.fields.get("data") is None
        buffer = self._make(node, name, note)
        if not own_memory:
            return lambda body: DeclBuffer(buffer, body, span=span)
        return lambda body: Allocate(
            buffer.data,
            buffer.dtype,
            buffer.shape,
            const(True),
            DeclBuffer(buffer, body, span=span),
            span=span,
        )

    def _launch(self, node: ast.AST, fields: dict[str, Any], name: str | None, span: Span) -> Wrap:
        thread, extent = fields["thread"], fields["extent"]
        if isinstance(thread, str):
            var = Var(name or thread.replace(".", "_"), extent.dtype)
            axis = IterVar(None, var, THREAD, thread)
        else:
            found = self._threads.get(thread) if isinstance(thread, Var) else None
            if found is None:
                self.error(node, "launch_thread takes a thread tag or an env_thread")
            axis = found
        if axis.dom is None:
            axis.dom = Range.from_extent(extent)
        if name is not None:
            self.define(name, axis.var)
        key = "virtual_thread" if axis.thread_tag.startswith("vthread") else "thread_extent"
        return lambda body: AttrStmt(axis, key, extent, body, span=span)

    def _allocate(self, note: ScopeNote, name: str, span: Span) -> Wrap:
        fields = note.fields
        kind, extents, extra = fields["dtype"], fields["extents"], fields["annotations"]
        var = Var(name, "handle", (kind, fields.get("scope", "global")))
        self.define(name, var)
        if note.kind == "allocate":
            condition = fields["condition"]
            return lambda body: Allocate(var, kind, extents, condition, body, extra, span=span)
        data = np.array(fields["data"], dtype=kind.numpy)
        if all(isinstance(extent, Expr) and hasattr(extent, "value") for extent in extents):
            data = data.reshape([int(extent) for extent in extents])
        return lambda body: AllocateConst(var, kind, extents, data, body, extra, span=span)

    # ------------------------------------------------------------------------ declarations

    def _axes(self, node: ast.stmt, name: str, notes: Sequence[AxisNote]) -> None:
        """One name for several axes, which are numbered."""
        axes = [f"{name}_{k}" for k in range(len(notes))]
        for axis, note in zip(axes, notes, strict=True):
            self._axis(node, axis, note)
        self.define(name, [self.scopes.find(axis) for axis in axes])

    def _axis(self, node: ast.stmt, name: str, note: AxisNote) -> None:
        if not self.blocks:
            self.error(node, "an axis belongs into a block", 'with T.block("name"):')
        dom = note.dom
        if dom is None:
            if not isinstance(note.value, Var) or note.value not in self._domains:
                self.error(node, f"remap takes loop variables, not {note.value}")
            dom = self._domains[note.value]
        var = Var(name, dom.extent.dtype)
        self.define(name, var)
        self.blocks[-1].axes.append(IterVar(dom, var, note.iter_type))
        self.blocks[-1].values.append(note.value)

    def _make(self, node: ast.AST, name: str, note: BufferNote) -> Buffer:
        def new_name(text: str, var: Var) -> None:
            if self.scopes.depth(text) is None:
                self.define(text, var)

        with self.evaluate.at(node):
            buffer = make_buffer(note, name, new_name)
        self.define(name, buffer)
        self.buffers.append(buffer)
        return buffer

    def _buffer(self, node: ast.stmt, name: str, note: BufferNote) -> None:
        if note.how == "decl":
            self.wait(self._declare(node, note, name, self.span(node)))
            return
        buffer = self._make(node, name, note)
        if note.how == "alloc":
            self.own_memory(buffer)
        elif note.how == "match" and isinstance(note.source, Var):
            self.of_parameter(node, note.source, buffer)
        elif note.how == "match":
            if not self.blocks:
                self.error(node, "a region can be matched inside a block only")
            with self.evaluate.at(node):
                self.blocks[-1].match(buffer, note.source)

    def own_memory(self, buffer: Buffer) -> None:
        """Give a buffer memory for the length of the block around, or of the function."""
        allocs = self.blocks[-1].allocs if self.blocks else self.root_allocs
        allocs.append(buffer)

    def of_parameter(self, node: ast.stmt, param: Var, buffer: Buffer) -> None:
        """Make a buffer that of a parameter."""
        if param in self.buffer_map:
            self.error(node, f"{param.name} has a buffer already")
        self.buffer_map[param] = buffer

    # ------------------------------------------------------------------------ compound statements

    def _for(self, node: ast.For) -> None:
        note = self.evaluate.value(node.iter)
        if isinstance(note, range):
            note = builders.range_(note.start, note.stop, note.step)
        if not isinstance(note, ForNote):
            hint = "T.grid, T.serial, T.parallel, T.vectorized, T.unroll, T.thread_binding, range"
            self.error(node.iter, "this is not a loop range", f"use one of {hint}")
        if node.orelse:
            self.error(node.orelse[0], "a loop has no `else`")
        names: dict[str, Var | list[Var]] = {}
        loop_vars: list[Var] = []
        for name, part in self._loop_names(node.target, note.ranges):
            each = [name] if isinstance(part, Range) else [f"{name}_{k}" for k in range(len(part))]
            doms = [part] if isinstance(part, Range) else part
            made = [Var(n, dom.extent.dtype) for n, dom in zip(each, doms, strict=True)]
            self._domains.update(zip(made, doms, strict=True))
            names[name] = made[0] if isinstance(part, Range) else made
            loop_vars += made
        body = self.suite(node.body, names)
        span = self.span(node)
        for var, dom in zip(reversed(loop_vars), reversed(note.ranges), strict=True):
            thread = None
            if note.thread is not None:
                thread = IterVar(None, Var("", var.dtype), THREAD, note.thread)
            extra = note.annotations
            body = For(var, dom.min, dom.extent, note.kind, body, thread, extra, span=span)
        self.emit(body)

    def _loop_names(
        self, target: ast.expr, ranges: Sequence[Range]
    ) -> list[tuple[str, Range | Sequence[Range]]]:
        """What the names of a loop stand for: a loop each, or several (`for i, *rest in ...`)."""
        if isinstance(target, ast.Name) and len(ranges) > 1:
            return [(target.id, ranges)]
        targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        parts = starred(targets, ranges)
        if parts is None:
            self.error(target, f"{len(targets)} names for {len(ranges)} loops")
        found: list[tuple[str, Range | Sequence[Range]]] = []
        for part, item in zip(parts, targets, strict=True):
            name = item.value if isinstance(item, ast.Starred) else item
            if not isinstance(name, ast.Name):
                self.error(item, "a loop variable must be a name")
            found.append((name.id, part))
        return found

    def _while(self, node: ast.While) -> None:
        condition = self.evaluate.condition(node.test, self.evaluate.value(node.test))
        self.emit(While(condition, self.suite(node.body), span=self.span(node)))

    def _if(self, node: ast.If) -> None:
        test = self.evaluate.value(node.test)
        if not isinstance(test, Operators):
            self.statements(node.body if test else node.orelse)
            return
        condition = self.evaluate.condition(node.test, test)
        yes = self.suite(node.body)
        no = self.suite(node.orelse) if node.orelse else None
        self.emit(IfThenElse(condition, yes, no, span=self.span(node)))

    def _with(self, node: ast.With) -> None:
        note = self.evaluate.value(node.items[0].context_expr)
        if isinstance(note, BlockNote):
            self._block(node, note)
        elif isinstance(note, SpIterNote):
            parse_iteration(self, node, note)
        elif isinstance(note, InitNote):
            if not self.owners:
                self.error(node.items[0].context_expr, "T.init belongs into a block")
            self.owners[-1].init = self.suite(node.body)
        else:
            self.emit(self._with_items(node, 0))

    def _with_items(self, node: ast.With, position: int) -> Stmt:
        if position == len(node.items):
            return self.suite(node.body)
        item = node.items[position]
        note = self.evaluate.value(item.context_expr)
        if not isinstance(note, ScopeNote | BufferNote):
            self.error(item.context_expr, "this opens no scope")
        name = item.optional_vars
        if name is not None and not isinstance(name, ast.Name):
            self.error(name, "a scope takes one name")
        with self.scopes.scope():
            wrap = self._enter(node, note, None if name is None else name.id)
            return wrap(self._with_items(node, position + 1))

    def _block(self, node: ast.With, note: BlockNote) -> None:
        is_root = not self.blocks and len(self.frames) == 1
        state = BlockState(note.name)
        self.blocks.append(state)
        self.owners.append(state)
        body = self.suite(node.body)
        self.owners.pop()
        self.blocks.pop()
        self.has_block = True
        with self.evaluate.at(node.items[0].context_expr):
            block, values, where = state.finish(body, self.span(node), is_root, self.buffers)
        self.emit(BlockRealize(values, where, block, span=block.span))

    def _macro(self, node: ast.Expr, call: MacroCall) -> None:
        macro = call.macro
        captured = Scopes(macro.captured())
        with self.evaluate.at(node):
            names = macro.bind(call, Evaluator(macro.source, captured).value)
        outer = (self.source, self.scopes)
        scopes = captured if macro.hygienic else self.scopes
        self.enter_source(macro.source, scopes)
        try:
            self.emit(self.suite(macro.node.body, names))
        finally:
            self.enter_source(*outer)


def _let_var(name: str, value: Any, kind: Any) -> Var:
    if isinstance(kind, VarNote):
        return kind.named(name)
    if kind is not None and not isinstance(kind, Kind | str):
        raise UserError(f"not a type: {kind!r}", hint="write T.int32")
    if kind is None:
        return Var(name, as_expr(value).dtype)
    return Var(name, kind.dtype if isinstance(kind, Kind) else kind)
