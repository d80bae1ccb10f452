"""Python's cyclic garbage collector, held back while programs are compiled."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class _Holds:
    """How many compilations run now, in all threads, and whether to collect after the last."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.resume = False

    def enter(self) -> None:
        with self.lock:
            if self.count == 0:
                self.resume = gc.isenabled()
                gc.disable()
            self.count += 1

    def leave(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0 and self.resume:
                gc.enable()


_holds = _Holds()


def without_collection(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with no search for garbage cycles while it runs.

    Compiling makes hundreds of thousands of nodes that live until its end; walking them again and
    again to find that none is garbage takes as long as the work itself.

    >>> import gc
    >>> without_collection(gc.isenabled)(), gc.isenabled()
    (False, True)
    """

    @wraps(function)
    def run(*args: P.args, **options: P.kwargs) -> R:
        _holds.enter()
        try:
            return function(*args, **options)
        finally:
            _holds.leave()

    return run
