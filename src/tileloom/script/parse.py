"""Programs from text, and the decorators that read a program from Python source."""

from __future__ import annotations

import sys
from types import FrameType, FunctionType, SimpleNamespace

from ..base.compiling import compiling
from ..base.errors import ParseError
from ..base.late import TYPE_CHECKING, package
from ..tir import IRModule, PrimFunc
from .evaluate import Evaluator, Namespace, Scopes
from .macro import Macro
from .parse_func import is_private, parse_function, parse_module
from .parser import StatementParser
from .source import Source
from .syntax import ast, statements
from .syntax import parse as parse_syntax

if TYPE_CHECKING:
    import linecache
    from collections.abc import Callable, Mapping
    from typing import Any, overload
else:
    linecache = package("linecache")

_I = SimpleNamespace(ir_module=None, module_attrs=None)


@compiling
def parse(
    text: str, *, filename: str = "<script>", names: Mapping[str, Any] | None = None
) -> PrimFunc | IRModule:
    """The module or function that a text describes, as `show` prints it.

    Import lines are read for the names they give to `T` and `I`; other statements of the text may
    define constants and macros. Several functions are a module.

    Args:
        text: the program.
        filename: where errors say that it is from.
        names: further names that the text may use, with their values.

    Raises:
        ParseError: with the place in the text.

    >>> f = parse('''
    ... @T.prim_func
    ... def double(A: T.Buffer((8,), "float32")):
    ...     for i in range(8):
    ...         A[i] = A[i] * T.float32(2)
    ... ''')
    >>> f.name, f.body.extent
    ('double', 8)
    """
    source = Source(filename, text.splitlines())
    tree = source.parse(text)
    space = Namespace()
    known: dict[str, Any] = {"T": space, "I": _I, "tvm": SimpleNamespace(tir=space, script=_I)}
    known.update(names or {})
    found: dict[str, PrimFunc] = {}
    for node in tree.body:
        result = _top_level(node, source, known)
        if isinstance(result, IRModule):
            return result
        if result is not None:
            found[result.name if "global_symbol" in result.attrs else _name(node)] = result
    if not found:
        raise ParseError("the text holds no function or module", hint="decorate with @T.prim_func")
    return next(iter(found.values())) if len(found) == 1 else IRModule(found)


from_source = parse


def _name(node: ast.stmt) -> str:
    return node.name if isinstance(node, ast.FunctionDef) else "main"


def _top_level(node: ast.stmt, source: Source, known: dict[str, Any]) -> PrimFunc | IRModule | None:
    match node:
        case ast.ImportFrom() | ast.Import():
            for alias in node.names:
                if alias.name.split(".")[-1] in ("tir", "ir"):
                    space = known["T"] if alias.name.endswith("tir") else _I
                    known[alias.asname or alias.name] = space
        case ast.ClassDef():
            return parse_module(node, source, known)
        case ast.FunctionDef():
            if any(_decorates(item, "macro") for item in node.decorator_list):
                known[node.name] = Macro(node, source, lambda: known, _hygienic(node))
                return None
            private = is_private(node, StatementParser(source, known))
            return parse_function(node, source, known, private)
        case ast.Assign(targets=[ast.Name(id=name)]):
            known[name] = Evaluator(source, Scopes(known)).value(node.value)
        case ast.Expr(value=ast.Constant()):
            pass
        case _:
            source.error(node, "a script holds functions, modules and constants")
    return None


def _decorates(node: ast.expr, name: str) -> bool:
    head = node.func if isinstance(node, ast.Call) else node
    return (head.attr if isinstance(head, ast.Attribute) else getattr(head, "id", "")) == name


def _hygienic(node: ast.FunctionDef) -> bool:
    for item in node.decorator_list:
        if isinstance(item, ast.Call) and _decorates(item, "macro"):
            for keyword in item.keywords:
                if keyword.arg == "hygienic" and isinstance(keyword.value, ast.Constant):
                    return bool(keyword.value.value)
    return True


# ---------------------------------------------------------------------------- decorators


if TYPE_CHECKING:

    @overload
    def prim_func(func: Callable[..., Any]) -> PrimFunc: ...
    @overload
    def prim_func(
        *, private: bool = False, check_well_formed: bool = True
    ) -> Callable[[Callable[..., Any]], PrimFunc]: ...


