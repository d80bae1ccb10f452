"""Sampling: TVM's numbers, draw for draw; decisions and how they are mended."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from schedule.common import ELEMENTWISE, MATMUL, check_trace, refused, schedule
from tileloom import UserError
from tileloom.schedule.primitives.sample_compute_location import candidates
from tileloom.schedule.random import Random, factorize

# (seed, extent, n, limit, factors) as TVM draws them.
TILES = [
    (1100, 512, 4, 64, [1, 1, 16, 32]),
]


@pytest.mark.parametrize(("seed", "extent", "n", "limit", "factors"), TILES)
def test_tiles_are_those_of_tvm(seed: Any, extent: Any, n: Any, limit: Any, factors: Any) -> None:
    assert Random(seed).perfect_tile(extent, n, limit) == factors


def test_a_whole_candidate_is_that_of_tvm() -> None:
    """Tiles and an unroll depth, drawn one after another from one stream."""
    stream = Random(1100)
    assert stream.perfect_tile(512, 4, 64) == [1, 1, 16, 32]
    assert stream.perfect_tile(512, 4, 64) == [1, 128, 1, 4]
    assert stream.perfect_tile(512, 2, 64) == [16, 32]
    assert stream.categorical([0.25] * 4) == 0


@pytest.mark.parametrize("extent", [1, 2, 7, 12, 97, 360, 1024, 1 << 20])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_tiles_multiply_to_the_extent(extent: Any, n: int) -> None:
    stream = Random(7)
    for _ in range(20):
        tile = stream.perfect_tile(extent, n)
        assert prod(tile) == extent and len(tile) == n and min(tile) >= 1


def test_every_tile_is_drawn() -> None:
    stream = Random(3)
    assert len({tuple(stream.perfect_tile(8, 3)) for _ in range(300)}) == 10
    assert {stream.integer(3, 6) for _ in range(50)} == {3, 4, 5}
    assert {tuple(sorted(stream.choose(5, 3))) for _ in range(300)} == {
        (a, b, c) for a in range(5) for b in range(a + 1, 5) for c in range(b + 1, 5)
    }


def test_seeds() -> None:
    assert Random(5).fork_seed() == Random(5).fork_seed() != Random(6).fork_seed()
    assert 1 <= Random(-1).state < 1 << 31
    with pytest.raises(UserError):
        Random(0)
    with pytest.raises(UserError):
        Random(1).integer(3, 3)
    assert factorize(1) == [] and factorize(97) == [(97, 1)]


def test_perfect_tile() -> None:
    sch = schedule(MATMUL)
    i, j, k = sch.get_loops("C")
    tile = [sch.get(v) for v in sch.sample_perfect_tile(i, n=4, max_innermost_factor=8)]
    assert prod(tile) == 128 and tile[-1] <= 8
    mended = sch.sample_perfect_tile(j, n=3, decision=[1, 4, 5])
    assert [sch.get(v) for v in mended] == [1, 1, 64]
    sch.split(k, sch.sample_perfect_tile(k, n=2))
    check_trace(sch, MATMUL)
    refused(sch, "not n=2", "sample_perfect_tile", i, n=2, decision=[1, 2, 64])
    refused(sch, "at least one", "sample_perfect_tile", i, n=0)
    refused(sch, "max_innermost_factor", "sample_perfect_tile", i, n=2, max_innermost_factor=0)


def test_partitioned_tile() -> None:
    sch: Any = schedule(MATMUL)
    i, _, k = sch.get_loops("C")
    for _ in range(10):
        tile = [sch.get(v) for v in sch.sample_partitioned_tile(k, 3, 1, 8)]
        assert prod(tile) == 96 and tile[1] * tile[2] % 8 == 0
    first, *odd = sch.sample_partitioned_tile(i, 3, 1, 5)
    assert first is None and [sch.get(v) for v in odd] == [1, 1]
    sch.split(i, sch.sample_partitioned_tile(i, 2, 0, 3))
    check_trace(sch, MATMUL)
    refused(sch, "partition_pos", "sample_partitioned_tile", k, 3, 3, 2)


def test_the_first_factor_of_an_unknown_extent_is_open() -> None:
    text = """
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (n,))
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi]
"""
    sch: Any = schedule(text)
    (i,) = sch.get_loops("B")
    tile = sch.sample_perfect_tile(i, n=3)
    assert tile[0] is None and [sch.get(v) for v in tile[1:]] == [1, 1]
    outer, _, _ = sch.split(i, tile)
    assert str(sch.get(outer).extent) == "n"
    assert sch.trace.as_json() == [
        [
            ["GetBlock", [], ["B", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1"]],
            ["SamplePerfectTile", ["l1"], [3, 16], ["_", "v3", "v4"]],
            ["Split", ["l1", "None", "v3", "v4"], [True, False], ["l5", "l6", "l7"]],
        ],
        [[2, [-1, 1, 1]]],
    ]
    assert "_, v3, v4 = sch.sample_perfect_tile(" in str(sch.trace)
    check_trace(sch, text)
    known = schedule(
        text.replace(", n: T.int32", "")
        .replace("n,", "24,")
        .replace("n)", "24)")
        .replace("(n", "(24")
    )
    sch.trace.apply_to_schedule(known, remove_postproc=False)
    assert [sch_loop.extent.value for sch_loop in map(known.get, known.get_loops("B"))] == [
        24,
        1,
        1,
    ]


def test_categorical() -> None:
    sch = schedule(MATMUL)
    found = {sch.get(sch.sample_categorical([3, 5, 7], [0.2, 0.0, 0.8])) for _ in range(40)}
    assert found == {3, 7}
    check_trace(sch, MATMUL)
    refused(sch, "no index", "sample_categorical", [1, 2], [0.5, 0.5], decision=2)
    refused(sch, "one probability", "sample_categorical", [1, 2], [1.0])


def test_compute_location_of_an_output() -> None:
    sch: Any = schedule(ELEMENTWISE)
    sch.sample_compute_location("C")
    sch.sample_compute_location("C", decision=5)
    assert [sch.trace.get_decision(inst) for inst in sch.trace.insts[1::2]] == [-1, -1]
    check_trace(sch, ELEMENTWISE)


@pytest.mark.parametrize(("extent", "n"), [(0, 2), (-4, 2), (8, 0), (8, -1), (0, 0)])
def test_what_cannot_be_split(extent: int, n: int) -> None:
    drawn = Random(1)
    with pytest.raises(UserError, match=f"cannot split an extent of {extent} into {n} factors"):
        drawn.perfect_tile(extent, n)
    assert drawn.perfect_tile(1, 1) == [1] and drawn.perfect_tile(1, 3) == [1, 1, 1]


def test_prime_factors() -> None:
    for number in [*range(1, 60), 121, 1024, 2 * 3 * 5 * 7 * 11, 97 * 89, 2**5 * 49]:
        found = factorize(number)
        assert [p for p, _ in found] == sorted({p for p, _ in found})
        assert prod(p**count for p, count in found) == number
        assert all(count > 0 and all(p % d for d in range(2, p)) for p, count in found)


READ_BY_A_SUM = """
@T.prim_func
def main(A: T.Buffer((8, 6, 4), "float32"), C: T.Buffer((8, 4), "float32")):
    B = T.alloc_buffer((8, 6, 4))
    for i, k, j in T.grid(8, 6, 4):
        with T.block("B"):
            vi, vk, vj = T.axis.remap("SSS", [i, k, j])
            B[vi, vk, vj] = A[vi, vk, vj] * 2.0
    for i, k, j in T.grid(8, 6, 4):
        with T.block("C"):
            vi, vk, vj = T.axis.remap("SRS", [i, k, j])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + B[vi, vk, vj]
"""


@pytest.mark.parametrize(
    ("order", "unit", "places"),
    [
        ("ijk", None, [-2, -1, 0, 1]),  # not under the last loop of the sum
        ("ikj", None, [-2, -1, 0, 1]),  # nor under what comes below it
        ("kij", None, [-2, -1, 0]),
        ("ijk", "j", [-2, -1, 0, 2]),  # nor under a loop of one step
        ("ijk", "i", [-2, -1, 1, 2]),
    ],
)
def test_loops_that_are_worth_it(order: str, unit: str | None, places: list[int]) -> None:
    sch = schedule(READ_BY_A_SUM)
    loops = dict(zip("ikj", sch.get_loops("C"), strict=True))
    sch.reorder(*(loops[name] for name in order))
    if unit is not None:
        sch.add_unit_loop(loops[unit])
    found = candidates(sch.state, sch.get_sref(sch.get_block("B")))
    assert list(found) == places
    for decision in range(-3, 5):
        # What is not possible falls back to what is before it.
        again = schedule(sch.mod["main"])
        again.sample_compute_location("B", decision=decision)
        assert again.trace is not None
        chosen = again.trace.get_decision(again.trace.insts[-1])
        assert chosen == max((place for place in places if place <= decision), default=-1)
