"""The harness with peers that lie, fail, are missing or spin."""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import harness, harness_cli, harness_report, results
from benchmarks.harness import Cell, Effort, Row, Skip, Workload, compare

QUICK = Effort(rounds=4, sample_seconds=1e-5, idle_limit=0.01)


def doubling(**peers: Any) -> Workload:
    return Workload(
        name="doubling",
        make_inputs=lambda rng: (rng.standard_normal(7).astype(np.float32),),
        reference=lambda x: x.astype(np.float64) * 2,
        peers=peers,
    )


def sleeper(seconds: Any) -> Any:
    def build(x: Any) -> Any:
        def call() -> Any:
            time.sleep(seconds)
            return x * 2

        return call

    return build


def test_fast_and_slow_peers_are_told_apart() -> None:
    workload = doubling(slow=sleeper(0.004), fast=sleeper(0.0005))
    row = harness.run_one(workload, None, QUICK)
    slow, fast = row.cells["slow"], row.cells["fast"]
    assert slow.status == fast.status == "ok"
    assert len(slow.samples) == len(fast.samples) == QUICK.rounds
    assert slow.minimum > 0.004 > 0.0015 > fast.minimum > 0.0005
    assert slow.minimum <= slow.median


def test_a_wrong_peer_is_not_timed() -> None:
    row = harness.run_one(doubling(liar=lambda x: lambda: x * 2.01), None, QUICK)
    cell = row.cells["liar"]
    assert cell.status == "wrong" and not cell.samples and "largest error" in cell.note


def test_missing_and_failing_peers_do_not_end_the_run() -> None:
    def missing(x: Any) -> None:
        raise Skip("not installed")

    def not_there(x: Any) -> None:
        import no_such_package_anywhere  # type: ignore[import-not-found]  # noqa: F401

    def broken(x: Any) -> None:
        raise ValueError("boom\nsecond line")

    workload = doubling(good=lambda x: lambda: x + x, a=missing, b=not_there, c=broken)
    cells = harness.run_one(workload, None, QUICK).cells
    assert {name: cell.status for name, cell in cells.items()} == {
        "good": "ok",
        "a": "skipped",
        "b": "skipped",
        "c": "failed",
    }
    assert cells["c"].note == "ValueError: boom"
    assert cells["good"].samples


def test_only_the_named_peers_take_part() -> None:
    workload = doubling(a=lambda x: lambda: x * 2, b=lambda x: lambda: x * 2)
    assert list(harness.run_one(workload, ["b"], QUICK).cells) == ["b"]


def test_rounds_visit_each_peer_in_changing_order() -> None:
    visits = []
    calls = {name: (lambda name=name: visits.append(name)) for name in "abc"}
    effort = Effort(rounds=12, sample_seconds=0.0, idle_limit=0.0, warm_seconds=0.0)
    harness.interleave(calls, effort)
    del visits[:6]  # two calls each to find the number of repeats
    # Per round and peer: one warm call, one timed.
    rounds = [tuple(visits[k : k + 6 : 2]) for k in range(0, len(visits), 6)]
    assert len(rounds) == 12
    assert all(sorted(order) == ["a", "b", "c"] for order in rounds)
    assert len(set(rounds)) > 1


def test_time_limit_cuts_rounds_but_not_below_the_minimum() -> None:
    effort = Effort(rounds=50, min_rounds=2, seconds=0.0, sample_seconds=0.0, idle_limit=0.0)
    assert len(harness.interleave({"a": lambda: None}, effort)) == 2


def test_short_calls_are_repeated_within_a_sample() -> None:
    count = 0

    def call() -> None:
        nonlocal count
        count += 1

    harness.interleave({"a": call}, Effort(rounds=1, sample_seconds=1e-3, idle_limit=0.0))
    assert count > 20


def test_noisy_rounds_are_left_out_if_enough_are_quiet() -> None:
    rounds = [harness.Round({"a": float(k)}, noise) for k, noise in enumerate([0, 2, 0.1, 1, 3])]

    def chosen(**changes: Any) -> Any:
        effort = Effort(**{"min_rounds": 2, "noise": 0.2, **changes})
        return [one.samples["a"] for one in harness.kept(rounds, effort)]

    assert chosen() == [0, 2]
    assert chosen(min_rounds=3) == [0, 2, 3]
    assert chosen(noise=math.inf) == [0, 1, 2, 3, 4]


