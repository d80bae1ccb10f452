"""Functions from their text."""

from __future__ import annotations

from ....base.errors import InternalError
from ....script import from_source
from ....tir import PrimFunc

_HEAD = "from tileloom.script import tir as T\n\n"


def parsed(text: str) -> PrimFunc:
    """The function that a text defines; `T` is known."""
    func = from_source(_HEAD + text)
    if not isinstance(func, PrimFunc):
        raise InternalError("the text of an intrinsic is a function")
    return func
