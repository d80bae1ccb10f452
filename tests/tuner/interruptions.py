"""What tests of killed processes and of runs at the same time share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import tileloom
from tileloom.records import Record, open_records, target_key, workload_key
from tuner.tuner_process import machine, program

RUN = Path(__file__).with_name("tuner_process.py")
#: What processes started by tests need to find this package, and tests of it.
PATHS = ":".join([str(Path(tileloom.__file__).parents[1]), *filter(None, sys.path)])


def environment() -> dict[str, str]:
    """Of processes that tests start."""
    return {**os.environ, "PYTHONPATH": PATHS}


class TunerProcess:
    """A run of the tuning loop in a process of its own."""

    def __init__(self, records: str, executor: str = "local", trials: int = 8) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(RUN), records, executor, str(trials)],
            stdout=subprocess.PIPE, text=True, env=environment(),
        )  # fmt: skip
        self.names: list[str] = []

    def wait_for(self, count: int) -> None:
        """Wait until so many candidates are recorded."""
        if self.process.stdout is None:
            raise ValueError("the process has no output")
        while len(self.names) < count and (line := self.process.stdout.readline()):
            self.names.append(line.strip())

    def finish(self) -> list[str]:
        """Wait for the end; the candidates that were recorded."""
        self.wait_for(10**9)
        if self.process.wait() != 0:
            raise ValueError(f"the run ended with {self.process.returncode}")
        return self.names

    def kill(self) -> list[str]:
        """`kill -9`; the candidates that it says were recorded."""
        self.process.send_signal(signal.SIGKILL)
        self.wait_for(10**9)
        self.process.wait()
        return self.names


def recorded(url: str) -> list[Record]:
    """What is on record of the program."""
    with open_records(url) as store:
        return store.all(workload_key(program()), target_key(machine()))


def check(url: str, *runs: list[str]) -> list[Record]:
    """All that runs have measured is on record, once; and each of them ran to its end."""
    known = recorded(url)
    names = [record.candidate for record in known]
    assert all(names) and len(set(names)) == len(names)
    said = [name for run in runs for name in run]
    assert len(set(said)) == len(said) and set(said) <= set(names)
    assert [record.error for record in known if record.failed] == []
    return known


def children(of: int, mark: str) -> list[int]:
    """The processes started by one, whose command lines hold a text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_text().replace("\0", " ")
        except (OSError, ValueError, IndexError):  # it has just ended
            continue
        if parent == of and mark in command:
            found.append(int(folder.name))
    return found


def wait_until(what: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait for something that other processes do."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise TimeoutError(f"nothing after {seconds} seconds")
        time.sleep(0.05)


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs for the length of a `with` block, and is asked to end after it."""
    process = subprocess.Popen(command, env=environment(), start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
