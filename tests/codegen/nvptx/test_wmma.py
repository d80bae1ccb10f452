"""`wmma`: which registers of which fragment the instructions of PTX take, for each type."""

from __future__ import annotations

import re
from typing import Any

import pytest

from simt.matrix_programs import function
from tileloom.base.errors import UserError
from tileloom.driver import assembly

PROGRAM = """
@T.prim_func
def kernel(A: T.Buffer((1024,), "KIND"), B: T.Buffer((512,), "SUM")):
    with T.block("root"):
        S = T.alloc_buffer((1024,), "KIND", scope="shared")
        M = T.alloc_buffer((512,), "KIND", scope="wmma.matrix_a")
        N = T.alloc_buffer((512,), "KIND", scope="wmma.matrix_b")
        C = T.alloc_buffer((512,), "SUM", scope="wmma.accumulator")
        for t in T.thread_binding(32, thread="threadIdx.x"):
            S[t] = A[t]
            load(M.data, 16, 16, 16, 0, S.access_ptr("r"), 16, "LEFT_major")
            load(M.data, 16, 16, 16, 1, S.access_ptr("r", offset=16), 24, "LEFT_major")
            load(N.data, 16, 16, 16, 0, S.access_ptr("r", offset=32), 16, "RIGHT_major")
            load(N.data, 16, 16, 16, 1, S.access_ptr("r", offset=48), 16, "RIGHT_major")
            fill(C.data, 16, 16, 16, 0, T.Cast("SUM", 1))
            fill(C.data, 16, 16, 16, 1, T.Cast("SUM", 2))
            multiply(C.data, 1, M.data, 1, N.data, 0, C.data, 0)
            store(C.data, 16, 16, 16, 1, B.access_ptr("w"), 16, "row_major")
            store(C.data, 16, 16, 16, 0, B.access_ptr("w", offset=256), 32, "col_major")
"""
OPS = {"load": "load_matrix_sync", "store": "store_matrix_sync", "fill": "fill_fragment",
       "multiply": "mma_sync"}  # fmt: skip

#: Elements and sums; PTX's names of them and of the product; registers of factors and sums
#: (tables of the PTX manual, "wmma.mma" for m16n16k16); and the bits of 1 in a register of sums.
KINDS = [
    ("float16", "float32", "f16", "f32", "f32.f32", 8, 8, 0x3F800000),
    ("float16", "float16", "f16", "f16", "f16.f16", 8, 4, 0x3C003C00),
    ("bfloat16", "float32", "bf16", "f32", "f32.bf16.bf16.f32", 4, 8, 0x3F800000),
    ("int8", "int32", "s8", "s32", "s32.s8.s8.s32", 2, 8, 1),
    ("uint8", "int32", "u8", "s32", "s32.u8.u8.s32", 2, 8, 1),
]


def ptx(kind: str, total: str, left: str = "row", right: str = "col") -> str:
    text = PROGRAM.replace("KIND", kind).replace("SUM", total)
    text = text.replace("LEFT", left).replace("RIGHT", right)
    text = re.sub(
        rf"\b({'|'.join(OPS)})(\(.*\))\n", lambda m: f"T.evaluate(T.tvm_{OPS[m[1]]}{m[2]})\n", text
    )
    return assembly(function(text), "cuda -arch=sm_80")


def operands(line: str) -> list[list[str]]:
    """The registers in each pair of braces."""
    return [part.split(", ") for part in re.findall(r"\{(.*?)\}", line)]


def number(text: str, register: str) -> int:
    """The constant that a register holds."""
    (found,) = re.findall(rf"mov\.b32 \s*{register}, (-?\d+);", text)
    return int(found)


@pytest.mark.parametrize("kind", KINDS, ids=[f"{k[0]}-{k[1]}" for k in KINDS])
@pytest.mark.parametrize(("left", "right"), [("row", "col"), ("col", "row")])
def test_each_fragment_goes_where_it_is_wanted(kind: Any, left: str, right: str) -> None:
    element, total, word, sum_word, product, factors, sums, one = kind
    text = ptx(element, total, left, right)
    lines = re.findall(r"wmma\..*;", text)
    loads, (multiply,), stores = lines[:4], lines[4:5], lines[5:]
    for load, letter, row, stride in zip(
        loads, "aabb", (left, left, right, right), (16, 24, 16, 16), strict=True
    ):
        assert load.startswith(f"wmma.load.{letter}.sync.aligned.{row}.m16n16k16.{word} ")
        assert len(operands(load)[0]) == factors
        assert number(text, load.split(", ")[-1].rstrip(";")) == stride
    assert multiply.startswith(f"wmma.mma.sync.aligned.{left}.{right}.m16n16k16.{product} ")
    to, a, b, c = operands(multiply)
    assert a == operands(loads[1])[0] and b == operands(loads[2])[0]
    assert len(to) == len(c) == sums and [number(text, r) for r in c] == [one] * sums
    assert len({*to, *a, *b}) == sums + 2 * factors
    first, second = stores
    assert first.startswith(f"wmma.store.d.sync.aligned.row.m16n16k16.{sum_word} [")
    assert second.startswith(f"wmma.store.d.sync.aligned.col.m16n16k16.{sum_word} [")
    assert operands(first) == [to] and operands(second) == [c]
    assert [number(text, s.split(", ")[-1].rstrip(";")) for s in stores] == [16, 32]


@pytest.mark.parametrize(("element", "size"), [("float16", 2), ("int8", 1)])
def test_where_fragments_are_read(element: str, size: int) -> None:
    text = ptx(element, "float32" if size == 2 else "int32")
    places = [re.search(r"\[(%rd\d+)\]", line) for line in re.findall(r"wmma\..*;", text)]
    start, *others = [place[1] for place in places if place is not None]
    for place, offset in zip(others[:3], (16, 32, 48), strict=True):
        assert re.search(rf"add\.s64 \s*{place}, {start}, {offset * size};", text)
    assert re.search(rf"add\.s64 \s*{others[4]}, {others[3]}, {256 * 4};", text)


@pytest.mark.parametrize(("kind", "total"), [("float32", "float32"), ("float64", "float64")])
def test_fragments_of_other_types(kind: str, total: str) -> None:
    with pytest.raises(UserError, match=f"no GPU code for fragments of {kind}"):
        ptx(kind, total)
