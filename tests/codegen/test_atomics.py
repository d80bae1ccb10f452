"""Atomic calls: the interpreter, CPU code, the emulator, PTX; and what passes must not do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from codegen.test_instructions import kernel_text, read
from gpu import ARCHS, assemble
from tileloom.base import dtype
from tileloom.base.errors import UserError, VerifyError
from tileloom.codegen.module import emit_module
from tileloom.driver import assembly
from tileloom.expr import Call
from tileloom.lower import lower
from tileloom.script import tir as T
from tileloom.tir import (
    Evaluate,
    IRModule,
    PrimFunc,
    assert_structural_equal,
    collect,
    infer_block_access,
    run,
    verify,
)
from tileloom.tir.nodes import Block

THREADS, PLACES = 97, 5
INTS = ["int32", "uint32", "int64", "uint64"]
FLOATS = ["float32", "float64", "float16", "bfloat16"]
MEANINGS = {
    "atomic_add": np.add,
    "atomic_min": np.minimum,
    "atomic_max": np.maximum,
    "atomic_and": np.bitwise_and,
    "atomic_or": np.bitwise_or,
    "atomic_xor": np.bitwise_xor,
}


def program(name: str, kind: str, bind: bool) -> PrimFunc:
    """Every thread changes a place of memory, and keeps what it found there."""
    change = getattr(T, name)

    @T.prim_func
    def serial(
        V: T.Buffer((THREADS,), kind), M: T.Buffer((PLACES,), kind), F: T.Buffer((THREADS,), kind)
    ) -> None:
        for i in T.parallel(THREADS):
            F[i] = change(T.address_of(M[i * 7 % PLACES]), V[i])

    @T.prim_func
    def threads(
        V: T.Buffer((THREADS,), kind), M: T.Buffer((PLACES,), kind), F: T.Buffer((THREADS,), kind)
    ) -> None:
        for i in T.thread_binding(THREADS, "threadIdx.x"):
            F[i] = change(T.address_of(M[i * 7 % PLACES]), V[i])

    return threads if bind else serial


def given(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Values whose sums are exact in every type, and what is in memory before."""
    rng = np.random.default_rng(0)
    kinds = np.dtype(dtype(kind).numpy)
    low = 0 if kind.startswith("u") else -2
    return rng.integers(low, 3, THREADS).astype(kinds), rng.integers(0, 3, PLACES).astype(kinds)


def check(
    name: str,
    kind: str,
    before: np.ndarray,
    values: np.ndarray,
    after: np.ndarray[Any, Any],
    found: np.ndarray[Any, Any],
) -> None:
    meaning, where = MEANINGS[name], np.arange(THREADS) * 7 % PLACES
    for place in range(PLACES):
        mine = values[where == place]
        expected = before[place]
        reached = {expected.tobytes()}
        for value in mine:
            expected = meaning(expected, value)
        assert after[place] == expected, (name, kind)
        reached |= {after[place].tobytes()}
        # Every thread finds the work of others: the first one what was there at the start.
        assert before[place].tobytes() in {f.tobytes() for f in found[where == place]}
        if name == "atomic_add":
            total = found[where == place].astype("float64") + mine.astype("float64")
            starts = sorted([*total.tolist(), float(before[place])])
            ends = sorted([*found[where == place].astype("float64").tolist(), float(expected)])
            assert starts == ends, "each thread finds what one other has left"


