"""Parts by all blocks and what the last of them makes of these, in one launch."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu import ARCHS, assemble
from lower.gpu_programs import gpu_lower, syncs
from tileloom import assembly, te
from tileloom.base.errors import UnsupportedError
from tileloom.lower.analysis.threads import kernels
from tileloom.lower.gpu.launch_plan import HostPlan
from tileloom.lower.gpu.merge_grid_reductions import WANTED, merge_grid_reductions
from tileloom.lower.gpu.split_host_device import split_host_device
from tileloom.lower.pipeline import GPU_PIPELINE
from tileloom.plan import schedule_gpu
from tileloom.script import tir as T
from tileloom.simt import run_kernels
from tileloom.target import target
from tileloom.tir import IRModule, PrimFunc

GPU = target("cuda -arch=sm_80")


def launches(func: PrimFunc) -> int:
    return len(list(kernels(func.body)))


def two_kernels(
    blocks: int = 12,
    together: int = 4,
    threads: Any = (32, 32),
    part: Callable[..., Any] = lambda b: b,
    reads: Callable[..., Any] | None = None,
    kind: str = "float32",
) -> PrimFunc:
    """P[part(b)] = the maximum of 32 of A; B[r] = the sum of P where `reads(r, j)` says."""
    readers = -(-blocks // together)
    first, second = threads
    used = reads or (lambda r, j: T.min(r * together + j, blocks - 1))

    @T.prim_func
    def func(A: T.Buffer((blocks, first), kind), B: T.Buffer((readers,), kind)) -> None:
        T.func_attr({"tir.noalias": True, "tir.merge_grid_reductions": True})
        with T.block("root"):
            P = T.alloc_buffer((blocks,), kind)
            S = T.alloc_buffer((first,), kind, scope="shared")
            L = T.alloc_buffer((1,), kind, scope="local")
            R = T.alloc_buffer((second,), kind, scope="shared")
            for b in T.thread_binding(blocks, thread="blockIdx.x"):
                for t in T.thread_binding(first, thread="threadIdx.x"):
                    S[t] = A[b, t]
                    if t == 0:
                        P[part(b)] = S[first - 1]
            for r in T.thread_binding(readers, thread="blockIdx.x"):
                for t in T.thread_binding(second, thread="threadIdx.x"):
                    L[0] = T.Cast(kind, 0)
                    if t < together and r * together + t < blocks:
                        L[0] = P[used(r, t)]
                    R[t] = L[0]
                    if t == 0:
                        B[r] = R[0] + R[1] + R[2] + R[3]

    return func


def check(func: PrimFunc, merged: bool = True) -> PrimFunc:
    """One launch or two; the same results as two."""
    flat, plain = gpu_lower(func), gpu_lower(func.without_attr(WANTED))
    assert (launches(plain), launches(flat)) == (2, 1 if merged else 2)
    rng, results = np.random.default_rng(0), []
    arrays = [rng.integers(-9, 9, b.static_shape).astype(b.dtype.numpy) for b in func.buffers]
    for version in (flat, plain):
        given = [array.copy() for array in arrays]
        run_kernels(version, *given)
        results.append(given)
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)
    return flat


def test_one_launch() -> None:
    flat = check(two_kernels())
    assert str(flat).count("atomic_add") == 1
    assert "zeroed" in str(flat)


@pytest.mark.parametrize(
    ("blocks", "together"), [(12, 4), (11, 4), (9, 4), (4, 4), (3, 4), (5, 1), (7, 2)]
)
def test_groups_of_blocks(blocks: int, together: int) -> None:
    """Also where the last group is smaller."""
    check(two_kernels(blocks, together))


@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "int64"])
def test_kinds(kind: str) -> None:
    check(two_kernels(kind=kind))


@pytest.mark.parametrize("threads", [(64, 32), (64, 8), (64, 33), (96, 96)])
def test_fewer_threads_in_the_second(threads: tuple[int, ...]) -> None:
    """Its barriers are met by all threads of the block nevertheless."""
    flat = check(two_kernels(threads=threads))
    assert syncs(flat) >= 3


def test_places_of_parts() -> None:
    check(two_kernels(part=lambda b: b % 4 * 3 + b // 4, reads=lambda r, j: j * 3 + r))
    check(two_kernels(part=lambda b: 11 - b, reads=lambda r, j: 11 - r * 4 - j))


@pytest.mark.parametrize(
    "changes",
    [
        {"reads": lambda r, j: j},  # all need the first parts
        {"reads": lambda r, j: j * 3 + r},  # parts of blocks that are not neighbours
        {"reads": lambda r, j: (r * 4 + j + 1) % 12},  # a part of the next group
        {"reads": lambda r, j: (2 - r) * 4 + j},  # the groups in another order
        {"threads": (32, 64)},
        {"kind": "float16"},
        {"part": lambda b: b // 2},  # two blocks for one part, which race as well
    ],
)
def test_what_stays_two_launches(changes: dict[str, Any]) -> None:
    func = two_kernels(**changes)
    assert launches(gpu_lower(func)) == 2
    if "part" not in changes:
        check(func, merged=False)


def test_without_asking_or_with_aliases() -> None:
    func = two_kernels()
    assert launches(gpu_lower(func.without_attr(WANTED))) == 2
    assert launches(gpu_lower(func.without_attr("tir.noalias"))) == 2


def test_a_second_kernel_that_writes_what_the_first_reads() -> None:
    """The last block of a row may come before others have read."""

    @T.prim_func
    def func(A: T.Buffer((8, 32), "float32")) -> None:
        T.func_attr({"tir.noalias": True, "tir.merge_grid_reductions": True})
        with T.block("root"):
            P = T.alloc_buffer((8,), "float32")
            for b in T.thread_binding(8, thread="blockIdx.x"):
                for t in T.thread_binding(32, thread="threadIdx.x"):
                    if t == 0:
                        P[b] = A[b, 0]
            for r in T.thread_binding(2, thread="blockIdx.x"):
                for t in T.thread_binding(32, thread="threadIdx.x"):
                    A[7 - r, t] = P[r * 4] + P[r * 4 + 1] + P[r * 4 + 2] + P[r * 4 + 3]

    check(func, merged=False)


# ---------------------------------------------------------------------------- of the planner


def row_sums(rows: int, columns: int) -> PrimFunc:
    a = te.placeholder((rows, columns), name="A")
    j = te.reduce_axis((0, columns), name="j")
    total = te.compute((rows,), lambda i: te.sum(a[i, j], axis=j), name="total")
    out = te.compute((rows,), lambda i: total[i] * 2.0 + 1.0, name="out")
    sch = schedule_gpu(te.create_prim_func([a, out]), GPU)
    return sch.mod["main"].with_attr(WANTED, True)


@pytest.mark.parametrize(("rows", "columns"), [(3, 65536), (1, 1 << 18), (2, 100_003)])
def test_sums_of_few_rows(rows: int, columns: int) -> None:
    func = row_sums(rows, columns)
    flat, plain = gpu_lower(func), gpu_lower(func.without_attr(WANTED))
    assert (launches(plain), launches(flat)) == (2, 1)
    a = np.random.default_rng(0).standard_normal((rows, columns)).astype("float32")
    one, two = np.empty(rows, "float32"), np.empty(rows, "float32")
    run_kernels(flat, a, one)
    run_kernels(plain, a, two)
    np.testing.assert_array_equal(one, two)  # the order of adding is the same
    np.testing.assert_allclose(one, a.sum(1, dtype="float64") * 2 + 1, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("arch", ["sm_70", *ARCHS])
def test_ptx(arch: str, tmp_path: Path) -> None:
    ptx = assembly(IRModule({"main": row_sums(3, 65536)}), f"cuda -arch={arch}")
    assert ptx.count(".visible .entry") == 1
    assert re.search(r"atom\.\S*add", ptx)
    assert "fence" in ptx or "membar" in ptx
    assert "ld.relaxed" in ptx or "ld.volatile" in ptx  # of parts, past the cache of a processor
    assemble(ptx, arch, tmp_path)


def test_the_host_says_that_it_has_no_zeroed_memory() -> None:
    module = split_host_device(gpu_lower(row_sums(3, 65536)))
    host, *rest = module.functions.values()
    plan = HostPlan(host, {k.attrs["global_symbol"]: k for k in rest})
    with pytest.raises(UnsupportedError, match="zero"):
        plan.launches({})


def test_twice_is_once() -> None:
    position = GPU_PIPELINE.index(merge_grid_reductions)
    once = gpu_lower(two_kernels(), GPU_PIPELINE[: position + 1])
    assert merge_grid_reductions(once) is once
    assert merge_grid_reductions(once.with_attr(WANTED, True)).body is once.body


@pytest.mark.parametrize(("threads", "launched"), [((64, 32), 1), ((64, 16), 2), ((32, 16), 2)])
def test_a_warp_that_is_asked_together_is_whole(threads: tuple[int, ...], launched: int) -> None:
    """Half a warp may exchange values where it is all of a block, not where others wait."""
    first, second = threads

    @T.prim_func
    def func(A: T.Buffer((12, first), "float32"), B: T.Buffer((3,), "float32")) -> None:
        T.func_attr({"tir.noalias": True, "tir.merge_grid_reductions": True})
        with T.block("root"):
            P = T.alloc_buffer((12,), "float32")
            L = T.alloc_buffer((1,), "float32", scope="local")
            for b in T.thread_binding(12, thread="blockIdx.x"):
                for t in T.thread_binding(first, thread="threadIdx.x"):
                    if t == 0:
                        P[b] = A[b, 0]
            for r in T.thread_binding(3, thread="blockIdx.x"):
                for t in T.thread_binding(second, thread="threadIdx.x"):
                    L[0] = P[r * 4 + t % 4]
                    L[0] = L[0] + T.tvm_warp_shuffle_down(
                        T.tvm_warp_activemask(), L[0], 1, second, 32
                    )
                    if t == 0:
                        B[r] = L[0]

    flat = gpu_lower(func)
    assert launches(flat) == launched
    a, b = np.random.default_rng(0).standard_normal((12, first)).astype("f"), np.zeros(3, "f")
    run_kernels(flat, a, b)
    np.testing.assert_array_equal(b, a[::4, 0] + a[1::4, 0])
