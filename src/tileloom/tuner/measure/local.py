"""An executor on processes of this machine that survives whatever its tasks do.

`concurrent.futures.ProcessPoolExecutor` is broken for good when one of its processes dies, and has
no limits of time or memory. Candidates of a search do die and do run for ever: each such task costs
its own worker, and nobody else anything.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import Any, ParamSpec, TypeVar

from ...base.errors import InternalError, UserError
from .worker import STARTED, MeasureError

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["Limits", "LocalExecutor", "MeasureError"]

_BOOT = (
    "import sys, json; number, parent, cores, path = json.loads(sys.argv[1]); sys.path[:] = path; "
    "from tileloom.tuner.measure.worker import serve; serve(number, parent, cores)"
)
_STARTUP = 120.0  # seconds until a worker has loaded the modules of its task, on a busy machine
_LONG = 3600.0  # seconds that are no pause too short or too long for the system
_WATCH = 0.05  # seconds from one look at a worker's memory to the next
_PAGE = os.sysconf("SC_PAGESIZE")
_MOST_LOG = 2000  # characters of what a worker has said that an error quotes
#: Signals that a process brings upon itself; others are sent by somebody else.
_OWN_SIGNALS = frozenset(
    {
        *(signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE),
        *(signal.SIGILL, signal.SIGTRAP, signal.SIGSYS, signal.SIGPIPE),
    }
)


@dataclass(frozen=True)
class Limits:
    """What a task may take.

    Attributes:
        seconds: from when its worker has loaded what it needs to its end.
        memory: bytes of RAM that its process holds, about 150 MB of which are the compiler's own;
            None for no limit. Address space is not limited: GPU drivers reserve terabytes of it.
    """

    seconds: float = 30.0
    memory: int | None = None


class LocalExecutor(Executor):
    """Tasks in processes of their own, each process used again for the next task.

    A task that runs longer than it may, takes more memory than it may, or crashes, takes its worker
    process with it; its future gets a `MeasureError`, a new process takes the place, and other
    tasks notice nothing. A task is tried once more in a fresh process if somebody else has killed
    its worker (the system, short of memory, or a person), or if it crashed where other tasks had
    run before, which may have left the fault behind.

    Processes are started, not forked, when there is work for them; functions and arguments come by
    pickle. They end with this process, and so does what is still to be done: ask futures for their
    results, or use the executor in a `with` block.

    Args:
        workers: processes at a time.
        limits: for each task.
        cores: CPUs to pin workers to, dealt out in equal parts; None pins none.

    >>> with LocalExecutor(2) as executor:
    ...     list(executor.map(abs, [-1, 2, -3]))
    [1, 2, 3]
    """

    def __init__(
        self, workers: int = 1, limits: Limits | None = None, cores: Sequence[int] | None = None
    ) -> None:
        if workers < 1:
            raise UserError(f"an executor has at least one worker, not {workers}")
        shares = _shares(cores, workers)
        self.workers = workers
        self.limits = limits or Limits()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=_supervise, args=(self._jobs, self.limits, share), daemon=True)
            for share in shares
        ]
        for thread in self._threads:
            thread.start()
        self._is_shut = False
        self._owner = os.getpid()
        weakref.finalize(self, _finish, self._jobs, workers)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a worker call a function of a module that it can import.

        Raises:
            RuntimeError: after `shutdown`, as other executors do, or in a fork of the process that
                has made the executor.
        """
        if os.getpid() != self._owner:
            raise RuntimeError("the threads of this executor were lost in a fork; make another one")
        job = _Job(pickle.dumps((fn, args, kwargs)))
        with self._lock:
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._jobs.put(job)
        return job.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more tasks, and end the workers when there are none left."""
        with self._lock:
            self._is_shut = True
            if cancel_futures:
                _cancel_all(self._jobs)
            _finish(self._jobs, self.workers)
        if wait:
            for thread in self._threads:
                thread.join()


class _Job:
    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.future: Future[Any] = Future()


def _shares(cores: Sequence[int] | None, workers: int) -> list[list[int]]:
    """The cores of each worker."""
    if cores is None:
        return [[]] * workers
    given = list(dict.fromkeys(cores))
    missing = set(given) - os.sched_getaffinity(0)
    if missing:
        raise UserError(f"this process may not use the cores {sorted(missing)}")
    if len(given) < workers:
        raise UserError(
            f"{workers} workers cannot be pinned to {len(given)} cores",
            hint="give each worker a core, or pin none",
        )
    size = len(given) // workers
    return [given[k * size : (k + 1) * size] for k in range(workers)]


def _cancel_all(jobs: queue.SimpleQueue[_Job | None]) -> None:
    with suppress(queue.Empty):
        while True:
            job = jobs.get_nowait()
            if job is not None:
                job.future.cancel()


def _finish(jobs: queue.SimpleQueue[_Job | None], workers: int) -> None:
    for _ in range(workers):
        jobs.put(None)


def _supervise(jobs: queue.SimpleQueue[_Job | None], limits: Limits, cores: list[int]) -> None:
    """What the thread of one worker does: it knows nothing of the executor, which may be gone."""
    worker = _Worker(limits, cores)
    try:
        while (job := jobs.get()) is not None:
            if job.future.set_running_or_notify_cancel():
                _perform(job, worker)
            del job  # nobody else may want its result
    finally:
        worker.close()


def _perform(job: _Job, worker: _Worker) -> None:
    try:
        returned, value = pickle.loads(worker.answer(job.frame))
    except Exception as error:  # what a result raises when it is read, too
        returned, value = False, error
    if returned:
        job.future.set_result(value)
    else:
        job.future.set_exception(value)


class _Worker:
    """A place for a process, which is started when it is needed."""

    def __init__(self, limits: Limits, cores: list[int]) -> None:
        self.limits, self.cores = limits, cores
        self.process: subprocess.Popen[bytes] | None = None
        self.log = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - lives as long as this
        self.is_fresh = True
        self.channel: Connection[bytes, bytes]

    def answer(self, frame: bytes) -> bytes:
        """What the process says to a task.

        Raises:
            MeasureError: it said nothing.
        """
        if self.process is not None and self._has_ended():
            self.end()  # somebody has killed it while it had nothing to do
        if self.process is None:
            self.start()
        used, self.is_fresh = not self.is_fresh, False
        try:
            return self._exchange(frame)
        except MeasureError as error:
            if error.reason != "killed" and not (error.reason == "crash" and used):
                raise
        self.start()
        self.is_fresh = False
        return self._exchange(frame)

    def start(self) -> None:
        """Start the process."""
        self.channel, theirs = Pipe()
        number = theirs.fileno()
        plain = json.dumps([number, os.getpid(), self.cores, sys.path])
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, plain],
                stdin=subprocess.DEVNULL,
                stderr=self.log,
                pass_fds=[number],
                start_new_session=True,  # keyboard interrupts are ours; processes end together
            )
        self.is_fresh = True

    def _has_ended(self) -> bool:
        # Asked without `wait`, which would set its number free for another process.
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, options) is not None

    def end(self) -> int:
        """Kill the process, if it has not ended, and what it has started.

        Returns:
            Its exit code, or minus the signal that it was ended by, before this one if it was.
        """
        process = self._process
        self.channel.close()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        self.process = None
        return code

    @property
    def _process(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            raise InternalError("this worker has no process")
        return self.process

    def close(self) -> None:
        """End the process for good."""
        if self.process is not None:
            self.end()
        self.log.close()

    # ------------------------------------------------------------------ one task

    def _exchange(self, frame: bytes) -> bytes:
        self.log.seek(0)  # the process writes at the same position
        self.log.truncate()
        try:
            self.channel.send_bytes(frame)
            reply = self._reply(_STARTUP)
            if reply == STARTED:
                reply = self._reply(self.limits.seconds)
        except (EOFError, OSError):
            raise self._failure() from None
        if self._memory() > (self.limits.memory or math.inf) / 2:
            self.end()  # the next task is not to pay for what this one has left behind
        return reply

    def _reply(self, seconds: float) -> bytes:
        end = time.monotonic() + seconds
        pause = _WATCH if self.limits.memory else _LONG
        while (left := end - time.monotonic()) > 0:
            if self.channel.poll(min(left, pause)):
                return self.channel.recv_bytes()
            if self.limits.memory and (held := self._memory()) > self.limits.memory:
                self.end()
                raise MeasureError(
                    "memory",
                    f"the task took {held >> 20} MiB of memory, more than the "
                    f"{self.limits.memory >> 20} MiB that it may take",
                )
        self.end()
        raise MeasureError("timeout", f"the task took longer than {seconds:g} seconds")

    def _memory(self) -> int:
        """Bytes of memory that the process holds."""
        try:
            with open(f"/proc/{self._process.pid}/statm") as file:
                return int(file.read().split()[1]) * _PAGE
        except (OSError, IndexError):  # it has ended
            return 0

    def _failure(self) -> MeasureError:
        """Why the process is gone."""
        code = self.end()
        said = self._said()
        if code >= 0:
            return MeasureError("crash", f"the task ended its process with code {code}{said}")
        name = signal.Signals(-code).name
        if -code in _OWN_SIGNALS:
            return MeasureError("crash", f"the task ended its process with {name}{said}")
        return MeasureError(
            "killed",
            f"the process of the task was killed with {name}, twice: by the system for want of "
            f"memory, or by another program{said}",
        )

    def _said(self) -> str:
        """The last of what the process wrote to its standard error, after a line break."""
        self.log.seek(0)
        text = self.log.read().decode(errors="replace").strip()
        return f"\n{text[-_MOST_LOG:]}" if text else ""