CASES = [(name, kind) for name in MEANINGS for kind in INTS] + [
    (name, kind) for name in ("atomic_add", "atomic_min", "atomic_max") for kind in FLOATS
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_every_thread_counts(name: str, kind: str) -> None:
    values, memory = given(kind)
    for floor in ("interpreter", "cpu", "emulator"):
        after, found = memory.copy(), np.zeros(THREADS, values.dtype)
        if floor == "interpreter":
            run(program(name, kind, False), values, after, found)
        elif floor == "cpu":
            tileloom.build(program(name, kind, False))(values, after, found)
        else:
            kernel = tileloom.build(program(name, kind, True), target="cuda", device="emulator")
            kernel(values, after, found)
        check(name, kind, memory, values, after, found)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_ptx(name: str, kind: str, tmp_path: Path) -> None:
    word = name.removeprefix("atomic_")
    for arch in ARCHS:
        ptx = assembly(program(name, kind, True), f"cuda -arch={arch}")
        whole = kind not in ("float16", "bfloat16") or (word == "add" and kind == "float16")
        whole = whole and not (kind.startswith("float") and word != "add")
        if whole or (arch == "sm_90a" and word == "add"):
            assert re.search(rf"atom\.global\.{word}(\.noftz)?\.\w*\d+", ptx), ptx
        else:
            assert "cas.b" in ptx
        assemble(ptx, arch, tmp_path)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "bool"])
def test_small_elements(kind: str, tmp_path: Path) -> None:
    values, memory = given("uint32")
    values, memory = (x.astype(dtype(kind).numpy) for x in (values, memory))
    func = program("atomic_max", kind, True)
    after, found = memory.copy(), np.zeros(THREADS, values.dtype)
    tileloom.build(func, target="cuda", device="emulator")(values, after, found)
    check("atomic_max", kind, memory, values, after, found)
    after = memory.copy()
    tileloom.build(program("atomic_max", kind, False))(values, after, found)
    check("atomic_max", kind, memory, values, after, found)
    assemble(assembly(func, "cuda -arch=sm_80"), "sm_80", tmp_path)


@pytest.mark.parametrize("name", ["atomic_min", "atomic_max"])
@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_extremes_of_floats_keep_nan(name: str, kind: str) -> None:
    values, memory = given(kind)
    values[:] = np.where(np.arange(THREADS) % 3 == 0, -np.inf, np.inf)
    values[7], memory[3] = np.nan, np.nan
    for bind in (False, True):
        func = program(name, kind, bind)
        device: Any = {"target": "cuda", "device": "emulator"} if bind else {}
        after, found = memory.copy(), np.zeros(THREADS, values.dtype)
        tileloom.build(func, **device)(values, after, found)
        assert np.isnan(after.astype("float32")).tolist() == [
            False, False, False, True, 7 * 7 % 5 == 4,
        ]  # fmt: skip


@T.prim_func
def swaps(M: T.Buffer((3,), "float32"), F: T.Buffer((4, 40), "float32")) -> None:
    for i in T.thread_binding(40, "threadIdx.x"):
        # The first one that finds 0 puts a 1 there, and so on: a queue.
        F[0, i] = T.atomic_cas(T.address_of(M[0]), T.Cast("float32", i), T.Cast("float32", i + 1))
        F[1, i] = T.atomic_exchange(T.address_of(M[1]), T.Cast("float32", i))
        F[2, i] = T.atomic_load(T.address_of(M[2]), "acquire")
        T.memory_fence("block")
        T.atomic_store(T.address_of(M[2]), T.float32(9), "release")


def test_swaps_loads_and_stores(tmp_path: Path) -> None:
    kernel = tileloom.build(swaps, target="cuda", device="emulator")
    memory, found = np.array([0, -1, 9], "float32"), np.zeros((4, 40), "float32")
    kernel(memory, found)
    assert memory[0] == 40
    assert found[0].tolist() == list(range(40))
    assert sorted([*found[1], memory[1]]) == [-1, *range(40)]
    assert (found[2] == 9).all()
    for arch in ARCHS:
        ptx = assembly(swaps, f"cuda -arch={arch}")
        assert "fence.acq_rel.cta" in ptx
        assert "ld.acquire.gpu.global.b32" in ptx
        assert "st.release.gpu.global.b32" in ptx
        assert re.search(r"atom\.(relaxed\.gpu\.)?global\.cas\.b32", ptx)
        assemble(ptx, arch, tmp_path)


