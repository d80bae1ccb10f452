"""Barriers in memory, copies in bulk and by maps, `wgmma`: on the emulator, and what it finds."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu import assemble
from simt.hopper_programs import bulk_copy, group_product, pipeline, tensor_copy
from simt.matrix_programs import function, random_tile
from tileloom.base.errors import ArgumentError, UnsupportedError, UserError
from tileloom.base.tensor_map import TensorMap
from tileloom.driver import assembly
from tileloom.expr import const
from tileloom.lower import lower
from tileloom.lower.analysis.threads import scope_of
from tileloom.simt import KernelDefect, run_kernels
from tileloom.target import target
from tileloom.target.matrix_units import find_wgmma
from tileloom.tir import Allocate, AttrStmt, PrimFunc, collect

GPU = target("cuda -arch=sm_90a")


def run_bulk(func: PrimFunc) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.arange(1024, dtype="float32"), np.zeros(1024, "float32")
    run_kernels(lower(func, GPU), a, b)
    return a, b


def test_bulk_copies() -> None:
    a, b = run_bulk(bulk_copy())
    assert np.array_equal(b, a + 1)


def test_two_phases_alternate_parity() -> None:
    again = """
                for r in range(3):
                    if t == 0:
                        T.evaluate(T.ptx_mbarrier_arrive_expect_tx(T.address_of(Bar[0]), 1024))
                        T.evaluate(T.ptx_cp_async_bulk(
                            S.data, 0, A.data, b * 256, 1024, T.address_of(Bar[0])
                        ))
                    T.evaluate(T.ptx_mbarrier_wait(T.address_of(Bar[0]), (r + 1) % 2))
                    T.evaluate(T.tvm_storage_sync("shared"))"""
    func = bulk_copy(
        wait=f"""T.evaluate(T.ptx_mbarrier_wait(T.address_of(Bar[0]), 0))
                T.evaluate(T.tvm_storage_sync("shared")){again}"""
    )
    a, b = run_bulk(func)
    assert np.array_equal(b, a + 1)


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        # Some warp comes before the copy has even begun.
        ({"wait": "T.evaluate(0)"}, "uninitialised", "S["),
        # The other parity has passed before anything came.
        (
            {"wait": "T.evaluate(T.ptx_mbarrier_wait(T.address_of(Bar[0]), 1))"},
            "uninitialised",
            "S[",
        ),
        # All warps come while it is under way.
        ({"wait": 'T.evaluate(T.tvm_storage_sync("shared"))'}, "missing wait", "S["),
        (
            {"expect": "T.evaluate(T.ptx_mbarrier_arrive_expect_tx(T.address_of(Bar[0]), 2048))"},
            "deadlock",
            "lacks 0 of 1 arrivals and 1024 bytes",
        ),
        ({"expect": "T.evaluate(0)"}, "missing expect", "1024 more than barrier Bar[0] expects"),
        (
            {"expect": "T.evaluate(T.ptx_mbarrier_expect_tx(T.address_of(Bar[0]), 1024))"},
            "deadlock",
            "lacks 1 of 1 arrivals and 0 bytes",
        ),
        (
            {"init": "T.evaluate(T.ptx_mbarrier_init(T.address_of(Bar[0]), 2))"},
            "deadlock",
            "lacks 1 of 2 arrivals",
        ),
        ({"init": "T.evaluate(0)"}, "uninitialised", "Bar[0]"),
        (
            {"wait": "T.evaluate(T.ptx_mbarrier_wait(T.address_of(Bar[0]), 2))"},
            "barrier",
            "[2] is no parity",
        ),
        (
            {"wait": "T.evaluate(T.ptx_mbarrier_wait(T.address_of(Bar[0]), t % 2))"},
            "barrier",
            "[0, 1] is no parity",
        ),
        ({"fence": "T.evaluate(0)"}, "missing fence", "ptx_fence_proxy_async"),
        ({"meet": "T.evaluate(0)"}, "race", "S["),
        ({"leave": "T.evaluate(0)"}, "missing wait", "where the block ends"),
        ({"bytes": "1020"}, "misaligned", "multiple of 16 bytes, not 1020"),
        ({"bytes": "0"}, "misaligned", "multiple of 16 bytes, not 0"),
        ({"bytes": "-16"}, "misaligned", "multiple of 16 bytes, not -16"),
        ({"bytes": "2048"}, "out of bounds", "S["),
    ],
)
def test_seeded_defects(changes: dict[str, str], kind: str, text: str) -> None:
    with pytest.raises(KernelDefect) as caught:
        run_bulk(bulk_copy(**changes))
    assert (caught.value.kind, text in str(caught.value)) == (kind, True), str(caught.value)
    assert caught.value.statement is not None or kind == "missing wait"


# ---------------------------------------------------------------------------- maps of tensors


@pytest.mark.parametrize("shape", [(256,), (4, 64), (2, 4, 32), (2, 2, 2, 32), (2, 1, 2, 2, 32)])
def test_boxes(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal([n + 4 for n in shape]).astype("float32")
    b = np.zeros(shape, "float32")
    run_kernels(lower(tensor_copy(shape), GPU), TensorMap(a, shape), TensorMap(b, shape))
    assert np.array_equal(b, a[tuple(slice(n) for n in shape)])


@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_permuted_rows(swizzle: int) -> None:
    """In and out by the same pattern; in by it and out without shows it."""
    shape = (16, swizzle // 4)
    a = np.arange(prod(shape), dtype="float32").reshape(shape)
    b, c = np.zeros_like(a), np.zeros_like(a)
    func = lower(tensor_copy(shape), GPU)
    run_kernels(func, TensorMap(a, shape, swizzle), TensorMap(b, shape, swizzle))
    assert np.array_equal(b, a)
    run_kernels(func, TensorMap(a, shape, swizzle), TensorMap(c, shape))
    pieces = a.reshape(16, -1, 4)
    rows = np.arange(16)[:, None]
    turn = rows * swizzle // 128 % (swizzle // 16)
    wanted = pieces[rows, np.arange(swizzle // 16) ^ turn]
    assert np.array_equal(c, wanted.reshape(shape))


def test_what_is_outside_of_the_tensor_is_zero() -> None:
    a, b = np.ones((6, 40), "float32"), np.full((8, 64), 7, "float32")
    run_kernels(lower(tensor_copy((8, 64)), GPU), TensorMap(a, (8, 64)), TensorMap(b, (8, 64)))
    assert (b[:6, :40] == 1).all()
    assert (b[6:] == 0).all()
    assert (b[:, 40:] == 0).all()
    c = np.full((3, 20), 7, "float32")
    run_kernels(
        lower(tensor_copy((8, 64)), GPU),
        TensorMap(np.ones((8, 64), "float32"), (8, 64)),
        TensorMap(c, (8, 64)),
    )
    assert (c == 1).all()


@pytest.mark.parametrize(
    ("array", "box", "swizzle"),
    [
        (np.zeros((4, 3), "float32"), (4, 3), 0),
        (np.zeros((4, 64), "float32"), (4,), 0),
        (np.zeros((4, 64), "float32"), (4, 64), 128),
        (np.zeros((4, 64), "float32"), (4, 16), 48),
        (np.zeros((64, 4), "float32").T, (4, 16), 0),
        (np.zeros((512, 64), "float32"), (512, 16), 0),
        (np.zeros((0, 64), "float32"), (1, 16), 0),
        (np.zeros((1,) * 6, "float32"), (1,) * 6, 0),
    ],
)
def test_maps_that_there_are_not(array: np.ndarray, box: tuple[int, ...], swizzle: int) -> None:
    with pytest.raises(ArgumentError):
        TensorMap(array, box, swizzle)


def test_an_array_is_no_map() -> None:
    with pytest.raises(ArgumentError, match="is a TensorMap, not ndarray"):
        run_kernels(lower(tensor_copy((64,)), GPU), np.zeros(64), np.zeros(64))


def test_a_map_of_other_axes() -> None:
    a = TensorMap(np.zeros((4, 64), "float32"), (4, 64))
    with pytest.raises(UnsupportedError, match="1 coordinates for a map of 2 axes"):
        run_kernels(lower(tensor_copy((256,)), GPU), a, a)


# ---------------------------------------------------------------------------- wgmma

CASES = [
    ("m64n8k16", "f16", "f32"), ("m64n128k16", "f16", "f32"), ("m64n256k16", "bf16", "f32"),
    ("m64n64k16", "f16", "f16"), ("m64n64k8", "tf32", "f32"), ("m64n96k32", "e4m3", "f32"),
    ("m64n32k32", "e5m2", "f16"), ("m64n64k32", "s8", "s32"), ("m64n32k32", "u8", "s32"),
]  # fmt: skip


def run_product(
    shape: str, kind: str, total: str, in_registers: bool = False, **changes: str
) -> tuple[np.ndarray, np.ndarray]:
    """The result, and what it should be."""
    p = find_wgmma(shape, kind, kind, total)
    rng = np.random.default_rng(4)
    a, b = random_tile(rng, (64, p.k), kind), random_tile(rng, (p.n, p.k), kind)
    if kind == "tf32":
        a, b = ((x.view("uint32") & 0xFFFFE000).view("float32") for x in (a, b))
    c = random_tile(rng, (64, p.n), total)
    run_kernels(lower(group_product(p, in_registers, **changes), GPU), a, b, c)
    wide = "int64" if p.integers else "float64"
    return c.astype(wide), a.astype(wide) @ b.astype(wide).T + 1


@pytest.mark.parametrize(("shape", "kind", "total"), CASES)
@pytest.mark.parametrize("in_registers", [False, True])
def test_products(shape: str, kind: str, total: str, in_registers: bool) -> None:
    found, wanted = run_product(shape, kind, total, in_registers)
    tolerance = {"f16": 3e-3, "f32": 1e-5, "s32": 0}[total]
    np.testing.assert_allclose(found, wanted, tolerance, tolerance * 10)


def test_sums_may_start_at_zero() -> None:
    found, wanted = run_product("m64n16k16", "f16", "f32", accumulate="T.bool(False)")
    np.testing.assert_allclose(found, wanted - 1, 1e-5, 1e-4)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"wait": "T.evaluate(0)"}, "missing wait"),
        ({"commit": "T.evaluate(0)"}, "missing wait"),
        ({"wait": "T.evaluate(T.ptx_wgmma_wait_group(1))"}, "missing wait"),
        ({"start": "T.evaluate(0)"}, "missing fence"),
        ({"fence": "T.evaluate(0)"}, "missing fence"),
        ({"meet": 'T.evaluate(T.tvm_storage_sync("warp"))'}, "race"),
    ],
)
def test_defects_of_products(changes: Any, kind: str) -> None:
    with pytest.raises(KernelDefect) as caught:
        run_product("m64n16k16", "f16", "f32", **changes)
    assert caught.value.kind == kind, str(caught.value)
    assert caught.value.statement is not None


@pytest.mark.parametrize(
    ("meanwhile", "in_registers", "kind"),
    [
        ("R[0] = T.float16(0)", True, "missing wait"),
        ("D[0] = T.float32(0)", False, "missing wait"),
        # A warp that runs ahead writes what another has still to read, or reads now.
        ("SA[t] = T.float16(0)", False, "missing fence"),
        ("SB[t % 32] = T.float16(0)", True, "race"),
        ("SA[t] = T.float16(0)", True, ""),
    ],
)
def test_what_is_multiplied_stays_as_it_is(meanwhile: str, in_registers: bool, kind: str) -> None:
    def run() -> None:
        run_product("m64n16k16", "f16", "f32", in_registers, meanwhile=meanwhile)

    if not kind:
        run()
        return
    with pytest.raises(KernelDefect) as caught:
        run()
    assert caught.value.kind == kind, str(caught.value)


# ---------------------------------------------------------------------------- all of it


def run_pipeline(
    transposed: bool, depth: int = 256, **changes: str
) -> tuple[np.ndarray, np.ndarray]:
    """One warp brings tiles in, four multiply them; the result, and what it should be."""
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(s).astype("float16") for s in ((64, depth), (64, depth)))
    c = np.zeros((64, 64), "float32")
    right = np.ascontiguousarray(b.T) if transposed else b
    maps = TensorMap(a, (64, 64), 128), TensorMap(right, (64, 64), 128)
    run_kernels(lower(pipeline(transposed, depth, **changes), GPU), *maps, c)
    return c, a.astype("float32") @ b.astype("float32").T


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("depth", [64, 128, 256, 448])
def test_producers_and_consumers(transposed: bool, depth: int) -> None:
    found, wanted = run_pipeline(transposed, depth)
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-4)


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({"full": "T.evaluate(0)"}, ("missing wait", "uninitialised", "race")),
        ({"full_parity": "(k // 2 + 1) % 2"}, ("missing wait", "uninitialised", "deadlock")),
        ({"empty": "T.evaluate(0)"}, ("race", "missing wait", "barrier")),
        ({"empty_parity": "k // 2 % 2"}, ("deadlock",)),
        ({"release": "T.evaluate(0)"}, ("deadlock",)),
        ({"bytes": "8192"}, ("missing expect", "missing wait")),
        ({"bytes": "32768"}, ("deadlock",)),
        ({"wait": "T.evaluate(T.ptx_wgmma_wait_group(1))"}, ("race", "missing wait")),
    ],
)
def test_defects_of_pipelines(changes: Any, kinds: tuple[str, ...]) -> None:
    with pytest.raises(KernelDefect) as caught:
        run_pipeline(False, **changes)
    assert caught.value.kind in kinds, str(caught.value)


def test_memory_of_engines_is_not_used_twice() -> None:
    """Two tiles one after the other: no barrier stands between, so each has its own memory."""
    func = function("""
