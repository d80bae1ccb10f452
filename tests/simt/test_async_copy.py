"""`cp.async` from schedules and by hand: results, seeded defects, PTX."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu import assemble
from simt.matrix_programs import function
from simt.mma_schedules import matmul, mma_schedule
from tileloom import te
from tileloom.base.errors import ArgumentError, UnsupportedError
from tileloom.driver import assembly, build
from tileloom.expr import Call, const
from tileloom.lower import lower
from tileloom.lower.analysis.pointers import COMMIT_GROUP, WAIT_GROUP
from tileloom.lower.analysis.threads import is_sync
from tileloom.schedule import Schedule
from tileloom.simt import KernelDefect, run_kernels
from tileloom.target import target
from tileloom.tir import Evaluate, PrimFunc, Stmt, StmtRewriter, seq

GPU = target("cuda -arch=sm_80")


def pipelined(stages: int, kind: str = "float32") -> PrimFunc:
    """Each block adds up 10 rows of 128, which come in through shared memory."""
    a = te.placeholder((4, 10, 128), kind, name="A")
    k: Any = te.reduce_axis((0, 10), name="k")
    b = te.compute((4, 128), lambda i, j: te.sum(a[i, k, j], axis=k), name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    block = sch.get_block("B")
    i, j, k = sch.get_loops(block)
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    shared = sch.cache_read(block, 0, "shared")
    sch.compute_at(shared, k)
    lanes = 16 * 8 // a.dtype.bits
    thread, vector = sch.split(sch.fuse(*sch.get_loops(shared)[3:]), [None, lanes])
    thread, _ = sch.split(thread, [128, None])
    sch.bind(thread, "threadIdx.x")
    sch.vectorize(vector)
    result = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(result, j)
    sch.decompose_reduction(block, k)
    sch.annotate(k, "software_pipeline_stage", [0, stages - 1])
    sch.annotate(k, "software_pipeline_order", [0, 1])
    sch.annotate(k, "software_pipeline_async_stages", [0])
    return sch.mod["main"]


class Change(StmtRewriter):
    """Puts something else in the place of some statements that call an operation."""

    def __init__(self, which: Callable[[Stmt], bool], change: Callable[[Stmt], Stmt]) -> None:
        self.which, self.change = which, change

    def visit_Evaluate(self, stmt: Evaluate) -> Stmt:
        return self.change(stmt) if self.which(stmt) else stmt


def calls(op: str) -> Callable[[Stmt], bool]:
    return lambda stmt: (
        isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.op == op
    )


def changed(
    func: PrimFunc, which: Callable[[Stmt], bool], change: Callable[[Stmt], Stmt] = lambda _: seq()
) -> PrimFunc:
    return func.replace(body=Change(which, change).visit(func.body))


def inputs() -> tuple[np.ndarray, np.ndarray]:
    a = np.random.default_rng(0).standard_normal((4, 10, 128)).astype("float32")
    return a, np.full((4, 128), np.nan, "float32")


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_pipelines(stages: int, tmp_path: Path) -> None:
    func = pipelined(stages)
    flat = lower(func, GPU)
    assert str(flat).count("ptx_cp_async") == stages, "one before the loop for each stage but one"
    a, b = inputs()
    run_kernels(flat, a, b)
    np.testing.assert_allclose(b, a.sum(1), 1e-5, 1e-5)
    ptx = assembly(func, "cuda -arch=sm_80")
    assert "cp.async.cg.shared.global" in ptx
    assert f"cp.async.wait_group {stages - 1};" in ptx
    assemble(ptx, "sm_80", tmp_path)


def test_a_missing_wait() -> None:
    flat = changed(lower(pipelined(3), GPU), calls(WAIT_GROUP))
    with pytest.raises(KernelDefect, match="missing wait") as caught:
        run_kernels(flat, *inputs())
    assert "A_shared" in str(caught.value)


def test_a_wait_for_too_little() -> None:
    def later(stmt: Any) -> Stmt:
        assert isinstance(stmt, Evaluate)
        left = stmt.value.args[0] + const(1)
        return Evaluate(Call("handle", WAIT_GROUP, (left,)))

    flat = changed(lower(pipelined(3), GPU), calls(WAIT_GROUP), later)
    with pytest.raises(KernelDefect, match="missing wait"):
        run_kernels(flat, *inputs())


def test_a_missing_commit() -> None:
    flat = changed(lower(pipelined(3), GPU), calls(COMMIT_GROUP))
    with pytest.raises(KernelDefect, match="missing wait"):
        run_kernels(flat, *inputs())


def test_a_missing_barrier() -> None:
    flat = changed(lower(pipelined(3), GPU), is_sync)
    with pytest.raises(KernelDefect, match="race"):
        run_kernels(flat, *inputs())


@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
@pytest.mark.parametrize("stages", [2, 3])
def test_pipelined_matrix_products(stages: int, scope: str, tmp_path: Path) -> None:
    """Versions of what `ldmatrix` reads through a pointer; five steps in the depth."""
    sch = mma_schedule(matmul(64, 64, 160, "f16", "f32"), "f16", "f32", stages=stages, scope=scope)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype("float16") for s in ((64, 160), (160, 64)))
    c = np.zeros((64, 64), "float32")
    flat = lower(sch.mod["main"], GPU)
    run_kernels(flat, a, b, c)
    np.testing.assert_allclose(c, a.astype("float32") @ b.astype("float32"), 1e-4, 1e-4)
    with pytest.raises(KernelDefect, match="missing wait"):
        run_kernels(changed(flat, calls(WAIT_GROUP)), a, b, c)
    said = assemble(assembly(sch.mod, "cuda -arch=sm_80"), "sm_80", tmp_path)
    assert "0 bytes stack frame, 0 bytes spill stores" in said


# ---------------------------------------------------------------------------- by hand


def copies(
    size: int, last: str = "", to: str = "t * {n}", source: str = "t * {n}", place: str = "shared"
) -> PrimFunc:
    """B = A through copies of some bytes by each of 32 threads."""
    n = size // 4
    to, source = to.format(n=n), source.format(n=n)
    return function(f"""
