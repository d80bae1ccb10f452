"""As many barriers as are needed: enough for the race check, and none that could go."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lower.gpu_programs import check_gpu, gpu_lower, product, softmax, syncs, tiled_matmul
from tileloom import build, te
from tileloom.base.errors import UserError
from tileloom.expr import Expr, IterVar, Range, Var, const
from tileloom.lower import lower
from tileloom.lower.analysis.threads import is_sync
from tileloom.lower.blocks.lower_opaque_block import allocate
from tileloom.lower.gpu.thread_storage_sync import require_barriers, thread_storage_sync
from tileloom.schedule import Schedule
from tileloom.schedule.library import tensor_core_matmul
from tileloom.script import from_source
from tileloom.script import tir as T
from tileloom.simt import KernelDefect, run_kernels
from tileloom.tir import (
    AttrStmt,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtRewriter,
    collect,
    make_buffer,
    pre_order,
    seq,
)


class _Without(StmtRewriter):
    """Leaves out one barrier."""

    def __init__(self, number: int) -> None:
        self.number = number

    def visit_SeqStmt(self, stmt: SeqStmt) -> Stmt:
        parts = []
        for part in stmt.seq:
            if is_sync(part):
                self.number -= 1
                if self.number == -1:
                    continue
            parts.append(self.visit(part))
        return seq(*parts)


def every_barrier_is_needed(flat: PrimFunc, *arrays: np.ndarray) -> None:
    """Without any one of its barriers the program races."""
    for number in range(syncs(flat)):
        broken = flat.replace(body=_Without(number).visit(flat.body))
        assert syncs(broken) == syncs(flat) - 1
        with pytest.raises(KernelDefect, match=r"race|nobody wrote"):
            run_kernels(broken, *(array.copy() for array in arrays))


def loop_syncs(flat: PrimFunc, name: str) -> int:
    (loop,) = (f for f in collect(flat.body, For) if f.loop_var.name == name)
    return sum(map(is_sync, pre_order(loop)))


# ---------------------------------------------------------------------------- many accesses


def own_elements(count: int, apart: bool) -> PrimFunc:
    """Each of 4 threads writes `count` elements of its own, and reads them again at once."""
    indent = " " * (20 if apart else 16)
    lines = [f"S[t + {4 * k}] = A[t + {4 * k}]" for k in range(count)]
    total = " + ".join(f"S[t + {4 * k}]" for k in range(count))
    body = "\n".join(indent + line for line in (*lines, "if n > 0:", f"    B[t] = {total}"))
    branch = "                if t < 3:\n" if apart else ""
    func = from_source(f"""
from tileloom.script import tir as T

@T.prim_func
def func(n: T.int32, A: T.Buffer(({4 * count},), "int32"), B: T.Buffer((4,), "int32")):
    with T.block("root"):
        S = T.alloc_buffer(({4 * count},), "int32", scope="shared")
        for b in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding(4, thread="threadIdx.x"):
{branch}{body}
""")
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize(("count", "most", "barriers"), [(8, 64, 0), (8, 63, 1), (65, 4096, 1)])
def test_of_too_many_pairs_none_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, count: int, most: int, barriers: int
) -> None:
    """A barrier is cheaper than the proof, unless it would stand in a branch."""
    module = import_module("tileloom.lower.gpu.thread_storage_sync")
    monkeypatch.setattr(module, "_MANY", most)
    flat = gpu_lower(own_elements(count, apart=False))
    assert syncs(flat) == barriers
    a, b = np.arange(4 * count, dtype="int32"), np.zeros(4, "int32")
    run_kernels(flat, 1, a, b)
    assert (a.reshape(count, 4).sum(axis=0) == b).all()
    assert syncs(gpu_lower(own_elements(count, apart=True))) == 0


# ---------------------------------------------------------------------------- barriers of one's own

OWN = """
from tileloom.script import tir as T

@T.prim_func
def func(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4, 64), "float32")):
    t = T.launch_thread("threadIdx.x", 64)
    S = T.allocate([64], "float32", "shared")
    S_1 = T.decl_buffer((64,), "float32", data=S, scope="shared")
    for k in range(4):
        S_1[t] = A[k, t]
        T.tvm_storage_sync("shared")  # first
        B[k, t] = S_1[63 - t]
        T.tvm_storage_sync("shared")  # second
