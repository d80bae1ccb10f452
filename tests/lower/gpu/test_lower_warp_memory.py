"""Memory of a warp becomes registers of its threads: results, texts and refusals."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import UserError
from tileloom.lower.gpu.lower_numbered_barriers import lower_numbered_barriers
from tileloom.lower.gpu.lower_warp_memory import lower_warp_memory
from tileloom.script import from_source, show
from tileloom.simt import run_kernels
from tileloom.tir import PrimFunc

HEAD = """@T.prim_func
def main(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
"""
WARP = """x = T.launch_thread("threadIdx.x", {lanes})
W = T.allocate([{size}], "float32", "warp")
W_1 = T.decl_buffer(({size},), data=W, scope="warp")
"""


def program(body: str) -> PrimFunc:
    func = from_source(HEAD + textwrap.indent(body, "    ") + "\n")
    assert isinstance(func, PrimFunc)
    return func


def kernel(body: str, size: int = 64, lanes: int = 32) -> PrimFunc:
    return program(WARP.format(size=size, lanes=lanes) + body)


@pytest.mark.parametrize(
    ("body", "size", "wanted"),
    [
        ("W_1[x] = A[x]\nB[x] = W_1[x] * T.float32(2)", 32, lambda a, x: {x: a[x] * 2}),
        (
            "W_1[x * 2] = A[x]\nW_1[x * 2 + 1] = A[x + 32]\nB[x] = W_1[x * 2] - W_1[x * 2 + 1]",
            64,
            lambda a, x: {x: a[x] - a[x + 32]},
        ),
        (
            "for k in range(4):\n    W_1[x * 4 + k] = A[x * 4 + k]\n"
            "for k in range(4):\n    B[x * 4 + k] = W_1[x * 4 + 3 - k]",
            128,
            lambda a, x: {x * 4 + k: a[x * 4 + 3 - k] for k in range(4)},
        ),
        (
            "for g in range(3):\n    for k in range(2):\n"
            "        W_1[g * 64 + x * 2 + k] = A[g * 64 + x * 2 + k]\n"
            "B[x] = W_1[x * 2] + W_1[64 + x * 2 + 1] + W_1[128 + x * 2]",
            192,
            lambda a, x: {x: a[x * 2] + a[64 + x * 2 + 1] + a[128 + x * 2]},
        ),
        (
            "W_1[x * 4:x * 4 + 4] = A[x * 4:x * 4 + 4]\n"
            "B[x * 2:x * 2 + 2] = W_1[x * 4 + 2:x * 4 + 4]",
            128,
            lambda a, x: {x * 2 + k: a[x * 4 + 2 + k] for k in range(2)},
        ),
    ],
)
def test_each_thread_finds_what_it_left(body: str, size: int, wanted: Any) -> None:
    func = kernel(body, size)
    made = lower_warp_memory(func)
    text = show(made)
    assert f'T.allocate([{size // 32}], "float32", "local")' in text and '"warp"' not in text
    a = np.random.default_rng(0).integers(-9, 9, 256).astype("float32")
    b = np.zeros(256, "float32")
    run_kernels(made, a, b)
    expected = np.zeros(256, "float32")
    for x in range(32):
        for place, value in wanted(a, x).items():
            expected[place] = value
    np.testing.assert_array_equal(b, expected)


@pytest.mark.parametrize(
    ("body", "size", "lanes", "text"),
    [
        ("W_1[x] = A[x]\nB[x] = W_1[31 - x]", 32, 32, "may belong to another thread"),
        ("W_1[x] = A[x]\nB[x] = W_1[x + 1]", 32, 32, "may belong to another thread"),
        ("W_1[x * 2] = A[x]\nB[x] = W_1[x * 2 + 2]", 64, 32, "may belong to another thread"),
        ("W_1[x * 2] = A[x]\nB[x] = W_1[x]", 64, 32, "may belong to another thread"),
        ("W_1[0] = A[x]\nB[x] = W_1[0]", 32, 32, "does not advance by a constant number"),
        ("W_1[31 - x] = A[x]", 32, 32, "does not advance by a constant number"),
        ("W_1[x] = A[x]\nW_1[x * 2] = A[x]", 64, 32, "does not advance by a constant number"),
        ("W_1[x // 2] = A[x]", 32, 32, "does not advance by a constant number"),
        ("B[x] = W_1[x]", 32, 32, "is read, but nobody writes it: 'W'"),
        ("W_1[x * 2] = A[x]", 96, 32, "96 elements of 'W' do not divide among a warp"),
        ("W_1[x * 3] = A[x]", 64, 32, "64 elements of 'W' do not divide among a warp"),
        ("W_1[x] = A[x]", 64, 64, "needs 32 threads along threadIdx.x, not 64"),
        ("W_1[x] = A[x]", 64, 16, "needs 32 threads along threadIdx.x, not 16"),
    ],
)
def test_refusals(body: str, size: int, lanes: int, text: str) -> None:
    with pytest.raises(UserError, match=text):
        lower_warp_memory(kernel(body, size, lanes))


def test_programs_without_memory_of_warps_stay() -> None:
    func = program('x = T.launch_thread("threadIdx.x", 7)\nB[x] = A[x]')
    assert lower_warp_memory(func) is func


# ---------------------------------------------------------------------------- numbered barriers

BARRIERS = """x = T.launch_thread("threadIdx.x", 32)
T.create_barriers(3)
T.ptx_init_barrier_thread_count(1, 32)
T.ptx_arrive_barrier(2)
T.ptx_arrive_barrier_expect_tx(0, 128)
T.ptx_wait_barrier(2)
B[x] = A[x]"""
NAMED = """x = T.launch_thread("threadIdx.x", 32)
barriers = T.allocate([3], "uint64", "shared")
barriers_1 = T.decl_buffer((3,), "uint64", data=barriers)
T.ptx_mbarrier_init(T.address_of(barriers_1[1]), 32)
T.ptx_mbarrier_arrive(T.address_of(barriers_1[2]))
T.ptx_mbarrier_arrive_expect_tx(T.address_of(barriers_1[0]), 128)
T.ptx_mbarrier_wait(T.address_of(barriers_1[2]), 0)
B[x] = A[x]"""


def test_barriers_by_number_are_words_of_shared_memory() -> None:
    made = lower_numbered_barriers(program(BARRIERS))
    lines = textwrap.dedent(show(made).split("):\n", 1)[1]).strip().splitlines()
    assert [line.strip() for line in lines] == NAMED.splitlines()
    assert lower_numbered_barriers(made) is made


@pytest.mark.parametrize(
    ("old", "new", "times"),
    [
        ("T.create_barriers(3)\n", "", 0),
        ("T.create_barriers(3)", "T.create_barriers(3)\nT.create_barriers(2)", 2),
        ("T.create_barriers(3)", "T.create_barriers(x)", 1),
    ],
)
def test_barriers_are_created_once(old: str, new: str, times: int) -> None:
    with pytest.raises(UserError, match=f"with their number, not {times} times"):
        lower_numbered_barriers(program(BARRIERS.replace(old, new)))


TWO_KERNELS = """with T.launch_thread("blockIdx.x", 2) as b:
    x = T.launch_thread("threadIdx.x", 32)
    T.create_barriers(2)
    T.ptx_arrive_barrier(1)
with T.launch_thread("threadIdx.x", 32) as x:
    T.create_barriers(1)
    T.ptx_wait_barrier(0)
    B[x] = A[x]"""
BOTH_NAMED = """with T.launch_thread("blockIdx.x", 2) as b:
    x = T.launch_thread("threadIdx.x", 32)
    barriers = T.allocate([2], "uint64", "shared")
    barriers_1 = T.decl_buffer((2,), "uint64", data=barriers)
    T.ptx_mbarrier_arrive(T.address_of(barriers_1[1]))
x = T.launch_thread("threadIdx.x", 32)
barriers = T.allocate([1], "uint64", "shared")
barriers_1 = T.decl_buffer((1,), "uint64", data=barriers)
T.ptx_mbarrier_wait(T.address_of(barriers_1[0]), 0)
B[x] = A[x]"""


def test_each_kernel_has_its_own_barriers() -> None:
    made = lower_numbered_barriers(program(TWO_KERNELS))
    assert textwrap.dedent(show(made).split("):\n", 1)[1]).strip() == BOTH_NAMED
