"""`tvm.tir.schedule.testing`: checks of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .....base.errors import UserError
from .....script import tir as T
from .....tir import IRModule, PrimFunc
from ..._names import missing
from ...ir import assert_structural_equal
from .. import buffer, expr, function
from . import Schedule, Trace


class RoundTripError(UserError, AssertionError):
    """A trace that reads back as another one."""


def assert_structural_equal_ignore_global_symbol(
    lhs: PrimFunc | IRModule, rhs: PrimFunc | IRModule, map_free_vars: bool = False
) -> None:
    """`assert_structural_equal` that does not mind what functions are called.

    A single function is taken for a module of it.
    """
    assert_structural_equal(_without_symbols(lhs), _without_symbols(rhs), map_free_vars)


def _without_symbols(program: PrimFunc | IRModule) -> Any:
    if isinstance(program, PrimFunc):
        return program.without_attr("global_symbol")
    functions = {name: _without_symbols(func) for name, func in program.functions.items()}
    return program.replace(functions=functions)


def verify_trace_roundtrip(
    sch: Any,
    mod: PrimFunc | IRModule,
    *,
    debug_mask: str | int = "all",
    text_format: str | Sequence[str] = ("python", "json"),
) -> Any:
    """Write the trace of `sch` as text, replay that on `mod`, and compare programs and traces.

    Returns:
        The schedule that followed the text.
    """
    formats = (text_format,) if isinstance(text_format, str) else text_format
    replayed: Any = None
    for name in formats:
        replayed = Schedule.build(mod, debug_mask=debug_mask)
        if name == "json":
            Trace.apply_json_to_schedule(sch.trace.as_json(), replayed)
        elif name == "python":
            _run_python(sch.trace.as_python(), replayed)
        else:
            raise UserError(f"no trace format {name!r}", hint='"json" or "python"')
        assert_structural_equal(replayed.mod, sch.mod)
        texts = ["\n".join(s.trace.as_python()) for s in (sch, replayed)]
        if texts[0] != texts[1]:
            raise RoundTripError(f"the trace\n{texts[0]}\nreads back as\n{texts[1]}")
    return replayed


def _run_python(lines: Sequence[str], sch: Any) -> None:
    known: dict[str, Any] = {"T": T}
    for module in (expr, function, buffer):
        known.update({k: v for k, v in vars(module).items() if not k.startswith("_")})
    exec("\n".join(lines), known, {"sch": sch})


__getattr__ = missing(__name__)
