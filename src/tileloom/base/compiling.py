"""What Python's runtime is told while programs are compiled."""

from __future__ import annotations

import _thread
import gc
import sys

from .late import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

#: Frames that recursion over a deep expression may take: far more than Python allows by itself, far
#: fewer than overflow the stack of a thread.
RECURSION_LIMIT = 5000


class _Compilations:
    """How many run now, in all threads, and what to restore after the last."""

    def __init__(self) -> None:
        self.lock = _thread.allocate_lock()
        self.count = 0
        self.collects = False
        self.limit = self.raised = 0

    def enter(self) -> None:
        with self.lock:
            if self.count == 0:
                self.collects, self.limit = gc.isenabled(), sys.getrecursionlimit()
                gc.disable()
                self.raised = max(self.limit, RECURSION_LIMIT)
                sys.setrecursionlimit(self.raised)
            self.count += 1

    def leave(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                if sys.getrecursionlimit() == self.raised:  # nobody wants more meanwhile
                    sys.setrecursionlimit(self.limit)
                if self.collects:
                    gc.enable()


_compilations = _Compilations()


def compiling(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with deep recursion allowed and no search for garbage cycles while it runs.

    Compiling makes hundreds of thousands of nodes that live until its end; walking them again and
    again to find that none is garbage takes as long as the work itself.

    >>> import gc
    >>> compiling(gc.isenabled)(), gc.isenabled()
    (False, True)
    """

    def run(*args: P.args, **options: P.kwargs) -> R:
        _compilations.enter()
        try:
            return function(*args, **options)
        finally:
            _compilations.leave()

    # As `functools.wraps` has it.
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(run, name, getattr(function, name))
    run.__wrapped__ = function  # type: ignore[attr-defined]
    return run