@T.prim_func
def main(A: T.Buffer(({32 * n},), "float32"), B: T.Buffer(({32 * n},), "float32")):
    with T.block("root"):
        S = T.alloc_buffer(({32 * n},), "float32", scope="{place}")
        for t in T.thread_binding(32, thread="threadIdx.x"):
            T.evaluate(T.ptx_cp_async(S.data, {to}, A.data, {source}, {size}{last}))
            T.evaluate(T.ptx_commit_group())
            T.evaluate(T.ptx_wait_group(0))
            T.evaluate(T.tvm_storage_sync("shared"))
            for k in range({n}):
                B[k * 32 + t] = S[k * 32 + t]
""")


def run_copies(func: PrimFunc, size: int) -> np.ndarray:
    a = np.arange(1, 8 * size + 1, dtype="float32")
    b = np.full(8 * size, np.nan, "float32")
    run_kernels(lower(func, GPU), a, b)
    return b


@pytest.mark.parametrize("size", [4, 8, 16])
def test_sizes(size: int, tmp_path: Path) -> None:
    func = copies(size)
    assert np.array_equal(run_copies(func, size), np.arange(1, 8 * size + 1))
    ptx = assembly(func, "cuda -arch=sm_80")
    assert f"cp.async.{'cg' if size == 16 else 'ca'}.shared.global" in ptx
    assemble(ptx, "sm_80", tmp_path)


@pytest.mark.parametrize(
    ("last", "read"), [(", t < 20", 16), (", 12", None), (", T.if_then_else(t < 20, 16, 0)", 16)]
)
def test_what_is_not_read_is_zero(last: str, read: int | None, tmp_path: Path) -> None:
    """The 20 first threads read all, or all threads their first 12 bytes."""
    func = copies(16, last)
    b = run_copies(func, 16).reshape(32, 4)
    wanted = np.arange(1, 129, dtype="float32").reshape(32, 4)
    if read is None:
        wanted[:, 3] = 0
    else:
        wanted[20:] = 0
    assert np.array_equal(b, wanted)
    ptx = assembly(func, "cuda -arch=sm_80")
    assert "], 16, " in ptx
    assemble(ptx, "sm_80", tmp_path)


def test_what_is_not_read_may_be_out_of_bounds() -> None:
    func = copies(16, ", t < 31", source="t * {n} + 4")
    assert (run_copies(func, 16).reshape(32, 4)[31] == 0).all()
    with pytest.raises(KernelDefect, match="out of bounds"):
        run_copies(copies(16, source="t * {n} + 4"), 16)


@pytest.mark.parametrize("options", [{"to": "t // 2 * {n} + 1"}, {"source": "t * {n} + 1"}])
def test_crooked_copies(options: dict[str, str]) -> None:
    with pytest.raises(KernelDefect, match="misaligned"):
        run_copies(copies(16, ", t < 31", **options), 16)


def test_two_copies_to_one_place() -> None:
    with pytest.raises(KernelDefect, match="copied into by two threads"):
        run_copies(copies(16, to="t // 2 * {n}"), 16)


OVERWRITES = """
@T.prim_func
def main(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    with T.block("root"):
        S = T.alloc_buffer((256,), "float32", scope="shared")
        for t in T.thread_binding(32, thread="threadIdx.x"):
            T.evaluate(T.ptx_cp_async(S.data, t * 4, A.data, t * 4, 16))
            T.evaluate(T.ptx_commit_group())
            T.evaluate(T.ptx_cp_async(S.data, t * 4 + 128, A.data, t * 4 + 128, 16))
            T.evaluate(T.ptx_commit_group())
            {early}
            T.evaluate(T.ptx_wait_group(1))
            T.evaluate(T.tvm_storage_sync("shared"))
            {half}
            T.evaluate(T.ptx_wait_group(0))
            T.evaluate(T.tvm_storage_sync("shared"))
            {late}
            for k in range(8):
                B[k * 32 + t] = S[k * 32 + t]
"""


BARRIER = 'T.evaluate(T.tvm_storage_sync("shared"))'


@pytest.mark.parametrize(
    ("where", "what", "is_wrong"),
    [
        ("early", "A[t * 4 + 1] = 0.0", True),
        ("early", f"{BARRIER}\n            A[(t * 4 + 5) % 128] = 0.0", True),
        ("early", "T.evaluate(T.atomic_add(T.address_of(A[t * 4]), T.float32(1)))", True),
        ("half", "A[t + 130] = 0.0", True),
        ("half", "A[t * 4 + 1] = 0.0", False),  # its group has been waited for
        ("late", "A[t + 130] = 0.0", False),
        ("early", "B[t] = 0.0", False),
    ],
)
def test_what_a_copy_reads_stays_until_it_is_waited_for(
    where: str, what: Any, is_wrong: bool
) -> None:
    places = {"early": "T.evaluate(0)", "half": "T.evaluate(0)", "late": "T.evaluate(0)"}
    func = function(OVERWRITES.format(**{**places, where: what}))
    a, b = np.arange(256, dtype="float32"), np.zeros(256, "float32")
    wanted, flat = a.copy(), lower(func, GPU)
    if is_wrong:
        with pytest.raises(KernelDefect, match="overwritten while an asynchronous copy reads"):
            run_kernels(flat, a, b)
    else:
        run_kernels(flat, a, b)
        run_kernels(flat, a, b)  # what the kernel before had lent is back
        assert (b[130:] == wanted[130:]).all() or where == "late"


@pytest.mark.parametrize("size", [2, 12, 32])
def test_other_sizes_are_refused(size: int) -> None:
    func = function(f"""
@T.prim_func
def main(A: T.Buffer((256,), "float32")):
    with T.block("root"):
        S = T.alloc_buffer((256,), "float32", scope="shared")
        for t in T.thread_binding(32, thread="threadIdx.x"):
            T.evaluate(T.ptx_cp_async(S.data, t * 8, A.data, t * 8, {size}))
""")
    with pytest.raises(UnsupportedError, match="4, 8 or 16 bytes"):
        run_kernels(lower(func, GPU), np.zeros(256, "float32"))
    with pytest.raises(UnsupportedError, match="4, 8 or 16 bytes"):
        assembly(func, "cuda -arch=sm_80")


def test_copies_into_registers_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="writes shared memory"):
        run_copies(copies(4, place="local"), 4)


@pytest.mark.parametrize("head", ['"float32", ', ""])
def test_the_type_of_elements_may_come_first(head: str) -> None:
    """As TVM writes it."""
    text = str(copies(16)).replace("T.ptx_cp_async(", f"T.ptx_cp_async({head}")
    assert np.array_equal(run_copies(function(text), 16), np.arange(1, 129))


def any_length(stages: int) -> PrimFunc:
    """The sum of rows, however many there are, which come in some steps ahead."""
    return function(f"""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 128), "float32")
    B = T.match_buffer(b, (128,), "float32")
    with T.block("root"):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("sum"):
                T.reads(A[0:n, 0:128])
                T.writes(B[0:128])
                R = T.alloc_buffer((4,), "float32", scope="local")
                for v in range(4):
                    R[v] = T.float32(0)
                for k in T.serial(n, annotations={{
                    "software_pipeline_stage": [0, {stages - 1}],
                    "software_pipeline_order": [0, 1],
                    "software_pipeline_async_stages": [0],
                }}):
                    with T.block("step"):
                        S = T.alloc_buffer((128,), "float32", scope="shared")
                        with T.block("load"):
                            T.reads(A[k, 0:128])
                            T.writes(S[0:128])
                            for v in T.vectorized(4):
                                S[t * 4 + v] = A[k, t * 4 + v]
                        with T.block("add"):
                            T.reads(S[0:128], R[0:4])
                            T.writes(R[0:4])
                            for v in range(4):
                                R[v] = R[v] + S[(31 - t) * 4 + v]
                for v in range(4):
                    B[(31 - t) * 4 + v] = R[v]
""")


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_pipelines_of_any_length(stages: int, tmp_path: Path) -> None:
    """Fewer iterations than stages, too: the waits at the end count what has been begun."""
    func = any_length(stages)
    kernel = build(func, target=GPU, device="emulator")
    for n in (0, 1, 2, 3, 4, 5, 7):
        a = np.random.default_rng(n).standard_normal((n, 128)).astype("float32")
        b = np.full(128, np.nan, "float32")
        kernel(a, b)
        np.testing.assert_allclose(b, a.sum(0), 1e-5, 1e-5)
    assemble(assembly(func, GPU), "sm_80", tmp_path)


def test_sizes_agree() -> None:
    func = function("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for t in T.thread_binding(n, thread="threadIdx.x"):
        B[t] = A[t]
""")
    kernel = build(func, target=GPU, device="emulator")
    a, b = np.ones(5, "float32"), np.zeros(5, "float32")
    kernel(a, b)
    assert np.array_equal(a, b)
    with pytest.raises(ArgumentError, match=r"\[4, 5\] elements where one size is meant"):
        kernel(a, b[:4])