def test_a_negative_zero_is_swapped_by_its_bits() -> None:
    @T.prim_func
    def f(M: T.Buffer((1,), "float32")) -> None:
        T.atomic_cas(T.address_of(M[0]), T.float32(0), T.float32(1))

    for call in (lambda m: run(f, m), tileloom.build(f)):
        memory = np.array([-0.0], "float32")
        call(memory)
        assert memory[0] == 0


@pytest.mark.parametrize(
    ("order", "fences"), [("relaxed", 0), ("acquire", 1), ("release", 1), ("acq_rel", 2)]
)
def test_orders_are_fences(order: str, fences: int, tmp_path: Path) -> None:
    @T.prim_func
    def f(M: T.Buffer((1,), "int32")) -> None:
        for i in T.thread_binding(32, "threadIdx.x"):
            T.atomic_add(T.address_of(M[0]), i, order)

    ptx = assembly(f, "cuda -arch=sm_80")
    assert ptx.count("fence.acq_rel.gpu") == fences
    assemble(ptx, "sm_80", tmp_path)
    run_once = np.zeros(1, "int32")
    tileloom.build(f, target="cuda", device="emulator")(run_once)
    assert run_once[0] == 31 * 16


def calls(text: str) -> list[str]:
    """Those instructions of LLVM that synchronize, without the names of values."""
    words = r"\b(?:atomicrmw|cmpxchg|fence|load atomic|store atomic)\b.*"
    return [re.sub(r'%"[^"]*"', "_", line) for line in re.findall(words, text)]


#: A call; what a CPU does; what a GPU does, where "@" is the scope of all threads of the device.
WRITTEN = [
    ("atomic_add(T.address_of(I[0]), 1)", ["atomicrmw add ptr _, i32 1 monotonic"],
     ["atomicrmw add ptr _, i32 1 @ monotonic"]),
    ('atomic_add(T.address_of(I[0]), 1, "acquire")', ["atomicrmw add ptr _, i32 1 acquire"],
     ["atomicrmw add ptr _, i32 1 @ monotonic", "fence @ acquire"]),
    ('atomic_min(T.address_of(I[0]), 1, "release")', ["atomicrmw min ptr _, i32 1 release"],
     ["fence @ release", "atomicrmw min ptr _, i32 1 @ monotonic"]),
    ('atomic_max(T.address_of(U[0]), T.uint8(1), "acq_rel")',
     ["atomicrmw umax ptr _, i8 1 acq_rel"],
     ["fence @ release", "atomicrmw umax ptr _, i8 1 @ monotonic", "fence @ acquire"]),
    ("atomic_and(T.address_of(I[0]), 1)", ["atomicrmw and ptr _, i32 1 monotonic"],
     ["atomicrmw and ptr _, i32 1 @ monotonic"]),
    ("atomic_or(T.address_of(I[0]), 1)", ["atomicrmw or ptr _, i32 1 monotonic"],
     ["atomicrmw or ptr _, i32 1 @ monotonic"]),
    ("atomic_xor(T.address_of(I[0]), 1)", ["atomicrmw xor ptr _, i32 1 monotonic"],
     ["atomicrmw xor ptr _, i32 1 @ monotonic"]),
    ("atomic_exchange(T.address_of(H[0]), H[1])", ["atomicrmw xchg ptr _, i16 _ monotonic"],
     ["atomicrmw xchg ptr _, i16 _ @ monotonic"]),
    ("atomic_add(T.address_of(A[0]), B[0])", ["atomicrmw fadd ptr _, float _ monotonic"],
     ["atomicrmw fadd ptr _, float _ @ monotonic"]),
    ("atomic_add(T.address_of(H[0]), H[1])",
     ["load atomic i16, ptr _ monotonic, align 2", "cmpxchg ptr _, i16 _, i16 _ monotonic "
      "monotonic"],
     ["atomicrmw fadd ptr _, bfloat _ @ monotonic"]),
    ("atomic_max(T.address_of(A[0]), B[0])",
     ["load atomic i32, ptr _ monotonic, align 4", "cmpxchg ptr _, i32 _, i32 _ monotonic "
      "monotonic"],
     ["load atomic i32, ptr _ @ monotonic, align 4", "cmpxchg ptr _, i32 _, i32 _ @ monotonic "
      "monotonic"]),
    ('atomic_cas(T.address_of(L[0]), T.int64(1), T.int64(2), "acquire")',
     ["cmpxchg ptr _, i64 1, i64 2 acquire monotonic"],
     ["cmpxchg ptr _, i64 1, i64 2 @ monotonic monotonic", "fence @ acquire"]),
    ('atomic_load(T.address_of(P[0]), "acquire")', ["load atomic i8, ptr _ acquire, align 1"],
     ["load atomic i8, ptr _ @ acquire, align 1"]),
    ('atomic_store(T.address_of(L[0]), T.int64(3), "release")',
     ["store atomic i64 3, ptr _ release, align 8"],
     ["store atomic i64 3, ptr _ @ release, align 8"]),
    ('memory_fence("block")', ["fence acq_rel"], ['fence syncscope("block") acq_rel']),
    ('memory_fence("gpu")', ["fence acq_rel"], ["fence @ acq_rel"]),
    ('memory_fence("system")', ["fence acq_rel"], ["fence acq_rel"]),
]  # fmt: skip


