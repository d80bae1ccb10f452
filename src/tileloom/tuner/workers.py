"""Where candidates are made: in this process, or in several others."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from .proposals import Candidate, Proposer

#: Candidates that a process is given at a time.
CHUNK = 8


class Workers(Protocol):
    """Makes candidates."""

    def map(self, task: str, arguments: Sequence[tuple[Any, ...]]) -> list[Candidate | None]:
        """The results of a method of `Proposer` for arguments, in their order."""


@dataclass(frozen=True)
class InThisProcess:
    """Makes candidates here, one after another."""

    proposer: Proposer

    def map(self, task: str, arguments: Sequence[tuple[Any, ...]]) -> list[Candidate | None]:
        """See `Workers`."""
        method: Callable[..., Candidate | None] = getattr(self.proposer, task)
        return [method(*given) for given in arguments]


class InProcesses:
    """Makes candidates in processes of its own, which know the program from the start.

    Args:
        proposer: what makes them; a copy goes to each process.
        count: of processes.
    """

    def __init__(self, proposer: Proposer, count: int) -> None:
        self._pool = ProcessPoolExecutor(
            count,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(proposer,),
        )

    def map(self, task: str, arguments: Sequence[tuple[Any, ...]]) -> list[Candidate | None]:
        """See `Workers`."""
        tasks = [(task, given) for given in arguments]
        return list(self._pool.map(_make, tasks, chunksize=CHUNK))

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(cancel_futures=True)

    def __enter__(self) -> InProcesses:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


_mine: dict[str, Proposer] = {}  # of a process that makes candidates


def _begin(proposer: Proposer) -> None:
    _mine["proposer"] = proposer


def _make(task: tuple[str, tuple[Any, ...]]) -> Candidate | None:
    method, arguments = task
    result: Candidate | None = getattr(_mine["proposer"], method)(*arguments)
    return result
