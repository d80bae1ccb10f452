"""Each kind of defect is found, with a witness that is one."""

from __future__ import annotations

from typing import Any

import pytest

from schedule.verify.oracle import judge
from schedule.verify.programs import (
    MATMUL,
    ORIGINAL_STAGES,
    TILED,
    matmul,
    nest,
    program,
    stages,
    start,
    update,
)
from schedule.verify.texts import CACHED_B, INIT
from tileloom.schedule.verify import verify_program

pytest.importorskip("islpy")

SWAPPED = """
B = T.alloc_buffer((8,))
for i in range(6):
    with T.block("D"):
        v = T.axis.spatial(6, i)
        D[v] = B[v] * (B[v + 1] - B[v + 2])
for i in range(8):
    with T.block("B"):
        v = T.axis.spatial(8, i)
        B[v] = A[v] + T.float32(1)
"""
# One buffer, read also after the parallel loop: no copies, each iteration writes all of it.
SHARED_CACHE = (
    CACHED_B
    + """
for x, y in T.grid(5, 7):
    with T.block("again"):
        v0, v1 = T.axis.remap("SS", [x, y])
        C[v0, v1] = C[v0, v1] + B_local[v0, v1]
"""
)
DEFECTS = {
    # name: (program, original, kinds of violations, a block of each)
    "producer after consumer": (program("A: 8; D: 6", SWAPPED), {"uncovered"}),
    "no tail predicate": (
        matmul(TILED.format(j_tiles=2, where="T.where(True)")),
        {"over-run", "out-of-bounds"},
    ),
    "tail left out": (
        matmul(TILED.format(j_tiles=1, where="T.where(k0 * 3 + k1 < 5)")),
        {"missing"},
    ),
    "reduction left out": (
        matmul(TILED.format(j_tiles=2, where="T.where(j0 * 4 + j1 < 7 and k0 * 3 + k1 < 4)")),
        {"missing"},
    ),
    "parallel reduction": (
        matmul(nest("k:5:parallel, i:6, j:7", update("i", "j", "k"))),
        {"race"},
    ),
    "vectorized reduction": (
        matmul(nest("i:6, j:7, k:5:vectorized", update("i", "j", "k"))),
        {"race"},
    ),
    "init after update": (
        matmul(nest("i:6, j:7, k:5", update("i", "j", "k", "", "C_update")) + INIT),
        {"late-init", "different"},
    ),
    "init at the last iteration": (
        matmul(nest("i:6, j:7, k:5", update("i", "j", "4 - k"))),
        {"uncovered", "missing"},
    ),
    "init in the reduction loop": (
        matmul(
            nest(
                "k:5",
                nest("i:6, j:7", start("i", "j")),
                nest("i:6, j:7", update("i", "j", "k", "", "C_update")),
            )
        ),
        {"missing"},
    ),
    "narrow compute_at": (stages(3), {"uncovered"}),
    "shifted compute_at": (stages(4, "i0 * 2 + 1", extra="T.where(i0 < 2 or ax < 3)"),
                           {"uncovered"}),
    "double update": (
        matmul(INIT + nest("i:6, j:7, k:5, again:2", update("i", "j", "k", "", "C_update"))),
        {"repeated"},
    ),
    "double update in one block": (
        matmul(nest("i:6, j:7, k:5, again:2", update("i", "j", "k", "", "C"))),
        {"repeated"},
    ),
    "race on a shared cache": (matmul(SHARED_CACHE), {"race", "different"}),
    "unfinished": (
        program(
            "A: 4, 3; D: 4",
            """
            S = T.alloc_buffer((4,))
            for i, k in T.grid(4, 3):
                with T.block("S"):
                    v, r = T.axis.remap("SR", [i, k])
                    with T.init():
                        S[v] = T.float32(0)
                    S[v] = S[v] + A[v, r]
                with T.block("D"):
                    v = T.axis.spatial(4, i)
                    D[v] = S[v] * T.float32(2)
            """,
        ),
        {"unfinished"},
    ),
    "stale copy": (
        program(
            "A: 4; D: 4",
            """
            B = T.alloc_buffer((4,))
            for i, again in T.grid(4, 2):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v]
                with T.block("A"):
                    v = T.axis.spatial(4, i)
                    A[v] = B[v] * T.float32(2)
            for i in range(4):
                with T.block("D"):
                    v = T.axis.spatial(4, i)
                    D[v] = B[v]
            """,
        ),
        {"repeated"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFECTS)
def test_defects_are_found(name: str) -> None:
    func, kinds = DEFECTS[name]
    original = MATMUL if len(func.buffers) == 3 else None
    if [b.static_shape for b in func.buffers] == [(8,), (6,)]:
        original = ORIGINAL_STAGES
    report = verify_program(func, original=original)
    assert report.state == "wrong", report
    found = {violation.kind for violation in report.violations}
    assert kinds - {"different"} <= found <= kinds | {"different"}, report
    outcome = judge(func)
    for violation in report.violations:
        confirm(violation, outcome, func)


def confirm(violation: Any, outcome: Any, func: Any) -> None:
    """The witness is one: brute force saw the same thing at the same place."""
    point, kind = violation.witness, violation.kind
    loops = tuple(point.loops.items())
    seen = [e for e in outcome.events if e.block == point.block and e.kind == kind]
    if kind == "uncovered" and point.buffer in [buffer.name for buffer in func.buffers]:
        assert outcome.outputs != judge(MATMUL).outputs
    elif kind in ("uncovered", "out-of-bounds"):
        assert any(
            (e.loops, e.buffer, e.element) == (loops, point.buffer, point.element) for e in seen
        ), (violation, seen)
    elif kind == "over-run":
        assert any(e.loops == loops for e in seen), (violation, seen)
    elif kind == "race":
        ends = {(p.block, tuple(p.loops.items())) for p in (point, violation.other)}
        pairs = [{(e.block, e.loops) for e in pair} for pair in outcome.races]
        assert ends in pairs, (violation, pairs)
    elif kind == "missing":
        runs = [k for k, _ in outcome.runs.items() if k[0] == point.block]
        iters = tuple(point.iters.values())
        assert runs and (iters in {r for _, r in runs}) <= (violation.message.find("leaves") >= 0)
    elif kind == "repeated":
        assert outcome.runs[point.block, tuple(point.iters.values())] > 1
        assert violation.other is not None and violation.other.loops != point.loops
        assert violation.other.iters == point.iters


def test_the_report_reads_well() -> None:
    report = verify_program(DEFECTS["no tail predicate"][0])
    text = str(report)
    assert text.startswith("wrong\n")
    assert "block 'C' runs outside the domain of 'vj'" in text
    assert "j0=1" in text and "C[0, 7]" in text
