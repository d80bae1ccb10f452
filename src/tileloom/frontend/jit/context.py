"""Which function this thread is tracing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...graph.checks import Check
from ...graph.nodes import Tensor


class FunctionTrace:
    """One run of a function with arrays that know no values; arrays remember theirs.

    Attributes:
        function: what is traced, as messages name it.
        checks: what the program has to look at while it runs.
        looked_at: the indices that are among them already, with the extent of the axis.
    """

    __slots__ = ("checks", "function", "looked_at")

    def __init__(self, function: str) -> None:
        self.function = function
        self.checks: list[Check] = []
        self.looked_at: set[tuple[Tensor, str]] = set()


class _Traces(threading.local):
    """The functions that this thread is tracing, each called by the one before."""

    def __init__(self) -> None:
        self.stack: list[FunctionTrace] = []


_traces = _Traces()


def current() -> FunctionTrace | None:
    """The innermost function that this thread is tracing."""
    stack = _traces.stack
    return stack[-1] if stack else None


def tracing() -> bool:
    """Whether this thread is tracing a function."""
    return bool(_traces.stack)


def is_running(trace: FunctionTrace) -> bool:
    """Whether a trace has not ended."""
    return trace in _traces.stack


@contextmanager
def trace(function: str) -> Iterator[FunctionTrace]:
    """While a function is traced."""
    made = FunctionTrace(function)
    _traces.stack.append(made)
    try:
        yield made
    finally:
        _traces.stack.pop()


def describe(function: Callable[..., Any]) -> str:
    """A function as people look for it: its name, and where it is written.

    >>> describe(len)
    'len'
    """
    name = getattr(function, "__name__", None) or type(function).__name__
    code = getattr(function, "__code__", None)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else str(name)
