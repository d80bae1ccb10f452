"""Where candidates are made: in this process, or in several others."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Protocol

from .proposals import Candidate, Proposer

#: The most candidates that a process is given at a time.
CHUNK = 8
#: Programs that a process has at hand.
_AT_HAND = 4
#: Objects that a process makes between two searches for cycles; Python's default is 700.
_OBJECTS = 200_000


class Workers(Protocol):
    """Makes candidates of a program."""

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


class WorkerPool:
    """Processes that make candidates of any number of programs.

    Args:
        count: of processes; with one, candidates are made in this one.
    """

    def __init__(self, count: int) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._count = count
        if count > 1:
            # Programs go through files, of which each process reads those that it needs, once.
            self._folder = TemporaryDirectory(prefix="tileloom-tuner-")
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(count, context, _begin)
        self._programs = 0

    def workers(self, proposer: Proposer) -> Workers:
        """What makes candidates of a program."""
        if self._pool is None:
            return InThisProcess(proposer)
        self._programs += 1
        path = Path(self._folder.name) / f"{self._programs}.program"
        path.write_bytes(pickle.dumps(proposer))
        return _InProcesses(self._pool, self._count, str(path))

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._folder.cleanup()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(frozen=True)
class _InProcesses:
    """Makes candidates of the program in a file."""

    pool: ProcessPoolExecutor
    count: int
    path: str

    def map(self, task: str, arguments: Sequence[tuple[Any, ...]]) -> list[Candidate | None]:
        """See `Workers`."""
        tasks = [(self.path, task, given) for given in arguments]
        share = -(-len(tasks) // (2 * self.count))  # so that no process waits long for the last
        return list(self.pool.map(_make, tasks, chunksize=max(1, min(CHUNK, share))))


def _begin() -> None:
    """What a process does before anything else."""
    # Candidates are made of many small objects, which hold no cycles.
    gc.set_threshold(_OBJECTS)
    gc.freeze()  # what is there now stays
    # Ctrl-C reaches all processes of a terminal: what it means is decided by the one that tunes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@lru_cache(maxsize=_AT_HAND)
def _proposer(path: str) -> Proposer:
    found: Proposer = pickle.loads(Path(path).read_bytes())
    return found


def _make(task: tuple[str, str, tuple[Any, ...]]) -> Candidate | None:
    path, method, arguments = task
    result: Candidate | None = getattr(_proposer(path), method)(*arguments)
    return result
