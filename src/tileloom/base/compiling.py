"""What Python's runtime is told while programs are compiled."""

from __future__ import annotations

import _thread
import gc
import os
import sys

from .errors import UserError
from .forking import waits_for
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
    """Which threads have some under way, how many each, and what to restore after the last."""

    def __init__(self) -> None:
        self.lock = _thread.allocate_lock()
        self.running: dict[int, int] = {}
        self.collects = False
        self.limit = self.raised = 0

    def enter(self) -> None:
        with self.lock:
            if not self.running:
                self.collects, self.limit = gc.isenabled(), sys.getrecursionlimit()
                gc.disable()
                self.raised = max(self.limit, RECURSION_LIMIT)
                sys.setrecursionlimit(self.raised)
            thread = _thread.get_ident()
            self.running[thread] = self.running.get(thread, 0) + 1

    def leave(self) -> None:
        with self.lock:
            thread = _thread.get_ident()
            self.running[thread] -= 1
            if not self.running[thread]:
                del self.running[thread]
                self._restore()

    def _restore(self) -> None:
        if not self.running:
            if sys.getrecursionlimit() == self.raised:  # nobody wants more meanwhile
                sys.setrecursionlimit(self.limit)
            if self.collects:
                gc.enable()

    def after_fork(self) -> None:
        """In the child: compilations of other threads will never end."""
        others = self.running.keys() - {_thread.get_ident()}
        for thread in others:
            del self.running[thread]
        if others:
            self._restore()


_compilations = _Compilations()
waits_for(_compilations.lock)
os.register_at_fork(after_in_child=_compilations.after_fork)


def compiling(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with deep recursion allowed and no search for garbage cycles while it runs.

    Recursion that goes deeper still is a `UserError`: a program nests its expressions so deeply.

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
        except RecursionError as error:
            raise UserError(
                "the program is nested too deeply to be compiled",
                hint="some thousand operators inside each other are the most; name parts of long "
                "expressions, or sum over a buffer in a loop",
            ) from error
        finally:
            _compilations.leave()

    # As `functools.wraps` has it.
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(run, name, getattr(function, name))
    run.__wrapped__ = function  # type: ignore[attr-defined]
    return run
