"""pad_einsum: before and after, the trace, the refusals."""

from __future__ import annotations

import numpy as np
import pytest

from schedule.common import (
    ELEMENTWISE,
    check_same,
    check_trace,
    parse,
    refused,
    same_text,
    schedule,
)
from tileloom.tir import run

MATMUL = """
@T.prim_func
def main(
    A: T.Buffer((13, 11), "float32"),
    B: T.Buffer((11, 7), "float32"),
    C: T.Buffer((13, 7), "float32"),
):
    for i, j, k in T.grid(13, 7, 11):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def test_all_sides() -> None:
    sch = schedule(MATMUL)
    sch.pad_einsum("C", [8, 8, 4])
    same_text(
        sch,
        """
@T.prim_func
def main(
    A: T.Buffer((13, 11), "float32"),
    B: T.Buffer((11, 7), "float32"),
    C: T.Buffer((13, 7), "float32"),
):
    AP = T.alloc_buffer((16, 12))
    BP = T.alloc_buffer((12, 8))
    CP = T.alloc_buffer((16, 8))
    for i0, i1 in T.grid(16, 12):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A[v0, v1])
            T.writes(AP[v0, v1])
            AP[v0, v1] = T.if_then_else(v0 < 13 and v1 < 11, A[v0, v1], T.float32(0))
    for i0, i1 in T.grid(12, 8):
        with T.block("B_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(B[v0, v1])
            T.writes(BP[v0, v1])
            BP[v0, v1] = T.if_then_else(v0 < 11 and v1 < 7, B[v0, v1], T.float32(0))
    for i, j, k in T.grid(16, 8, 12):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.reads(AP[vi, vk], BP[vk, vj])
            T.writes(CP[vi, vj])
            with T.init():
                CP[vi, vj] = T.float32(0)
            CP[vi, vj] = CP[vi, vj] + AP[vi, vk] * BP[vk, vj]
    for i0, i1 in T.grid(13, 7):
        with T.block("C_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(CP[v0, v1])
            T.writes(C[v0, v1])
            C[v0, v1] = CP[v0, v1]
""",
    )
    check_trace(sch, MATMUL)
    check_same(sch, MATMUL)


@pytest.mark.parametrize("padding", [[1, 1, 1], [16, 1, 1], [1, 8, 1], [1, 1, 8], [13, 7, 11]])
def test_some_sides(padding: list[int]) -> None:
    sch = schedule(MATMUL)
    block = sch.get_block("C")
    loops = sch.get_loops(block)
    sch.pad_einsum(block, padding)
    assert [sch.get(loop).extent.value % p for loop, p in zip(loops, padding)] == [0, 0, 0]
    check_trace(sch, MATMUL)
    check_same(sch, MATMUL)


PARITY = """
@T.prim_func
def main(
    A: T.Buffer((2, 13, 11), "float32"),
    B: T.Buffer((6, 11, 7), "float32"),
    C: T.Buffer((6, 13, 7), "float32"),
):
    for b, i, j, k in T.grid(6, 13, 7, 11):
        with T.block("C"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            with T.init():
                C[vb, vi, vj] = T.float32(0)
            C[vb, vi, vj] = C[vb, vi, vj] + A[vb % 2, vi, vk] * B[vb, vk, vj]
"""


def test_what_stays_may_be_read_anywhere() -> None:
    sch = schedule(PARITY)
    sch.pad_einsum("C", [1, 1, 8, 1])
    assert [sch.get(b).name_hint for b in sch.get_producers("C")] == ["B_pad"]
    check_trace(sch, PARITY)
    check_same(sch, PARITY)
    sch = schedule(PARITY.replace("vi, vk] *", "vi % 7, vk] *"))
    refused(sch, "other places", "pad_einsum", sch.get_block("C"), [1, 8, 1, 8])


@pytest.mark.parametrize("padding", [[1, 8, 1, 1], [1, 1, 1, 8], [1, 8, 8, 8]])
def test_what_depends_on_nothing_padded_may_be_anywhere(padding: list[int]) -> None:
    for index in ("vb % 2", "1", "(vb + 1) // 4"):
        text = PARITY.replace("vb % 2", index)
        sch = schedule(text)
        sch.pad_einsum("C", padding)
        assert "A_pad" in [sch.get(b).name_hint for b in sch.get_producers("C")]
        check_trace(sch, text)
        check_same(sch, text)


def test_what_has_room_may_be_read_anywhere() -> None:
    """`A[b % 2]` is inside `A` for any b, `A[b // 3]` only for the six that there are."""
    sch = schedule(PARITY)
    sch.pad_einsum("C", [4, 1, 1, 1])
    assert [sch.get(b).name_hint for b in sch.get_producers("C")] == ["B_pad"]
    check_trace(sch, PARITY)
    check_same(sch, PARITY)
    for text, padding in (
        (PARITY.replace("vb % 2", "vb // 3"), [4, 1, 1, 1]),
        (PARITY.replace("vi, vk]", "vi, vk % 11]"), [1, 1, 1, 8]),  # what is there is not zero
    ):
        sch = schedule(text)
        refused(sch, "other places", "pad_einsum", sch.get_block("C"), padding)


def test_a_block_between_others() -> None:
    sch = schedule(ELEMENTWISE)
    sch.pad_einsum("B", [8, 3])
    sch.pad_einsum("C", [5, 1])
    check_trace(sch, ELEMENTWISE)
    check_same(sch, ELEMENTWISE)


def test_bytes_and_a_batch_of_one() -> None:
    text = """
@T.prim_func
def main(
    A: T.Buffer((1, 5, 7), "int8"),
    B: T.Buffer((1, 7, 3), "int8"),
    S: T.Buffer((1,), "int32"),
    C: T.Buffer((1, 5, 3), "int32"),
):
    for i, j, k in T.grid(5, 3, 7):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[0, vi, vj] = 0
            C[0, vi, vj] = C[0, vi, vj] + T.cast(A[0, vi, vk], "int32") * T.cast(
                B[0, vk, vj], "int32"
            ) * S[0]
"""
    sch = schedule(text)
    sch.pad_einsum("C", [4, 4, 4])
    check_trace(sch, text)
    check_same(sch, text)


def test_sizes_known_later() -> None:
    text = """
@T.prim_func
def main(a: T.handle, b: T.handle, m: T.int32):
    A = T.match_buffer(a, (m, 8), "float32")
    B = T.match_buffer(b, (m, 8), "float32")
    for i, j in T.grid(m, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
"""
    sch = schedule(text)
    sch.pad_einsum("B", [16, 1])
    check_trace(sch, text)
    assert "% 16" in str(sch.mod) or "// 16 * 16" in str(sch.mod)


def test_refusals() -> None:
    sch = schedule(MATMUL)
    refused(sch, "3 positive numbers", "pad_einsum", sch.get_block("C"), [8, 8])
    refused(sch, "3 positive numbers", "pad_einsum", sch.get_block("C"), [8, 0, 8])
    sch.split(sch.get_loops("C")[0], [None, 4])
    refused(sch, "not plainly the loops", "pad_einsum", sch.get_block("C"), [8, 8, 8])


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("A[vi, vk] * B[vk, vj]", "T.exp(A[vi, vk])", "may not be zero"),
        ("A[vi, vk] * B[vk, vj]", "A[vi, vk] * B[0, vj]", "may not be zero"),
        ("A[vi, vk] * B[vk, vj]", "A[vi, vk] * B[(vk + 1) % 11, vj]", "other places"),
        ("C[vi, vj] + A[vi, vk] * B[vk, vj]", "T.max(C[vi, vj], A[vi, vk])", "no sum"),
        ("A[vi, vk] * B[vk, vj]", "A[vi, vk] * A[vi, vk] * A[0, vk]", "other places|two ways"),
    ],
)
def test_what_is_no_sum_of_products(old: str, new: str, match: str) -> None:
    sch = schedule(MATMUL.replace(old, new))
    refused(sch, match, "pad_einsum", sch.get_block("C"), [1, 1, 4])


def test_padding_does_not_touch_what_the_block_left_alone() -> None:
    text = ELEMENTWISE.replace("C: T.Buffer((13, 8)", "C: T.Buffer((16, 8)")
    sch = schedule(parse(text))
    refused(sch, "in part only", "pad_einsum", sch.get_block("C"), [16, 1])


def test_division_by_padding_is_refused() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((5,), "int32"), B: T.Buffer((5,), "int32"), C: T.Buffer((5,), "int32")):
    for i in range(5):
        with T.block("C"):
            vi = T.axis.spatial(5, i)
            C[vi] = A[vi] // B[vi]
"""
    sch = schedule(text)
    refused(sch, "divides", "pad_einsum", sch.get_block("C"), [8])


WORDS = """
@T.prim_func
def main(A: T.Buffer((3, 5), "int32"), B: T.Buffer((5, 4), "int32"), C: T.Buffer((3, 4), "int32")):
    for i, j, k in T.grid(3, 4, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.dot_u8s8(0, A[vi, vk], B[vk, vj])
"""
BF16 = WORDS.replace('(3, 4), "int32"', '(3, 4), "float32"').replace("= 0", "= T.float32(0)")
BF16 = BF16.replace("dot_u8s8(0", "dot_bf16(T.float32(0)")


@pytest.mark.parametrize(
    "text", [WORDS, WORDS.replace("u8s8", "o8s8"), WORDS.replace("B[vk", "B[0"), BF16]
)
def test_words_of_zeros_add_nothing(text: str) -> None:
    sch = schedule(text)
    sch.pad_einsum("C", [1, 1, 4])
    check_trace(sch, text)
    rng = np.random.default_rng(0)
    bits = 1 << 14 if text is BF16 else 1 << 31
    a, b = (rng.integers(-bits, bits, s, "int32") for s in ((3, 5), (5, 4)))
    kind = "float32" if text is BF16 else "int32"
    wanted, got = np.zeros((3, 4), kind), np.zeros((3, 4), kind)
    run(parse(text), a, b, wanted)
    run(sch.mod["main"], a, b, got)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    "text",
    [
        WORDS.replace("u8s8", "o8s8").replace("B[vk", "B[0"),  # zeros are 128 in offset binary
        BF16.replace("B[vk", "B[0"),  # zero times infinity
        WORDS.replace("dot_u8s8(0,", "dot_u8s8(3,"),
        WORDS.replace("A[vi, vk]", "A[vi, 0]").replace("B[vk", "B[0"),
    ],
)
def test_words_that_may_add_something(text: str) -> None:
    sch = schedule(text)
    refused(sch, "may not be zero", "pad_einsum", sch.get_block("C"), [1, 1, 4])


def test_infinite_operands() -> None:
    """Padding is zero times zero; what is infinite or no number stays where it was."""
    sch = schedule(MATMUL)
    sch.pad_einsum("C", [8, 8, 4])
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype("float32") for s in ((13, 11), (11, 7)))
    a[3, 10], b[10, 2], a[0, 0] = np.inf, -np.inf, np.nan
    wanted, got = np.zeros((13, 7), "float32"), np.zeros((13, 7), "float32")
    run(parse(MATMUL), a, b, wanted)
    run(sch.mod["main"], a, b, got)
    np.testing.assert_array_equal(got, wanted)


def test_a_padding_is_not_padded_again() -> None:
    """It reads what it guards by a condition, which a copy would not."""
    text = """
@T.prim_func
def main(A: T.Buffer((5,), "float32"), B: T.Buffer((6,), "float32")):
    for i in range(6):
        with T.block("B"):
            v = T.axis.spatial(6, i)
            T.reads(A[v])
            B[v] = T.if_then_else(v < 5, A[v], T.float32(0))
"""
    sch = schedule(text)
    refused(
        sch, "'v' may be outside|v may be outside of 'A'", "pad_einsum", sch.get_block("B"), [4]
    )


@pytest.mark.parametrize(
    ("old", "new"), [("B[0, vj] =", "B[vi, vj] ="), ("A[vi, vj] +", "A[0, vj] +"), ("", "")]
)
def test_declared_variables_of_one_value(old: str, new: str) -> None:
    """They may stand for a number in what is declared, but not once they have more values."""
    text = """
@T.prim_func
def main(A: T.Buffer((1, 5), "float32"), B: T.Buffer((1, 5), "float32")):
    for i, j in T.grid(1, 5):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(B[vi, vj])
            B[0, vj] = A[vi, vj] + 1.0
"""
    sch = schedule(text.replace(old, new) if old else text)
    if old.startswith("B"):
        sch.pad_einsum("B", [4, 2])
    else:
        refused(sch, "accesses it at 0", "pad_einsum", sch.get_block("B"), [4, 2])
        sch.pad_einsum("B", [1, 2])
    check_same(sch, text)
