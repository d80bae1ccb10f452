"""Right programs are proven right; each kind of defect is found, with a witness that is one."""

from __future__ import annotations

import sys
import time

import pytest

from schedule.verify_oracle import judge
from schedule.verify_programs import (
    MATMUL,
    ORIGINAL_STAGES,
    STAGES,
    TILED,
    WHERE,
    matmul,
    nest,
    program,
    stages,
    start,
    update,
)
from tileloom.base.errors import UnsupportedError, UserError
from tileloom.schedule import Schedule
from tileloom.schedule.verify import verify_program
from tir.programs import softmax

pytest.importorskip("islpy")

INIT = nest("i:6, j:7", start("i", "j"))
DECOMPOSED = INIT + nest("i:6, j:7, k:5", update("i", "j", "k", "", "C_update"))
CACHED = """
A_local = T.alloc_buffer((6, 5))
C_local = T.alloc_buffer((6, 7))
for i0 in T.parallel(3):
    for x, y in T.grid(2, 5):
        with T.block("A_local"):
            v0 = T.axis.spatial(6, i0 * 2 + x)
            v1 = T.axis.spatial(5, y)
            A_local[v0, v1] = A[v0, v1]
    for i1, j, k in T.grid(2, 7, 5):
        with T.block("C"):
            vi = T.axis.spatial(6, i0 * 2 + i1)
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                C_local[vi, vj] = T.float32(0)
            C_local[vi, vj] = C_local[vi, vj] + A_local[vi, vk] * B[vk, vj]
    for x, y in T.grid(2, 7):
        with T.block("C_local"):
            v0 = T.axis.spatial(6, i0 * 2 + x)
            v1 = T.axis.spatial(7, y)
            C[v0, v1] = C_local[v0, v1]
"""
# The whole of B is copied by each iteration of a parallel loop: right with a copy for each.
CACHED_B = """
B_local = T.alloc_buffer((5, 7))
for i in T.parallel(6):
    for x, y in T.grid(5, 7):
        with T.block("B_local"):
            v0, v1 = T.axis.remap("SS", [x, y])
            B_local[v0, v1] = B[v0, v1]
    for j, k in T.grid(7, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B_local[vk, vj]
"""
FUSED = """
for f in T.parallel(14):
    for k in range(5):
        for i1 in T.unroll(3):
            with T.block("C"):
                vi = T.axis.spatial(6, f // 7 * 3 + i1)
                vj = T.axis.spatial(7, f % 7)
                vk = T.axis.reduce(5, k)
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
NESTED = """
for i0, j in T.grid(3, 7):
    with T.block("C_o"):
        vio, vj = T.axis.remap("SS", [i0, j])
        with T.init():
            for i1 in range(2):
                with T.block("C_init"):
                    vi = T.axis.spatial(2, i1)
                    C[vio * 2 + vi, vj] = T.float32(0)
        part = T.match_buffer(C[vio * 2:vio * 2 + 2, vj:vj + 1], (2, 1), offset_factor=1)
        for i1, k in T.grid(2, 5):
            with T.block("C_inner"):
                vi, vk = T.axis.remap("SR", [i1, k])
                part[vi, 0] = part[vi, 0] + A[vio * 2 + vi, vk] * B[vk, vj]
"""

MATMULS = {
    "tiled": TILED.format(j_tiles=2, where=WHERE),
    "fused": FUSED,
    "reordered": nest("k:5, j:7:vectorized, i:6", update("i", "j", "k")),
    "decomposed": DECOMPOSED,
    "cached": CACHED,
    "cached whole": CACHED_B,
    "nested": NESTED,
}


@pytest.mark.parametrize("name", MATMULS)
def test_right_matmuls(name: str) -> None:
    func = matmul(MATMULS[name])
    if name != "nested":  # the oracle knows no match_buffer
        assert judge(func).sound
    report = verify_program(func)
    assert report.ok, report
    report = verify_program(func, original=MATMUL)
    assert report.ok, report


CONV = """
P = T.alloc_buffer((9,))
for i in range(9):
    with T.block("P"):
        v = T.axis.spatial(9, i)
        P[v] = T.if_then_else(1 <= v and v < 8, X[v - 1], T.float32(0))
