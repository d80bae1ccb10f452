"""What is decided about a product: its loops, who shares them, and how operands are packed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product as pairs
from math import ceil
from typing import Any

import pytest

from plan.test_contraction import convolution, product
from tileloom import te
from tileloom.base.sums import SUM_RUN
from tileloom.expr import Call, const, free_vars, intrin
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol
from tileloom.plan import tile_product
from tileloom.plan.cpu.contraction import LONG_RUN, _height, _span
from tileloom.plan.cpu.nests import LANES, TILE, WORK
from tileloom.schedule import Schedule
from tileloom.target import Target
from tileloom.target.cost import PARALLEL_WORK
from tileloom.tir import For, PrimFunc


def cpu(bits: int = 512, cores: int = 1, *features: str) -> Target:
    return Target(
        kind="cpu", arch="x86_64", cpu="skylake-avx512", features=("avx512f", *features),
        vector_bits=bits, cores=cores, l1=1 << 15, l2=1 << 20, l3=1 << 25,
    )  # fmt: skip


def tiled(func: PrimFunc, target: Target) -> Schedule:
    sch = Schedule(func)
    tile_product(sch, target)
    return sch


def matmul(m: Any, n: Any, k: Any, kind: str = "float32", transposed: bool = False) -> PrimFunc:
    right = (n, k) if transposed else (k, n)
    return product((m, k), right, "ik,jk->ij" if transposed else "ik,kj->ij", kind)


def loops(sch: Schedule, block: Any) -> list[For]:
    return [sch.get(loop) for loop in sch.get_loops(block)]


def numbers(sizes: Iterable[Any]) -> list[int]:
    return [int(size) for size in sizes]


def extents(sch: Schedule, block: Any) -> list[int]:
    return numbers(loop.extent for loop in loops(sch, block))


def marks(loop: For) -> dict[str, int]:
    return dict(zip(loop.annotations, numbers(loop.annotations.values()), strict=True))


def blocks(sch: Schedule) -> list[str]:
    return [sch.get(rv).name_hint for rv in sch.get_child_blocks(sch.get_block("root"))]


# ---------------------------------------------------------------------------- loops


@pytest.mark.parametrize(
    ("m", "n", "k", "kind", "bits"),
    [
        (2, 8, 2, "float32", 512),
        (5, 16, 30, "float32", 512),
        (12, 17, 3, "float32", 512),
        (13, 20, 30, "float32", 512),
        (25, 330, 7, "float32", 512),
        (48, 64, 30, "float64", 512),
        (7, 33, 5, "float32", 256),
        (24, 8, 30, "float64", 256),
        (13, 12, 4, "int32", 256),
        (6, 700, 5, "int32", 128),
    ],
)
def test_loops_over_tiles(m: int, n: int, k: int, kind: str, bits: int) -> None:
    """A tile is one or two vectors wide, and of no more rows than registers hold besides."""
    sch = tiled(matmul(m, n, k, kind), cpu(bits))
    task, strip, panel, depth, line, vector, lane = loops(sch, "C_update")
    tasks, strips, panels, steps, height, vectors, lanes = extents(sch, "C_update")
    registers = 32 if bits == 512 else 16
    assert lanes == bits // (64 if kind == "float64" else 32) and steps == k
    assert vectors == (1 if n <= lanes else 2) and height * 2 + 2 < registers
    assert strips == ceil(m / height) == ceil(m / min(m, 12 if registers == 32 else 6))
    whole = ceil(n / (vectors * lanes))
    assert tasks == ceil(whole / panels), "no task has nothing to do"
    assert [loop.kind for loop in (line, vector, lane)] == ["unrolled", "unrolled", "vectorized"]
    assert {loop.kind for loop in (task, strip, panel, depth)} == {"serial"}
    assert marks(depth) == {SUM_RUN: LONG_RUN}
    # The last panel is filled up, so that its vectors are whole; the last strip may be short.
    sums = sch.get(sch.get_block("C_update")).writes[0].buffer
    assert numbers(sums.shape) == [m, whole * vectors * lanes] and sums.scope == "local"
    ragged = {task.loop_var, panel.loop_var} if whole % panels else set()
    if m % height:
        ragged |= {strip.loop_var, line.loop_var}
    predicate = sch.state.realize(sch.get_sref(sch.get_block("C_update"))).predicate
    assert {var for var in free_vars(predicate) if var in ragged} == free_vars(predicate)
    assert bool(ragged) == bool(free_vars(predicate))


@pytest.mark.parametrize(("n", "transposed"), [(16, True), (70, False), (70, True)])
def test_a_tile_is_started_summed_and_stored_in_one_place(n: int, transposed: bool) -> None:
    sch = tiled(matmul(13, n, 30, transposed=transposed), cpu())
    names = blocks(sch)
    packs, init, update, result = names
    assert packs.startswith("B_") and [init, update] == ["C_init", "C_update"]
    three = [loops(sch, name)[:3] for name in (init, update, result)]
    assert three[0] == three[1] == three[2]
    assert loops(sch, packs)[0] is three[0][0], "a task packs its own panels"
    (_, _, _, *inside), (*_, lane) = loops(sch, result), loops(sch, init)
    assert [loop.kind for loop in inside] == ["unrolled", "unrolled", "vectorized"]
    assert lane.kind == "vectorized"
    width = min(32, 16 * ceil(n / 16))
    panels = sch.get(sch.get_block(packs)).writes[0].buffer
    assert numbers(panels.shape) == [ceil(n / width), 30, width]


@pytest.mark.parametrize(
    ("n", "packed"),
    [(16, False), (64, False), (96, True), (17, True), (8, True)],  # 64: four vectors
)
def test_short_lines_are_read_where_they_lie(n: int, packed: bool) -> None:
    """Those that are whole panels; then memory holds next to each other what panels would."""
    names = blocks(tiled(matmul(13, n, 30), cpu()))
    assert [name.startswith("B_") for name in names] == [True] * packed + [False] * 3


# ---------------------------------------------------------------------------- workers


@pytest.mark.parametrize(
    ("m", "n", "k", "cores"),
    [
        (96, 32, 300, 4), (96, 512, 300, 4), (96, 96, 300, 2), (96, 128, 300, 2),
        (6, 64, 3000, 2), (24, 32, 3000, 8), (24, 4096, 100, 3), (96, 512, 300, 1), (8, 8, 8, 4),
    ],
)  # fmt: skip
def test_workers_share_tasks_or_strips(m: int, n: int, k: int, cores: int) -> None:
    """Strips, where there are too few panels for the workers; and nothing where that is little."""
    sch = tiled(matmul(m, n, k), cpu(512, cores))
    found = loops(sch, "C_update")
    kinds = [loop.kind for loop in found]
    tasks, strips, panels, *_ = extents(sch, "C_update")
    if cores == 1 or 2 * m * n * k < PARALLEL_WORK:
        assert "parallel" not in kinds
        return
    few = ceil(n / 32) < 2 * cores and m >= 24
    assert [at for at, kind in enumerate(kinds) if kind == "parallel"] == [int(few)]
    assert (tasks == 1) == few or panels == 1
    packs = loops(sch, blocks(sch)[0])[0]
    assert packs.kind == ("serial" if few else "parallel")
    assert not any(WORK in loop.annotations for loop in found), "how much it is is known"
    assert (strips if few else tasks) > 1


@pytest.mark.parametrize(("low", "marked"), [(1, True), (PARALLEL_WORK, False)])
def test_work_that_depends_on_sizes_is_asked_for(low: int, marked: bool) -> None:
    space = Space()
    m: Any = symbol(space, "m", low, 1 << 30, low)
    func = matmul(m, 256, 30)

    def shared() -> list[For]:
        found = loops(tiled(func, cpu(512, 2)), "C_update")
        return [loop for loop in found if loop.kind == "parallel"]

    for _, found in space.variants(shared, 8):
        for loop in found:
            assert (WORK in loop.annotations) == marked
            if marked:
                assert marks(loop)[WORK] == PARALLEL_WORK


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize("times", [1, 2, 100])
def test_how_long_workers_take(workers: int, times: int) -> None:
    """The next piece goes to the one that is ready first; so many pieces are shared evenly."""
    for lines, most in pairs((1, 5, 12, 13, 30, 100), (1, 4, 12)):
        costs = [len(range(lines)[k : k + most]) + 0.5 for k in range(0, lines, most)]
        ready = [0.0] * workers
        for cost in costs * times:
            first = min(range(workers), key=ready.__getitem__)
            ready[first] += cost
        many = workers == 1 or len(costs) * times >= 8 * workers
        wanted = sum(costs) * times / workers if many else max(ready)
        assert _span(lines, most, 0.5, times, workers) == pytest.approx(wanted)


@pytest.mark.parametrize("workers", [1, 2, 4, 7])
@pytest.mark.parametrize("most", [5, 6, 12])
def test_heights_of_strips(most: int, workers: int) -> None:
    """No height would be done sooner, and none that is done as soon is higher."""
    for rows in (1, 2, 3, 5, 6, 7, 11, 12, 13, 24, 25, 31, 48, 100, 197):
        height = _height(rows, most, workers)
        assert 1 <= height <= min(rows, most)
        others = range(min(rows, most // 2), min(rows, most) + 1)
        times = {h: _span(rows, h, 2, 1, workers) for h in others}
        best = min(times.values())
        assert height == max(h for h in others if times[h] == best)


# ---------------------------------------------------------------------------- operands


@pytest.mark.parametrize("bits", [256, 512])
def test_panels_of_rows_are_packed_along_the_columns(bits: int) -> None:
    sch = tiled(matmul(13, 70, 30), cpu(bits))
    _, depth, panel, vector, lane = loops(sch, blocks(sch)[0])
    lanes = bits // 32
    assert numbers(loop.extent for loop in (depth, panel, vector, lane)) == [
        30, ceil(70 / (2 * lanes)), 2, lanes,
    ]  # fmt: skip
    assert lane.kind == "vectorized" and not lane.annotations and not depth.annotations


@pytest.mark.parametrize("bits", [256, 512])
def test_panels_of_columns_are_packed_in_squares(bits: int) -> None:
    """An operand that lies along the depth is turned, so many lanes of it at a time."""
    sch = tiled(matmul(13, 70, 30, transposed=True), cpu(bits))
    _, panel, vector, depth, lane = loops(sch, blocks(sch)[0])
    lanes = bits // 32
    assert numbers(loop.extent for loop in (panel, vector, depth, lane)) == [
        ceil(70 / (2 * lanes)), 2, 30, lanes,
    ]  # fmt: skip
    assert marks(depth) == {TILE: lanes}
    assert marks(lane) == {LANES: lanes}
    assert lane.kind == "serial"


def test_windows_are_gathered_panel_by_panel() -> None:
    sch = tiled(convolution(1, 3, (8, 8), 8, 3, 1, 1), cpu())
    found = loops(sch, blocks(sch)[0])[-6:]
    assert numbers(loop.extent for loop in found) == [2, 3, 3, 3, 2, 16]
    assert [loop.kind for loop in found[-2:]] == ["unrolled", "vectorized"]


@pytest.mark.parametrize(
    ("packed", "index", "width"),
    [
        ((3, 30, 32), lambda k, j: (j // 32, k, j % 32), 32),
        ((6, 30, 16), lambda k, j: (j // 16, k, j % 16), 16),
        ((3, 32, 30), lambda k, j: (j // 32, j % 32, k), 0),  # each panel is transposed
        ((30, 3, 32), lambda k, j: (k, j // 32, j % 32), 0),  # no panel after the other
        ((3, 30, 32), lambda k, j: (2 - j // 32, k, j % 32), 0),  # the last one comes first
        ((6, 30, 32), lambda k, j: (j // 16, k, j % 16), 0),  # half of each is empty
        ((96, 30), lambda k, j: (j, k), 0),
    ],
)
def test_which_panels_are_read_where_they_lie(
    packed: Sequence[int], index: Any, width: int
) -> None:
    a, p = te.placeholder((12, 30), name="A"), te.placeholder(packed, name="P")
    b = te.compute((30, 96), lambda k, j: p[index(k, j)], name="B")
    k = te.reduce_axis((0, 30), name="k")
    c = te.compute((12, 96), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = tiled(te.create_prim_func([a, p, c]), cpu())
    assert len(blocks(sch)) == (3 if width else 4)
    read = {region.buffer.name for region in sch.get(sch.get_block("C_update")).reads}
    assert ("P" in read) == bool(width)
    *_, vectors, lanes = extents(sch, "C_update")
    assert vectors * lanes == (width or 32)


def converted(n: int, left: bool = True, deep: bool = True) -> PrimFunc:
    """A product in float32 of numbers that are in float16."""
    kinds = ("float16" if left else "float32", "float32" if left else "float16")
    a = te.placeholder((20, 30) if deep else (30, 20), kinds[0], name="A")
    b, k = te.placeholder((30, n), kinds[1], name="B"), te.reduce_axis((0, 30), name="k")

    def value(i: Any, j: Any) -> Any:
        row = a[i, k] if deep else a[k, i]
        return te.sum(row.astype("float32") * b[k, j].astype("float32"), axis=k)

    return te.create_prim_func([a, b, te.compute((20, n), value, name="C")])


def words(op: str, m: int, n: int, k: int, swapped: bool = False) -> PrimFunc:
    """A product of words: four bytes, or two of 16 bits."""
    kind = "float32" if "bf16" in op else "int32"
    a, b = te.placeholder((m, k), "int32", name="A"), te.placeholder((k, n), "int32", name="B")
    r = te.reduce_axis((0, k), name="k")

    def value(i: Any, j: Any) -> Any:
        factors = (b[r, j], a[i, r]) if swapped else (a[i, r], b[r, j])
        return te.sum(Call(kind, op, (const(0, kind), *factors)), axis=r)

    return te.create_prim_func([a, b, te.compute((m, n), value, name="C")])


def copies_of_left(sch: Schedule) -> list[str]:
    return [name for name in blocks(sch) if name.startswith("A_")]


@pytest.mark.parametrize(
    ("op", "feature", "bits", "copied", "height"),
    [
        ("tir.dot_u8s8", "avx512vnni", 512, False, 12),
        ("tir.dot_o8s8", "avx512vnni", 512, True, 12),  # offset binary is made once
        ("tir.dot_o8s8", "avxvnni", 256, True, 5),  # a register less for it
        ("tir.dot_u8s8", "avxvnni", 256, False, 6),
        ("tir.dot_u8s8", "amx-int8", 512, True, 20),  # tiles are loaded from memory
        ("tir.dot_bf16", "amx-bf16", 512, True, 20),
        ("tir.dot_bf16", "avx512bf16", 512, False, 12),
        ("tir.dot_bf16", "amx-int8", 512, False, 12),  # which multiplies bytes only
    ],
)
def test_strips_of_words(op: str, feature: str, bits: int, copied: bool, height: int) -> None:
    sch = tiled(words(op, 20, 64, 16), cpu(bits, 1, feature))
    assert bool(copies_of_left(sch)) == copied
    in_tiles = feature.startswith("amx") and copied
    name = "C_o" if in_tiles else "C_update"
    assert name in blocks(sch)
    *_, line, _, _ = extents(sch, "C_reindex")
    assert line == height
    if copied:
        (copy,) = copies_of_left(sch)
        *_, lane = loops(sch, copy)
        assert marks(lane) == {LANES: bits // 32}
        apart = sch.get(sch.get_block(copy)).annotations.get("buffer_dim_align")
        assert (apart is not None) == in_tiles
    result = loops(sch, "C_reindex")[-3:]
    unrolled = "serial" if in_tiles else "unrolled"  # a loop suffices to leave memory
    assert [loop.kind for loop in result] == [unrolled, "unrolled", "vectorized"]


@pytest.mark.parametrize(("k", "filled"), [(16, 16), (5, 16), (17, 32), (32, 32)])
@pytest.mark.parametrize(
    ("m", "n", "high"), [(5, 40, 5), (20, 40, 20), (33, 40, 36), (20, 64, 20), (64, 64, 64)]
)
def test_tiles_of_words_are_full(m: int, n: int, high: int, k: int, filled: int) -> None:
    """Along the depth by 16 words; and strips of one height."""
    sch = tiled(words("tir.dot_s8u8", m, n, k), cpu(512, 1, "amx-int8"))
    *_, rows, depth = extents(sch, copies_of_left(sch)[0])
    strips = ceil(m / 32)
    assert depth == filled and rows * strips == high
    (packs,) = (name for name in blocks(sch) if name.startswith("B_"))
    shape = sch.get(sch.get_block(packs)).writes[0].buffer.shape
    assert numbers(shape) == [2, filled, 32]


@pytest.mark.parametrize(
    ("func", "copied"),
    [
        (converted(128), False),  # a conversion is part of the product, which vectors do
        (matmul(20, 128, 30), False),
    ],
)
def test_strips_that_are_read_where_they_lie(func: PrimFunc, copied: bool) -> None:
    assert bool(copies_of_left(tiled(func, cpu()))) == copied


def convolved(pad: int) -> PrimFunc:
    """An image of 7 by 7, its channels innermost, which zeros may lie around, with windows of 3."""
    image, weight = te.placeholder((7, 7, 32), name="A"), te.placeholder((3, 3, 32, 16), name="W")
    size = 7 + 2 * pad
    y, x, c = (te.reduce_axis((0, extent), name=name) for name, extent in zip("yxc", (3, 3, 32)))
    padded = te.compute(
        (size, size, 32),
        lambda i, j, k: intrin.if_then_else(
            intrin.all(i >= pad, i < 7 + pad, j >= pad, j < 7 + pad),
            image[i - pad, j - pad, k],
            0.0,
        ),
        name="P",
    )
    read = padded if pad else image
    value = lambda i, j, k: te.sum(read[i + y, j + x, c] * weight[y, x, c, k], axis=[y, x, c])  # noqa: E731
    result = te.compute((size - 2, size - 2, 16), value, name="C")
    return te.create_prim_func([image, weight, result])


@pytest.mark.parametrize(("pad", "copied"), [(1, True), (0, False)])
def test_strips_of_a_padded_image_are_copied_in_vectors(pad: int, copied: bool) -> None:
    """Even for one panel: what lies outside is not told apart element by element."""
    sch = tiled(convolved(pad), cpu())
    strips = [name for name in blocks(sch) if name.startswith(("A", "P"))]
    assert bool(strips) == copied
    if copied:
        *_, depth = loops(sch, strips[0])
        assert extents(sch, strips[0])[-2:] == [3, 32] and marks(depth) == {LANES: 16}


def through_a_block(n: int, deep: bool, kind: str = "float16") -> PrimFunc:
    """A product whose left operand is converted by a block of its own."""
    shape = (20, 30) if deep else (30, 20)
    a, b = te.placeholder(shape, kind, name="A"), te.placeholder((30, n), name="B")
    wide = te.compute(shape, lambda i, j: a[i, j].astype("float32") * 1.0, name="W")
    k = te.reduce_axis((0, 30), name="k")
    value = lambda i, j: te.sum((wide[i, k] if deep else wide[k, i]) * b[k, j], axis=k)  # noqa: E731
    return te.create_prim_func([a, b, te.compute((20, n), value, name="C")])


@pytest.mark.parametrize(
    ("n", "deep", "kind", "copied"),
    [
        (128, True, "float16", True),
        (96, True, "float16", False),  # three panels do not make up for it
        (97, True, "float16", True),
        (128, False, "float16", False),  # along the rows, conversions are vectors anyhow
        (128, True, "float32", False),  # nothing is converted
    ],
)
def test_strips_are_converted_once_for_many_panels(
    n: int, deep: bool, kind: str, copied: bool
) -> None:
    sch = tiled(through_a_block(n, deep, kind), cpu())
    strips = [name for name in blocks(sch) if name.startswith(("A", "W"))]
    assert bool(strips) == copied
    if copied:
        *_, depth = loops(sch, strips[0])
        assert marks(depth) == {LANES: 16}
        assert loops(sch, strips[0])[:2] == loops(sch, "C_update")[:2], "strip by strip"
