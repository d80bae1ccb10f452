"""Right programs that were once called wrong, and the same with a real defect."""

from __future__ import annotations

from typing import Any

import pytest

from sampling import sampled
from schedule.gpu_products import matmul
from schedule.random_steps import convolution
from schedule.test_gpu_matmul import mma
from schedule.verify.programs import program
from tileloom import Schedule, te
from tileloom.schedule.integer_sets import TooHardError
from tileloom.schedule.verify import Report, verify_program
from tileloom.script import parse
from tileloom.tir import IRModule, PrimFunc

pytest.importorskip("islpy")


def changed(sch: Schedule, original: PrimFunc, old: str, new: str) -> Report:
    """The verdict on a scheduled program with a piece of its text replaced."""
    text = str(sch.mod)
    assert old in text, text
    found = parse(text.replace(old, new))
    func = found["main"] if isinstance(found, IRModule) else found
    assert isinstance(func, PrimFunc)
    return verify_program(func, original=original)


# ---------------------------------------------------------------------------- transposed operands


@pytest.mark.parametrize("trans", sampled(["ab", "", "a", "b"], 4))
def test_padded_products_of_transposed_operands(trans: str) -> None:
    """One instruction multiplies them all; how they were loaded tells which one it is."""
    program = matmul(20, 18, 24, "float16", "float32", trans)
    report = mma(program).verify()
    assert report.ok, report
    taken = "".join(f"_trans_{side}" for side in trans)
    assert (
        f"the intrinsic 'mma_f16f16f32{taken}' computes what its description says" in report.notes
    )


@pytest.mark.parametrize(
    ("old", "new"),
    sampled([
        ("v0 < 20 and v1 < 24, A[v0, v1]", "v0 < 20 and v1 < 24, A[v0, (v1 + 1) % 24]"),
        ("v0 < 18 and v1 < 24, B[v0, v1]", "v0 < 18 and v1 < 24, B[v0, 23 - v1]"),
        # The other half of the operand is loaded, or the load turns it.
        ("S.strides[0] * (8 * (tx // 16) + tx % 8) + 8 * (tx % 16 // 8)",
         "S.strides[0] * (tx % 16) + 8 * (tx // 16)"),
    ], 2, several=True),
)  # fmt: skip
def test_wrong_products_of_transposed_operands(old: str, new: str) -> None:
    program = matmul(20, 18, 24, "float16", "float32", "b")
    report = changed(mma(program), program.func, old, new)
    assert report.state == "wrong", report


# ---------------------------------------------------------------------------- partial results


def least(kind: str) -> PrimFunc:
    """The least of rows in which every term occurs twice."""
    a = te.placeholder((8, 6), kind, name="A")
    k = te.reduce_axis((0, 6), name="k")
    p = te.compute(
        (8, 6),
        lambda i, k: te.if_then_else(a[i, k // 2] > 3, 0 - a[i, k // 2], a[i, k // 2]),
        name="P",
    )
    c = te.compute((8,), lambda i: te.min(p[i, k], axis=k), name="C")
    return te.create_prim_func([a, c])


def in_parts(func: PrimFunc, parts: int) -> Schedule:
    sch = Schedule(func)
    sch.compute_inline("P")
    _, k = sch.get_loops("C")
    outer, _ = sch.split(k, [parts, None])
    sch.rfactor(outer, 0)
    return sch


@pytest.mark.parametrize("kind", ["int32", "float32"])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_least_of_partial_results(kind: str, parts: int) -> None:
    report = in_parts(least(kind), parts).verify()
    assert report.ok, report


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("vk_0 * 2 + vk_1]", "vk_0 * 1 + vk_1]"),
        ("C_rf[vk_0, v_i] = 2147483647", "C_rf[vk_0, v_i] = 2147483646"),
    ],
)
def test_wrong_partial_results(old: str, new: str) -> None:
    plain = te.placeholder((8, 6), "int32", name="A")
    k = te.reduce_axis((0, 6), name="k")
    c = te.compute((8,), lambda i: te.min(plain[i, k], axis=k), name="C")
    func = te.create_prim_func([plain, c])
    sch = Schedule(func)
    outer, _ = sch.split(sch.get_loops("C")[1], [3, None])
    sch.rfactor(outer, 0)
    assert sch.verify().ok
    report = changed(sch, func, old, new)
    assert report.state == "wrong", report


