"""Expressions of a script: Python's syntax over numbers, expressions, buffers and notes."""

from __future__ import annotations

import operator
from types import ModuleType

from ..base import TileloomError, UserError
from ..base.errors import ParseError
from ..base.late import TYPE_CHECKING
from ..expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    BinaryOp,
    Expr,
    Let,
    Or,
    Ramp,
    Var,
    as_expr,
    binary,
    const,
    logical_not,
)
from ..expr.operators import Operators
from ..tir import Buffer, BufferLoad
from . import builders
from .notes import Sliced, StoreNote, VarNote, as_dtype
from .source import Source, close_name
from .syntax import ast, tools

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, NoReturn

BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: lambda a, b: _shift(operator.lshift, a, b),
    ast.RShift: lambda a, b: _shift(operator.rshift, a, b),
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_COMPARE: dict[type[ast.cmpop], tuple[Callable[[Any, Any], Any], type[BinaryOp]]] = {
    ast.Eq: (operator.eq, EQ),
    ast.NotEq: (operator.ne, NE),
    ast.Lt: (operator.lt, LT),
    ast.LtE: (operator.le, LE),
    ast.Gt: (operator.gt, GT),
    ast.GtE: (operator.ge, GE),
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: lambda value: value,
    ast.Invert: operator.invert,
}
BUILTINS: dict[str, Any] = {
    "range": builders.range_, "len": len, "int": int, "float": float, "bool": bool, "str": str,
    "tuple": tuple, "list": list, "dict": dict, "min": min, "max": max, "abs": abs, "sum": sum,
    "zip": zip, "enumerate": enumerate, "sorted": sorted, "reversed": reversed, "round": round,
}  # fmt: skip
_MISSING: Any = object()
_TIR = "tileloom.script.tir"


class Namespace:
    """`T` for programs that are given as text."""

    def __getattr__(self, name: str) -> Any:
        return builders.lookup(name)


class NameScope:
    """The names of a scope, while it is open."""

    __slots__ = ("stack",)

    def __init__(self, stack: list[dict[str, Any]]) -> None:
        self.stack = stack

    def __enter__(self) -> dict[str, Any]:
        inner: dict[str, Any] = {}
        self.stack.append(inner)
        return inner

    def __exit__(self, *_error: object) -> None:
        self.stack.pop()


class Scopes:
    """Names to values, innermost scope last; then what the surrounding Python program knows."""

    def __init__(self, captured: Mapping[str, Any]) -> None:
        self.stack: list[dict[str, Any]] = [{}]
        self.captured = captured

    def scope(self) -> NameScope:
        """A context: a new innermost scope."""
        return NameScope(self.stack)

    def find(self, name: str) -> Any:
        """The value of a name, or `_MISSING`."""
        for scope in reversed(self.stack):
            if name in scope:
                return scope[name]
        if name in self.captured:
            value = self.captured[name]
            # A variable made outside, `n = T.int32()`, takes the name it is used by.
            return value.named(name) if isinstance(value, VarNote) else value
        return BUILTINS.get(name, _MISSING)

    def depth(self, name: str) -> int | None:
        """The index of the scope that has the name."""
        for index in reversed(range(len(self.stack))):
            if name in self.stack[index]:
                return index
        return None

    def names(self) -> list[str]:
        """Every name that is known."""
        return [*{k for scope in self.stack for k in scope}, *self.captured, *BUILTINS]


class _At:
    """Mistakes inside of it point at a node."""

    __slots__ = ("evaluate", "node")

    def __init__(self, evaluate: Evaluator, node: ast.AST) -> None:
        self.evaluate = evaluate
        self.node = node

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        if isinstance(error, Exception):
            self.evaluate.convert(self.node, error)


