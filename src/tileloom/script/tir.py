"""The `T` namespace of scripts: `from tileloom.script import tir as T`.

Scripts are parsed, not run; outside of one these functions make the parser's notes, or expressions.
Every registered operation is there as a function, and every data type as a constructor.
"""

from __future__ import annotations

from ..base.late import TYPE_CHECKING
from .builders import (
    Assert,
    Cast,
    LetStmt,
    alloc_buffer,
    allocate,
    allocate_const,
    attr,
    axis,
    bind,
    block,
    block_attr,
    cast,
    decl_buffer,
    env_thread,
    evaluate,
    func_attr,
    grid,
    if_then_else,
    init,
    launch_thread,
    let,
    lookup,
    match_buffer,
    meta_var,
    names,
    parallel,
    reads,
    ret,
    serial,
    thread_binding,
    unroll,
    vectorized,
    where,
    writes,
)
from .builders import Broadcast_ as Broadcast
from .builders import Buffer_ as Buffer
from .builders import Ramp_ as Ramp
from .builders import Select_ as Select
from .builders import Shuffle_ as Shuffle
from .parse import macro, prim_func

if TYPE_CHECKING:
    from typing import Any
else:  # a type in annotations, `a: T.handle`, which `__getattr__` makes it for type checkers
    from .builders import handle

__all__ = [
    "Assert", "Broadcast", "Buffer", "Cast", "LetStmt", "Ramp", "Select",
    "Shuffle", "alloc_buffer", "allocate", "allocate_const", "attr", "axis", "bind", "block",
    "block_attr", "cast", "decl_buffer", "env_thread", "evaluate", "func_attr", "grid", "handle",
    "if_then_else", "init", "launch_thread", "let", "macro", "match_buffer", "meta_var",
    "parallel", "prim_func", "reads", "ret", "serial", "thread_binding", "unroll", "vectorized",
    "where", "writes",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    return lookup(name)


def __dir__() -> list[str]:
    return names()