def counted(length: int) -> PrimFunc:
    """A sum of integers that a choice depends on."""
    a, b = te.placeholder((8, length), "int32", name="A"), te.placeholder((8,), "int32", name="B")
    k = te.reduce_axis((0, length), name="k")
    c = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="C")
    d = te.compute((8,), lambda i: te.if_then_else(c[i] > 0, b[i], 0 - b[i]), name="D")
    return te.create_prim_func([a, b, d])


@pytest.mark.parametrize("length", [1, 3])
def test_sums_of_integers_are_no_tables(length: int) -> None:
    """Between init and update they hold one number only."""
    func = counted(length)
    sch = Schedule(func)
    i, k = sch.get_loops("C")
    sch.reverse_compute_at("D", i)
    sch.decompose_reduction("C", k)
    assert sch.verify().ok
    assert changed(sch, func, "C[v_i] > 0", "C[v_i] > 1").state == "wrong"
    assert (
        changed(sch, func, "= C[v_i] + A[v_i, v_k]", "= C[v_i] + A[7 - v_i, v_k]").state == "wrong"
    )


# ---------------------------------------------------------------------------- isl's last writes


def test_fused_loops_around_a_reduction() -> None:
    func = convolution()
    sch = Schedule(func)
    o, i, j, c, p, _ = sch.get_loops("Y")
    sch.fuse(j, c, p)
    sch.fuse(o, i)
    assert sch.verify().ok
    report = changed(sch, func, "T.grid(28, 54, 3)", "T.grid(28, 53, 3)")
    assert report.state == "wrong", report


# ---------------------------------------------------------------------------- gathers


def test_gathers_of_what_is_the_same_everywhere() -> None:
    """That an argument is handed on does not mean that the result was left as it was."""
    head = "X: 1; I: 3 int32; Y: 3"
    wide = """
    B = T.alloc_buffer((2,))
    for i in range(2):
        with T.block("B"):
            v = T.axis.spatial(2, i)
            B[v] = X[0]
    for i in range(3):
        with T.block("Y"):
            v = T.axis.spatial(3, i)
            Y[v] = B[I[v]]
    """
    plain = """
    for i in range(3):
        with T.block("Y"):
            v = T.axis.spatial(3, i)
            Y[v] = {value}
    """

    def verdict(value: str) -> Any:
        func = program(head, plain.format(value=value))
        return verify_program(func, original=program(head, wide)).state

    assert verdict("X[0]") == "unknown"
    assert verdict("Y[v]") != "ok"


# ---------------------------------------------------------------------------- reductions


def padded_sum(padding: str) -> PrimFunc:
    """Sums of rows, of which the last one is padding that is stored as it is."""
    return program(
        "A: 3, 5; B: 4",
        f"""
        for i, k in T.grid(4, 5):
            with T.block("B"):
                v, r = T.axis.remap("SR", [i, k])
                with T.init():
                    B[v] = T.float32(0)
                B[v] = T.if_then_else(v == 3, {padding}, B[v] + A[T.min(v, 2), r])
        """,
    )


def test_padding_starts_nothing() -> None:
    assert verify_program(padded_sum("T.float32(0)")).ok


def by_turns(first: str) -> PrimFunc:
    """Two statements of one sum, in turns."""
    return program(
        "A: 2, 4, 3; B: 2",
        f"""
        for i, k in T.grid(2, 4):
            for t in range({first}):
                with T.block("P"):
                    v, r, s = T.axis.remap("SRR", [i, k, t])
                    with T.init():
                        B[v] = T.float32(0)
                    B[v] = B[v] + A[v, r, s]
            for t in range(1, 3):
                with T.block("Q"):
                    v, r = T.axis.remap("SR", [i, k])
                    s = T.axis.reduce((1, 3), t)
                    B[v] = B[v] + A[v, r, s]
        """,
    )


def test_sums_that_take_turns() -> None:
    """Each goes on with what the other has left, so neither leaves anything out."""
    meant = program(
        "A: 2, 4, 3; B: 2",
        """
        for i, k, t in T.grid(2, 4, 3):
            with T.block("B"):
                v, r, s = T.axis.remap("SRR", [i, k, t])
                with T.init():
                    B[v] = T.float32(0)
                B[v] = B[v] + A[v, r, s]
        """,
    )
    assert verify_program(by_turns("1"), original=meant).state != "wrong"


