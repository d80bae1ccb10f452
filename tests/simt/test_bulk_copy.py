"""Copies in bulk and by maps, a line each in a kernel of two warps."""

from __future__ import annotations

import numpy as np
import pytest

from simt.bulk_programs import BAR, FILL, LEAVE, bring, run
from tileloom.base.errors import UnsupportedError
from tileloom.base.tensor_map import TensorMap
from tileloom.simt import KernelDefect


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
