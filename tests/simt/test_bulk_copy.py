"""Copies in bulk and barriers in memory, a line each in a kernel of one warp."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import UnsupportedError
from tileloom.base.tensor_map import TensorMap
from tileloom.script import parse
from tileloom.simt import KernelDefect, run_kernels

KERNEL = """
@T.prim_func
def kernel(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32"),
           M: T.handle("uint8", "grid_constant"), n: T.int32):
    t = T.launch_thread("threadIdx.x", 64)
    S_data = T.allocate([128], "float32", "shared")
    S = T.decl_buffer((128,), "float32", data=S_data, scope="shared")
    H_data = T.allocate([256], "float16", "shared")
    H = T.decl_buffer((256,), "float16", data=H_data, scope="shared")
    R_data = T.allocate([8], "float32", "local")
    R = T.decl_buffer((8,), "float32", data=R_data, scope="local")
    bar_data = T.allocate([2], "uint64", "shared")
    bar = T.decl_buffer((2,), "uint64", data=bar_data, scope="shared")
    if t == 0:
        T.ptx_mbarrier_init(T.address_of(bar[0]), ARRIVALS)
    T.tvm_storage_sync("shared")
    LINES
"""
BAR = "T.address_of(bar[0])"
FILL = (
    "S[t] = A[t]\nS[t + 64] = A[t + 64]\nT.ptx_fence_proxy_async()\nT.tvm_storage_sync('shared')\n"
)
LEAVE = "    T.ptx_cp_async_bulk_commit_group()\n    T.ptx_cp_async_bulk_wait_group(0)"


def run(lines: str, arrivals: int = 1, map_: Any = None, n: int = 0) -> Any:
    """B after some lines; A is 1 to 128."""
    a, b = np.arange(1, 129, dtype="float32"), np.zeros(128, "float32")
    map_ = TensorMap(a.reshape(8, 16), (2, 16)) if map_ is None else map_
    text = KERNEL.replace("LINES", lines.replace("\n", "\n    ")).replace("ARRIVALS", str(arrivals))
    run_kernels(parse(text), a, b, map_, n)
    return b


def bring(copy: str, bytes_: int) -> str:
    """Thread 0 has something copied, and all wait."""
    return (
        f"if t == 0:\n    T.ptx_mbarrier_arrive_expect_tx({BAR}, {bytes_})\n    {copy}\n"
        f"T.ptx_mbarrier_wait({BAR}, 0)\nB[t] = S[t]"
    )


@pytest.mark.parametrize(
    ("to", "source", "count"),
    [(0, 0, 64), (4, 8, 32), (60, 100, 4), (0, 64, 60), (32, 0, 16)],
)
def test_places_and_lengths(to: int, source: int, count: int) -> None:
    """Of S, elements 0 to 63 are shown; the rest is what threads wrote."""
    copy = f"T.ptx_cp_async_bulk(S.data, {to}, A.data, {source}, {count * 4}, {BAR})"
    lines = "S[t] = 0.0\nT.tvm_storage_sync('shared')\n" + bring(copy, count * 4)
    wanted = np.zeros(128)
    wanted[to : to + count] = np.arange(source, source + count) + 1
    assert run(lines).tolist() == wanted.tolist()


@pytest.mark.parametrize(("to", "source", "count"), [(0, 0, 64), (4, 8, 32), (124, 60, 4)])
def test_copies_out(to: int, source: int, count: int) -> None:
    copy = f"T.ptx_cp_async_bulk_store(B.data, {to}, S.data, {source}, {count * 4})"
    wanted = np.zeros(128)
    wanted[to : to + count] = np.arange(source, source + count) + 1
    found = run(f"{FILL}if t == 0:\n    {copy}\n{LEAVE}")
    assert found.tolist() == wanted.tolist()
    each = f"T.ptx_cp_async_bulk_store(B.data, t * 4, S.data, t * 4, 16)\n{LEAVE}"
    assert run(f"{FILL}if t < 32:\n    {each}").tolist() == list(range(1, 129))


ARRIVE, WAIT = f"T.ptx_mbarrier_arrive({BAR})", f"T.ptx_mbarrier_wait({BAR}, 0)"
COPY = "T.ptx_cp_async_bulk({}, {}, {}, {}, {}, " + BAR + ")"
STORE = "T.ptx_cp_async_bulk_store({}, {}, {}, {}, {})"
TENSOR = "T.ptx_cp_async_bulk_tensor({}, {}, M, " + BAR + ", {})"


@pytest.mark.parametrize(
    ("copy", "kind", "said"),
    [
        (COPY.format("S.data", 1, "A.data", 0, 16), "misaligned", "byte 4 of S"),
        (COPY.format("S.data", 0, "A.data", 2, 16), "misaligned", "byte 8 of A"),
        (COPY.format("H.data", 4, "A.data", 0, 16), "misaligned", "byte 8 of H"),
        (COPY.format("S.data", 0, "A.data", 0, 8), "misaligned", "multiple of 16 bytes, not 8"),
        (COPY.format("S.data", 0, "A.data", 0, 0), "misaligned", "multiple of 16 bytes, not 0"),
        (COPY.format("S.data", 0, "A.data", 124, 32), "out of bounds", "A[128]"),
        (COPY.format("S.data", 124, "A.data", 0, 32), "out of bounds", "S_data[128]"),
        (STORE.format("B.data", 1, "S.data", 0, 16), "misaligned", "byte 4 of B"),
        (STORE.format("B.data", 0, "S.data", 3, 16), "misaligned", "byte 12 of S"),
        (STORE.format("B.data", 0, "S.data", 0, -16), "misaligned", "not -16"),
        (STORE.format("B.data", 124, "S.data", 0, 32), "out of bounds", "B[128]"),
        (
            TENSOR.format("S.data", 4, "0, 0"),
            "misaligned",
            "byte 16 of S_data is no multiple of 128",
        ),
        (TENSOR.format("H.data", 32, "0, 0"), "misaligned", "byte 64 of H_data"),
    ],
)
def test_defects(copy: str, kind: str, said: str) -> None:
    with pytest.raises(KernelDefect) as caught:
        run(f"{FILL}if t == 0:\n    {copy}\n{LEAVE}")
    assert caught.value.kind == kind and said in str(caught.value), str(caught.value)
    assert caught.value.threads == [(0, 0)]


@pytest.mark.parametrize(
    ("copy", "said"),
    [
        (COPY.format("B.data", 0, "A.data", 0, 16), "to or from shared memory, not B"),
        (STORE.format("B.data", 0, "A.data", 0, 16), "to or from shared memory, not A"),
        (TENSOR.format("R.data", 0, "0, 0"), "to or from shared memory, not R"),
        (TENSOR.format("H.data", 0, "0, 0"), "elements of 4 bytes and shared memory of float16"),
        (TENSOR.format("S.data", 0, "0"), "1 coordinates for a map of 2 axes"),
        (TENSOR.format("S.data", 0, "0, 0, 0"), "3 coordinates for a map of 2 axes"),
        (TENSOR.replace("M,", "A.data,").format("S.data", 0, "0, 0"), "is no map of a tensor"),
        ("T.ptx_cp_async_bulk_tensor_store(n, S.data, 0, 0)",
         "is no map of a tensor"),
    ],
)  # fmt: skip
def test_what_there_is_not(copy: str, said: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        run(f"{FILL}if t == 0:\n    {copy}\n{LEAVE}")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("x", "y"), [(0, 0), (0, 3), (0, 7), (4, 2), (-3, 0), (12, 6), (0, -1), (16, 0)]
)
def test_boxes_at_places(x: int, y: int) -> None:
    """A box of two rows of 16; what is outside of the tensor is zero, and is not written."""
    table = np.zeros((12, 48))
    table[2:10, 16:32] = np.arange(1, 129).reshape(8, 16)
    wanted = table[y + 2 : y + 4, x + 16 : x + 32]
    lines = bring(TENSOR.format("S.data", 32, f"{x}, {y}"), 128).replace("S[t]", "S[32 + t % 32]")
    assert run(lines)[:32].tolist() == wanted.reshape(-1).tolist()
    out = np.zeros((8, 16), "float32")
    store = f"T.ptx_cp_async_bulk_tensor_store(M, S.data, 32, {x}, {y})"
    run(f"{FILL}if t == 0:\n    {store}\n{LEAVE}", map_=TensorMap(out, (2, 16)))
    table[:] = 0
    table[y + 2 : y + 4, x + 16 : x + 32] = np.arange(33, 65).reshape(2, 16)
    assert out.tolist() == table[2:10, 16:32].tolist()


# ---------------------------------------------------------------------------- barriers


@pytest.mark.parametrize(
    ("arrivals", "lines", "said"),
    [
        (1, f"if t == 1:\n    {ARRIVE}\n{WAIT}", ""),
        (64, f"{ARRIVE}\n{WAIT}", ""),
        (33, f"if t < 33:\n    {ARRIVE}\n{WAIT}", ""),
        (65, f"{ARRIVE}\n{WAIT}",
         "deadlock: a warp waits for parity 0; phase 0 of barrier bar_data[0] lacks 1 of 65 "
         "arrivals and 0 bytes"),
        (31, ARRIVE, "barrier: 32 threads arrive at bar_data[0], which "
         "waits for 31 of 31"),
        (40, ARRIVE,
         "32 threads arrive at bar_data[0], which waits for 8 of 40"),
        # The phase before counts as complete from the start; after two the first parity is back.
        (64, f"T.ptx_mbarrier_wait({BAR}, 1)", ""),
        (64, f"for k in range(5):\n    {ARRIVE}\n"
             f"    T.ptx_mbarrier_wait({BAR}, k % 2)", ""),
        (64, f"for k in range(2):\n    {ARRIVE}\n"
             f"{WAIT}",
         "a warp waits for parity 0; phase 2 of barrier bar_data[0] lacks 64 of 64 arrivals"),
        (1, WAIT, "lacks 1 of 1 arrivals"),
        (1, f"if t == 0:\n    T.ptx_mbarrier_expect_tx({BAR}, 16)\n"
            f"    {ARRIVE}\n"
            f"{WAIT}", "lacks 0 of 1 arrivals and 16 bytes"),
        (2, f"if t < 2:\n    T.ptx_mbarrier_expect_tx({BAR}, 16)\n"
            f"    {ARRIVE}\n"
            f"{WAIT}", "lacks 0 of 2 arrivals and 32 bytes"),
        (2, f"if t < 2:\n    T.ptx_mbarrier_arrive_expect_tx({BAR}, 16)\n{WAIT}",
         "lacks 0 of 2 arrivals and 32 bytes"),
        (1, "if t == 0:\n    T.ptx_mbarrier_arrive(T.address_of(bar[1]))", "bar_data[1] is read"),
        (1, "if t == 0:\n    bar[1] = T.uint64(0)\n    T.ptx_mbarrier_arrive(T.address_of(bar[1]))",
         "barrier: bar_data[1] is no barrier: nobody has made it one"),
        (0, "T.evaluate(0)", "barrier: 1 threads make a barrier of 0 arrivals"),
        (1, "if t < 2:\n    T.ptx_mbarrier_init(T.address_of(bar[1]), 2)",
         "2 threads make a barrier of 2 arrivals"),
        (1, f"T.ptx_mbarrier_wait({BAR}, 2)", "[2] is no parity"),
        (1, f"T.ptx_mbarrier_wait({BAR}, -1)", "[-1] is no parity"),
    ],
)  # fmt: skip
def test_arrivals_and_phases(arrivals: int, lines: str, said: str) -> None:
    if not said:
        run(lines, arrivals)
        return
    with pytest.raises(KernelDefect) as caught:
        run(lines, arrivals)
    assert said in str(caught.value), str(caught.value)


def test_barriers_tell_what_was_written() -> None:
    """Who waits sees what those who arrived had written, and what a copy brought."""
    lines = f"""if t < 32:
    S[t] = A[t]
    {ARRIVE}
