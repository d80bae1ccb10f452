"""Writes the stubs of tileloom.numpy: array functions for type checkers and editors.

The functions are registered when they are defined, which no tool that only reads sees.
`python tools/array_stubs.py` writes them down; a test says when that is due again.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tileloom.numpy
from tileloom.numpy import linalg

FOLDER = Path(__file__).parent.parent / "src" / "tileloom" / "numpy"
SCALARS = (
    "bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
    "uint32", "uint64",
)  # fmt: skip
HEAD = '''\
"""{about}

Written by `tools/array_stubs.py` from the functions themselves; do not edit.
"""

'''
NAMESPACE = f'''\
import builtins
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy
from numpy.typing import DTypeLike, NDArray

from . import linalg as linalg

class _HasArray(Protocol):
    def __array__(self, *args: Any, **kwargs: Any) -> Any: ...

class _HasDLPack(Protocol):
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

# Inside a traced function arrays are traced ones, which answer as NumPy's do.
_Array: TypeAlias = NDArray[Any]
_ArrayLike: TypeAlias = _HasArray | _HasDLPack | float | list[Any] | tuple[Any, ...]
_Axis: TypeAlias = int | Sequence[int] | None
_Shape: TypeAlias = int | Sequence[int]

class _Unary(Protocol):
    def __call__(self, x: _ArrayLike, /) -> _Array:
        """Elementwise; the type of the result is NumPy's."""

class _Binary(Protocol):
    def __call__(self, x1: _ArrayLike, x2: _ArrayLike, /) -> _Array:
        """Elementwise with broadcasting; types are promoted as in NumPy."""

{"".join(f"{name}: TypeAlias = numpy.{name}" + chr(10) for name in SCALARS)}
bfloat16: Any  # of ml_dtypes
e: float
inf: float
nan: float
newaxis: None
pi: float

'''
LINALG = """\
import builtins

from numpy.typing import DTypeLike

from . import _Array, _ArrayLike, _Axis
from . import matmul as matmul
from . import matrix_transpose as matrix_transpose
from . import tensordot as tensordot
from . import vecdot as vecdot

"""
_NAMES = {
    "Array": "_Array", "ArrayLike": "_ArrayLike", "Axis": "_Axis", "Shape": "_Shape",
    "bool": "builtins.bool", "np": "numpy",
}  # fmt: skip
#: Functions of which nothing else is said are typed as one.
_ALIKE = {
    "Elementwise; the type of the result is NumPy's.": "_Unary",
    "Elementwise with broadcasting; types are promoted as in NumPy.": "_Binary",
}
_DTYPES = {"dtype": "DTypeLike | None", "dtype_": "DTypeLike", "to": "DTypeLike"}


def pages() -> dict[str, str]:
    """The stubs as they should be, by file."""
    own = [name for name in linalg.__all__ if f" as {name}\n" not in LINALG]  # type: ignore[attr-defined]
    return {
        "__init__.pyi": HEAD.format(about="Array functions, for type checkers and editors.")
        + NAMESPACE
        + _functions(tileloom.numpy),
        "linalg.pyi": HEAD.format(about="Linear algebra, for type checkers and editors.")
        + LINALG
        + _functions(linalg, own),
    }


def _functions(module: Any, names: list[str] | None = None) -> str:
    found = [getattr(module, name) for name in sorted(names or module.__all__)]
    functions = [each for each in found if inspect.isfunction(each)]
    alike = [f"{f.__name__}: {_ALIKE[_about(f)]}\n" for f in functions if _about(f) in _ALIKE]
    others = [_function(f) for f in functions if _about(f) not in _ALIKE]
    return "".join(alike) + "\n" * bool(alike) + "\n".join(others)


def _about(function: Callable[..., Any]) -> str:
    """What its documentation says first, without its name."""
    about = inspect.cleandoc(function.__doc__ or "").split("\n\n")[0]
    return about.replace(f" `{function.__name__}`", "")


def _function(function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    result = _type(str(signature.return_annotation))
    line = f"def {function.__name__}({', '.join(_parameters(signature))}) -> {result}:"
    if len(line) > 100:
        line = f"def {function.__name__}(\n    {', '.join(_parameters(signature))}\n) -> {result}:"
    if max(map(len, line.splitlines())) > 100:
        inside = "".join(f"    {part},\n" for part in _parameters(signature))
        line = f"def {function.__name__}(\n{inside}) -> {result}:"
    about = inspect.cleandoc(function.__doc__ or "").split("\n\n")[0]
    return f"{line}\n{_docstring(about)}\n"


def _parameters(signature: inspect.Signature) -> list[str]:
    """The parameters with their types, and the marks between the kinds of them."""
    shown: list[str] = []
    last = None
    for p in signature.parameters.values():
        if last is p.POSITIONAL_ONLY and p.kind is not last:
            shown.append("/")
        if p.kind is p.KEYWORD_ONLY and last not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            shown.append("*")
        star = "*" if p.kind is p.VAR_POSITIONAL else ""
        text = f"{star}{p.name}: {_DTYPES.get(p.name) or _type(str(p.annotation))}"
        if p.default is not p.empty:
            text += f" = {_value(p.default)}"
        shown.append(text)
        last = p.kind
    return [*shown, "/"] if last is inspect.Parameter.POSITIONAL_ONLY else shown


def _value(default: Any) -> str:
    return f'"{default}"' if isinstance(default, str) else repr(default)


def _type(annotation: str) -> str:
    """An annotation of a function as users see it."""
    return re.sub(r"\w+", lambda match: _NAMES.get(match[0], match[0]), annotation)


def _docstring(about: str) -> str:
    short = f'    """{" ".join(about.split())}"""'
    if len(short) <= 100:
        return short
    first, *rest = textwrap.wrap(about, 90)
    return "\n".join([f'    """{first}', *(f"    {line}" for line in rest), '    """'])


if __name__ == "__main__":
    for file, page in pages().items():
        (FOLDER / file).write_text(page)