def test_noisy_rounds_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = iter([1.0, 0.0, 1.0, 0.0, 0.0])
    monkeypatch.setattr(harness.Usage, "foreign", property(lambda self: next(noise)))
    effort = Effort(rounds=3, sample_seconds=0.0, idle_limit=0.0, noise=0.5)
    assert len(harness.interleave({"a": lambda: None}, effort)) == 5


def test_waits_for_spinning_threads() -> None:
    stop = time.perf_counter() + 0.08

    def spin() -> None:
        while time.perf_counter() < stop:
            pass

    thread = threading.Thread(target=spin)
    thread.start()
    waited = harness.wait_until_idle(limit=5.0)
    thread.join()
    assert waited > 0.04
    assert harness.wait_until_idle(limit=0.02) < 1.0


@pytest.mark.parametrize(
    ("actual", "expected", "fine"),
    [
        ([1.0, 2.0], [1.0, 2.0], True),
        ([1.0 + 5e-5], [1.0], True),
        ([1.001], [1.0], False),
        ([np.nan], [np.nan], True),
        ([np.nan], [1.0], False),
        ([np.inf], [np.inf], True),
        ([-np.inf], [np.inf], False),
        ([1.0], [np.inf], False),
        ([], [], True),
        ([1.0, 2.0], [[1.0, 2.0]], False),
    ],
)
def test_compare(actual: Any, expected: Any, fine: bool) -> None:
    _, complaint = compare(np.array(actual), np.array(expected), 1e-4, 1e-6)
    assert (complaint == "") == fine


def rows() -> list[Row]:
    workload = doubling()
    cells = {
        "tileloom": Cell("tileloom", samples=[0.002, 0.001, 0.003]),
        "torch": Cell("torch", samples=[0.004, 0.005, 0.003]),
        "jax": Cell("jax", "skipped", "not installed"),
        "bad": Cell("bad", "wrong", "largest error 1"),
    }
    return [Row(workload, cells, 0.0)]


def test_markdown_table() -> None:
    lines = harness_report.markdown(rows()).splitlines()
    assert lines[0].startswith("| workload | tileloom | torch | bad | tileloom : torch |")
    assert "| doubling | **2 (1.00)** | 4 (2.00) | wrong | 2.00 (3.00) |" in lines[2]
    assert "* jax skipped (everywhere): not installed" in lines
    assert "* bad wrong (everywhere): largest error 1" in lines


def test_json_has_machine_and_samples() -> None:
    record = json.loads(harness_report.to_json(rows(), harness_report.machine()))
    assert record["machine"]["cores"] >= 1 and record["machine"]["versions"]["numpy"]
    cells = record["rows"][0]["cells"]
    assert cells["torch"]["median"] == 0.004 and cells["jax"]["median"] is None
    assert cells["tileloom"]["samples"] == [0.002, 0.001, 0.003]


def test_command_line_writes_both_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(harness_cli, "with_threads", lambda count: None)
    table, samples = tmp_path / "table.md", tmp_path / "samples.json"
    status = harness_cli.main(
        "test",
        lambda extra: [doubling(good=lambda x: lambda: x * 2)],
        ["--rounds", "1", "--only", "doub*", "--markdown", str(table), "--json", str(samples)],
    )
    assert status == 0
    assert "doubling" in table.read_text() and "doubling" in capsys.readouterr().out
    assert json.loads(samples.read_text())["rows"][0]["workload"] == "doubling"


def test_command_line_fails_on_a_wrong_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness_cli, "with_threads", lambda count: None)
    workloads = [doubling(liar=lambda x: lambda: x)]
    assert harness_cli.main("test", lambda extra: workloads, ["--rounds", "1"]) == 1
    assert harness_cli.main("test", lambda extra: workloads, ["--only", "nothing"]) == 2


def test_bars_and_front_page(tmp_path: Path) -> None:
    table = results.bar_table(rows(), {"doub*": 2.5})
    assert "| doubling | 2.5 | 2.00 | 3.00 | **missed** |" in table
    noisy = rows()
    noisy[0].foreign = 1.0
    assert "| met ~ |" in results.bar_table(noisy, {"doub*": 2.5})
    page = tmp_path / "README.md"
    page.write_text(f"before\n{results._BEGIN}old\n{results._END}\nafter\n")
    results.write_readme(page, rows())
    text = page.read_text()
    assert text.startswith("before") and text.endswith("after\n") and "old" not in text
    assert "| doubling | 2 | 2.00 |" in text
