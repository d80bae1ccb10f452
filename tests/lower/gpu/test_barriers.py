"""Barriers: where they stand, and that no threads race without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lower.gpu_programs import (
    check_gpu,
    gpu_lower,
    syncs,
)
from tileloom.expr import Expr, IterVar, Range, Var, const
from tileloom.lower.blocks.lower_opaque_block import allocate
from tileloom.lower.gpu.thread_storage_sync import thread_storage_sync
from tileloom.lower.pipeline import GPU_PIPELINE
from tileloom.script import tir as T
from tileloom.simt import KernelDefect, run_kernels
from tileloom.tir import (
    AttrStmt,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    make_buffer,
    seq,
)

# ---------------------------------------------------------------------------- barriers


def shared_program(
    write: Callable[..., Any], read: Callable[..., Any], between: Any = None
) -> PrimFunc:
    """S[write(t)] = A[t]; B[t] = S[read(t)] on eight threads."""

    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        with T.block("root"):
            S = T.alloc_buffer((16,), "float32", scope="shared")
            for t in T.thread_binding(8, thread="threadIdx.x"):
                S[write(t)] = A[t]
                B[t] = S[read(t)]

    return func


@pytest.mark.parametrize(
    ("write", "read", "expected"),
    [
        (lambda t: t, lambda t: t, 0),
        (lambda t: t * 2, lambda t: t * 2, 0),
        (lambda t: t, lambda t: 7 - t, 1),
        (lambda t: t, lambda t: T.max(t - 1, 0), 1),
        (lambda t: t // 2, lambda t: t // 2, 1),
    ],
)
def test_barriers_between_threads(
    write: Callable[..., Any], read: Callable[..., Any], expected: int
) -> None:
    assert syncs(gpu_lower(shared_program(write, read))) == expected


def test_the_simulator_sees_a_missing_barrier() -> None:
    passes = [step for step in GPU_PIPELINE if step is not thread_storage_sync]
    flat = gpu_lower(shared_program(lambda t: t, lambda t: 7 - t), passes)
    with pytest.raises(KernelDefect, match="race"):
        run_kernels(flat, np.zeros(8, "f"), np.zeros(8, "f"))


def test_barriers_in_uniform_branches_and_loops() -> None:
    """Neighbours' values, rounds and rounds; the branch is the same for all threads."""

    @T.prim_func
    def func(A: T.Buffer((3, 8), "float32"), B: T.Buffer((3, 8), "float32")) -> None:
        with T.block("root"):
            S = T.alloc_buffer((8,), "float32", scope="shared")
            for b in T.thread_binding(3, thread="blockIdx.x"):
                for t in T.thread_binding(8, thread="threadIdx.x"):
                    S[t] = A[b, t]
                    for _k in range(3):
                        if b > 0:
                            B[b, t] = S[(t + 1) % 8]
                            S[t] = B[b, t]
                    B[b, t] = S[t]

    def reference(A: np.ndarray[Any, Any], B: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        return [np.stack([A[0], np.roll(A[1], -3), np.roll(A[2], -3)])]

    check_gpu(func, reference)


# ---------------------------------------------------------------------------- random programs

_INDICES = {
    "own": lambda t, k: t,
    "next": lambda t, k: (t + 1) % 8,
    "pair": lambda t, k: t // 2,
    "mirror": lambda t, k: 7 - t,
    "far": lambda t, k: t + 8,
    "turn": lambda t, k: k % 2 * 8 + t,
    "other": lambda t, k: (k + 1) % 2 * 8 + 7 - t,
    "row": lambda t, k: t + k * 8,
    "strided": lambda t, k: t * 3 + k,
    "one": lambda t, k: k,
    "slide": lambda t, k: t + k % 2,
}


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_accesses_are_kept_apart(data: st.DataObject) -> None:
    """Stores and loads at random places, in loops, never race once barriers are in."""
    S = make_buffer((32,), "int32", "S", scope="shared")
    out = make_buffer((8,), "int32", "out")
    t = Var("t")
    size = data.draw(st.integers(2, 3))

    def leaf(k: Expr) -> Any:
        index = data.draw(st.sampled_from(sorted(_INDICES)))
        at = _INDICES[index](t, k)
        if data.draw(st.booleans()):
            only = index in ("pair", "one")  # else threads would write one element at once
            store = BufferStore(S, t + k, (at,))
            return IfThenElse(t % 8 == 0, store) if only else store
        return BufferStore(out, out[t] + S[at], (t,))

    def block(depth: int, k: Expr) -> Any:
        parts = []
        for _ in range(data.draw(st.integers(1, 3))):
            if depth and data.draw(st.integers(0, 2)) == 0:
                var = Var("k")
                low = const(data.draw(st.integers(0, 1)))
                parts.append(For(var, low, const(size), "serial", block(depth - 1, var)))
            else:
                parts.append(leaf(k))
        return seq(*parts)

    axis = IterVar(Range(0, 8), t, 1, "threadIdx.x")
    body = AttrStmt(axis, "thread_extent", const(8), allocate(S, block(2, const(0))))
    p = Var("p", "handle")
    func = thread_storage_sync(PrimFunc((p,), body, {p: out}))
    run_kernels(func, np.zeros(8, "i"), check_initialised=False)