def prim_func(
    func: Callable[..., Any] | None = None,
    *,
    private: bool = False,
    check_well_formed: bool = True,
) -> Any:
    """Read a tensor program from the source of a Python function.

    The body is not run: it is parsed. Names around the function are constants in it.

    Args:
        func: the function; inside a class under `I.ir_module` it is left for that.
        private: give it no "global_symbol".
        check_well_formed: accepted for the sake of programs written for TVM.
    """
    frame = _caller(1)

    @compiling
    def read(function: Callable[..., Any]) -> Any:
        if _is_in_module(function):
            return function
        node, source = _function_source(function)
        return parse_function(node, source, _captured(function, frame), private)

    return read if func is None else read(func)


def macro(func: Callable[..., Any] | None = None, *, hygienic: bool = True) -> Any:
    """Make a function of statements that a script inlines where it calls it."""
    frame = _caller(1)

    @compiling
    def read(function: Callable[..., Any]) -> Macro:
        node, source = _function_source(function)
        enclosing = _enclosing(function, frame)
        return Macro(node, source, lambda: {**function.__globals__, **enclosing}, hygienic)

    return read if func is None else read(func)


def ir_module(cls: type[Any] | None = None, **_options: Any) -> Any:
    """Read a module from the source of a class whose functions are `T.prim_func`s."""
    frame = _caller(1)

    @compiling
    def read(found: type[Any]) -> IRModule:
        functions = [item for item in vars(found).values() if isinstance(item, FunctionType)]
        if not functions:
            return IRModule({})
        node, source = _class_source(found, functions[0])
        return parse_module(node, source, _captured(functions[0], frame))

    return read if cls is None else read(cls)


def _caller(depth: int) -> FrameType:
    return sys._getframe(depth + 1)


def _is_in_module(function: Any) -> bool:
    """Whether a function stands in a class that becomes a module."""
    outer = function.__qualname__.rpartition(".")[0]
    if not outer or outer.endswith("<locals>"):
        return False
    tree, _ = _file_tree(function)
    line = function.__code__.co_firstlineno
    around = [
        node
        for node in statements(tree)
        if isinstance(node, ast.ClassDef) and node.lineno <= line <= (node.end_lineno or line)
    ]
    # The innermost one comes last, as those around it start before it.
    cls = max(around, key=lambda node: node.lineno, default=None)
    return cls is None or any(_decorates(item, "ir_module") for item in cls.decorator_list)


def _captured(function: Any, frame: FrameType | None) -> dict[str, Any]:
    """What the names around a function stand for: closure, then scopes outside, then globals."""
    return {**function.__globals__, **_enclosing(function, frame)}


def _enclosing(function: Any, frame: FrameType | None) -> dict[str, Any]:
    """The names of the functions and classes around a function.

    The closure lacks what annotations alone name, so the running functions and classes that the
    function stands in are looked at too.
    """
    cells: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            cells[name] = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    found: dict[str, Any] = {}
    while frame is not None and frame.f_globals is not function.__globals__:
        frame = frame.f_back  # a decorator that calls ours
    while frame is not None and frame.f_globals is function.__globals__:
        if function.__qualname__.startswith(f"{frame.f_code.co_qualname}."):
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    return {**found, **cells}


def _file_tree(function: Any) -> tuple[ast.Module, Source]:
    filename = function.__code__.co_filename
    try:
        with open(filename, encoding="utf-8") as file:
            lines = file.readlines()
    except (OSError, UnicodeDecodeError):  # a notebook, an archive, another encoding
        linecache.checkcache(filename)
        lines = linecache.getlines(filename, function.__globals__)
    if not lines:
        raise ParseError(
            f"the source text of {function.__qualname__} cannot be found",
            hint="give the program as text: tileloom.script.parse(text)",
        )
    text = "".join(lines).removeprefix("\ufeff")  # a mark of the encoding
    return _parse_lines(filename, text), Source(filename, lines)


_trees: dict[str, tuple[str, ast.Module]] = {}


def _parse_lines(filename: str, text: str) -> ast.Module:
    known = _trees.get(filename)
    if known is None or known[0] != text:
        known = _trees[filename] = (text, parse_syntax(text))
    return known[1]


def _function_source(function: Any) -> tuple[ast.FunctionDef, Source]:
    tree, source = _file_tree(function)
    first = function.__code__.co_firstlineno
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            starts = {node.lineno, *(item.lineno for item in node.decorator_list)}
            if first in starts:
                return node, source
    raise ParseError(f"the source text of {function.__qualname__} cannot be found")


def _class_source(cls: type[Any], function: Any) -> tuple[ast.ClassDef, Source]:
    tree, source = _file_tree(function)
    line = function.__code__.co_firstlineno
    for node in statements(tree):
        if (
            isinstance(node, ast.ClassDef)
            and node.name == cls.__name__
            and node.lineno <= line <= (node.end_lineno or line)
        ):
            return node, source
    raise ParseError(f"the source text of {cls.__qualname__} cannot be found")