@T.prim_func
def main(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    with T.block("root"):
        Bar = T.alloc_buffer((2,), "uint64", scope="shared")
        S = T.alloc_buffer((256,), "float32", scope="shared")
        R = T.alloc_buffer((256,), "float32", scope="shared")
        for b in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                if t == 0:
                    for s in range(2):
                        T.evaluate(T.ptx_mbarrier_init(T.address_of(Bar[s]), 1))
                        T.evaluate(T.ptx_mbarrier_arrive_expect_tx(T.address_of(Bar[s]), 1024))
                T.evaluate(T.tvm_storage_sync("shared"))
                if t == 0:
                    T.evaluate(T.ptx_cp_async_bulk(
                        S.data, 0, A.data, 0, 1024, T.address_of(Bar[0])
                    ))
                T.evaluate(T.ptx_mbarrier_wait(T.address_of(Bar[0]), 0))
                for k in range(8):
                    B[k * 32 + t] = S[k * 32 + t]
                if t == 0:
                    T.evaluate(T.ptx_cp_async_bulk(
                        R.data, 0, A.data, 256, 1024, T.address_of(Bar[1])
                    ))
                T.evaluate(T.ptx_mbarrier_wait(T.address_of(Bar[1]), 0))
                for k in range(8):
                    B[256 + k * 32 + t] = R[k * 32 + t]
""")
    flat = lower(func, GPU)
    shared = [n for n in collect(flat.body, Allocate) if scope_of(n) == "shared"]
    assert len(shared) == 3
    a, b = np.arange(512, dtype="float32"), np.zeros(512, "float32")
    run_kernels(flat, a, b)
    assert np.array_equal(a, b)


def numbered(create: str = "T.create_barriers(1)") -> PrimFunc:
    """A copy as TVM's test of bulk copies writes it."""
    return function(f"""
@T.prim_func
def main(A: T.Buffer((32, 128), "float16"), B: T.Buffer((32, 128), "float16")):
    with T.block("root"):
        T.reads(A[0:32, 0:128])
        T.writes(B[0:32, 0:128])
        S = T.alloc_buffer((32, 128), "float16", scope="shared")
        for bx in T.thread_binding(1, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                T.evaluate({create})
                if tx == 0:
                    T.evaluate(T.ptx_init_barrier_thread_count(0, 32))
                T.evaluate(T.tvm_storage_sync("shared"))
                T.evaluate(T.ptx_cp_async_bulk(
                    "float16", S.data, tx * 128, A.data, tx * 128, 256, 0
                ))
                T.evaluate(T.ptx_arrive_barrier_expect_tx(0, 256))
                T.evaluate(T.ptx_wait_barrier(0))
                for k in range(128):
                    B[tx, k] = S[tx, k]
""")


def test_barriers_by_number(tmp_path: Path) -> None:
    a = np.arange(32 * 128).reshape(32, 128).astype("float16")
    b = np.zeros_like(a)
    run_kernels(lower(numbered(), GPU), a, b)
    assert np.array_equal(a, b)
    assemble(assembly(numbered(), GPU), "sm_90a", tmp_path)
    func: Any = numbered()
    block = func.body.block
    around = block.replace(body=AttrStmt(const(0), "remark", const(1), block.body))
    b[:] = 0
    run_kernels(lower(func.replace(body=func.body.replace(block=around)), GPU), a, b)
    assert np.array_equal(a, b)
    for create in ("0", "T.create_barriers(tx)"):
        with pytest.raises(UserError, match="calls create_barriers once"):
            lower(numbered(create), GPU)
