"""Functions of users in processes of their own: they may crash, hang, and be closures."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


class ChildError(Exception):
    """What went wrong, as TVM says it."""


def in_child(call: Callable[[], Any], seconds: float, who: str) -> Any:
    """What a function returns in a fork of this process, which may take so long.

    Raises:
        ChildError: it raised something, took longer or ended its process.
    """
    fork = multiprocessing.get_context("fork")  # a closure reaches no other kind of process
    ours, theirs = fork.Pipe(duplex=False)
    child = fork.Process(target=_answer, args=(theirs, call), daemon=True)
    child.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            raise ChildError(f"{who}: Timeout, killed after {seconds} seconds\n")
        returned, value = ours.recv()
    except EOFError:
        raise ChildError(f"{who}: An exception occurred\nthe process crashed\n") from None
    finally:
        child.kill()
        child.join()
        ours.close()
    if not returned:
        raise ChildError(f"{who}: An exception occurred\n{value}")
    return value


def _answer(channel: Connection, call: Callable[[], Any]) -> None:
    try:
        channel.send((True, call()))
    except BaseException:  # SystemExit too
        channel.send((False, traceback.format_exc()))
