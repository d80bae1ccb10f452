"""What runs in a worker process of `LocalExecutor`: one task after the other, until nobody asks.

A task is a pickle of (function, arguments, keywords). It is answered by `STARTED` once it has been
read, which loads whatever modules it needs, and then by a pickle of (whether it returned, what it
returned or raised).
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import signal
import traceback
from multiprocessing.connection import Connection
from typing import Any

from ...base.errors import UserError

STARTED = b"started"
_PR_SET_PDEATHSIG = 1


class MeasureError(UserError):
    """A task that came to no end of its own.

    Attributes:
        reason: "timeout", "memory"; "crash", by its own doing; "killed", by somebody else's;
            "error", of a kind that cannot be sent from one process to another.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return MeasureError, (self.reason, self.message)


def serve(descriptor: int, parent: int, cores: list[int]) -> None:
    """Perform tasks until the other end of the socket is closed, or its process is gone.

    Args:
        descriptor: of the socket that tasks come from.
        parent: the process at its other end.
        cores: those that this process may use; all if there are none.
    """
    _end_with(parent)
    faulthandler.enable()
    if cores:
        os.sched_setaffinity(0, cores)
    os.set_inheritable(descriptor, False)
    with Connection(descriptor) as channel:
        while True:
            try:
                frame = channel.recv_bytes()
            except (EOFError, OSError):
                return
            channel.send_bytes(_answer(frame, channel))


def _end_with(parent: int) -> None:
    """Have the system kill this process when its parent ends, even amid an endless loop."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit


def _answer(frame: bytes, channel: Connection) -> bytes:
    try:
        function, arguments, keywords = pickle.loads(frame)
        channel.send_bytes(STARTED)
        return pickle.dumps((True, function(*arguments, **keywords)))
    except BaseException as error:  # SystemExit too: a task does not end its worker
        return pickle.dumps((False, _portable(error)))


def _portable(error: BaseException) -> BaseException:
    """The error with its traceback as a note, or another one if it cannot be sent."""
    lines = "".join(traceback.format_exception(error))
    error.add_note(f"in a worker process:\n{lines}")
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # anything at all, by the methods of a class we do not know
        return MeasureError("error", f"{type(error).__name__}: {error}")
    return error
