"""Tiles that a warp fills and stores: which thread holds which element, by the layout of PTX.

Of a tile of 16 by 16 accumulators each thread of a warp holds eight: two halves of eight columns;
in each half, thread `t` has row `t // 4` and row `t // 4 + 8`, columns `2 * (t % 4)` and the next.
"""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import UserError
from tileloom.lower.gpu.lower_warp_memory import lower_warp_memory
from tileloom.script import from_source, show
from tileloom.simt import run_kernels
from tileloom.tir import BufferStore, PrimFunc, collect

SIDE = 16


def program(body: str, kind: str = "float32", lanes: int = 32, size: int = 512) -> PrimFunc:
    head = f"""
@T.prim_func
def main(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "{kind}")):
    x = T.launch_thread("threadIdx.x", {lanes})
    W = T.allocate([{size}], "float32", "warp")
    W_1 = T.decl_buffer(({size},), data=W, scope="warp")
"""
    func = from_source(head + textwrap.indent(body, "    ") + "\n")
    assert isinstance(func, PrimFunc)
    return func


def pointer(kind: str, start: int) -> str:
    return f'T.tvm_access_ptr(T.type_annotation("{kind}"), B.data, {start}, 512, 2)'


LEFT = "for k in range(8):\n    W_1[{tile} * 256 + x * 8 + k] = A[x * 8 + k]\n"


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize(("start", "stride"), [(0, 16), (3, 16), (4, 20), (0, 17), (5, 21)])
@pytest.mark.parametrize("tile", [0, 1])
def test_each_thread_stores_what_it_holds(kind: str, start: int, stride: int, tile: int) -> None:
    place = f"{pointer(kind, start)}, W, {tile * 256}, {stride}"
    func = program(LEFT.format(tile=tile) + f'T.mma_store("{kind}", {SIDE}, {SIDE}, {place})', kind)
    made = lower_warp_memory(func)
    assert "mma_store" not in show(made) and 'T.allocate([16], "float32", "local")' in show(made)
    a = np.arange(1024, dtype="float32")
    b = np.zeros(1024, kind)
    run_kernels(made, a, b)
    wanted = np.zeros(1024, kind)
    for thread in range(32):
        for held in range(8):
            row = thread // 4 + held % 4 // 2 * 8
            column = thread % 4 * 2 + held % 2 + held // 4 * 8
            wanted[start + row * stride + column] = thread * 8 + held
    np.testing.assert_array_equal(b, wanted)
    lanes = {s.value.dtype.lanes for s in collect(made.body, BufferStore) if s.buffer.name == "B"}
    assert lanes == {2 if start % 2 == 0 and stride % 2 == 0 else 1}


@pytest.mark.parametrize("place", ["256 + x * 8", "256"])
def test_a_fill_is_of_the_threads_own_elements(place: str) -> None:
    """By the first element of the tile, as TVM has it, or by the first of the thread."""
    body = LEFT.format(tile=0) + LEFT.format(tile=1) + f'T.mma_fill("float32", 8, W, {place})\n'
    body += "for t in range(2):\n    for k in range(8):\n"
    body += "        B[t * 256 + x * 8 + k] = W_1[t * 256 + x * 8 + k]"
    made = lower_warp_memory(program(body))
    assert "mma_fill" not in show(made)
    a, b = np.arange(1, 1025, dtype="float32"), np.full(1024, -1, "float32")
    run_kernels(made, a, b)
    np.testing.assert_array_equal(b[:256], a[:256])
    assert (b[256:512] == 0).all() and (b[512:] == -1).all()


def test_a_fill_of_registers() -> None:
    func: Any = from_source("""
@T.prim_func
def main(B: T.Buffer((256,), "float16")):
    x = T.launch_thread("threadIdx.x", 32)
    L = T.allocate([12], "float16", "local")
    L_1 = T.decl_buffer((12,), "float16", data=L, scope="local")
    for k in range(12):
        L_1[k] = T.float16(3)
    T.mma_fill("float16", 8, L, 2)
    for k in range(8):
        B[x * 8 + k] = L_1[k]
""")
    b = np.ones(256, "float16")
    run_kernels(lower_warp_memory(func), b)
    assert (b.reshape(32, 8) == [3, 3, 0, 0, 0, 0, 0, 0]).all()


def test_four_warps_share_rows() -> None:
    body = "for g in range(2):\n    W_1[g * 256 + x * 2] = A[g * 128 + x]\n"
    body += "B[x] = W_1[x * 2 + 256]"
    made = lower_warp_memory(program(body, lanes=128))
    assert 'T.allocate([4], "float32", "local")' in show(made)
    a, b = np.arange(1024, dtype="float32"), np.zeros(1024, "float32")
    run_kernels(made, a, b)
    np.testing.assert_array_equal(b[:128], a[128:256])


@pytest.mark.parametrize(
    ("body", "lanes", "said"),
    [
        ('T.mma_store("float32", 8, 16, {to}, W, 0, 16)', 32, "writes 16 by 16 elements, not 8 by"),
        ('T.mma_store("float32", 16, 32, {to}, W, 0, 16)', 32, "not 16 by 32"),
        ('T.mma_store("float32", 16, 16, B.data, W, 0, 16)', 32, "through an access pointer"),
        ('T.mma_store("float32", 16, 16, {to}, W, 0, 16)', 128, "needs 32 threads .*, not 128"),
        ('T.mma_fill("float32", x, W, 0)', 32, "fills a constant number of elements"),
        ("W_1[x] = A[x]", 96, "needs 32 threads along threadIdx.x, not 96"),
    ],
)  # fmt: skip
def test_refusals(body: str, lanes: int, said: str) -> None:
    left = LEFT.format(tile=0) if "mma" in body else ""
    with pytest.raises(UserError, match=said):
        lower_warp_memory(program(left + body.format(to=pointer("float32", 0)), lanes=lanes))