@pytest.mark.parametrize(("call", "cpu", "gpu"), WRITTEN)
def test_instructions_of_llvm(call: str, cpu: list[str], gpu: list[str]) -> None:
    line = f"T.evaluate(T.{call})"
    assert calls(emit_module(IRModule({"main": read(line)})).ir_text) == cpu
    scope = 'syncscope("device")'
    assert calls(kernel_text(line)) == [text.replace("@", scope) for text in gpu]


def test_shared_memory_has_its_own_instruction() -> None:
    @T.prim_func
    def f(O: T.Buffer((1,), "float32")) -> None:
        for i in T.thread_binding(64, "threadIdx.x"):
            with T.block(""):
                S = T.alloc_buffer((1,), "float32", scope="shared")
                if i == 0:
                    S[0] = T.float32(0)
                T.atomic_add(T.address_of(S[0]), T.Cast("float32", i))
                if i == 0:
                    O[0] = S[0]

    ptx = assembly(f, "cuda -arch=sm_80")
    assert "atom.shared.add.f32" in ptx
    assert ptx.count("bar.sync") == 2
    out = np.zeros(1, "float32")
    tileloom.build(f, target="cuda", device="emulator")(out)
    assert out[0] == 63 * 32


# ---------------------------------------------------------------------------- what passes may do


@T.prim_func
def counted(A: T.Buffer((1,), "int32"), B: T.Buffer((8,), "int32")) -> None:
    for i in range(8):
        with T.LetStmt(T.atomic_add(T.address_of(A[0]), 1)) as _unused:
            T.evaluate(0)
        B[i] = T.atomic_add(T.address_of(A[0]), 1) - T.atomic_add(T.address_of(A[0]), 1)
        if T.atomic_add(T.address_of(A[0]), 0) < 0:
            T.evaluate(0)
        if 0 * T.atomic_add(T.address_of(A[0]), 2) == 0:
            B[i] = B[i] - 1


def test_each_call_counts_as_often_as_it_is_written() -> None:
    for call in (lambda *x: run(counted, *x), tileloom.build(counted)):
        a, b = np.zeros(1, "int32"), np.zeros(8, "int32")
        call(a, b)
        assert a[0] == 8 * (1 + 2 + 2)
        assert (b == -2).all()


