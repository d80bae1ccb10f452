"""Programs to lower, and a check that lowering keeps what they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tileloom.expr import REDUCE, And, Call, Expr, IterVar, Range, Var, binary, const
from tileloom.lower.pipeline import ENSURES, PIPELINE, verify_result
from tileloom.tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    PrimFunc,
    Stmt,
    make_buffer,
    seq,
)
from tileloom.tir.run import run

TRUE = const(True)


def axis(extent: int, name: str, kind: int = 0) -> IterVar:
    return IterVar(Range.from_extent(extent), Var(name), kind)


def nest(body: Stmt, *loops: tuple[Var, object] | tuple[Var, object, str]) -> Stmt:
    """Loops from zero around a body, outermost first."""
    for var, extent, *kind in reversed(loops):
        size = extent if isinstance(extent, Expr) else const(extent, var.dtype)
        body = For(var, const(0, var.dtype), size, kind[0] if kind else "serial", body)
    return body


def function(
    body: Stmt, *buffers: Buffer, alloc: Sequence[Buffer] = (), root: bool = True
) -> PrimFunc:
    """A function of these buffers."""
    params = [Var(f"{buffer.name}_handle", "handle") for buffer in buffers]
    if root:
        block = Block((), (), (), "root", body, alloc_buffers=tuple(alloc))
        body = BlockRealize((), TRUE, block)
    buffer_map = dict(zip(params, buffers, strict=True))
    return PrimFunc(tuple(params), body, buffer_map, {"global_symbol": "main"})


def points(*loads: tuple[Buffer, Sequence[Expr]]) -> tuple[BufferRegion, ...]:
    return tuple(BufferRegion.point(buffer, indices) for buffer, indices in loads)


def conjunction(*parts: Expr) -> Expr:
    result: Expr = TRUE
    for part in parts:
        result = binary(And, result, part)
    return result


def matmul(n: int, m: int, k: int, kinds: Sequence[str] = ("serial",) * 3) -> PrimFunc:
    """C = A @ B as one block under three loops."""
    A, B, C = (
        make_buffer(s, "float32", x) for s, x in (((n, k), "A"), ((k, m), "B"), ((n, m), "C"))
    )
    vi, vj, vk = axis(n, "vi"), axis(m, "vj"), axis(k, "vk", REDUCE)
    i, j, r = vi.var, vj.var, vk.var
    block = Block(
        (vi, vj, vk),
        points((A, (i, r)), (B, (r, j))),
        points((C, (i, j))),
        "matmul",
        BufferStore(C, C[i, j] + A[i, r] * B[r, j], (i, j)),
        BufferStore(C, const(0.0), (i, j)),
    )
    x, y, z = Var("i"), Var("j"), Var("k")
    body = nest(
        BlockRealize((x, y, z), TRUE, block), (x, n, kinds[0]), (y, m, kinds[1]), (z, k, kinds[2])
    )
    return function(body, A, B, C)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def tiled_matmul(
    n: int, m: int, k: int, tile: tuple[int, int, int] = (16, 16, 8), inner: str = "vectorized"
) -> PrimFunc:
    """exp(A @ B / 100), tiled with imperfect tiles, A cached per tile, C accumulated locally."""
    A, B, C = (
        make_buffer(s, "float32", x) for s, x in (((n, k), "A"), ((k, m), "B"), ((n, m), "C"))
    )
    local, cached = make_buffer((n, m), "float32", "L"), make_buffer((n, k), "float32", "AC")
    ti, tj, tk = tile
    io, jo, ko = Var("io"), Var("jo"), Var("ko")

    def spatial(
        name: str,
        target: Buffer,
        value: Callable[[Expr, Expr], Expr],
        spec: tuple[tuple[Var, int, int], tuple[Var, int, int], str],
    ) -> Stmt:
        (o0, t0, e0), (o1, t1, e1), kind = spec
        v0, v1, x0, x1 = axis(e0, "v0"), axis(e1, "v1"), Var("x0"), Var("x1")
        at = (v0.var, v1.var)
        block = Block((v0, v1), (), points((target, at)), name, BufferStore(target, value(*at), at))
        places = (o0 * t0 + x0, o1 * t1 + x1)
        guard = conjunction(places[0] < e0, places[1] < e1)
        return nest(BlockRealize(places, guard, block), (x0, t0), (x1, t1, kind))

    vi, vj, vk = axis(n, "vi"), axis(m, "vj"), axis(k, "vk", REDUCE)
    i, j, r = vi.var, vj.var, vk.var
    block = Block(
        (vi, vj, vk),
        points((cached, (i, r)), (B, (r, j))),
        points((local, (i, j))),
        "update",
        BufferStore(local, local[i, j] + cached[i, r] * B[r, j], (i, j)),
        BufferStore(local, const(0.0), (i, j)),
    )
    ki, ii, jj = Var("ki"), Var("ii"), Var("jj")
    places = (io * ti + ii, jo * tj + jj, ko * tk + ki)
    guard = conjunction(places[0] < n, places[1] < m, places[2] < k)
    update = nest(BlockRealize(places, guard, block), (ki, tk), (ii, ti), (jj, tj, inner))
    cache = spatial("cache", cached, lambda a, b: A[a, b], ((io, ti, n), (ko, tk, k), "serial"))
    write = spatial(
        "write",
        C,
        lambda a, b: Call("float32", "tir.exp", (local[a, b] * const(0.01),)),
        ((io, ti, n), (jo, tj, m), inner),
    )
    body = seq(nest(seq(cache, update), (ko, ceil_div(k, tk))), write)
    body = nest(body, (io, ceil_div(n, ti), "parallel"), (jo, ceil_div(m, tj)))
    return function(body, A, B, C, alloc=(local, cached))


# ---------------------------------------------------------------------------- checking


def arrays(func: PrimFunc, seed: int = 0) -> list[np.ndarray]:
    """Random arguments."""
    rng = np.random.default_rng(seed)
    result = []
    for buffer in func.buffers:
        shape = buffer.static_shape or ()
        if np.dtype(str(buffer.dtype)).kind == "f":
            result.append(rng.uniform(-1, 1, shape).astype(str(buffer.dtype)))
        else:
            result.append(rng.integers(-100, 100, shape).astype(str(buffer.dtype)))
    return result


def outputs(func: PrimFunc, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arguments after a run on copies of them, as flat as the function's buffers are."""
    copies = [
        array.reshape(-1).copy() if buffer.ndim == 1 else array.copy()
        for array, buffer in zip(args, func.buffers, strict=True)
    ]
    run(func, *copies)
    return [copy.reshape(array.shape) for copy, array in zip(copies, args, strict=True)]


def check(func: Any, seed: int = 0, tolerance: float = 1e-5) -> Any:
    """The flat form; every pass on the way has kept the results, or its name is told."""
    args = arrays(func, seed)
    expected = outputs(func, args)
    stage: Any
    last, stage = func, "blocks"
    for step in PIPELINE:
        new = step(last)
        stage = ENSURES.get(step, stage)
        if stage is not None:
            verify_result(new, stage, step.__name__)
        if new is not last:
            got = outputs(new, args)
            for have, want in zip(got, expected, strict=True):
                np.testing.assert_allclose(
                    have, want, rtol=tolerance, atol=tolerance, err_msg=step.__name__
                )
        last = new
    return last
