"""`tvm.script`: programs as Python text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....script import tir
from ....script.parse import parse as _parse
from ....tir import PrimFunc
from .._names import missing
from ..ir.module import as_module
from . import ir
from .ir import ir_module


def from_source(
    program: Any, extra_vars: Mapping[str, Any] | None = None, check_well_formed: bool = True
) -> Any:
    """The function or module of a text (or of what has a `script()`)."""
    text = program if isinstance(program, str) else program.script()
    found = _parse(text, names=extra_vars)
    return found if isinstance(found, PrimFunc) else as_module(found)


parse = from_source

__all__ = ["from_source", "ir", "ir_module", "parse", "tir"]
__getattr__ = missing(__name__)