def test_nothing_is_hoisted_out_of_loops() -> None:
    @T.prim_func
    def f(A: T.Buffer((1,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32) -> None:
        for i in range(n):
            if T.atomic_add(T.tvm_access_ptr(T.type_annotation("int32"), A.data, 0, 1, 3), 1) < 3:
                B[i] = 1

    for stage in (f, lower(f)):
        a, b = np.zeros(1, "int32"), np.zeros(8, "int32")
        run(stage, a, b, 6)
        assert a[0] == 6
        assert b.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]


def test_a_loop_that_should_be_vectors_runs_one_by_one() -> None:
    @T.prim_func
    def f(A: T.Buffer((2,), "int32"), B: T.Buffer((16,), "int32")) -> None:
        for i in T.vectorized(16):
            T.atomic_add(T.address_of(A[B[i]]), 1)

    a, b = np.zeros(2, "int32"), np.arange(16, dtype="int32") % 2
    tileloom.build(f)(a, b)
    assert a.tolist() == [8, 8]


def test_virtual_threads_change_one_after_another() -> None:
    @T.prim_func
    def f(A: T.Buffer((1,), "int32")) -> None:
        for _i in T.thread_binding(4, "vthread.x"):
            for _t in T.thread_binding(32, "threadIdx.x"):
                T.atomic_add(T.address_of(A[0]), 1)

    a = np.zeros(1, "int32")
    tileloom.build(f, target="cuda", device="emulator")(a)
    assert a[0] == 128


def test_regions_of_a_block() -> None:
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8, 8), "int32")) -> None:
        for i in range(8):
            with T.block("b"):
                vi = T.axis.spatial(8, i)
                T.atomic_max(T.address_of(B[vi, A[vi]]), vi)

    block: Any = next(b for b in collect(f.body, Block) if b.name_hint == "b")
    writes: Any
    reads, writes = infer_block_access(block)
    assert [r.buffer.name for r in reads] == ["B", "A"]
    vi = block.iter_vars[0].var
    for found in (writes, block.writes):
        (region,) = found
        assert region.region[0].min is vi
        assert region.region[1].extent.value == 1


# ---------------------------------------------------------------------------- text and mistakes


def test_text_reads_back() -> None:
    from tileloom.script import from_source

    for func in (swaps, counted, program("atomic_add", "bfloat16", True)):
        assert_structural_equal(from_source(func.script()), func)
    assert 'T.atomic_load(T.address_of(M[2]), "acquire")' in swaps.script()


def test_numbers_take_the_type_of_the_element() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "float16")) -> None:
        T.atomic_add(A[2], 1)
        T.atomic_add(A.access_ptr("rw", offset=1), 2)

    calls = [node.value for node in collect(f.body, Evaluate)]
    assert all(isinstance(call, Call) and call.dtype == "float16" for call in calls)
    a = np.zeros(4, "float16")
    run(f, a)
    assert a.tolist() == [0, 2, 1, 0]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda a: T.Call("int32", "tir.atomic_add", T.address_of(a), T.int64(1)), "got int64"),
        (lambda a: T.Call("int32", "tir.atomic_add", T.address_of(a)), "takes a pointer and 1"),
        (lambda a: T.Call("int32", "tir.atomic_add", 3, 4), "takes a pointer to an element"),
        (lambda a: T.atomic_add(T.address_of(a), 1, "eager"), "is ordered by one of relaxed"),
    ],
)
def test_mistakes_are_named(call: Callable[..., Any], said: str) -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")) -> None:
        T.evaluate(call(A[0]))

    with pytest.raises(VerifyError, match=said):
        verify(f, "blocks")


def test_no_bits_of_floats() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "float32")) -> None:
        T.atomic_or(T.address_of(A[0]), T.float32(1))

    with pytest.raises(UserError, match="needs integers"):
        verify(f, "blocks")


@pytest.mark.parametrize("kind", ["int32", "float64", "bfloat16"])
def test_threads_of_a_cpu_do_not_lose_changes(kind: str) -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), kind), H: T.Buffer((4,), kind)) -> None:
        for _i in T.parallel(64):
            for k in range(1000):
                T.atomic_add(T.address_of(A[k % 4]), T.Cast(kind, 1))
                T.atomic_max(T.address_of(H[k % 4]), T.Cast(kind, k))

    kernel = tileloom.build(f)
    a, h = np.zeros(4, dtype(kind).numpy), np.zeros(4, dtype(kind).numpy)
    kernel(a, h)
    total = 256 if kind == "bfloat16" else 64 * 250  # where adding 1 changes nothing any more
    assert (a == total).all()
    assert (h >= 992).all()