for i, r in T.grid(4, 3):
    with T.block("Y"):
        v, k = T.axis.remap("SR", [i, r])
        with T.init():
            Y[v] = T.float32(0)
        Y[v] = Y[v] + P[v * 2 + k] * W[k]
"""
RFACTOR = """
F = T.alloc_buffer((6, 4))
for i, r0, r1 in T.grid(6, 4, 3):
    with T.block("S_rf"):
        r, v, k = T.axis.remap("SSR", [r0, i, r1])
        with T.init():
            F[v, r] = T.float32(0)
        F[v, r] = F[v, r] + X[v, r * 3 + k]
for i, r0 in T.grid(6, 4):
    with T.block("S"):
        r, v = T.axis.remap("RS", [r0, i])
        with T.init():
            S[v] = T.float32(0)
        S[v] = S[v] + F[v, r]
"""
GATHER = """
for i in T.parallel(5):
    with T.block("Y"):
        v = T.axis.spatial(5, i)
        Y[v] = X[I[v]]
"""
THREADS = """
S = T.alloc_buffer((8,), scope="shared")
L = T.alloc_buffer((8,), scope="local")
for b in T.thread_binding(4, thread="blockIdx.x"):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        for k in range(4):
            for u in T.thread_binding(4, thread="threadIdx.x"):
                with T.block("S"):
                    v = T.axis.spatial(8, k * 2 + u)
                    T.where(u < 2)
                    S[v] = X[v]
            with T.block("L"):
                vt, vk = T.axis.remap("SR", [t, k])
                with T.init():
                    L[vt] = T.float32(0)
                L[vt] = L[vt] + S[vk * 2] * S[vk * 2 + 1]
        with T.block("Y"):
            vb, vt = T.axis.remap("SS", [b, t])
            Y[vb, vt] = L[vt]
"""
CROSS_THREAD = """
for i in T.thread_binding(6, thread="blockIdx.x"):
    for t in T.thread_binding(12, thread="threadIdx.x"):
        with T.block("S"):
            v, k = T.axis.remap("SR", [i, t])
            with T.init():
                S[v] = T.float32(0)
            S[v] = S[v] + X[v, k]
"""
REPEATED_HALO = stages(4).body
SCAN = """
for i in range(1, 7):
    with T.block("Y"):
        v = T.axis.opaque((1, 7), i)
        Y[v] = Y[v - 1] + X[v]
"""
INSIDE = """
for i in T.parallel(4):
    with T.block("Y"):
        v = T.axis.spatial(4, i)
        for j in range(6):
            Y[v, j] = X[v, 5 - j]
        Z[v] = T.float32(0)
        for j in range(6):
            Z[v] = Z[v] + Y[v, j]
