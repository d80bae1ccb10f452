"""Random schedules of a small pipeline, right and wrong, against brute force."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedule.verify.oracle import Outcome, judge
from schedule.verify.programs import nest, program
from tileloom.schedule.verify import Report, Violation, verify_program
from tileloom.tir import PrimFunc

pytest.importorskip("islpy")


@dataclass(frozen=True)
class Choices:
    """How the pipeline B = 2 * A; R[v] = sum_k B[v + k]; D = R - A is scheduled."""

    n: int  # elements of D
    w: int  # the window
    tile: int
    tiles: int  # more or fewer tiles than needed
    bound: int | None  # off the predicate's bound; None leaves it out
    local_b: bool  # B is computed in each tile
    b_start: int
    b_extra: int
    b_bound: bool
    order: str  # of the stages
    outer: str
    inner: str
    window: str
    k_first: bool
    k_value: str
    again: bool
    init: str
    operand: str

    def func(self) -> PrimFunc:
        n, w, t = self.n, self.w, self.tile
        index = f"i0 * {t} + i1"
        size = n + w - 1
        guard = "" if self.bound is None else f"    T.where({index} < {n + self.bound})\n"
        axis = f"    v = T.axis.spatial({n}, {index})\n{guard}"
        where = f"    T.where({self.b_low()} + x >= 0 and {self.b_low()} + x < {size})\n"
        b = self.b_block(size, where if self.b_bound else "")
        init = "    with T.init():\n        R[v] = T.float32(0)\n" if self.init == "block" else ""
        update = (
            f'with T.block("{"R" if init else "R_update"}"):\n{axis}'
            f"    k = T.axis.reduce({w}, {self.k_value.format(last=w - 1)})\n{init}"
            "    R[v] = R[v] + B[v + k]\n"
        )
        start = f'with T.block("R_init"):\n{axis}    R[v] = T.float32(0)\n'
        d = f'with T.block("D"):\n{axis}    D[v] = R[v] - A[{self.operand}]\n'
        i1, k = f"i1:{t}:{self.inner}", f"k:{w}:{self.window}"
        if self.again:
            k += ", again:2"
        loops = f"{k}, {i1}" if self.k_first else f"{i1}, {k}"
        parts = {"B": b if self.local_b else "", "R": nest(loops, update), "D": nest(i1, d)}
        if self.init == "before":
            parts["R"] = nest(i1, start) + parts["R"]
        elif self.init == "after":
            parts["R"] += nest(i1, start)
        elif self.init == "inside":
            parts["R"] = nest(loops, start + update)
        body = nest(
            f"i0:{-(-n // t) + self.tiles}:{self.outer}", "".join(parts[s] for s in self.order)
        )
        alloc = f"B = T.alloc_buffer(({size},))\nR = T.alloc_buffer(({n},))\n"
        return program(f"A: {size}; D: {n}", alloc + ("" if self.local_b else b) + body)

    def b_low(self) -> str:
        return f"i0 * {self.tile} + {self.b_start}"

    def b_block(self, size: int, where: str) -> str:
        if not self.local_b:
            head, loops = f'with T.block("B"):\n    v = T.axis.spatial({size}, x)\n', f"x:{size}"
        else:
            head = (
                f'with T.block("B"):\n    v = T.axis.spatial({size}, {self.b_low()} + x)\n{where}'
            )
            loops = f"x:{max(0, self.tile + self.w - 1 + self.b_extra)}"
        return nest(loops, head + "    B[v] = A[v] * T.float32(2)\n")


KINDS = ("serial", "serial", "parallel", "vectorized")


@st.composite
def choices(draw: Any) -> Choices:
    """Mostly right: each choice that may break the program is rare."""

    def rarely(usual: Any, *others: Any) -> Any:
        return draw(st.sampled_from([*[usual] * 7 * len(others), *others]))

    n, tile = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    return Choices(
        n,
        draw(st.integers(1, 3)),
        tile,
        rarely(0, -1, 1),
        rarely(0, None, -1, 1) if n % tile else draw(st.sampled_from([0, None])),
        draw(st.booleans()),
        rarely(0, -1, 1),
        rarely(0, -1, 1),
        rarely(True, False),
        rarely("BRD", "RBD", "BDR", "DBR"),
        draw(st.sampled_from(KINDS)),
        draw(st.sampled_from(KINDS)),
        rarely("serial", "parallel", "vectorized"),
        draw(st.booleans()),
        rarely("k", "{last} - k", "k // 2"),
        rarely(False, True),
        draw(st.sampled_from(["block", "before"])) if rarely(True, False) else
        draw(st.sampled_from(["after", "inside"])),
        rarely("v", "v // 2"),
    )  # fmt: skip


def original(case: Choices) -> PrimFunc:
    return Choices(
        case.n, case.w, case.n, 0, None, False, 0, 0, True, "BRD",
        "serial", "serial", "serial", False, "k", False, "block", "v",
    ).func()  # fmt: skip


def differs(outcome: Outcome, other: Outcome) -> bool:
    return outcome.outputs != other.outputs


def check(case: Choices) -> Report:
    """The verdict on one program, after comparing it with what brute force says."""
    func, base = case.func(), original(case)
    outcome, meant = judge(func), judge(base)
    right = outcome.sound and not differs(outcome, meant)
    report = verify_program(func, original=base)
    assert report.state == ("ok" if right else "wrong"), (report, outcome.kinds(), func)
    for violation in report.violations:
        confirm(violation, outcome)
    alone = verify_program(func)
    assert alone.state == ("wrong" if not outcome.sound else alone.state)
    assert right <= (alone.state == "ok")
    return report


def confirm(violation: Violation, outcome: Outcome) -> None:
    """What the witness says has happened."""
    point = violation.witness
    loops = tuple(point.loops.items())
    same = [e for e in outcome.events if e.kind == violation.kind and e.block == point.block]
    match violation.kind:
        case "uncovered" | "out-of-bounds":
            seen = [(e.loops, e.buffer, e.element) for e in same]
            assert (loops, point.buffer, point.element) in seen
        case "over-run":
            assert loops in [e.loops for e in same]
        case "race":
            other = violation.other
            assert other is not None
            ends = {(p.block, tuple(p.loops.items())) for p in (point, other)}
            assert ends in [{(e.block, e.loops) for e in pair} for pair in outcome.races]
        case "repeated":
            assert outcome.runs[point.block, tuple(point.iters.values())] > 1


@given(choices())
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_verdicts_agree_with_brute_force(case: Choices) -> None:
    check(case)


@pytest.mark.slow
@given(choices())
@settings(max_examples=3000, suppress_health_check=list(HealthCheck))
def test_many_verdicts_agree_with_brute_force(case: Choices) -> None:
    check(case)


def test_the_cases_are_of_all_kinds() -> None:
    """The random test meets right and wrong programs, and most kinds of violation."""
    found: Counter[str] = Counter()

    @given(choices())
    @settings(max_examples=80, suppress_health_check=list(HealthCheck), database=None)
    def sample(case: Choices) -> None:
        report = verify_program(case.func())
        found[report.state] += 1
        found.update({violation.kind for violation in report.violations})

    sample()
    assert found["ok"] > 10 and found["wrong"] > 10 and not found["unknown"], found
    assert {"uncovered", "over-run", "race", "missing"} <= found.keys(), found
