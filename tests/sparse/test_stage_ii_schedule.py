"""Steps on blocks over positions, as SparseTIR's programs take them, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileloom
from sampling import sampled
from schedule.common import check_trace
from sparse_fitting import fitting
from sparse_inputs import Arguments, case, program
from tileloom.schedule import Schedule
from tileloom.script import from_source
from tileloom.sparse import lower_sparse_buffer, lower_sparse_iter
from tileloom.tir import PrimFunc, specialize

Steps = Callable[[Schedule], Any]
EMULATOR: dict[str, Any] = {"target": "cuda", "device": "emulator"}


def check(
    name: str, steps: Steps, first: Steps = lambda s: None, fixed: bool = True, **where: Any
) -> None:
    """A program, scheduled over coordinates and over positions, computes what it is to compute.

    Args:
        first: steps over coordinates.
        fixed: whether the sizes are numbers.
    """
    for number, kind in enumerate(("random", "empty_rows")):
        arguments, expected = case(name, kind, seed=5)
        func = program(name)
        if fixed:
            numbers = (p for p in func.params if not isinstance(arguments[p.name], np.ndarray))
            func = specialize(func, {p: int(arguments[p.name]) for p in numbers})
        sch = Schedule(func)
        first(sch)
        positions = lower_sparse_iter(sch.mod)["main"]
        sch = Schedule(positions, debug_mask=0 if number else "all")
        steps(sch)
        if not number:
            check_trace(sch, positions)
        plain = lower_sparse_buffer(sch.mod)["main"]
        values = fitting(plain, arguments)
        tileloom.build(plain, **where)(*values)
        found = {param.name: value for param, value in zip(plain.params, values, strict=True)}
        for key, wanted in expected.items():
            got = found[key].reshape(-1)
            np.testing.assert_allclose(got, wanted.reshape(-1), 2e-5, 1e-5, err_msg=key)


# ---------------------------------------------------------------------------- steps


def tiled(sch: Schedule, cache: str) -> None:
    j, k = sch.get_loops("csrmm1")
    outer, inner = sch.split(k, [None, 4])
    sch.reorder(outer, j, inner)
    back = getattr(sch, cache)("csrmm1", 0, "local")
    sch.reverse_compute_at(back, outer, True)
    sch.vectorize(inner)
    sch.decompose_reduction("csrmm1", j)
    sch.parallel(sch.get_loops("csrmm0")[0])


def gathered(sch: Schedule) -> None:
    copy = sch.reverse_cache_read("csrmm1", "B", "local")
    sch.compute_at(copy, sch.get_loops("csrmm1")[0], True)


def in_parts(sch: Schedule) -> None:
    sch.rfactor(sch.split(sch.get_loops("csrmm1")[0], [None, 4])[1], 0)


def on_a_gpu(sch: Schedule) -> None:
    j, k = sch.get_loops("csrmm1")
    sch.reorder(k, j)
    sch.bind(sch.get_loops("csrmm0")[0], "blockIdx.x")
    sch.bind(k, "threadIdx.x")


def rows_of_blocks(sch: Schedule) -> None:
    j, bi, f, bj = sch.get_loops("bsrmm1")
    outer, inner = sch.split(f, [None, 2])
    sch.reorder(outer, j, bi, inner, bj)
    sch.lift_loop(outer)
    sch.parallel(sch.get_loops("bsrmm0")[0])


def blocks_of_blocks(sch: Schedule) -> None:
    j, bi, f, bj = sch.get_loops("bsrmm1")
    outer, inner = sch.split(f, [None, 2])
    sch.reorder(outer, j, bi, inner, bj)
    block = sch.blockize(bi)
    back = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(back, outer)
    sch.decompose_reduction(block, j)


def lanes(sch: Schedule) -> None:
    _, k = sch.get_loops("sddmm0")
    _, lane = sch.split(k, [None, 2])
    back = sch.reverse_cache_write("sddmm0", 0, "local")
    part = sch.rfactor(lane, 1)
    e = sch.get_loops(part)[0]
    sch.reverse_compute_at("sddmm0", e, True)
    sch.reverse_compute_at(back, e, True)
    sch.parallel(e)


def pairs_of_rows(sch: Schedule) -> None:
    outer, inner = sch.split(sch.get_loops("sddmm0")[0], [None, 8])
    for name in ("A", "B"):
        copy = sch.reverse_cache_read("sddmm0", name, "local")
        sch.compute_at(copy, inner, True)
    sch.parallel(outer)


def fused(sch: Schedule) -> None:
    sch.sparse_fuse("sddmm", ["i", "j"])


def blocks_inside(sch: Schedule) -> None:
    sch.sparse_reorder("bsrmm", ["i", "j", "bi", "f", "bj"])


@pytest.mark.parametrize(
    "steps", [lambda s: tiled(s, "cache_write"), lambda s: tiled(s, "reverse_cache_write"),
              gathered, in_parts],
)  # fmt: skip
@pytest.mark.parametrize("sizes", ["fixed", "open"])
def test_rows(steps: Steps, sizes: str) -> None:
    check("csrmm", steps, fixed=sizes == "fixed")


def test_rows_on_a_gpu() -> None:
    check("csrmm", on_a_gpu, **EMULATOR)


@pytest.mark.parametrize("steps", [rows_of_blocks, blocks_of_blocks])
def test_blocks(steps: Steps) -> None:
    check("bsrmm", steps, first=blocks_inside)


@pytest.mark.parametrize("steps", [lanes, pairs_of_rows])
def test_elements(steps: Steps) -> None:
    check("sddmm", steps, first=fused)


def test_rows_of_several_iterations() -> None:
    check("sparse_softmax", lambda s: s.parallel(s.get_loops("softmax0")[0]))


# ---------------------------------------------------------------------------- parts in ELL

ROWS, COLUMNS, TILES, COARSE, LANES = 32, 24, 2, 2, 4
#: Rows of a part, elements of each, and whether rows of it may be those of others.
PARTS = ((10, 1, False), (6, 2, False), (15, 4, True))


def parts_of_hyb(start: bool) -> PrimFunc:
    """A product of parts in ELL, and of a dense matrix whose columns are in three dimensions."""
    head = ["b: T.handle", "c: T.handle"]
    axes, sums = [], []
    for k, (rows, width, _) in enumerate(PARTS):
        head += [f"{name}{k}: T.handle" for name in ("a", "starts", "rows", "columns")]
        axes.append(f"""
    O{k} = T.dense_fixed(1)
    I{k} = T.sparse_variable(O{k}, ({ROWS}, {rows}), (starts{k}, rows{k}))
    J{k} = T.sparse_fixed(I{k}, ({COLUMNS}, {width}), columns{k})
    A{k} = T.match_sparse_buffer(a{k}, (O{k}, I{k}, J{k}))""")
        init = """
        with T.init():
            C[i, f, g, h] = 0.0"""
        sums.append(f"""
    with T.sp_iter([O{k}, I{k}, J{k}, F, G, H], "SSRSSS", "part{k}") as [o, i, j, f, g, h]:{
            init if start else ""
        }
        C[i, f, g, h] = C[i, f, g, h] + A{k}[o, i, j] * B[j, f, g, h]""")
    found = from_source(f"""