"""
RIGHT = {
    "padded, strided convolution": ("X: 7; W: 3; Y: 4", CONV),
    "transposed": (
        "X: 5, 3; Y: 3, 5",
        nest("j:3:parallel, i:5", 'with T.block("Y"):\n    v, w = T.axis.remap("SS", [j, i])\n'
             "    Y[v, w] = X[w, v]\n"),
    ),
    "rfactor": ("X: 6, 12; S: 6", RFACTOR),
    "gather": ("X: 9; I: 5 int32; Y: 5", GATHER),
    "threads that share": ("X: 8; Y: 4, 4", THREADS),
    "reduced over threads": ("X: 6, 12; S: 6", CROSS_THREAD),
    "scan": ("X: 7; Y: 7", SCAN),
    "loops inside a block": ("X: 4, 6; Y: 4, 6; Z: 4", INSIDE),
    "one element": ("X: 1; Y: 1", nest("i:1:parallel", 'with T.block("Y"):\n'
                    "    v = T.axis.spatial(1, i)\n    Y[v] = X[v]\n")),
    "no element": ("X: 0; Y: 0", nest("i:0:parallel", 'with T.block("Y"):\n'
                   "    v = T.axis.spatial(0, i)\n    Y[v] = X[v]\n")),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs(name: str) -> None:
    func = program(*RIGHT[name])
    report = verify_program(func, original=func)
    assert report.ok, report
    assert bool(report.notes) == (name in ("gather", "threads that share", "reduced over threads"))


@pytest.mark.parametrize(
    "func",
    [
        stages(),
        stages(kind="T.parallel"),
        stages(5, extra="T.where(i0 * 2 + ax < 8)"),
        stages(8, "0"),
        stages(8, "0", "T.parallel"),
    ],
)
def test_producers_computed_where_they_are_used(func) -> None:
    report = verify_program(func, original=ORIGINAL_STAGES)
    assert report.ok, report


def test_rolling_regions_are_right_in_order_only() -> None:
    """Each tile computes two elements anew and finds two from the tile before."""
    rolled = ("T.if_then_else(i0 == 0, 0, i0 * 2 + 2)", "T.where(i0 == 0 or ax < 2)")
    assert verify_program(stages(4, rolled[0], "range", rolled[1]), original=ORIGINAL_STAGES).ok
    report = verify_program(stages(4, rolled[0], "T.parallel", rolled[1]))
    assert {v.kind for v in report.violations} == {"uncovered"}


def test_softmax() -> None:
    func = softmax(5, 7)
    assert verify_program(func, original=func).ok


SYMBOLIC = """
from tileloom.script import tir as T

