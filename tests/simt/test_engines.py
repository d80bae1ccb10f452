"""Barriers in memory, and what engines are made to wait for."""

from __future__ import annotations

import numpy as np
import pytest

from simt.bulk_programs import ARRIVE, BAR, FILL, WAIT, run
from tileloom.simt import KernelDefect


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