class Evaluator:
    """Evaluates expressions in `scopes`; every mistake becomes a `ParseError` with its place."""

    def __init__(self, source: Source, scopes: Scopes) -> None:
        self.source = source
        self.scopes = scopes
        self._visit: dict[type[ast.AST], Callable[[Any], Any]] = {
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
            ast.Call: self._call,
            ast.BinOp: self._binary,
            ast.UnaryOp: self._unary,
            ast.BoolOp: self._bool,
            ast.Compare: self._compare,
            ast.IfExp: self._if,
            ast.Tuple: lambda node: tuple(self._items(node.elts)),
            ast.List: lambda node: self._items(node.elts),
            ast.Dict: self._dict,
            ast.JoinedStr: self._format,
            ast.Slice: self._slice,
            ast.Lambda: self._lambda,
        }

    def value(self, node: ast.expr) -> Any:
        """What an expression means."""
        if isinstance(node, ast.Constant):
            return node.value
        handler = self._visit.get(type(node))
        if handler is None:
            what = type(node).__name__
            self.source.error(node, f"{what} is not part of the script language")
        try:
            return handler(node)
        except (TileloomError, RecursionError):
            raise
        except Exception as error:
            self.convert(node, error)

    def expr(self, node: ast.expr) -> Expr:
        """What an expression means, as an `Expr`."""
        return self.as_expr(node, self.value(node))

    def as_expr(self, node: ast.AST, value: Any) -> Expr:
        """A value as an expression."""
        if isinstance(value, Expr):
            return value
        if isinstance(value, Buffer):
            self.source.error(node, f"{value.name} is a buffer", f"write {value.name}[...]")
        with self.at(node):
            return as_expr(value)

    def at(self, node: ast.AST) -> _At:
        """A context: mistakes inside point at a node."""
        return _At(self, node)

    def convert(self, node: ast.AST, error: Exception) -> NoReturn:
        """Raise a mistake as a `ParseError` at a node."""
        if isinstance(error, UserError) and not isinstance(error, ParseError):
            hint = error.hint
            raise ParseError(error.message, span=self.source.span(node), hint=hint) from error
        if isinstance(error, (TileloomError, RecursionError)):
            raise error
        what = "" if isinstance(error, TypeError | ValueError) else f"{type(error).__name__}: "
        message = f"{what}{error}"
        raise ParseError(message, span=self.source.span(node)) from error

    # ------------------------------------------------------------------------ leaves

    def _name(self, node: ast.Name) -> Any:
        found = self.scopes.find(node.id)
        if found is _MISSING:
            hint = close_name(node.id, self.scopes.names())
            self.source.error(node, f"{node.id!r} is not defined", hint)
        return found

    def _attribute(self, node: ast.Attribute) -> Any:
        owner, name = self.value(node.value), node.attr
        if isinstance(owner, Namespace) or (
            isinstance(owner, ModuleType) and owner.__name__ == _TIR
        ):
            try:
                return builders.lookup(name)
            except AttributeError:
                hint = close_name(name, builders.names())
                self.source.error(node, f"T has no {name!r}", hint)
        if name.startswith("_"):
            self.source.error(node, f"{name!r} is private")
        if isinstance(owner, Buffer):
            return self._buffer_attribute(node, owner, name)
        if isinstance(owner, Operators) and not isinstance(owner, Expr):
            owner = as_expr(owner)
        try:
            return getattr(owner, name)
        except AttributeError:
            known = [text for text in dir(owner) if not text.startswith("_")]
            hint = close_name(name, known)
            kind = type(owner).__name__.removeprefix("_")
            self.source.error(node, f"{kind} has no attribute {name!r}", hint)

    def _buffer_attribute(self, node: ast.Attribute, buffer: Buffer, name: str) -> Any:
        methods: dict[str, Callable[..., Any]] = {
            "access_ptr": lambda *args, **rest: builders.access_ptr(buffer, *args, **rest),
            "vload": lambda indices, dtype=None, predicate=None: _vector_load(
                buffer, indices, dtype, predicate
            ),
            "vstore": lambda indices, value, predicate=None: StoreNote(
                buffer, tuple(as_expr(i) for i in indices), value, predicate
            ),
            "scope": lambda: buffer.scope,
        }
        if name in methods:
            return methods[name]
        known = ["data", "dtype", "shape", "name", "strides", "elem_offset", "data_alignment"]
        known += ["offset_factor", "axis_separators", "ndim"]
        if name not in known:
            hint = close_name(name, [*known, *methods])
            self.source.error(node, f"Buffer has no attribute {name!r}", hint)
        if name == "elem_offset" and buffer.elem_offset is None:
            return 0
        return getattr(buffer, name)

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        result: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                result.extend(self.value(node.value))
            else:
                result.append(self.value(node))
        return result

    def _dict(self, node: ast.Dict) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                result.update(self.value(value))
            else:
                result[self.value(key)] = self.value(value)
        return result

    def _format(self, node: ast.JoinedStr) -> str:
        parts = []
        for part in node.values:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            parts.append(str(self.value(inner)))
        return "".join(parts)

    # ------------------------------------------------------------------------ operators

    def _binary(self, node: ast.BinOp) -> Any:
        # Down the left side in a loop: sums of many terms are deep there.
        spine = [node]
        while isinstance(spine[-1].left, ast.BinOp):
            spine.append(spine[-1].left)
        left = self.value(spine[-1].left)
        for part in reversed(spine):
            left = self._one_binary(part, left)
        return left

    def _one_binary(self, node: ast.BinOp, left: Any) -> Any:
        function = BINARY.get(type(node.op))
        if function is None:
            hint = "use T.pow" if isinstance(node.op, ast.Pow) else None
            self.source.error(node, f"operator {type(node.op).__name__} is not supported", hint)
        right = self.value(node.right)
        for side, value in ((node.left, left), (node.right, right)):
            if isinstance(value, Buffer):
                self.as_expr(side, value)
        try:
            return function(left, right)
        except Exception as error:
            self.convert(node, error)

    def _unary(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            if not isinstance(value, Operators):
                return not value
            return logical_not(self.truth(node.operand, value))
        try:
            return _UNARY[type(node.op)](value)
        except Exception as error:
            self.convert(node, error)

    def truth(self, node: ast.expr, value: Any) -> Expr:
        """A value as a condition."""
        expr = self.as_expr(node, value)
        if not expr.dtype.is_bool:
            hint = "compare it with something"
            self.source.error(node, f"a condition must be bool, got {expr.dtype}", hint)
        return expr

    def condition(self, node: ast.expr, value: Any) -> Expr:
        """A value that decides what runs next: one truth value."""
        expr = self.truth(node, value)
        if expr.dtype.lanes != 1:
            hint = "T.Select chooses in each lane"
            self.source.error(node, f"what runs cannot depend on the lanes of {expr.dtype}", hint)
        return expr

    def _bool(self, node: ast.BoolOp) -> Any:
        kind = And if isinstance(node.op, ast.And) else Or
        values = [self.value(part) for part in node.values]
        if not any(isinstance(value, Operators) for value in values):
            return all(values) if kind is And else any(values)
        exprs = [self.truth(part, v) for part, v in zip(node.values, values, strict=True)]
        result = exprs[0]
        for expr in exprs[1:]:
            with self.at(node):
                result = binary(kind, result, expr)
        return result

    def _compare(self, node: ast.Compare) -> Any:
        if len(node.ops) > 1:
            hint = "join two comparisons with `and`"
            self.source.error(node, "comparisons cannot be chained in a script", hint)
        op = node.ops[0]
        left, right = self.value(node.left), self.value(node.comparators[0])
        if isinstance(op, ast.Is | ast.IsNot):
            return (left is right) == isinstance(op, ast.Is)
        if isinstance(op, ast.In | ast.NotIn):
            return (left in right) == isinstance(op, ast.In)
        of_numbers, kind = _COMPARE[type(op)]
        try:
            if isinstance(left, Operators) or isinstance(right, Operators):
                return binary(kind, left, right)  # Python would swap the sides of 3 <= x
            return of_numbers(left, right)
        except Exception as error:
            self.convert(node, error)

    def _if(self, node: ast.IfExp) -> Any:
        test = self.value(node.test)
        if not isinstance(test, Operators):
            return self.value(node.body if test else node.orelse)
        condition = self.condition(node.test, test)
        yes, no = self.value(node.body), self.value(node.orelse)
        with self.at(node):
            return builders.if_then_else(condition, yes, no)

    # ------------------------------------------------------------------------ subscripts, calls

    def _slice(self, node: ast.Slice) -> slice:
        bounds = (node.lower, node.upper, node.step)
        return slice(*(None if bound is None else self.value(bound) for bound in bounds))

    def _subscript(self, node: ast.Subscript) -> Any:
        owner = self.value(node.value)
        if not isinstance(owner, Buffer):
            index = self.value(node.slice)
            with self.at(node):
                return owner[index if isinstance(index, (slice, str)) else _position(index)]
        parts = self.indices(node, owner)
        if any(isinstance(part, slice) for part in parts):
            return Sliced(owner, parts)
        with self.at(node):
            return BufferLoad(owner, [as_expr(part) for part in parts])

    def indices(self, node: ast.Subscript, buffer: Buffer) -> tuple[Any, ...]:
        """The indices and slices of `buffer[...]`, as many as it has dimensions."""
        value = self.value(node.slice)
        parts = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        if len(parts) != len(buffer.shape):
            self.source.error(
                node, f"{buffer.name} has {len(buffer.shape)} dimensions, got {len(parts)} indices"
            )
        for part in parts:
            self._check_index(node, part)
        return parts

    def _check_index(self, node: ast.Subscript, part: Any) -> None:
        if isinstance(part, (slice, int)) and not isinstance(part, bool):
            return
        if isinstance(part, Operators) and as_expr(part).dtype.is_int:
            return
        shown = part if not isinstance(part, Operators) else as_expr(part).dtype
        self.source.error(node.slice, f"an index must be an integer, got {shown}")

    def _call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "Let":
            return self._let(node)
        function = self.value(node.func)
        args = self._items(node.args)
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value)
            keywords.update(value if keyword.arg is None else {keyword.arg: value})
        if isinstance(function, (Expr, Buffer, str)):
            kind = type(function).__name__
            self.source.error(node, f"{tools.unparse(node.func)} is not a function ({kind})")
        try:
            return function(*args, **keywords)
        except Exception as error:
            self.convert(node, error)

    def _lambda(self, node: ast.Lambda) -> Callable[..., Any]:
        names = [arg.arg for arg in node.args.args]

        def apply(*values: Any) -> Any:
            if len(values) != len(names):
                raise UserError(f"a function of {len(names)} values is given {len(values)}")
            with self.scopes.scope() as inner:
                inner.update(zip(names, values))
                return self.value(node.body)

        return apply

    def _let(self, node: ast.Call) -> Expr:
        """`T.Let(body, where={x: value})`."""
        where = next((k.value for k in node.keywords if k.arg == "where"), None)
        if len(node.args) != 1 or not isinstance(where, ast.Dict):
            self.source.error(node, "T.Let takes a body and where={name: value}")
        bindings: list[tuple[Var, Expr]] = []
        with self.scopes.scope() as names:
            for key, part in zip(where.keys, where.values, strict=True):
                if not isinstance(key, ast.Name):
                    self.source.error(node, "T.Let binds names: where={x: 1}")
                value = self.expr(part)
                var = Var(key.id, value.dtype)
                names[key.id] = var
                bindings.append((var, value))
            body = self.expr(node.args[0])
        for var, value in reversed(bindings):
            body = Let(var, value, body)
        return body


def _vector_load(buffer: Buffer, indices: Any, kind: Any, predicate: Expr | None) -> BufferLoad:
    """`A.vload([i], "float32x4")`: as many elements from `i` on as the type has lanes."""
    parts = [as_expr(index) for index in indices]
    lanes = 1 if kind is None else as_dtype(kind).lanes // buffer.dtype.lanes
    if lanes > 1 and parts and parts[-1].dtype.lanes == 1:
        parts[-1] = Ramp(parts[-1], const(1, parts[-1].dtype), lanes)
    return BufferLoad(buffer, parts, predicate)


def _position(index: Any) -> Any:
    """A constant index of a Python sequence."""
    return index.__index__() if hasattr(index, "__index__") else index


def _shift(function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """A shift; expressions have no reflected one."""
    return function(as_expr(a, as_expr(b).dtype) if isinstance(b, Operators) else a, b)