@T.prim_func
def main(x: T.handle, y: T.handle, n: T.int32):
    X = T.match_buffer(x, (n,))
    Y = T.match_buffer(y, (n,))
    for i0 in T.parallel((n + 3) // 4):
        for i1 in T.vectorized(4):
            with T.block("Y"):
                v = T.axis.spatial(n, i0 * 4 + i1)
                T.where(i0 * 4 + i1 < {bound})
                Y[v] = X[v] * T.float32(2)
"""


def test_symbolic_sizes() -> None:
    from tileloom.script import parse

    right = parse(SYMBOLIC.format(bound="n"))
    assert verify_program(right, original=right).ok
    (short,) = verify_program(parse(SYMBOLIC.format(bound="n - 1"))).violations
    assert short.kind == "missing"
    assert short.witness.iters == {"v": short.witness.params["n"] - 1}
    long = verify_program(parse(SYMBOLIC.format(bound="n + 1")))
    assert {v.kind for v in long.violations} == {"over-run", "out-of-bounds"}
    assert all(v.witness.params["n"] % 4 for v in long.violations)


# ---------------------------------------------------------------------------- defects

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


def confirm(violation, outcome, func) -> None:
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


# ---------------------------------------------------------------------------- comparing

OTHER = {
    "another operand": nest("i:6, j:7, k:5", update("i", "j", "k").replace("A[vi", "A[5 - vi")),
    "another element": CACHED.replace("C[v0, v1] = C_local[v0, v1]",
                                      "C[v0, v1] = C_local[v0, 6 - v1]"),
    "another copy": CACHED_B.replace("= B[v0, v1]", "= B[4 - v0, v1]"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER)
def test_other_values_are_seen(name: str) -> None:
    func = matmul(OTHER[name])
    assert verify_program(func).ok
    assert judge(func).outputs != judge(MATMUL).outputs
    report = verify_program(func, original=MATMUL)
    assert report.state == "wrong", report
    assert {v.kind for v in report.violations} == {"different"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("T.float32(0)", "T.float32(1)"),
        ("A[vi, vk] * B[vk, vj]", "A[vi, vk] + B[vk, vj]"),
    ],
)
def test_other_formulas_are_not_taken_for_the_same(old: str, new: str) -> None:
    for text in (DECOMPOSED, FUSED):
        assert old in text
        report = verify_program(matmul(text.replace(old, new)), original=MATMUL)
        assert not report.ok, report


INLINED = """
for i in range(6):
    with T.block("D"):
        v = T.axis.spatial(6, i)
        D[v] = (A[v] + T.float32(1)) * ((A[v + {0}] + T.float32({1})) - (A[v + 2] + T.float32(1)))
"""


def test_inlined_blocks_are_looked_through() -> None:
    for name in ("D", "other"):
        right = INLINED.format(1, 1).replace('"D"', f'"{name}"')
        assert verify_program(program(STAGES, right), original=ORIGINAL_STAGES).ok
        shifted = INLINED.format(2, 1).replace('"D"', f'"{name}"')
        report = verify_program(program(STAGES, shifted), original=ORIGINAL_STAGES)
        assert [v.kind for v in report.violations] == ["different"], report
        changed = INLINED.format(1, 3).replace('"D"', f'"{name}"')
        report = verify_program(program(STAGES, changed), original=ORIGINAL_STAGES)
        assert [v.kind for v in report.violations] == ["different"], report


def test_inlined_padding_is_looked_through() -> None:
    _, rest = CONV.split("for i, r in")
    value = "T.if_then_else({0} <= v * 2 + k and v * 2 + k < 8, X[v * 2 + k - 1], T.float32(0))"
    inlined = "for i, r in" + rest.replace("P[v * 2 + k]", value)
    original = program("X: 7; W: 3; Y: 4", CONV)
    right = program("X: 7; W: 3; Y: 4", inlined.format(1))
    assert verify_program(right, original=original).ok
    wrong = program("X: 7; W: 3; Y: 4", inlined.format(2))
    assert verify_program(wrong, original=original).state == "wrong"
    cached = "XC = T.alloc_buffer((7,))\n" + nest(
        "i:7", 'with T.block("XC"):\n    v = T.axis.spatial(7, i)\n    XC[v] = X[v]\n'
    )
    both = program("X: 7; W: 3; Y: 4", cached + inlined.format(1).replace("X[v * 2", "XC[v * 2"))
    assert verify_program(both, original=original).ok


ARGMAX = """
for i, k in T.grid(4, 6):
    with T.block("best"):
        v, r = T.axis.remap("SR", [i, k])
        with T.init():
            I[v] = -1
            M[v] = T.float32(-1000)
        number: T.int32 = T.Select(M[v] >= X[v, r], I[v], r)
        value: T.float32 = T.Select(M[v] >= X[v, r], M[v], X[v, r])
        I[v] = number
        M[v] = value
"""


def test_reductions_of_tuples() -> None:
    head = "X: 4, 6; I: 4 int32; M: 4"
    original = program(head, ARGMAX)
    assert verify_program(original, original=original).ok
    tiled = ARGMAX.replace("i, k in T.grid(4, 6)", "k0, i, k in T.grid(3, 4, 2)")
    tiled = tiled.replace("[i, k]", "[i, k0 * 2 + k]").replace(
        'v, r = T.axis.remap("SR", [i, k0 * 2 + k])',
        "v = T.axis.spatial(4, i)\n        r = T.axis.reduce(6, k0 * 2 + k)",
    )
    assert verify_program(program(head, tiled), original=original).ok
    other = program(head, tiled.replace("I[v], r)", "I[v], r + 1)"))
    assert verify_program(other, original=original).state == "wrong"
    swapped = program(head, tiled.replace("M[v], X[v, r])", "X[v, r], M[v])"))
    assert not verify_program(swapped, original=original).ok
    parallel = tiled.replace("k0, i, k in T.grid(3, 4, 2)", "k0 in T.parallel(3)")
    parallel = parallel.replace(
        "    with T.block", "    for i, k in T.grid(4, 2):\n     with T.block", 1
    )
    parallel = parallel.replace("\n        ", "\n         ")
    assert {v.kind for v in verify_program(program(head, parallel)).violations} == {"race"}


def test_factored_reductions_are_put_together() -> None:
    summed = program(
        "X: 6, 12; S: 6",
        nest("i:6, r:12", 'with T.block("S"):\n    v, k = T.axis.remap("SR", [i, r])\n'
             "    with T.init():\n        S[v] = T.float32(0)\n    S[v] = S[v] + X[v, k]\n"),
    )  # fmt: skip
    for old, new, state in (
        ("", "", "ok"),
        ("r * 3 + k", "r * 3 + 2 - k", "ok"),
        ("r * 3 + k", "r * 2 + k", "wrong"),  # some terms twice
        ("r * 3 + k", "r + k * 4", "ok"),
        ("X[v, r", "X[5 - v, r", "wrong"),
        ("F[v, r] = T.float32(0)", "F[v, r] = T.float32(1)", "wrong"),
        ("S[v] = T.float32(0)", "S[v] = T.float32(1)", "wrong"),
        ("S[v] + F[v, r]", "S[v] + F[5 - v, r]", "wrong"),
        ("S[v] + F[v, r]", "T.max(S[v], F[v, r])", "unknown"),
    ):
        report = verify_program(
            program("X: 6, 12; S: 6", RFACTOR.replace(old, new)), original=summed
        )
        assert report.state == state, (old, new, report)


def test_renumbered_iterations_are_no_difference() -> None:
    """Iteration variables change places over a square domain, which gives the same names."""
    text = """
    B = T.alloc_buffer((4, 4))
    for i, j in T.grid(4, 4):
        with T.block("B"):
            v, w = T.axis.remap("SS", [i, j])
            B[{0}, {1}] = A[{0}, {1}] * T.float32(2)
    for i, j in T.grid(4, 4):
        with T.block("D"):
            v, w = T.axis.remap("SS", [i, j])
            D[v, w] = B[{2}, {3}]
    """
    head = "A: 4, 4; D: 4, 4"
    original = program(head, text.format(*"vwvw"))
    assert verify_program(program(head, text.format(*"wvvw")), original=original).ok
    report = verify_program(program(head, text.format(*"wvwv")), original=original)
    assert report.state == "wrong", report
    reduced = """
    B = T.alloc_buffer((4, 4))
    for i, j, k in T.grid(4, 4, 3):
        with T.block("B"):
            v, w, r = T.axis.remap("SSR", [i, j, k])
            with T.init():
                B[{0}, {1}] = T.float32(0)
            B[{0}, {1}] = B[{0}, {1}] + A[{0}, {1}, r]
    for i, j in T.grid(4, 4):
        with T.block("D"):
            v, w = T.axis.remap("SS", [i, j])
            D[v, w] = B[v, w] * T.float32(2)
    """
    original = program("A: 4, 4, 3; D: 4, 4", reduced.format("v", "w"))
    turned = program("A: 4, 4, 3; D: 4, 4", reduced.format("w", "v"))
    assert verify_program(original, original=original).ok
    assert verify_program(turned, original=original).ok


def test_loops_without_blocks() -> None:
    func = program("X: 6; Y: 6", "for i in T.parallel(6):\n    Y[i] = X[i]\n")
    assert verify_program(func).ok
    report = verify_program(
        program("X: 6; Y: 6", "for i in T.parallel(6):\n    Y[i // 2] = X[i]\n")
    )
    assert [v.kind for v in report.violations] == ["race"]


def test_what_a_reduction_starts_from_is_compared() -> None:
    """The init of one block, or a block of its own, must give what the original gives."""
    text = """
    for i, k in T.grid(4, 3):
        with T.block("Y"):
            v, r = T.axis.remap("SR", [i, k])
            with T.init():
                Y[v] = X[{init}, 0]
            Y[v] = Y[v] + X[v, r]
    """
    right, wrong = (program("X: 4, 3; Y: 4", text.format(init=i)) for i in ("v", "3 - v"))
    assert verify_program(right, original=right).ok
    assert verify_program(wrong, original=right).state == "wrong"
    bias = text.format(init="v").replace("X[v, 0]", "X[v, 0] * T.float32(2)")
    assert verify_program(program("X: 4, 3; Y: 4", bias), original=right).state == "unknown"


# ---------------------------------------------------------------------------- doubts, errors

DOUBTFUL = {
    "scatter": ("X: 5; I: 5 int32; Y: 9", GATHER.replace("Y[v] = X[I[v]]", "Y[I[v]] = X[v]")),
    "product of variables": (
        "X: 5; Y: 17",
        nest("i:5", 'with T.block("Y"):\n    v = T.axis.spatial(5, i)\n    Y[v * v] = X[v]\n'),
    ),
    "condition on data": (
        "X: 5; Y: 5",
        nest("i:5", 'with T.block("Y"):\n    v = T.axis.spatial(5, i)\n'
             "    if X[v] > T.float32(0):\n        Y[v] = X[v]\n"),
    ),
    "opaque call": (
        "X: 5; Y: 5",
        nest("i:5", 'with T.block("Y"):\n    v = T.axis.spatial(5, i)\n'
             "    T.reads(X[v])\n    T.writes(Y[v])\n"
             '    T.evaluate(T.call_extern("int32", "f", Y.data, X.data))\n'),
    ),
    "reduction that keeps the last": (
        "X: 5, 3; Y: 5",
        nest("i:5, j:3", 'with T.block("Y"):\n    v, k = T.axis.remap("SR", [i, j])\n'
             "    Y[v] = X[v, k]\n"),
    ),
    "while": (
        "X: 5; Y: 5 int32",
        'with T.block("Y"):\n    Y[0] = 0\n    while Y[0] < 5:\n        Y[0] = Y[0] + 1\n',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_cannot_be_known_is_unknown(name: str) -> None:
    report = verify_program(program(*DOUBTFUL[name]))
    assert report.state == "unknown", report
    assert not report.ok and report.unknown


def test_gathered_from_an_unfinished_buffer() -> None:
    func = program(
        "X: 9; I: 5 int32; Y: 5",
        """
        B = T.alloc_buffer((9,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = X[v]
        for i in range(5):
            with T.block("Y"):
                v = T.axis.spatial(5, i)
                Y[v] = B[I[v]]
        """,
    )
    assert verify_program(func).state == "unknown"


def test_effort_is_limited() -> None:
    report = verify_program(matmul(MATMULS["tiled"]), max_operations=50)
    assert report.state == "unknown" and "too hard" in report.unknown[-1]


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "islpy", None)
    with pytest.raises(UnsupportedError, match=r"tileloom\[poly\]"):
        verify_program(MATMUL)


def test_only_functions_are_checked() -> None:
    with pytest.raises(UserError, match="PrimFunc"):
        verify_program("C")  # type: ignore[arg-type]


def test_a_tiled_matmul_is_checked_within_a_second() -> None:
    func = program(
        "A: 512, 512; B: 512, 512; C: 512, 512",
        nest("i0:8:parallel, j0:8, k0:16, i1:8, j1:8, k1:8, i2:8, k2:4, j2:8:vectorized",
             'with T.block("C"):\n    vi = T.axis.spatial(512, i0 * 64 + i1 * 8 + i2)\n'
             "    vj = T.axis.spatial(512, j0 * 64 + j1 * 8 + j2)\n"
             "    vk = T.axis.reduce(512, k0 * 32 + k1 * 4 + k2)\n"
             "    with T.init():\n        C[vi, vj] = T.float32(0)\n"
             "    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]\n"),
    )  # fmt: skip
    started = time.process_time()
    report = verify_program(func)
    assert report.ok, report
    assert time.process_time() - started < 1


# ---------------------------------------------------------------------------- schedules


def test_a_schedule_verifies_itself() -> None:
    schedule = Schedule(MATMUL)
    i, j, k = schedule.get_loops("C")
    i0, i1 = schedule.split(i, [None, 4])
    k0, k1 = schedule.split(k, [None, 2])
    schedule.reorder(i0, k0, j, k1, i1)
    assert schedule.verify().ok
    assert schedule.copy().verify("main").ok
    with pytest.raises(UserError, match="name the function"):
        schedule.verify("other")
