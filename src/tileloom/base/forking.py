"""Locks and compilations across `os.fork`, which copies the calling thread alone.

What other threads hold at that moment stays held in the child, by nobody. So locks of one object
are renewed there (`ForkLock`), and a fork waits for what must not be cut in two: a call into LLVM
(`waits_for`), and an import of one of our modules.
"""

from __future__ import annotations

import _frozen_importlib
import _thread
import os
from weakref import WeakSet

from .late import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Protocol

    class Lock(Protocol):
        """What `with` takes and gives back."""

        def __enter__(self) -> object: ...

        def __exit__(self, *error: Any) -> object: ...


class ForkLock:
    """A reentrant lock that a child process finds free, unless the thread that forked holds it.

    >>> lock = ForkLock()
    >>> with lock, lock:
    ...     print("held twice")
    held twice
    """

    def __init__(self) -> None:
        self._lock = _thread.RLock()
        _renewed.add(self)

    def __enter__(self) -> object:
        return self._lock.acquire()

    def __exit__(self, *error: Any) -> None:
        self._lock.release()

    def renew(self) -> None:
        """In a child: forget a holder that is gone."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = _thread.RLock()


_renewed: WeakSet[ForkLock] = WeakSet()
_awaited: list[Lock] = []


def waits_for(lock: Lock) -> None:
    """Let forks wait until no other thread holds this lock; the first given is taken first.

    Whoever holds it may ask for no lock but those given later.
    """
    _awaited.append(lock)


def _before() -> None:
    _finish_imports()
    for lock in _awaited:
        lock.__enter__()


def _finish_imports() -> None:
    """Wait for imports of our modules by other threads: a child could never repeat them."""
    root = __name__.partition(".")[0]
    under_way: dict[str, Any] = getattr(_frozen_importlib, "_module_locks", {})
    for name in list(under_way):
        if name.partition(".")[0] == root:
            try:
                __import__(name)
            except Exception:  # the thread that imports it is told as well
                continue


def _after() -> None:
    for lock in reversed(_awaited):
        lock.__exit__(None, None, None)


def _after_in_child() -> None:
    _after()
    for lock in list(_renewed):
        lock.renew()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
