"""The tactics: what they make of programs, that results stay, what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from schedule import common
from schedule.common import ELEMENTWISE, NORMALISE, check_same, check_trace, schedule
from tileloom import ScheduleError
from tileloom.schedule import library
from tileloom.schedule.library import (
    auto_inline,
    cache_to_shared,
    parallel_vectorize_unroll,
    register_tile,
    tile,
    vectorized_load,
)


def matmul(m: Any, k: Any, n: Any) -> Any:
    text = common.MATMUL.replace("128", str(m)).replace("96", str(k))
    return text.replace("64)", f"{n})").replace("128, 64", f"{m}, {n}").replace("64,", f"{n},")


MATMUL = matmul(16, 12, 32)
ODD_MATMUL = matmul(13, 7, 1)

CHAIN = """
@T.prim_func
def main(A: T.Buffer((16, 8), "float32"), D: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((16, 8))
    C = T.alloc_buffer((16, 8))
    S = T.alloc_buffer((16,))
    for i, j in T.grid(16, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1.0
    for i, j in T.grid(16, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.exp(B[vi, vj])
    for i, j in T.grid(16, 8):
        with T.block("S"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + C[vi, vj]
    for i in range(16):
        with T.block("D"):
            vi = T.axis.spatial(16, i)
            D[vi] = S[vi] * 0.5
"""


def extents(sch: Any, loops: Any) -> Any:
    return [sch.get(loop).extent.value for loop in loops]


def kinds(sch: Any, block: Any) -> Any:
    return [sch.get(loop).kind for loop in sch.get_loops(block)]


def checked(sch: Any, before: Any) -> None:
    check_same(sch, before)
    check_trace(sch, before)


def test_all_are_public_and_documented() -> None:
    assert sorted(library.__all__) == [
        "MmaTile", "SimtTile", "WgmmaTile", "as_matrices", "auto_inline", "cache_to_shared",
        "find_factors", "find_products", "mma_matmul", "parallel_vectorize_unroll",
        "register_tile", "schedule_gpu_product", "simt_matmul", "tensor_core_conv2d",
        "tensor_core_matmul", "tile", "vectorized_load", "wgmma_matmul",
    ]  # fmt: skip
    for name in library.__all__:
        assert ">>>" in getattr(library, name).__doc__


# ---------------------------------------------------------------------------- tile


def test_tile_two_levels() -> None:
    sch = schedule(MATMUL)
    levels = tile(sch, "C", "SSRSR", [[None, 4, 2], [2, None, 4], [None, 4]])
    assert [extents(sch, level) for level in levels] == [[2, 2], [4, 4], [3], [2, 4], [4]]
    assert extents(sch, sch.get_loops("C")) == [2, 2, 4, 4, 3, 2, 4, 4]
    checked(sch, MATMUL)


@pytest.mark.parametrize("factors", [[[None, 4], [None, 1], [None]], [[1, 13], [1, 1], [7]]])
def test_tile_of_odd_extents(factors: list[list[int | None]]) -> None:
    sch = schedule(ODD_MATMUL)
    tile(sch, "C", "SRS", factors)
    checked(sch, ODD_MATMUL)


def test_tile_takes_sampled_factors() -> None:
    sch: Any = schedule(MATMUL)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    factors = [sch.sample_perfect_tile(loop, n) for loop, n in ((i, 2), (j, 2), (k, 1))]
    tile(sch, block, "SRS", factors)
    assert [inst.kind.name for inst in sch.trace.insts].count("Split") == 3
    checked(sch, MATMUL)


@pytest.mark.parametrize(
    ("structure", "factors", "match"),
    [
        ("SXS", [[None]] * 3, "letters S and R"),
        ("SRS", [[None, 4]], "3 around"),
        ("SRS", [[None], [None, 4], [None]], "loop 'i' gets 1 factors"),
        ("SRS", [[None, 4], [None, 4], [2, None]], "loop 'k' gets 2 factors"),
    ],
)
def test_tile_refuses(structure: str, factors: Any, match: str) -> None:
    with pytest.raises(ScheduleError, match=match) as found:
        tile(schedule(MATMUL), "C", structure, factors)
    assert "@T.prim_func" in str(found.value)


# ---------------------------------------------------------------------------- register_tile


@pytest.mark.parametrize("decompose", [True, False])
def test_register_tile(decompose: bool) -> None:
    sch = schedule(MATMUL)
    levels = tile(sch, "C", "SRS", [[None, 4], [None, 16], [None]])
    copy = register_tile(sch, "C", levels[0][-1], lanes=8, decompose=decompose)
    assert kinds(sch, copy) == ["serial", "serial", "unrolled", "unrolled", "vectorized"]
    body = "C_update" if decompose else "C"
    own = ["serial"] * 3 + ["unrolled", "unrolled", "vectorized"]
    assert kinds(sch, body) == own
    assert [b.name for b in sch.get(sch.get_block("root")).alloc_buffers] == ["C_local"]
    checked(sch, MATMUL)


def test_register_tile_compiles_to_the_right_numbers() -> None:
    sch = schedule(MATMUL)
    levels = tile(sch, "C", "SRS", [[None, 4], [None, 16], [None]])
    sch.parallel(levels[0][0])
    register_tile(sch, "C", levels[0][-1], lanes=16)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(16, 12)), rng.normal(size=(12, 32))
    c = np.empty((16, 32), "float32")
    tileloom.build(sch.mod["main"])(a.astype("float32"), b.astype("float32"), c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_register_tile_refuses_lanes_that_do_not_divide() -> None:
    sch = schedule(MATMUL)
    levels = tile(sch, "C", "SRS", [[None, 4], [None, 16], [None]])
    before = sch.mod
    with pytest.raises(ScheduleError, match="vectors of 5 do not divide"):
        register_tile(sch, "C", levels[0][-1], lanes=5)
    assert sch.mod is before


def test_register_tile_needs_a_tile() -> None:
    sch = schedule(MATMUL)
    with pytest.raises(ScheduleError, match="no loops of a tile"):
        register_tile(sch, "C", sch.get_loops("C")[1], lanes=4)


# ---------------------------------------------------------------------------- copies


def tiled_for_a_gpu() -> Any:
    sch = schedule(MATMUL)
    blocks, threads, steps, _, _ = tile(sch, "C", "SSRSR", [[None, 2, 2], [None, 4, 4], [None, 4]])
    for loop, axis in zip([*blocks, *threads], ("blockIdx.y", "blockIdx.x", *_THREADS)):
        sch.bind(loop, axis)
    return sch, steps[-1]


_THREADS = ("threadIdx.y", "threadIdx.x")


@pytest.mark.parametrize(("threads", "lanes"), [((2, 4), 2), ((2, 4), 1), ((2, 2, 2), 2)])
def test_cache_to_shared(threads: tuple[int, ...], lanes: int) -> None:
    sch, step = tiled_for_a_gpu()
    fetch = cache_to_shared(sch, "C", "A", step, threads, lanes)
    own = [sch.get(loop) for loop in sch.get_loops(fetch)[5:]]
    assert [one.thread_binding.thread_tag for one in own if one.thread_binding] == [
        f"threadIdx.{axis}" for axis in "zyx"[3 - len(threads) :]
    ]
    assert own[-1].kind == ("vectorized" if lanes > 1 else "thread_binding")
    assert {b.name: b.scope for b in sch.get(sch.get_block("root")).alloc_buffers} == {
        "A_shared": "shared"
    }
    check_trace(sch, MATMUL)


def test_cache_to_shared_keeps_results() -> None:
    sch, step = tiled_for_a_gpu()
    for buffer in "AB":
        cache_to_shared(sch, "C", buffer, step, (2, 4), 2)
    checked(sch, MATMUL)


def test_cache_to_shared_where_threads_do_not_divide() -> None:
    sch, step = tiled_for_a_gpu()
    cache_to_shared(sch, "C", "A", step, (2, 4, 3), 1)  # 16 elements, 24 threads
    checked(sch, MATMUL)


def test_cache_to_shared_refuses() -> None:
    sch, step = tiled_for_a_gpu()
    with pytest.raises(ScheduleError, match="one to three positive numbers"):
        cache_to_shared(sch, "C", 0, step, ())
    with pytest.raises(ScheduleError, match="16 elements are copied, which vectors of 3"):
        cache_to_shared(sch, "C", 0, step, 8, lanes=3)
    with pytest.raises(ScheduleError, match="reads no buffer 'X'"):
        cache_to_shared(sch, "C", "X", step, 8)


@pytest.mark.parametrize(("lanes", "own"), [(16, [4, 16]), (4, [4, 4, 4])])
def test_vectorized_load(lanes: int, own: list[int]) -> None:
    sch = schedule(MATMUL)
    levels = tile(sch, "C", "SRS", [[None, 4], [None, 16], [None]])
    ko, _ = sch.split(levels[1][0], [None, 4])
    load = vectorized_load(sch, "C", "B", ko, lanes)
    assert extents(sch, sch.get_loops(load)[3:]) == own
    assert kinds(sch, load)[-1] == "vectorized"
    checked(sch, MATMUL)


# ---------------------------------------------------------------------------- auto_inline


def test_auto_inline_keeps_calls_out_of_reductions() -> None:
    sch = schedule(CHAIN)
    assert auto_inline(sch) == ["B"]
    names = [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
    assert "C" in names and "B" not in names
    checked(sch, CHAIN)


def test_auto_inline_repeats_calls_if_asked() -> None:
    sch = schedule(CHAIN)
    gone = auto_inline(sch, into_producers=False, repeat_calls=True)
    assert gone == ["B", "C"]
    checked(sch, CHAIN)


def test_auto_inline_of_chosen_blocks() -> None:
    sch = schedule(CHAIN)
    assert auto_inline(sch, ["B"], into_producers=False) == ["B"]
    checked(sch, CHAIN)


def test_auto_inline_into_the_producer() -> None:
    sch = schedule(ELEMENTWISE)
    assert auto_inline(sch, ["C"], into_producers=False) == []
    assert auto_inline(sch, ["C"]) == ["C"]
    checked(sch, ELEMENTWISE)


def test_auto_inline_leaves_what_cannot_be_inlined() -> None:
    sch = schedule(NORMALISE)
    assert auto_inline(sch, into_producers=False) == []
    checked(sch, NORMALISE)


# ---------------------------------------------------------------------------- CPU loops


def test_parallel_vectorize_unroll() -> None:
    sch = schedule(MATMUL)
    i, j, k = sch.get_loops("C")
    sch.reorder(i, k, j)
    parallel_vectorize_unroll(sch, "C", jobs=16, lanes=16, unroll=64)
    assert kinds(sch, "C") == ["parallel", "serial", "serial", "vectorized"]
    first = sch.get(sch.get_loops("C")[0])
    assert dict(first.annotations) == {
        "pragma_auto_unroll_max_step": 64,
        "pragma_unroll_explicit": 1,
    }
    checked(sch, MATMUL)


def test_reductions_are_not_vectorised() -> None:
    sch = schedule(MATMUL)
    parallel_vectorize_unroll(sch, "C", jobs=1000, unroll=0)
    assert kinds(sch, "C") == ["parallel", "serial"]  # i and j fused, k
    checked(sch, MATMUL)


def test_strided_accesses_are_not_vectorised() -> None:
    text = ELEMENTWISE.replace("B[vi, vj] * 2.0", "B[vi, vj] * 2.0").replace(
        "B[vi, vj] + 1.0", "B[vi, 7 - vj] + 1.0"
    )
    sch = schedule(text)
    parallel_vectorize_unroll(sch, "C", unroll=0)
    assert kinds(sch, "C") == ["parallel"]  # 13 iterations are too few: both loops are fused
    checked(sch, text)


@pytest.mark.parametrize("block", ["B", "C"])
def test_vectors_are_no_longer_than_the_loop(block: str) -> None:
    sch = schedule(ELEMENTWISE)
    parallel_vectorize_unroll(sch, block, jobs=0, lanes=64, unroll=0)
    assert kinds(sch, block) == ["serial", "vectorized"]
    checked(sch, ELEMENTWISE)


def test_nothing_to_do_on_unit_extents() -> None:
    text = ELEMENTWISE.replace("13", "1").replace("8", "1")
    sch = schedule(text)
    parallel_vectorize_unroll(sch, "C", unroll=0)
    assert kinds(sch, "C") == ["serial", "serial"]
    checked(sch, text)


def test_negative_numbers_are_refused() -> None:
    with pytest.raises(ScheduleError, match="not negative"):
        parallel_vectorize_unroll(schedule(MATMUL), "C", jobs=-1)
