"""Descriptors and products of four warps: their bits, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import UnsupportedError
from tileloom.script import parse
from tileloom.simt import KernelDefect, run_kernels

DESCRIBED = """
@T.prim_func
def kernel(B: T.Buffer((32,), "uint64"), A: T.Buffer((8,), "float32")):
    t = T.launch_thread("threadIdx.x", 32)
    P_data = T.allocate([10], "float32", "shared")
    S_data = T.allocate([4096], "float16", "shared")
    S = T.decl_buffer((4096,), "float16", data=S_data, scope="shared")
    B[t] = T.ptx_wgmma_descriptor(T.address_of(S[PLACE]), LEADING, STRIDE, SWIZZLE)
"""


def described(place: str = "0", leading: Any = 0, stride: Any = 0, swizzle: Any = 0) -> list[int]:
    text = DESCRIBED.replace("PLACE", place).replace("LEADING", str(leading))
    text = text.replace("STRIDE", str(stride)).replace("SWIZZLE", str(swizzle))
    b = np.zeros(32, "uint64")
    run_kernels(parse(text), b, np.zeros(8, "float32"))
    return b.tolist()


@pytest.mark.parametrize("leading", [0, 16, 128, 4096])
@pytest.mark.parametrize("stride", [16, 1024, 0x3FFF * 16])
@pytest.mark.parametrize(("swizzle", "code"), [(0, 0), (128, 1), (64, 2), (32, 3)])
def test_fields_of_descriptors(leading: int, stride: int, swizzle: int, code: int) -> None:
    """Bits 0-13 are the address, 16-29 the leading and 32-45 the stride offset, by 16 bytes."""
    found = described("t * 8", leading, stride, swizzle)
    rest = (leading // 16) << 16 | (stride // 16) << 32 | code << 62
    start = found[0] & 0x3FFF
    assert found == [rest | (start + t) for t in range(32)]


def test_descriptors_that_there_are_not() -> None:
    with pytest.raises(UnsupportedError, match="0, 32, 64 or 128 bytes, not 48"):
        described(swizzle=48)
    with pytest.raises(UnsupportedError, match="a constant is needed, not"):
        described(swizzle="t")
    with pytest.raises(KernelDefect, match="is no multiple of 16") as caught:
        described("t * 4")
    assert caught.value.kind == "misaligned"
    assert caught.value.threads == [(0, t) for t in range(1, 32, 2)]
    text = DESCRIBED.replace("S[PLACE]", "A[0]").replace("LEADING, STRIDE, SWIZZLE", "0, 0, 0")
    with pytest.raises(UnsupportedError, match="a descriptor is of shared memory, not of"):
        run_kernels(parse(text), np.zeros(32, "uint64"), np.zeros(8, "float32"))


PRODUCT = """
@T.prim_func
def kernel(A: T.Buffer((ROWS * DEPTH,), "KIND"), B: T.Buffer((8 * DEPTH,), "KIND"),
           C: T.Buffer((ROWS * 8,), "TOTAL"), n: T.int32):
    t = T.launch_thread("threadIdx.x", THREADS)
    SA_data = T.allocate([ROWS * DEPTH], "KIND", "shared")
    SA = T.decl_buffer((ROWS * DEPTH,), "KIND", data=SA_data, scope="shared")
    SB_data = T.allocate([8 * DEPTH], "KIND", "shared")
    SB = T.decl_buffer((8 * DEPTH,), "KIND", data=SB_data, scope="shared")
    D_data = T.allocate([4], "TOTAL", "local")
    D = T.decl_buffer((4,), "TOTAL", data=D_data, scope="local")
    R_data = T.allocate([8], "KIND", "local")
    R = T.decl_buffer((8,), "KIND", data=R_data, scope="local")
    if t < ROWS:
        for k in range(DEPTH):
            SA[k // WIDE * (ROWS * WIDE) + t * WIDE + k % WIDE] = A[t * DEPTH + k]
    if t < 8:
        for k in range(DEPTH):
            SB[k // WIDE * (8 * WIDE) + t * WIDE + k % WIDE] = B[t * DEPTH + k]
    T.ptx_fence_proxy_async()
    T.tvm_storage_sync("shared")
    for i in range(4):
        D[i] = T.TOTAL(3)
    for i in range(8):
        R[i] = T.KIND(1)
    T.ptx_wgmma_fence()
    GUARDT.ptx_wgmma(NAMES, LEFT, RIGHT, D.data, 0, ADD)
    T.ptx_wgmma_commit_group()
    AFTER
    T.ptx_wgmma_wait_group(0)
    if t // 32 * 16 < ROWS:
        for i in range(4):
            C[(t // 32 * 16 + t % 32 // 4 + i // 2 * 8) * 8 + t % 4 * 2 + i % 2] = D[i]
"""
LEFT = "T.ptx_wgmma_descriptor(T.address_of(SA[t // 128 * 512]), ROWS * 16, 128, 0), 0"
RIGHT = "T.ptx_wgmma_descriptor(T.address_of(SB[0]), 128, 128, 0)"
ONCE_MORE = """T.ptx_wgmma(NAMES, LEFT, RIGHT, D.data, 0, True)
    T.ptx_wgmma_commit_group()
    T.ptx_wgmma_wait_group(LEFTOVER)"""
HALVES = {"NAMES": '"m64n8k16", "f16", "f16", "f32"', "DEPTH": "16", "WIDE": "8",
          "KIND": "float16", "TOTAL": "float32"}  # fmt: skip
BYTES = {"NAMES": '"m64n8k32", "s8", "s8", "s32"', "DEPTH": "32", "WIDE": "16",
         "KIND": "int8", "TOTAL": "int32"}  # fmt: skip


def product(
    changes: dict[str, str], threads: int = 128, rows: int = 64, types: dict[str, str] = HALVES
) -> tuple[Any, Any, Any]:
    """C, A @ B.T, and B."""
    parts = {"GUARD": "", "ADD": "True", "AFTER": "T.evaluate(0)", "LEFT": LEFT, "RIGHT": RIGHT}
    sizes = {"THREADS": str(threads), "ROWS": str(rows)}
    text = PRODUCT
    more = {"LEFT,": f"{LEFT},", "RIGHT": RIGHT}  # of what `AFTER` does
    for table in ({**parts, **changes}, more, sizes, types):
        for name, part in table.items():
            text = text.replace(name, part)
    rng, depth = np.random.default_rng(0), int(types["DEPTH"])
    a, b = (rng.integers(-3, 4, (size, depth)).astype(types["KIND"]) for size in (rows, 8))
    c = np.zeros((rows, 8), types["TOTAL"])
    run_kernels(parse(text), a.reshape(-1), b.reshape(-1), c.reshape(-1), 1)
    return c, a.astype("float64") @ b.astype("float64").T, b


@pytest.mark.parametrize(("threads", "rows"), [(128, 64), (256, 128), (160, 64)])
@pytest.mark.parametrize("types", [HALVES, BYTES])
def test_rows_of_warps_and_groups(threads: int, rows: int, types: dict[str, str]) -> None:
    guard = "if t < 128:\n        " if threads == 160 else ""
    left = LEFT.replace("512", "1024") if types is BYTES else LEFT
    found, wanted, _ = product({"GUARD": guard, "LEFT": left}, threads, rows, types)
    assert found.tolist() == (wanted + 3).tolist()


@pytest.mark.parametrize(("add", "start"), [("True", 3), ("False", 0), ("n > 0", 3), ("n < 0", 0)])
def test_sums_go_on_or_start(add: str, start: int) -> None:
    found, wanted, _ = product({"ADD": add})
    assert found.tolist() == (wanted + start).tolist()


def test_several_products() -> None:
    """A second one adds to the same sums before the first is waited for."""
    found, wanted, _ = product({"AFTER": ONCE_MORE.replace("LEFTOVER", "0")})
    assert found.tolist() == (2 * wanted + 3).tolist()


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"threads": "96", "rows": "48"}, "divergent warp", "wgmma takes 4 warps, and the last"),
        ({"GUARD": "if t % 32 < 31:\n        "}, "divergent warp", "all 32 threads of a warp"),
        ({"ADD": "t % 2 == 0"}, "divergent warp", "add to their sums or not"),
        ({"RIGHT": RIGHT.replace("SB[0]", "SB[t % 2 * 8]")}, "divergent warp",
         "threads of a warp give different descriptors"),
        ({"LEFT": LEFT.replace("SA[t // 128 * 512]", "SA[t % 2 * 8]")}, "divergent warp",
         "threads of a warp give different descriptors"),
        ({"LEFT": LEFT.replace("ROWS * 16", "16384")}, "out of bounds", "where no array is"),
        ({"RIGHT": RIGHT.replace("128, 128", "256, 128")}, "out of bounds", "SB"),
        # Addresses are given in turn: the second product of this kind would read A as B.
        ({"AFTER": ONCE_MORE.replace("RIGHT", RIGHT.replace("128, 128", "1024, 128"))
          .replace("LEFTOVER", "0")}, "out of bounds", "a tile reaches beyond SB"),
        ({"AFTER": "D[0] = T.float32(1)"}, "missing wait", "D"),
        ({"AFTER": ONCE_MORE.replace("LEFTOVER", "1") + "\n    D[1] = T.float32(1)"},
         "missing wait", "D"),
        ({"LEFT": "R.data, 0", "AFTER": "R[7] = T.float16(2)"}, "missing wait", "R"),
    ],
)  # fmt: skip
def test_defects(changes: dict[str, str], kind: str, said: str) -> None:
    sizes = {name: int(changes[name]) for name in ("threads", "rows") if name in changes}
    with pytest.raises(KernelDefect) as caught:
        product({k: v for k, v in changes.items() if k not in sizes}, **sizes)
    assert caught.value.kind == kind and said in str(caught.value), str(caught.value)


def test_factors_in_registers() -> None:
    """Of ones: the sums of the rows of B. Two products may read them at once."""
    again = ONCE_MORE.replace("LEFT,", "R.data, 0,").replace("LEFTOVER", "1")
    for after, times in (("T.evaluate(0)", 1), (again, 2)):
        found, _, b = product({"LEFT": "R.data, 0", "AFTER": after})
        assert found.tolist() == np.tile(3 + times * b.sum(1), (64, 1)).tolist()


def test_transposed_factors() -> None:
    with pytest.raises(UnsupportedError, match="a constant is needed, not n"):
        product({"ADD": "True, n, 0"})
    for turns in ("1, 0", "0, 1"):
        with pytest.raises(UnsupportedError, match="factors of s8 lie along k in shared memory"):
            product({"ADD": f"True, {turns}"}, types=BYTES)
    found, wanted, _ = product({"ADD": "True, 0, 0"}, types=BYTES)
    assert found.tolist() == (wanted + 3).tolist()
