"""Functions from their text."""

from __future__ import annotations

from ....base.errors import InternalError
from ....script import from_source
from ....tir import PrimFunc

#: A description and an implementation.
Pair = tuple[PrimFunc, PrimFunc]

_HEAD = "from tileloom.script import tir as T\n\n@T.prim_func\n"


def pair(handles: str, desc: str, impl: str) -> Pair:
    """A description and an implementation with these handles, a letter each, from their bodies."""
    return parsed("desc", handles, desc), parsed("impl", handles, impl)


def parsed(name: str, handles: str, body: str) -> PrimFunc:
    """The function of a name, of handles, a letter each, and of a body; `T` is known."""
    params = ", ".join(f"{handle}: T.handle" for handle in handles)
    func = from_source(f"{_HEAD}def {name}({params}) -> None:{body}\n")
    if not isinstance(func, PrimFunc):
        raise InternalError("the text of an intrinsic is a function")
    return func
