"""The random walks themselves: they get somewhere, and see what is wrong."""

from __future__ import annotations

from collections import Counter

import pytest

from schedule.common import parse
from schedule.walk import FailureError, Judge, Options, minimal, walk
from tileloom import Schedule

DOUBLED = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * 2.0
"""

HALVED = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * 0.5
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] + 1.0
"""


def test_some_walks() -> None:
    counts: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    for seed in range(300, 306):
        outcome = walk(seed, Options(compile=9))
        assert not outcome.reports, outcome.reports[0][1]
        counts += outcome.counts
        accepted += outcome.accepted
    assert counts["schedules"] >= 20 and counts["verify says ok"] >= 4, counts
    assert counts["run as machine code"] >= 1, counts
    assert len(accepted) >= 15, accepted


@pytest.mark.parametrize("compiled", [False, True])
def test_wrong_results_are_seen(compiled: bool) -> None:
    judge, wrong = Judge(parse(DOUBLED), 1), Schedule(parse(DOUBLED.replace("2.0", "3.0")))
    judge.runs(Schedule(parse(DOUBLED)), compiled)
    with pytest.raises(FailureError, match="argument 1 is") as found:
        judge.runs(wrong, compiled)
    assert found.value.kind == "wrong result"


def test_what_verify_says_is_seen() -> None:
    judge = Judge(parse(DOUBLED), 1)
    assert judge.proves(Schedule(parse(DOUBLED))) == "ok"
    with pytest.raises(FailureError, match="out of bounds") as found:
        judge.proves(Schedule(parse(DOUBLED.replace("A[v]", "A[v + 1]"))))
    assert found.value.kind == "verify says wrong"


def test_fewest_steps() -> None:
    func = parse(HALVED)
    sch = Schedule(func)
    outer, _ = sch.split(sch.get_loops("B")[0], [None, 2])
    sch.parallel(outer)
    sch.unsafe_set_dtype("B", 0, "int8")
    with pytest.raises(FailureError) as found:
        Judge(func, 1).runs(sch, compiled=False)
    fewest = minimal(func, sch, 1, found.value.kind)
    assert "unsafe_set_dtype" in fewest and "split" not in fewest and "parallel" not in fewest


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_many_walks(part: int) -> None:
    reports = []
    for seed in range(5000 + part * 60, 5060 + part * 60):
        reports += walk(seed, Options()).reports
    assert not reports, f"{len(reports)}: {reports[0][1]}"