"""


@pytest.mark.parametrize(
    ("without", "said"),
    [
        (
            "first",
            r"missing before B\[k \* 64 \+ t\] = S_1\[63 - t\].*shared memory \(S\)",
        ),
        ("second", r"missing at the end of for k in range\(4\)"),
    ],
)
def test_a_missing_barrier_is_put_or_refused(without: str, said: str) -> None:
    lines = [line for line in OWN.splitlines() if f"# {without}" not in line]
    func = from_source("\n".join(lines))
    a, b = np.arange(256, dtype="float32").reshape(4, 64), np.zeros((4, 64), "float32")
    build(func, "cuda", device="emulator")(a, b)
    assert (b == a[:, ::-1]).all()
    with pytest.raises(UserError, match=said):
        build(func, "cuda", device="emulator", strict_sync=True)


def test_a_kernel_with_all_its_barriers_is_taken_as_it_is() -> None:
    func = from_source(OWN)
    a, b = np.arange(256, dtype="float32").reshape(4, 64), np.zeros((4, 64), "float32")
    build(func, "cuda", device="emulator", strict_sync=True)(a, b)
    assert (b == a[:, ::-1]).all()
    assert str(lower(func, "cuda", strict_sync=True)) == str(lower(func, "cuda"))


# ---------------------------------------------------------------------------- matrix products


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((64, 64, 64), {}),
        ((64, 128, 96), {"warps": (1, 2), "tiles": (4, 1), "depth": 1}),
        ((32, 32, 64), {"warps": (1, 1), "tiles": (2, 2), "depth": 2}),
    ],
)
def test_a_pair_of_barriers_for_each_step_of_a_tensor_core_product(
    shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    """Padded copies of vectors, and fragments that warps read together."""
    rows, columns, depth = shape
    a = te.placeholder((rows, depth), "float16", name="A")
    b = te.placeholder((depth, columns), "float16", name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute(
        (rows, columns),
        lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k),
        name="C",
    )
    sch = Schedule(te.create_prim_func([a, b, c]))
    tensor_core_matmul(sch, "C", **options)
    flat = gpu_lower(sch.mod["main"])
    assert syncs(flat) == loop_syncs(flat, "k_0_0") == 2
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(s).astype("float16") for s in ((rows, depth), (depth, columns)))
    z = np.full((rows, columns), np.nan, "float32")
    every_barrier_is_needed(flat, x, y, z)
    run_kernels(flat, x, y, z)
    np.testing.assert_allclose(z, x.astype("float32") @ y.astype("float32"), 1e-3, 1e-3)


@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
def test_one_barrier_for_each_step_with_two_buffers(scope: str) -> None:
    notes = {"software_pipeline_stage": [0, 0, 1], "software_pipeline_order": [0, 1, 2]}
    flat = check_gpu(tiled_matmul(annotations=notes, scope=scope), product)
    assert loop_syncs(flat, "ko") == 1
    assert syncs(flat) == 2  # one after the first step is there


def test_asynchronous_copies() -> None:
    notes = {
        "software_pipeline_stage": [0, 0, 2],
        "software_pipeline_order": [0, 1, 2],
        "software_pipeline_async_stages": [0],
    }
    flat = check_gpu(tiled_matmul(annotations=notes), product)
    assert loop_syncs(flat, "ko") <= 2


def test_at_most_two_barriers_for_each_reduction() -> None:
    for threads, columns in ((16, 10), (32, 100), (128, 300), (1024, 1031)):
        assert syncs(gpu_lower(softmax(3, columns, threads))) <= 4


# ---------------------------------------------------------------------------- counted out


def through_shared(
    write: Callable[..., Any],
    read: Callable[..., Any],
    threads: int = 16,
    guard: Callable[..., Any] | None = None,
) -> PrimFunc:
    """S[write(t)] = A[t], where a guard allows it; B[t] = S[read(t)]."""
    S = make_buffer((128,), "int32", "S", scope="shared")
    A, B = (make_buffer((threads,), "int32", name) for name in "AB")
    t = Var("t")
    store: Stmt = BufferStore(S, A[t], (write(t),))
    load: Stmt = BufferStore(B, S[read(t)], (t,))
    if guard is not None:
        store, load = IfThenElse(guard(t), store), IfThenElse(guard(t), load)
    axis = IterVar(Range(0, threads), t, 1, "threadIdx.x")
    body = AttrStmt(axis, "thread_extent", const(threads), allocate(S, seq(store, load)))
    p, q = Var("p", "handle"), Var("q", "handle")
    return PrimFunc((p, q), body, {p: A, q: B})


@pytest.mark.parametrize(
    ("write", "read", "guard", "expected"),
    [
        (lambda t: t // 4 * 5 + t % 4, lambda t: t // 4 * 5 + t % 4, None, 0),  # padded rows
        (lambda t: t // 4 * 5 + t % 4, lambda t: t // 4 * 5 + 3 - t % 4, None, 1),
        (lambda t: t // 4 * 3 + t % 4, lambda t: t // 4 * 3 + t % 4, None, 1),  # rows overlap
        (lambda t: T.bitwise_xor(t, 5), lambda t: T.bitwise_xor(t, 5), None, 0),  # swizzled
        (lambda t: T.bitwise_xor(t, 5), lambda t: T.bitwise_xor(t, 4), None, 1),
        (lambda t: t % 4, lambda t: t % 4, lambda t: t < 4, 0),  # only threads that differ
        (lambda t: t % 4, lambda t: t % 4, lambda t: t < 5, 1),
        (lambda t: t * 2, lambda t: t * 2 + 1, None, 0),
        (lambda t: t * 2, lambda t: t * 2 + 2, None, 1),
        (lambda t: t, lambda t: t + 16, None, 0),
    ],
)
def test_barriers_between_places(
    write: Callable[..., Any],
    read: Callable[..., Any],
    guard: Callable[..., Any] | None,
    expected: int,
) -> None:
    assert syncs(thread_storage_sync(through_shared(write, read, guard=guard))) == expected


def test_versions_of_loops_are_told_apart() -> None:
    """A third buffer keeps what is read from what is written an iteration later."""

    def program(versions: int, ahead: int) -> PrimFunc:
        S = make_buffer((8 * versions,), "int32", "S", scope="shared")
        A, B = make_buffer((8,), "int32", "A"), make_buffer((8,), "int32", "B")
        t, k = Var("t"), Var("k")
        body = seq(
            BufferStore(S, A[t] + k, ((k + ahead) % versions * 8 + t,)),
            BufferStore(B, B[t] + S[k % versions * 8 + 7 - t], (t,)),
        )
        start = [BufferStore(S, A[t] - at, (t + at * 8,)) for at in range(ahead)]
        loop = For(k, const(0), const(10), "serial", body)
        axis = IterVar(Range(0, 8), t, 1, "threadIdx.x")
        inner = allocate(S, seq(*start, loop))
        func = AttrStmt(axis, "thread_extent", const(8), inner)
        p, q = Var("p", "handle"), Var("q", "handle")
        return thread_storage_sync(PrimFunc((p, q), func, {p: A, q: B}))

    for versions, ahead, inside in ((1, 0, 2), (2, 1, 1), (2, 0, 1), (3, 1, 1), (4, 1, 1)):
        flat = program(versions, ahead)
        assert loop_syncs(flat, "k") == inside, (versions, ahead)
        run_kernels(flat, np.arange(8, dtype="i"), np.zeros(8, "i"))


def test_views_of_other_widths_are_not_compared() -> None:
    S = make_buffer((16,), "int32", "S", scope="shared")
    view = make_buffer((64,), "int8", "view", scope="shared", data=S.data)
    B = make_buffer((8,), "int8", "B")
    t = Var("t")
    body = seq(BufferStore(S, t, (t,)), BufferStore(B, view[t], (t,)))
    axis = IterVar(Range(0, 8), t, 1, "threadIdx.x")
    p = Var("p", "handle")
    func = AttrStmt(axis, "thread_extent", const(8), allocate(S, body))
    assert syncs(thread_storage_sync(PrimFunc((p,), func, {p: B}))) == 1


@pytest.mark.parametrize(("scope", "more"), [("warp", 1), ("shared", 0), ("shared.dyn", 0)])
def test_barriers_of_a_warp_are_none_of_the_block(scope: str, more: int) -> None:
    @T.prim_func
    def func(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")) -> None:
        with T.block("root"):
            S = T.alloc_buffer((64,), "int32", scope="shared")
            for t in T.thread_binding(64, thread="threadIdx.x"):
                S[t] = A[t]
                T.tvm_storage_sync(scope)
                B[t] = S[63 - t]

    flat = gpu_lower(func)
    assert str(flat).count('tvm_storage_sync("shared') == 1
    assert str(flat).count("tvm_storage_sync") == 1 + more
    check_gpu(func, lambda A, B: [A[::-1]])


def test_twice_is_once() -> None:
    flat = gpu_lower(tiled_matmul())
    assert thread_storage_sync(flat) is flat


# ---------------------------------------------------------------------------- random programs

_PLACES = {
    "own": lambda x, y, k: y * 4 + x,
    "padded": lambda x, y, k: y * 5 + x,
    "swizzled": lambda x, y, k: T.bitwise_xor(y * 4 + x, y),
    "row": lambda x, y, k: y * 4 + k % 4,
    "turned": lambda x, y, k: x * 4 + y % 4,
    "version": lambda x, y, k: k % 2 * 16 + y * 4 + x,
    "other version": lambda x, y, k: (k + 1) % 2 * 16 + y * 4 + 3 - x,
    "halves": lambda x, y, k: y // 2 * 8 + y % 2 * 4 + x,
    "mixed": lambda x, y, k: y * 4 + (x + k) % 4,
}
_GUARDS = {
    "all": None,
    "first": lambda x, y: x < 1,
    "row": lambda x, y: y < 2,
    "even": lambda x, y: (x + y) % 2 < 1,
}


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_programs_do_not_race(data: st.DataObject) -> None:
    S = make_buffer((64,), "int32", "S", scope="shared")
    out = make_buffer((16,), "int32", "out")
    x, y = Var("x"), Var("y")

    def guarded(stmt: Stmt) -> Stmt:
        guard = _GUARDS[data.draw(st.sampled_from(sorted(_GUARDS)))]
        return stmt if guard is None else IfThenElse(guard(x, y), stmt)

    def leaf(k: Expr) -> Any:
        at = _PLACES[data.draw(st.sampled_from(sorted(_PLACES)))](x, y, k)
        if data.draw(st.booleans()):
            # Two threads that write one element at once race whatever stands around them.
            alone = at is _PLACES["row"](x, y, k)
            store: Stmt = BufferStore(S, x + k, (at,))
            return IfThenElse(x < 1, store) if alone else guarded(store)
        return guarded(BufferStore(out, out[y * 4 + x] + S[at], (y * 4 + x,)))

    def block(depth: int, k: Expr) -> Stmt:
        parts = []
        for _ in range(data.draw(st.integers(1, 3))):
            if depth and data.draw(st.integers(0, 2)) == 0:
                var = Var("k")
                count = const(data.draw(st.integers(1, 3)))
                parts.append(For(var, const(0), count, "serial", block(depth - 1, var)))
            else:
                parts.append(leaf(k))
        return seq(*parts)

    body: Stmt = allocate(S, block(2, const(0)))
    for var, tag in ((x, "threadIdx.x"), (y, "threadIdx.y")):
        body = AttrStmt(IterVar(Range(0, 4), var, 1, tag), "thread_extent", const(4), body)
    p = Var("p", "handle")
    func = thread_storage_sync(PrimFunc((p,), body, {p: out}))
    run_kernels(func, np.zeros(16, "i"), check_initialised=False)


# ---------------------------------------------------------------------------- read on the way in

ON_THE_WAY = [
    ("y: T.int32 = S_1[(x + 32) % 64]\nS_1[x] = y\nB[x] = S_1[x]", lambda a: np.roll(a, 32)),
    ("if S_1[63 - x] > 5:\n    S_1[x] = 0\nB[x] = S_1[x]", lambda a: np.where(a[::-1] > 5, 0, a)),
    (
        "if S_1[63 - x] > 5:\n    B[x] = 0\nelse:\n    S_1[x] = -1\nB[x] = S_1[x]",
        lambda a: np.where(a[::-1] > 5, a, -1),
    ),
    (
        "for k in range(S_1[63 - x] % 2):\n    S_1[x] = 0\nB[x] = S_1[x]",
        lambda a: np.where(a[::-1] % 2 > 0, 0, a),
    ),
]


def on_the_way(body: str) -> Any:
    """Threads that have left numbers in shared memory, and met."""
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    x = T.launch_thread("threadIdx.x", 64)
    S = T.allocate([64], "int32", "shared")
    S_1 = T.decl_buffer((64,), "int32", data=S, scope="shared")
    S_1[x] = A[x]
    T.tvm_storage_sync("shared")
{textwrap.indent(body, "    ")}
""")


@pytest.mark.parametrize(("body", "wanted"), ON_THE_WAY)
def test_what_is_read_before_a_body_is_not_overwritten_too_early(
    body: str, wanted: Callable[[Any], Any]
) -> None:
    """By a name, a condition or the length of a loop, of which other threads are not done yet."""
    func = on_the_way(body)
    flat = gpu_lower(func)
    a, b = np.random.default_rng(2).permutation(64).astype("int32"), np.zeros(64, "int32")
    run_kernels(flat, a, b)
    np.testing.assert_array_equal(b, wanted(a))
    every_barrier_is_needed(flat, a, b)
    with pytest.raises(UserError, match="a barrier is missing before"):
        require_barriers(func)


def test_a_barrier_that_some_threads_would_not_meet_is_refused() -> None:
    body = "if x < 40:\n    y: T.int32 = S_1[x] * 2\n    S_1[39 - x] = y"
    with pytest.raises(UserError, match="a barrier is needed inside of the branch x < 40"):
        gpu_lower(on_the_way(body))