else:
    WAIT
    B[t] = S[63 - t]"""
    wait = WAIT
    found = run(lines.replace("WAIT", wait), 32)
    assert found[32:64].tolist() == list(range(32, 0, -1))
    with pytest.raises(KernelDefect, match=r"race|nobody has written"):
        run(lines.replace("WAIT", f"T.ptx_mbarrier_wait({BAR}, 1)"), 32)


def test_copies_land_in_turn() -> None:
    """Two copies to two barriers; each may be waited for, in any order."""
    lines = f"""if t == 0:
    T.ptx_mbarrier_init(T.address_of(bar[1]), 1)
    T.ptx_mbarrier_arrive_expect_tx({BAR}, 128)
    T.ptx_mbarrier_arrive_expect_tx(T.address_of(bar[1]), 128)
    T.ptx_cp_async_bulk(S.data, 0, A.data, 0, 128, {BAR})
    T.ptx_cp_async_bulk(S.data, 32, A.data, 32, 128, T.address_of(bar[1]))
T.tvm_storage_sync("shared")
T.ptx_mbarrier_wait(T.address_of(bar[FIRST]), 0)
B[t % 32 + FIRST * 32] = S[t % 32 + FIRST * 32]"""
    once = lines.replace("B[t", "if t < 32:\n    B[t")
    again = "\nT.ptx_mbarrier_wait(T.address_of(bar[OTHER]), 0)"
    for first, other in ((0, 1), (1, 0)):
        text = (once + again).replace("FIRST", str(first)).replace("OTHER", str(other))
        shown = run(text)
        assert np.flatnonzero(shown).tolist() == list(range(first * 32, first * 32 + 32))
        wrong = text.replace(f"S[t % 32 + {first} * 32]", f"S[t % 32 + {other} * 32]")
        if first == 0:
            with pytest.raises(KernelDefect, match="missing wait"):
                run(wrong)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (f"T.ptx_mbarrier_arrive_expect_tx({BAR}, 16)\n"
         f"    T.ptx_cp_async_bulk(S.data, 0, A.data, 0, 32, {BAR})",
         "missing wait: a copy into shared memory is under way where the block ends"),
        (f"T.ptx_mbarrier_arrive_expect_tx({BAR}, 16)\n"
         f"    T.ptx_cp_async_bulk(S.data, 0, A.data, 0, 32, {BAR})\n"
         f"{WAIT}",
         "a copy brings 32 bytes, 16 more than barrier bar_data[0] expects"),
        ("T.ptx_cp_async_bulk_store(B.data, 0, S.data, 0, 16)",
         "a copy out of shared memory is under way where the block ends"),
        ("T.ptx_cp_async_bulk_store(B.data, 0, S.data, 0, 16)\n"
         "    T.ptx_cp_async_bulk_commit_group()",
         "a copy out of shared memory is under way where the block ends"),
        ("T.ptx_cp_async_bulk_store(B.data, 0, S.data, 0, 16)\n"
         "    T.ptx_cp_async_bulk_commit_group()\n    T.ptx_cp_async_bulk_wait_group(1)",
         "a copy out of shared memory is under way where the block ends"),
        ("for k in range(2):\n        T.ptx_cp_async_bulk_store(B.data, k * 4, S.data, k * 4, 16)\n"
         "        T.ptx_cp_async_bulk_commit_group()\n    T.ptx_cp_async_bulk_wait_group(1)\n"
         "    T.ptx_cp_async_bulk_wait_group_read(0)", ""),
        ("for k in range(2):\n        T.ptx_cp_async_bulk_store(B.data, k * 4, S.data, k * 4, 16)\n"
         "        T.ptx_cp_async_bulk_commit_group()\n    T.ptx_cp_async_bulk_wait_group(1)\n"
         "    S[0] = 0.0\n    T.ptx_cp_async_bulk_wait_group(0)", ""),
        ("for k in range(2):\n        T.ptx_cp_async_bulk_store(B.data, k * 4, S.data, k * 4, 16)\n"
         "        T.ptx_cp_async_bulk_commit_group()\n    T.ptx_cp_async_bulk_wait_group(1)\n"
         "    S[4] = 0.0\n    T.ptx_cp_async_bulk_wait_group(0)",
         "writes S[4] and another reads it"),
    ],
)  # fmt: skip
def test_groups(lines: str, said: str) -> None:
    """Thread 0 copies out, and may overwrite what its groups have read."""
    if not said:
        assert run(f"{FILL}if t == 0:\n    {lines}")[:8].tolist() == list(range(1, 9))
        return
    with pytest.raises(KernelDefect) as caught:
        run(f"{FILL}if t == 0:\n    {lines}")
    assert said in str(caught.value), str(caught.value)
