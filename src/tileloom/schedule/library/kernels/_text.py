"""Kernels from text, with the names that it uses."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent
from typing import Any

from ....base import DType, dtype
from ....base.errors import InternalError
from ....script import parse
from ....tir import PrimFunc

_HEAD = "from tileloom.script import tir as T\n\n"


def under(head: str, *body: str) -> str:
    """Statements under a head that ends in a colon.

    >>> print(under("if x:", "y()", under("for i in z:", "u()")))
    if x:
        y()
        for i in z:
            u()
    """
    return "\n".join([head, *(indent(part, "    ") for part in body if part)])


def kernel(head: str, body: list[str], names: Mapping[str, Any]) -> PrimFunc:
    """A function of loops that are bound to threads, one after another.

    Args:
        head: its name, and its parameters in parentheses.
        body: its statements.
        names: values that the text uses.
    """
    func = parse(_HEAD + "@T.prim_func\n" + under(f"def {head}:", *body), names=names)
    if not isinstance(func, PrimFunc):
        raise InternalError("the text of a kernel is a function")
    return func


def blocks_of(blocks: int, threads: int, name: str, *body: str) -> str:
    """Statements that threads `t` of blocks `b` run."""
    return under(
        f'for b in T.thread_binding({blocks}, "blockIdx.x"):',
        under(
            f'for t in T.thread_binding({threads}, "threadIdx.x"):',
            under(f'with T.block("{name}"):', *body),
        ),
    )


def wide_type(kind: DType) -> DType:
    """The type that threads compute in: what a shuffle moves whole."""
    if kind.is_float:
        return kind if kind.bits >= 32 else dtype("float32")
    if kind.bits >= 32:
        return kind
    return dtype("uint32" if kind.is_unsigned or kind.is_bool else "int32")