from tileloom.script import tir as T

@T.prim_func
def main({", ".join(head)}):
    T.func_attr({{"sparse_tir_level": 2}})
    M = T.dense_fixed({ROWS})
    N = T.dense_fixed({COLUMNS})
    F = T.dense_fixed({TILES})
    G = T.dense_fixed({COARSE})
    H = T.dense_fixed({LANES})
    B = T.match_sparse_buffer(b, (N, F, G, H))
    C = T.match_sparse_buffer(c, (M, F, G, H))
{"".join(axes)}{"".join(sums)}
""")
    assert isinstance(found, PrimFunc)
    return found


def arguments_of_hyb() -> tuple[Arguments, Any]:
    rng = np.random.default_rng(0)
    b = rng.uniform(-1, 1, (COLUMNS, TILES, COARSE, LANES)).astype("f")
    c = np.zeros((ROWS, TILES, COARSE, LANES), "f")
    wanted, arguments = c.copy(), {"b": b, "c": c}
    order, taken = rng.permutation(ROWS), 0
    for k, (count, width, shared) in enumerate(PARTS):
        rows = rng.choice(order[taken:], count) if shared else order[taken : taken + count]
        taken += 0 if shared else count
        columns = rng.integers(0, COLUMNS, (count, width))
        a = rng.uniform(-1, 1, (count, width)).astype("f")
        np.add.at(wanted, rows, np.einsum("ij,ijfgh->ifgh", a, b[columns]))
        arguments |= {
            f"a{k}": a, f"starts{k}": np.array([0, count], "i"),
            f"rows{k}": rows.astype("i"), f"columns{k}": columns.astype("i"),
        }  # fmt: skip
    return arguments, wanted


def schedule_part(sch: Schedule, k: int, width: int, atomic: bool, gpu: bool) -> None:
    """The steps of SparseTIR's program for products in the format hyb."""
    block = sch.get_block(f"part{k}0")
    i, j, f, g, h = sch.get_loops(block)
    sch.reorder(f, h, j, g)
    if atomic:
        sch.annotate(block, "atomic", True)
        back = sch.reverse_cache_write(block, 0, "local")
        sch.reverse_compute_at(back, h, True)
    if gpu:
        sch.bind(h, "threadIdx.x")
        sch.bind(f, "blockIdx.y")
    for loop in (g, j):
        sch.unroll(loop)
        sch.annotate(loop, "pragma_unroll_explicit", 0)
    outer, _, inner = sch.split(i, [None, 4 // width, 8])
    if gpu:
        sch.bind(outer, "blockIdx.x")
        sch.bind(inner, "threadIdx.y")
    else:
        sch.parallel(outer)
    start = sch.decompose_reduction(block, h)
    lane, coarse = sch.get_loops(start)[-2:]
    if gpu:
        sch.bind(lane, "threadIdx.x")
    sch.unroll(coarse)
    sch.annotate(coarse, "pragma_unroll_explicit", 0)


@pytest.mark.parametrize(
    ("gpu", "start"), sampled([(False, False), (True, False), (False, True), (True, True)], 3, True)
)
def test_parts_in_ell(gpu: bool, start: bool) -> None:
    """Parts that share rows are added atomically; without a start of their own, all parts are."""
    sch = Schedule(parts_of_hyb(start))
    for k in range(len(PARTS)):
        part = sch.get_sparse_iteration(f"part{k}")
        o, i, *_ = sch.get_sp_iters(part)
        sch.sparse_fuse(part, [o, i])
    positions = lower_sparse_iter(sch.mod)["main"]
    sch = Schedule(positions, debug_mask="all")
    for k, (_, width, shared) in enumerate(PARTS):
        schedule_part(sch, k, width, shared or not start, gpu)
    check_trace(sch, positions)
    plain = lower_sparse_buffer(sch.mod)["main"]
    arguments, wanted = arguments_of_hyb()
    values = fitting(plain, arguments)
    tileloom.build(plain, **(EMULATOR if gpu else {}))(*values)
    np.testing.assert_allclose(arguments["c"].reshape(wanted.shape), wanted, 1e-5, 1e-5)
