"""The executor on local processes: whatever a task does, only that task is lost."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from tileloom.base.errors import UserError
from tileloom.tuner.measure import Limits, LocalExecutor, MeasureError
from tuner.measure import misbehaving as tasks

MEBI = 1 << 20


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    """Two workers, for tests that leave them as they are or have them replaced."""
    with LocalExecutor(2, Limits(seconds=20, memory=200 * MEBI)) as made:
        yield made


def reason(executor: LocalExecutor, *task: object) -> str:
    with pytest.raises(MeasureError) as caught:
        executor.submit(*task).result(30)  # type: ignore[arg-type]
    return caught.value.reason


def test_one_process_does_many_tasks() -> None:
    with LocalExecutor() as executor:
        futures = [executor.submit(tasks.process_number) for _ in range(5)]
        numbers = {future.result(30) for future in futures}
        assert len(numbers) == 1 and os.getpid() not in numbers


def test_a_task_that_runs_for_ever_takes_no_other_along() -> None:
    with LocalExecutor(2, Limits(seconds=0.3)) as executor:
        futures = [executor.submit(abs, -k) for k in range(4)]
        start = time.monotonic()
        assert reason(executor, tasks.run_for_ever) == "timeout"
        assert 0.3 < time.monotonic() - start < 10
        futures += [executor.submit(abs, -k) for k in range(4, 8)]
        assert [future.result(30) for future in futures] == list(range(8))


def test_a_task_that_crashes_says_where(executor: LocalExecutor) -> None:
    with pytest.raises(MeasureError, match=r"SIGSEGV(?s:.)*read_null") as caught:
        executor.submit(tasks.read_null).result(30)
    assert caught.value.reason == "crash"
    with pytest.raises(MeasureError, match=r"SIGABRT\n(?s:.)*LLVM ERROR: cannot select"):
        executor.submit(tasks.abort).result(30)
    with pytest.raises(MeasureError, match="with code 7"):
        executor.submit(tasks.exit_process, 7).result(30)
    assert executor.submit(abs, -3).result(30) == 3


def test_a_task_that_takes_too_much_memory(executor: LocalExecutor) -> None:
    assert executor.submit(len, b"x" * 10 * MEBI).result(30) == 10 * MEBI
    assert reason(executor, tasks.allocate, 400 * MEBI) == "memory"


def test_errors_come_back_as_they_are(executor: LocalExecutor) -> None:
    with pytest.raises(ValueError, match="not this one") as caught:
        executor.submit(tasks.fail, "value").result(30)
    assert "in fail" in caught.value.__notes__[0]
    with pytest.raises(SystemExit):
        executor.submit(tasks.fail, "exit").result(30)
    with pytest.raises(MeasureError, match="Stubborn: 1 and 2"):
        executor.submit(tasks.fail, "stubborn").result(30)
    with pytest.raises(Exception, match="pickle"):
        executor.submit(lambda: 1)


def test_a_killed_worker_costs_one_try(executor: LocalExecutor, tmp_path: Path) -> None:
    assert executor.submit(tasks.survive, str(tmp_path), 1).result(30) == 2
    tmp_path.joinpath("tries").unlink()
    assert reason(executor, tasks.survive, str(tmp_path), 2) == "killed"
    assert len(tmp_path.joinpath("tries").read_text()) == 2


def test_a_crash_that_others_may_have_caused_is_tried_again() -> None:
    with LocalExecutor() as executor:
        assert [executor.submit(tasks.crash_after_others, k).result(30) for k in (1, 2)] == [1, 2]


def test_a_worker_killed_while_idle_costs_no_try(tmp_path: Path) -> None:
    with LocalExecutor() as executor:
        number = executor.submit(tasks.process_number).result(30)
        os.kill(number, signal.SIGKILL)
        assert is_gone(number)
        assert executor.submit(tasks.survive, str(tmp_path), 1).result(30) == 2


def test_a_worker_that_holds_much_memory_is_replaced() -> None:
    with LocalExecutor(1, Limits(memory=200 * MEBI)) as executor:
        number = executor.submit(tasks.process_number).result(30)
        assert executor.submit(tasks.keep, 120 * MEBI).result(30) == number
        assert executor.submit(tasks.process_number).result(30) != number


def test_workers_are_pinned() -> None:
    usable = sorted(os.sched_getaffinity(0))
    with LocalExecutor(cores=usable[-1:]) as executor:
        assert executor.submit(tasks.cores).result(30) == {usable[-1]}
    with pytest.raises(UserError, match="cannot be pinned"):
        LocalExecutor(2, cores=usable[:1])
    with pytest.raises(UserError, match="may not use"):
        LocalExecutor(cores=[4096])


def test_shutdown_cancels_what_has_not_begun() -> None:
    executor = LocalExecutor()
    futures = [executor.submit(time.sleep, 0.1) for _ in range(3)]
    executor.shutdown(cancel_futures=True)
    assert all(future.done() for future in futures)
    with pytest.raises(CancelledError):
        futures[-1].result()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, 1)


def test_a_fork_has_no_use_for_it(executor: LocalExecutor, tmp_path: Path) -> None:
    said = tmp_path / "said"
    number = os.fork()
    if not number:
        try:
            executor.submit(abs, 1)
        except RuntimeError as error:
            said.write_text(str(error))
        finally:
            os._exit(0)
    os.waitpid(number, 0)
    assert "lost in a fork" in said.read_text()


def test_a_forgotten_executor_ends_its_processes() -> None:
    executor = LocalExecutor()
    number = executor.submit(tasks.process_number).result(30)
    del executor
    gc.collect()
    assert is_gone(number)


def test_workers_end_with_their_parent() -> None:
    """Killed, so that it can tell nobody, while its worker runs for ever."""
    script = (
        "import time; from tileloom.tuner.measure import LocalExecutor; "
        "from tuner.measure import misbehaving as tasks; "
        "executor = LocalExecutor(); "
        "print(executor.submit(tasks.process_number).result(), flush=True); "
        "executor.submit(tasks.run_for_ever); time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        number = int(process.stdout.readline())
        time.sleep(0.1)
        process.kill()
    assert is_gone(number)


def is_gone(number: int) -> bool:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":  # until whoever adopted it looks
            return True
        time.sleep(0.01)
    return False
