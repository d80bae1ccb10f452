"""Several processes write at once, some are killed: nothing that was added is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tileloom
from records.places import record
from tileloom.records import open_records

WRITER = Path(__file__).with_name("writer.py")


def writer(url: str, name: str, count: int) -> subprocess.Popen[str]:
    """A process that adds records."""
    source = str(Path(tileloom.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-S", str(WRITER), url, name, str(count)],
        stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": ":".join([source, *sys.path])},
    )  # fmt: skip


def written(url: str) -> list[tuple[str, int]]:
    with open_records(url) as store:
        return [(str(name), int(k)) for name, k in (r.extra["by"] for r in store.all())]


def test_processes_write_at_once(url: str) -> None:
    """They start together, so that they make the place together too."""
    processes = [writer(url, name, 30) for name in "ab"]
    assert [process.communicate()[0].count("\n") for process in processes] == [30, 30]
    found = written(url)
    assert len(found) == 60
    for name in "ab":  # each in its order
        assert [k for n, k in found if n == name] == [*range(30)]


@pytest.mark.slow
def test_many_processes_write_at_once(url: str) -> None:
    names = "abcdefgh"
    processes = [writer(url, name, 100) for name in names]
    assert {process.communicate()[0].count("\n") for process in processes} == {100}
    assert sorted(written(url)) == [(name, k) for name in names for k in range(100)]


def check_killed(url: str, after: int, others: int = 0) -> None:
    """Kill a writer after some records; what it said it had added is there, in whole."""
    more = [writer(url, f"other{k}", 40) for k in range(others)]
    process = writer(url, "killed", 10**6)
    if process.stdout is None:
        raise ValueError("the writer has no output")
    said = [process.stdout.readline() for _ in range(after)]
    process.send_signal(signal.SIGKILL)
    said += process.stdout.readlines()
    process.wait()
    for other in more:
        other.communicate()
    found = written(url)
    kept = [k for name, k in found if name == "killed"]
    acknowledged = len([line for line in said if line.endswith("\n")])
    assert kept == [*range(len(kept))] and acknowledged <= len(kept) <= acknowledged + 1
    assert len(found) == len(kept) + 40 * others
    with open_records(url) as store:  # and one can go on
        store.add(record(extra={"by": ["after", 0]}))
    assert written(url) == [*found, ("after", 0)]


def test_a_killed_writer_loses_nothing(url: str) -> None:
    check_killed(url, 20)


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 1, 2, 5, 10, 50, 100, 200])
def test_writers_killed_among_others(url: str, after: int) -> None:
    check_killed(url, after, others=3)