def test_what_is_left_out_is_not_known_if_the_comparison_is_too_hard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    func = program(
        "A: 2, 4; B: 2",
        """
        for i, k in T.grid(2, 4):
            with T.block("B"):
                v, r = T.axis.remap("SR", [i, k])
                T.where(k < 3)
                with T.init():
                    B[v] = T.float32(0)
                B[v] = B[v] + A[v, r]
        """,
    )

    def too_hard(*_: Any) -> None:
        raise TooHardError("too hard")

    assert verify_program(func).state == "wrong"
    monkeypatch.setattr("tileloom.schedule.verify.program._compare", too_hard)
    report = verify_program(func, original=func)
    assert report.state == "unknown", report


def test_sums_used_before_their_end_are_not_known_if_terms_are_alike() -> None:
    """The consumer runs after each step, the last time for what is finished."""
    func = program(
        "A: 5; C: 3",
        """
        B = T.alloc_buffer((5,))
        for k, i in T.grid(3, 5):
            with T.block("B"):
                r, v = T.axis.remap("RS", [k, i])
                with T.init():
                    B[v] = T.float32(0)
                B[v] = B[v] + A[v] * (1 + T.Cast("float32", r))
        for i, k in T.grid(3, 5):
            with T.block("C"):
                v, r = T.axis.remap("SR", [i, k])
                with T.init():
                    C[v] = T.float32(0)
                C[v] = C[v] + B[v]
        """,
    )
    sch = Schedule(func)
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    report = sch.verify()
    assert not report.violations, report
    assert any("before the reduction in block 'B' is finished" in text for text in report.unknown)
    alone = verify_program(sch.mod["main"])
    assert {violation.kind for violation in alone.violations} == {"unfinished"}


def test_writes_that_are_not_found_are_not_missing() -> None:
    """The integer sets lose the writes of most elements, without a word, where every fourth one
    is written by a block of its own in rows that are taken by turns."""
    params = 'A: T.Buffer((24,), "float32"), Y: T.Buffer((24,), "float32")'
    before: Any = parse(f"""
@T.prim_func
def main({params}):
    for i, j in T.grid(6, 4):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi * 4 + vj] = A[vi * 4 + vj] * 3.0
""")
    after: Any = parse(f"""
@T.prim_func
def main({params}):
    for i1 in range(2):
        for i0 in range(3):
            for j0 in range(3):
                for x, y in T.grid(1, 1):
                    with T.block("Y0"):
                        vi = T.axis.spatial(6, i0 * 2 + i1)
                        vj = T.axis.spatial(3, j0)
                        Y[vi * 4 + vj] = A[vi * 4 + vj] * 3.0
            for j1 in range(3, 4):
                with T.block("Y1"):
                    vi = T.axis.spatial(6, i0 * 2 + i1)
                    vj = T.axis.spatial((3, 4), j1)
                    Y[vi * 4 + 3] = A[vi * 4 + vj] * 3.0
""")
    assert not verify_program(after, original=before).violations


@pytest.mark.parametrize("swapped", [False, True])
def test_least_elements_that_are_not_found_are_not_other_terms(swapped: bool) -> None:
    """The integer sets lose the least elements of most terms, without a word, where the layout of
    an argument has other rows, of which the last one is not full."""
    func = program(
        "A: 5, 1; C: 5",
        """
        P = T.alloc_buffer((5, 5))
        S = T.alloc_buffer((5,))
        for i, j, k in T.grid(5, 5, 1):
            with T.block("P"):
                v, w, r = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    P[v, w] = T.float32(0)
                P[v, w] = P[v, w] + A[v, r] * A[w, r]
        for i, j, k in T.grid(5, 1, 5):
            with T.block("S"):
                v, w, r = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    S[v] = T.float32(0)
                S[v] = S[v] + P[v, r] * A[r, w]
        for i, k in T.grid(5, 1):
            with T.block("C"):
                v, r = T.axis.remap("SR", [i, k])
                with T.init():
                    C[v] = T.float32("inf")
                C[v] = T.min(C[v], S[v + r])
        """,
    )
    sch = Schedule(func)
    sch.cache_read("S", 1, "local")
    layout = (lambda i, j: (j, i // 2, i % 2)) if not swapped else (lambda i, j: (i % 3, i // 3, j))
    sch.transform_layout("A_local", ("read", 0), layout, pad_value=0.0)
    report = sch.verify()
    assert report.ok, report
    if not swapped:
        text = str(sch.mod)
        wrong: Any = parse(text.replace("= A[0, v0 // 2, v0 % 2]", "= A[0, (4 - v0) // 2, v0 % 2]"))
        given = {0: sch._layouts["main", 0]}
        assert verify_program(wrong["main"], original=func, layouts=given).state == "wrong"
