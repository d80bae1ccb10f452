"""How products are cut into tiles: which tile is chosen, who copies what, what runs where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from schedule.gpu_products import GPU, matmul
from tileloom import te
from tileloom.expr import Var
from tileloom.expr.evaluate import evaluate
from tileloom.schedule import Schedule, ScheduleError
from tileloom.schedule.library import (
    MmaTile,
    SimtTile,
    WgmmaTile,
    as_matrices,
    mma_matmul,
    simt_matmul,
    wgmma_matmul,
)
from tileloom.schedule.library.mma_matmul import choose_tile as choose_mma
from tileloom.schedule.library.product import Operand, Product
from tileloom.schedule.library.product_tiles import Cut, bind_rest, typical_product
from tileloom.schedule.library.simt_matmul import choose_tile as choose_simt
from tileloom.schedule.library.wgmma_matmul import choose_tile as choose_wgmma
from tileloom.schedule.rv import BlockRV
from tileloom.target import target

HOPPER = target("cuda -arch=sm_90a")


def product(rows: int, columns: int, batch: int | None = None, **more: Any) -> Product:
    block = BlockRV()
    side = Operand(0, block, True, 4, 32, True)
    kinds = {"kind": "float16", "total": "float32", "plain": True, "lanes": 4, **more}
    return Product(block, batch, rows, columns, 64, (64,), side, side, (block,), **kinds)


def quickest(one: Product, tiles: Sequence[tuple[Any, int, int, float]]) -> Any:
    """The tile with which 128 multiprocessors are done first, each with a tile at a time."""

    def time(entry: tuple[Any, int, int, float]) -> float:
        _, rows, columns, share = entry
        count = (one.batch or 1) * -(-one.rows // rows) * -(-one.columns // columns)
        return -(-count // 128) * rows * columns / share

    return min(tiles, key=time)[0]


SIZES = [
    (16, 16), (17, 40), (64, 64), (100, 1000), (128, 2048), (512, 512), (511, 1025), (1024, 1024),
    (2048, 1536), (1408, 1408), (4096, 64), (4096, 4096), (3000, 5000), (8, 100_000),
]  # fmt: skip
BATCHES = [None, 1, 3, 64]

MMA = [
    (MmaTile((2, 4), (4, 4)), 128, 256, 1.0), (MmaTile((2, 2), (4, 4)), 128, 128, 0.95),
    (MmaTile((2, 2), (2, 4)), 64, 128, 0.8), (MmaTile((2, 2), (2, 2)), 64, 64, 0.6),
    (MmaTile((2, 2), (1, 2)), 32, 64, 0.4), (MmaTile((1, 1), (1, 1)), 16, 16, 0.1),
]  # fmt: skip
WGMMA = [
    (WgmmaTile(2, 256), 128, 256, 1.0), (WgmmaTile(2, 128), 128, 128, 0.8),
    (WgmmaTile(1, 128), 64, 128, 0.6), (WgmmaTile(1, 64), 64, 64, 0.4),
    (WgmmaTile(1, 16), 64, 16, 0.15),
]  # fmt: skip
SIMT = [
    (SimtTile((4, 2), (2, 2)), 128, 128, 1.0), (SimtTile((2, 2), (2, 2)), 64, 128, 0.9),
    (SimtTile((4, 2), (1, 1)), 64, 64, 0.7), (SimtTile((2, 1), (1, 1)), 32, 32, 0.5),
]  # fmt: skip


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_the_tile_that_is_done_first(rows: int, columns: int, batch: int | None) -> None:
    one = product(rows, columns, batch)
    assert choose_mma(one, GPU) == quickest(one, MMA)
    assert choose_wgmma(one) == quickest(one, WGMMA)
    filled = [
        entry
        for entry in SIMT
        # Threads have parts of a tile that lie apart: the last one is not to be empty.
        if entry[1] - entry[0].rows.part < rows and entry[2] - entry[0].columns.part < columns
    ]
    assert choose_simt(one) == quickest(one, filled)


@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_what_has_less_room(rows: int, columns: int) -> None:
    halves = product(rows, columns, kind="float8_e4m3fn")  # they become wider in registers
    assert choose_mma(halves, GPU) == quickest(halves, MMA[2:])
    small = target("cuda -arch=sm_89")  # with less shared memory
    fitting = [entry for entry in MMA if entry[0].shared_bytes <= small.shared_memory]
    assert 0 < len(fitting) < len(MMA)
    one = product(rows, columns)
    assert choose_mma(one, small) == quickest(one, fitting)


def test_wide_elements_have_smaller_tiles() -> None:
    found = choose_simt(product(4096, 4096, kind="float64", total="float64"))
    assert found == SimtTile((4, 2), (2, 2), side=2)
    assert choose_simt(product(4096, 4096, total="float32")).side == 4


def test_what_tiles_are() -> None:
    tile = MmaTile((2, 4), (4, 2), depth=32, stages=3)
    assert (tile.rows, tile.columns, tile.threads) == (2 * 4 * 16, 4 * 2 * 16, (8, 32))
    assert tile.shared_bytes == 3 * (128 + 128) * (32 + 16)
    assert MmaTile((2, 4), (4, 2), 32, 1).shared_bytes == 2 * (128 + 128) * (32 + 16)
    group = WgmmaTile(2, 64, 3)
    assert (group.rows, group.threads) == (128, (2, 128))
    cut = SimtTile((4, 2), (2, 3), side=2).rows, SimtTile((4, 2), (2, 3), side=2).columns
    assert cut == (Cut(4 * 4 * 2 * 2, 32), Cut(2 * 8 * 2 * 3, 32))
    assert [one.tile // one.part for one in cut] == [2, 3]
    assert SimtTile((4, 2), (2, 3)).threads == (8, 32)


def test_places_in_cuts() -> None:
    i = Var("i")
    indices = Cut(12, 4).indices(i)
    for at in (0, 3, 4, 11, 12, 30):
        found = [int(evaluate(index, {i: at})) for index in indices]
        assert found == [at // 12, at % 12 // 4, at % 4]


def test_numbers_are_typical_of_themselves() -> None:
    one = product(100, 200, 3)
    assert typical_product(one) == one


# ---------------------------------------------------------------------------- what runs where


def threads_of(sch: Schedule, name: str) -> dict[str, int]:
    """How many there are along each axis around a block."""
    found: dict[str, int] = {}
    for loop in map(sch.get, sch.get_loops(name)):
        if loop.thread_binding is not None:
            tag = loop.thread_binding.thread_tag
            found[tag] = found.get(tag, 1) * loop.extent.value
    return found


def kernel_of(sch: Schedule) -> dict[str, int]:
    names = [sch.get(one).name_hint for one in sch.get_child_blocks(sch.get_block("root"))]
    return threads_of(sch, names[-1])


@pytest.mark.parametrize(("rows", "columns", "batch"), [(100, 33, (2, 3))])
def test_a_block_for_each_tile(rows: int, columns: int, batch: tuple[int, ...]) -> None:
    matrices = 1
    for size in batch:
        matrices *= size
    program = matmul(rows, columns, 32, batch=batch)
    tile = SimtTile((2, 1), (1, 2))
    assert (tile.rows.tile, tile.columns.tile) == (32, 64)
    sch = Schedule(program.func)
    simt_matmul(sch, "C", tile)
    expected = {
        "blockIdx.y": -(-rows // 32), "blockIdx.x": -(-columns // 64), "threadIdx.y": 2,
        "threadIdx.x": 32,
    }  # fmt: skip
    assert kernel_of(sch) == {**({"blockIdx.z": matrices} if batch else {}), **expected}

    program = matmul(rows, columns, 32, "float16", "float32", batch=batch)
    sch = Schedule(program.func)
    mma_matmul(sch, "C", GPU, MmaTile((1, 2), (2, 1)))
    tiles = -(-rows // 32) * -(-columns // 32)
    expected = {"blockIdx.x": tiles, "threadIdx.y": 2, "threadIdx.x": 32}
    assert kernel_of(sch) == {**({"blockIdx.y": matrices} if batch else {}), **expected}

    sch = Schedule(program.func)
    wgmma_matmul(sch, "C", HOPPER, WgmmaTile(2, 32, 2))
    tiles = -(-rows // 128) * -(-columns // 32)
    expected = {"blockIdx.x": tiles, "threadIdx.y": 2, "threadIdx.x": 128}
    assert kernel_of(sch) == {**({"blockIdx.y": matrices} if batch else {}), **expected}


@pytest.mark.parametrize("tactic", ["mma", "wgmma"])
def test_rows_of_tiles_run_side_by_side(tactic: str) -> None:
    """Blocks that follow each other go down 8 rows of tiles, then to the next column."""
    if tactic == "mma":
        sch = Schedule(matmul(12 * 16, 3 * 16, 32, "float16", "float32").func)
        mma_matmul(sch, "C", GPU, MmaTile((1, 1), (1, 1)))
        down, across, side, wide = 12, 3, 16, 16
    else:
        sch = Schedule(matmul(12 * 64, 3 * 16, 64, "float16", "float32").func)
        wgmma_matmul(sch, "C", HOPPER, WgmmaTile(1, 16, 2))
        down, across, side, wide = 12, 3, 64, 16
    names = [sch.get(one).name_hint for one in sch.get_child_blocks(sch.get_block("root"))]
    realize = sch.state.realize(sch.get_sref(sch.get_block(names[-1])))
    loops = [sch.get(loop) for loop in sch.get_loops(names[-1])]
    blocks = next(loop for loop in loops if loop.thread_binding.thread_tag == "blockIdx.x")
    assert blocks.extent.value == down * across
    zeros = {loop.loop_var: 0 for loop in loops}
    order = []
    for b in range(down * across):
        known = {**zeros, blocks.loop_var: b}
        values = [int(evaluate(v, known)) for v in realize.iter_values]
        i, j = values[-2:]
        order.append((i // side, j // wide))
    group = 4  # as many rows of tiles as divide 12 and 8
    assert order == [
        (first + row, column)
        for first in range(0, down, group)
        for column in range(across)
        for row in range(group)
    ]


@pytest.mark.parametrize("size", [7, 256, 1000])
def test_what_is_left_runs_element_by_element(size: int) -> None:
    a = te.placeholder((size, 3), name="A")
    b = te.compute((size, 3), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((size,), lambda i: a[i, 0] * 2.0, name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    sch.bind(sch.get_loops("C")[0], "blockIdx.x")
    bind_rest(sch)
    assert threads_of(sch, "B") == {"blockIdx.x": -(-size * 3 // 256), "threadIdx.x": 256}
    assert threads_of(sch, "C") == {"blockIdx.x": size}


def test_what_is_left_must_not_reduce() -> None:
    a = te.placeholder((8, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    with pytest.raises(ScheduleError, match="block 'B' reduces what the product has made"):
        bind_rest(Schedule(te.create_prim_func([a, b])))


# ---------------------------------------------------------------------------- copies


@pytest.mark.parametrize(
    ("kind", "shape", "trans", "expected"),
    [
        # of A and of B: whether neighbours lie along the depth, and how many go at once
        ("float32", (64, 128, 32), "", [(True, 4), (False, 4)]),
        ("float16", (64, 128, 32), "", [(True, 8), (False, 8)]),
        ("float16", (64, 128, 32), "ab", [(False, 8), (True, 8)]),
        ("int8", (64, 128, 32), "b", [(True, 16), (True, 16)]),
        ("float64", (64, 128, 32), "", [(True, 2), (False, 2)]),
        ("float32", (64, 126, 30), "", [(True, 2), (False, 2)]),
        ("float32", (63, 125, 31), "ab", [(False, 1), (True, 1)]),
        ("float32", (63, 124, 31), "", [(True, 1), (False, 4)]),
    ],
)
def test_neighbours_that_go_at_once(
    kind: str, shape: Any, trans: str, expected: list[tuple[bool, int]]
) -> None:
    total = "int32" if kind == "int8" else kind
    found = as_matrices(Schedule(matmul(*shape, kind, total, trans).func), "C")
    assert [(side.deep, side.lanes) for side in found.operands] == expected
    assert {side.bits for side in found.operands} == {int(kind.lstrip("floatin"))}
    assert all(side.moved for side in found.operands)
    extents = found.batch, found.rows, found.columns, found.depth
    assert extents == (None, *shape)
    assert (found.kind, found.total, found.plain) == (kind, total, True)
    held = 128 // (32 if total == "int32" else int(total.lstrip("float")))
    while shape[1] % held:
        held //= 2
    assert found.lanes == held


@pytest.mark.parametrize(
    ("offset", "rows", "lanes"),
    [(0, 16, 4), (2, 16, 2), (1, 16, 1), (4, 16, 4), (0, 18, 2), (6, 16, 2)],
)
def test_neighbours_that_start_elsewhere(offset: int, rows: int, lanes: int) -> None:
    """Vectors start where all rows and the first element allow."""
    a = te.placeholder((8, rows), name="A")
    b = te.placeholder((8, 12), name="B")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((8, 12), lambda i, j: te.sum(a[i, k + offset] * b[k, j], axis=k), name="C")
    found = as_matrices(Schedule(te.create_prim_func([a, b, c])), "C")
    assert found.left.deep and found.left.lanes == lanes
    assert found.right.lanes == 4


def test_what_is_not_taken_as_it_is() -> None:
    a, b = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="B")
    twice = te.compute((8, 8), lambda i, j: a[i, j] * 2.0, name="D")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((8, 8), lambda i, j: te.sum(twice[i, k] * b[k, j], axis=k), name="C")
    found = as_matrices(Schedule(te.create_prim_func([a, b, c])), "C")
    assert [side.moved for side in found.operands] == [False, True]
    c = te.compute((8, 8), lambda i, j: te.sum((a[i, k] + 1.0) * b[k, j], axis=k), name="C")
    assert not as_matrices(Schedule(te.create_prim_func([a, b, c])), "C").plain


def copies_of(sch: Schedule, buffer: str) -> list[tuple[str, int]]:
    """The loops of the copy of an operand into shared memory, inside the step."""
    blocks = sch.get_child_blocks(sch.get_block("root"))
    found = next(
        one
        for one in blocks
        if sch.get(one).writes[0].buffer.scope.startswith("shared")
        and sch.get(one).reads[0].buffer.name == buffer
    )
    loops = [sch.get(loop) for loop in sch.get_loops(found)]
    names = [loop.thread_binding.thread_tag if loop.thread_binding else loop.kind for loop in loops]
    start = len(names) - names[::-1].index("threadIdx.y") - 2
    return [(name, loop.extent.value) for name, loop in zip(names, loops)][start:]


@pytest.mark.parametrize(("columns", "lanes", "turns"), [(64, 8, 1), (60, 4, 2)])
def test_threads_share_a_copy(columns: int, lanes: int, turns: int) -> None:
    """A step of B has 32 by 64 elements for 8 warps, as many at once as memory allows."""
    sch = Schedule(matmul(64, columns, 64, "float16", "float32").func)
    mma_matmul(sch, "C", GPU, MmaTile((2, 4), (1, 1)))
    expected = [("unrolled", turns), ("threadIdx.y", 8), ("threadIdx.x", 32)]
    assert copies_of(sch, "B") == [*expected, ("vectorized", lanes)]
    assert turns * 8 * 32 * lanes == 32 * 64
