"""Programs that compute the same are proven to, others are found out."""

from __future__ import annotations

import pytest

from schedule.verify.oracle import judge
from schedule.verify.programs import (
    MATMUL,
    ORIGINAL_STAGES,
    STAGES,
    matmul,
    nest,
    program,
    update,
)
from schedule.verify.texts import CACHED, CACHED_B, CONV, DECOMPOSED, FUSED, INLINED, RFACTOR
from tileloom import Schedule
from tileloom.schedule.verify import verify_program

pytest.importorskip("islpy")

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


def test_places_that_are_sums_of_digits() -> None:
    """How the terms of one element are found is said by inequalities alone, which the integer
    sets take minutes to see through."""
    func = program(
        "A: 7, 5; C: 2, 5, 3",
        """
        B = T.alloc_buffer((7, 5))
        for j, k, i in T.grid(5, 3, 7):
            with T.block("B"):
                v, w, r = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    B[v, w] = T.float32(0)
                B[v, w] = B[v, w] + A[v, w] * (1 + T.Cast("float32", r))
        for i, j, k in T.grid(2, 5, 3):
            with T.block("C"):
                u, v, w = T.axis.remap("SSS", [i, j, k])
                C[u, v, w] = B[w % 3 + v % 3, w % 3 + u * 2]
        """,
    )
    sch = Schedule(func)
    outer, inner, _ = sch.get_loops("C")
    sch.blockize(inner)
    sch.compute_at("B", outer)
    report = sch.verify()
    assert report.ok, report
