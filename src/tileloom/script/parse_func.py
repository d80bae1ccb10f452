"""Functions and modules of a script."""

from __future__ import annotations

from ..base import DType, UserError, dtype
from ..base.late import TYPE_CHECKING
from ..expr import Call, Expr, StringImm, Var, as_expr, const
from ..expr.effects import CALL_FUNCTION
from ..tir import Block, BlockRealize, IRModule, PrimFunc, Stmt
from .notes import BufferNote, Kind, VarNote
from .parse_buffer import make_buffer
from .parser import StatementParser
from .source import Source
from .syntax import ast, tools

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def parse_function(
    node: ast.FunctionDef, source: Source, captured: Mapping[str, Any], private: bool = False
) -> PrimFunc:
    """The function that a `def` describes."""
    return _FunctionParser(source, captured).function(node, private)


def parse_module(node: ast.ClassDef, source: Source, captured: Mapping[str, Any]) -> IRModule:
    """The module that a class describes: its functions, and `I.module_attrs`."""
    functions: dict[str, PrimFunc] = {}
    attrs: dict[str, Any] = {}
    known = dict(captured)
    calls = ModuleCalls(node, lambda item: _FunctionParser(source, known).returns(item))
    known[node.name] = calls
    for item in node.body:
        parser = _FunctionParser(source, known)
        match item:
            case ast.FunctionDef():
                private = is_private(item, parser)
                functions[item.name] = parser.function(item, private)
            case ast.Assign(targets=[ast.Name(id=name)]):
                known[name] = parser.evaluate.value(item.value)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="module_attrs"), args=[arg])):
                attrs.update(parser.evaluate.value(arg))
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                source.error(item, "a module holds functions, constants and I.module_attrs")
    return IRModule(functions, attrs)


def is_private(node: ast.FunctionDef, parser: StatementParser) -> bool:
    """Whether `@T.prim_func(private=True)` stands over a function; another decorator is refused."""
    private = False
    for decorator in node.decorator_list:
        call = isinstance(decorator, ast.Call)
        head = decorator.func if isinstance(decorator, ast.Call) else decorator
        if _last_name(head) != "prim_func":
            parser.error(decorator, "a function of a module must be decorated with T.prim_func")
        if call and isinstance(decorator, ast.Call):
            options = {k.arg: parser.evaluate.value(k.value) for k in decorator.keywords}
            private = bool(options.get("private", False))
    return private


class ModuleCalls:
    """The functions of a module as calls in its script: `Module.name(...)`."""

    def __init__(self, node: ast.ClassDef, returns: Callable[[ast.FunctionDef], DType]) -> None:
        self._functions = {
            item.name: item for item in node.body if isinstance(item, ast.FunctionDef)
        }
        self._returns = returns

    def __dir__(self) -> list[str]:
        return sorted(self._functions)

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        if name.startswith("_") or name not in self._functions:
            raise AttributeError(name)
        function = self._functions[name]
        count = len(function.args.args)

        def call(*args: Any) -> Expr:
            if len(args) != count:
                raise UserError(f"{name} takes {count} arguments, got {len(args)}")
            values = [as_expr(arg) for arg in args]
            return Call(self._returns(function), CALL_FUNCTION, [StringImm(name), *values])

        return call


class _FunctionParser(StatementParser):
    def function(self, node: ast.FunctionDef, private: bool) -> PrimFunc:
        """Parse a `def`."""
        args = node.args
        if args.vararg or args.kwarg or args.kwonlyargs or args.defaults:
            self.error(node, "a function of a script has plain parameters only")
        params = self._parameters([*args.posonlyargs, *args.args])
        returns = self.returns(node)
        body = self._with_root(self.suite(node.body))
        attrs = {**({} if private else {"global_symbol": node.name}), **self.attrs}
        unknown = [var for var in self.buffer_map if var not in params]
        if unknown:
            self.error(node, f"match_buffer of {unknown[0].name}, which is no parameter")
        return PrimFunc(
            tuple(params),
            body,
            self.buffer_map,
            attrs,
            returns,
            tuple(self.sp_axes),
            tuple(self.domains),
            span=self.source.head(node),
        )

    def _parameters(self, args: list[ast.arg]) -> list[Var]:
        # Scalars first: the shapes of buffers may name them.
        params: dict[str, Var] = {}
        for arg in args:
            if arg.annotation is None:
                self.error(arg, f"parameter {arg.arg!r} has no type", "write `A: T.Buffer(...)`")
            if not _is_buffer(arg.annotation):
                params[arg.arg] = self._scalar(arg, self._annotation(arg.annotation))
        for arg in args:
            if arg.arg not in params and arg.annotation is not None:
                params[arg.arg] = self._scalar(arg, self._annotation(arg.annotation))
        return [params[arg.arg] for arg in args]

    def _annotation(self, node: ast.expr) -> Any:
        """What an annotation means; a string is the name of a type, or an expression."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                return Kind(node.value)
            except UserError:
                inner = self.source.parse(node.value.strip()).body
            if len(inner) != 1 or not isinstance(inner[0], ast.Expr):
                self.error(node, f"not a type: {node.value!r}")
            for part in tools.walk(inner[0]):
                tools.copy_location(part, node)
            return self.evaluate.value(inner[0].value)
        return self.evaluate.value(node)

    def _scalar(self, arg: ast.arg, kind: Any) -> Var:
        name = arg.arg
        if isinstance(kind, BufferNote):
            param = Var(f"{name}_handle", "handle")
            with self.evaluate.at(arg):
                buffer = make_buffer(kind, name, self.define)
            self.buffer_map[param] = buffer
            self.buffers.append(buffer)
            self.define(name, buffer)
            return param
        if isinstance(kind, VarNote):
            var = kind.named(name)
        elif isinstance(kind, Kind):
            var = Var(name, kind.dtype)
        elif isinstance(kind, DType):
            var = Var(name, kind)
        else:
            self.error(arg, f"parameter {name!r} has no type of a script: {kind!r}")
        self.define(name, var)
        return var

    def returns(self, node: ast.FunctionDef) -> DType:
        """The type of what a `def` says it returns."""
        if node.returns is None:
            return dtype("void")
        kind = self._annotation(node.returns)
        if kind is None:
            return dtype("void")
        if not isinstance(kind, Kind):
            self.error(node.returns, "a function returns a scalar type, such as T.int32")
        return kind.dtype

    def _with_root(self, body: Stmt) -> Stmt:
        """The body in a root block, unless it is one or needs none."""
        is_root = isinstance(body, BlockRealize) and not body.block.iter_vars
        if not self.root_allocs and (is_root or not self.has_block):
            return body
        root = Block((), (), (), "root", body, alloc_buffers=tuple(self.root_allocs))
        return BlockRealize((), const(True), root)


def _is_buffer(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.Constant):
        return isinstance(annotation.value, str) and "Buffer" in annotation.value
    return isinstance(annotation, ast.Call) and "Buffer" in _last_name(annotation.func)


def _last_name(node: ast.expr) -> str:
    """`prim_func` of `T.prim_func`."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
