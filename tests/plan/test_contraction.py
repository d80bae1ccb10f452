"""Products of matrices in tiles, by schedule primitives alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest

from tileloom import Schedule, build, te
from tileloom.expr import And, Expr, Var
from tileloom.plan import GroupRefused, tile_product
from tileloom.plan.cpu.contraction import READ_PANEL, Tiles, choose_tiles
from tileloom.schedule.library import as_matrices
from tileloom.target import target
from tileloom.tir import PrimFunc, run, structural_equal

CPU = target("cpu -num-cores=2")
ONE = CPU.with_cores(1)


def product(
    left: Sequence[Any],
    right: Sequence[Any],
    terms: str,
    dtype: str = "float32",
    after: Callable[[te.Tensor], te.Tensor] | None = None,
) -> PrimFunc:
    """A product in Einstein's notation, and what follows it."""
    a, b, c = terms.replace("->", ",").split(",")
    extents = dict(zip(a, left, strict=True)) | dict(zip(b, right, strict=True))
    A = te.placeholder(left, dtype, name="A")
    B = te.placeholder(right, dtype, name="B")
    depth = {n: te.reduce_axis((0, extents[n]), name=n) for n in dict.fromkeys(a + b) if n not in c}

    def element(*axes: Any) -> Any:
        at = dict(zip(c, axes, strict=True)) | depth
        return te.sum(A[tuple(at[n] for n in a)] * B[tuple(at[n] for n in b)], list(depth.values()))

    C = te.compute([extents[n] for n in c], element, name="C")
    return te.create_prim_func([A, B, C if after is None else after(C)])


def tiled(func: PrimFunc, on: Any = CPU) -> Schedule:
    sch = Schedule(func)
    tile_product(sch, on)
    return sch


def check(func: Any, sch: Schedule) -> None:
    """The tiles compute what the function did, as machine code."""
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(-4, 5, [int(n) for n in b.shape]).astype(str(b.dtype)) for b in func.buffers
    ]
    expected = [array.copy() for array in arrays]
    run(func, *expected)
    (made,) = sch.mod.functions.values()
    build(made)(*arrays)
    np.testing.assert_array_equal(arrays[-1], expected[-1])  # small whole numbers: sums are exact


def activated(x: te.Tensor) -> Any:
    """A row is added, and what is negative becomes zero."""
    row = te.compute(x.shape[-1:], lambda j: j.astype("float32") - 3.0, name="row")
    total = te.compute(x.shape, lambda *at: x[at] + row[at[-1]], name="total")
    return te.compute(
        x.shape, lambda *at: te.if_then_else(total[at] > 0.0, total[at], 0.0), name="activated"
    )


def turned(x: te.Tensor) -> Any:
    """The transposed result."""
    return te.compute(x.shape[::-1], lambda j, i: x[i, j] + 1.0, name="turned")


def all_of(*conditions: Expr) -> Expr:
    return reduce(And, conditions)


def convolution(
    batch: int, channels: int, size: Sequence[int], out: int, kernel: int, stride: int, groups: int
) -> PrimFunc:
    """A convolution of images, padded so that kernels of any size fit on their edges."""
    pad, (h, w) = kernel // 2, size
    X = te.placeholder((batch, channels, h, w), name="X")
    W = te.placeholder((out, channels // groups, kernel, kernel), name="W")
    P = te.compute(
        (batch, channels, h + 2 * pad, w + 2 * pad),
        lambda n, c, y, x: te.if_then_else(
            all_of(y >= pad, y < h + pad, x >= pad, x < w + pad), X[n, c, y - pad, x - pad], 0.0
        ),
        name="P",
    )
    extents = (channels // groups, kernel, kernel)
    c, v, u = (te.reduce_axis((0, n), name=name) for n, name in zip(extents, "cvu", strict=True))
    each, rows, columns = out // groups, (h - 1) // stride + 1, (w - 1) // stride + 1

    def element(n: Any, o: Any, y: Any, x: Any) -> Any:
        channel = o // each * (channels // groups) + c if groups > 1 else c
        return te.sum(P[n, channel, y * stride + v, x * stride + u] * W[o, c, v, u], [c, v, u])

    C = te.compute((batch, out, rows, columns), element, name="C")
    return te.create_prim_func([X, W, activated(C)])


@pytest.mark.parametrize(
    ("batch", "channels", "size", "out", "kernel", "stride", "groups"),
    [
        (1, 4, (8, 8), 16, 3, 1, 1),
        (2, 3, (7, 5), 13, 3, 2, 1),  # images apart, pixels and rows that fill no tile
        (1, 5, (6, 16), 8, 1, 1, 1),
        (3, 4, (6, 11), 8, 1, 2, 1),
        (2, 6, (5, 7), 9, 3, 1, 3),
        (1, 8, (9, 9), 8, 3, 1, 4),
        (1, 3, (13, 12), 5, 5, 3, 1),
        (2, 4, (1, 33), 6, 3, 1, 1),
        (1, 40, (4, 4), 30, 3, 1, 1),  # a long depth
    ],
)
def test_convolutions(
    batch: int, channels: int, size: Sequence[int], out: int, kernel: int, stride: int, groups: int
) -> None:
    func = convolution(batch, channels, size, out, kernel, stride, groups)
    check(func, tiled(func))
    check(func, tiled(func, ONE))


def test_images_are_matrices_of_their_own() -> None:
    """A panel does not cross from one image to the next, whose pixels are elsewhere."""
    sch = Schedule(convolution(2, 3, (5, 5), 8, 3, 1, 1))
    found = as_matrices(sch, "C", in_pieces=True)
    extents = found.batch, found.rows, found.columns, found.depth, found.steps
    assert extents == (2, 8, 25, 27, (3, 3, 3))
    whole = as_matrices(Schedule(convolution(2, 3, (5, 5), 8, 3, 1, 1)), "C")
    assert (whole.batch, whole.columns) == (None, 50)


def test_workers_get_as_much() -> None:
    """7 panels of 25 fit: four tasks of 6 and one of 1 are done before 7, 7, 7 and 4 would be."""
    sch = Schedule(product((96, 1152), (1152, 25 * 32), "ik,kj->ij"))
    assert choose_tiles(as_matrices(sch, "C"), 16, 12, 2) == Tiles(12, 32, 6)


SHAPES = [
    ((16, 24), (24, 32), "ik,kj->ij"),
    ((7, 5), (5, 3), "ik,kj->ij"),  # less than a tile of each
    ((13, 31), (31, 37), "ik,kj->ij"),  # primes
    ((197, 16), (16, 65), "ik,kj->ij"),
    ((3, 1024), (1024, 130), "ik,kj->ij"),  # rows a power of two apart
    ((20, 2), (2, 40), "ik,kj->ij"),
    ((24, 33), (40, 33), "ik,jk->ij"),
    ((33, 24), (33, 40), "ki,kj->ij"),
    ((33, 24), (40, 33), "ki,jk->ij"),
    ((3, 14, 9), (3, 9, 20), "bik,bkj->bij"),
    ((2, 3, 14, 9), (2, 3, 20, 9), "abik,abjk->abij"),
    ((4, 10, 9), (9, 20), "bik,kj->bij"),
]


@pytest.mark.parametrize(("left", "right", "terms"), SHAPES)
def test_products(left: Sequence[int], right: Sequence[int], terms: str) -> None:
    func = product(left, right, terms)
    check(func, tiled(func))


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64"])
def test_types(dtype: str) -> None:
    func = product((19, 21), (21, 35), "ik,kj->ij", dtype)
    check(func, tiled(func, ONE))


@pytest.mark.parametrize("after", [activated, turned])
@pytest.mark.parametrize(("rows", "columns"), [(24, 64), (13, 37)])
def test_what_follows_is_done_tile_by_tile(
    after: Callable[[te.Tensor], te.Tensor], rows: int, columns: int
) -> None:
    func = product((rows, 30), (30, columns), "ik,kj->ij", after=after)
    sch = tiled(func)
    check(func, sch)
    names = [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
    assert "row" not in names and "total" not in names


def test_a_trace_makes_the_same_tiles() -> None:
    func = product((13, 31), (31, 37), "ik,kj->ij", after=activated)
    sch = tiled(func)
    again = Schedule(func)
    assert sch.trace is not None
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert structural_equal(again.mod, sch.mod)


def test_strips_and_panels_are_shared() -> None:
    """Few panels: workers share strips, over panels that are packed before them."""
    few, many = (
        tiled(product((96, 64), (32, 64), "ik,jk->ij")),
        tiled(product((96, 64), (64, 256), "ik,kj->ij")),
    )
    for sch, outermost, packs in ((few, 1, "serial"), (many, 0, "parallel")):
        loops = [sch.get(loop) for loop in sch.get_loops("C_update")]
        assert [k for k, loop in enumerate(loops) if loop.kind == "parallel"] == [outermost]
        assert sch.get(sch.get_loops("B_reindex_reindex")[0]).kind == packs


def test_small_products_run_on_one_thread() -> None:
    sch = tiled(product((16, 16), (16, 64), "ik,kj->ij"))
    assert all(sch.get(loop).kind != "parallel" for loop in sch.get_loops("C_update"))


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "workers", "expected"),
    [
        (96, 256, 64, 1, Tiles(12, 32, 8)),
        (96, 256, 64, 2, Tiles(12, 32, 4)),
        (96, 32, 64, 2, Tiles(12, 32, 0)),
        (96, 16, 64, 2, Tiles(12, 16, 0)),
        (500, 512, 64, 1, Tiles(12, 32, 10)),  # one ragged strip rather than eight more
        (5, 256, 64, 2, Tiles(5, 32, 4)),
        (96, 4096, 4096, 1, Tiles(12, 32, 2)),  # two panels fill a worker's cache
    ],
)
def test_choice_of_tiles(
    rows: int, columns: int, depth: int, workers: int, expected: Tiles
) -> None:
    sch = Schedule(product((rows, depth), (depth, columns), "ik,kj->ij"))
    assert choose_tiles(as_matrices(sch, "C"), 16, 12, workers) == expected


@pytest.mark.parametrize("workers", [1, 3, 4])
@pytest.mark.parametrize("packed", [0, 8])
def test_tiles_of_any_product(workers: int, packed: int) -> None:
    """As few strips as can be, each of which reads all of a panel; panels are shared evenly."""
    some = as_matrices(Schedule(product((8, 40), (40, 64), "ik,kj->ij")), "C")
    shapes = itertools.product((1, 2, 5, 7, 12, 13, 23, 25, 96, 500), (1, 16, 17, 512, 5000))
    for rows, columns in shapes:
        given = replace(some, rows=rows, columns=columns)
        tiles = choose_tiles(given, 16, 12, workers, packed)
        assert tiles.width == (packed or (16 if columns <= 16 else 32))
        assert min(rows, 6) <= tiles.height <= min(rows, 12)
        strips, fewest = -(-rows // tiles.height), -(-rows // min(rows, 12))
        if tiles.panels:
            assert strips == fewest
        else:  # no worker has more to do than with strips as high as can be
            longest = -(-strips // workers) * (tiles.height + READ_PANEL)
            assert longest <= -(-fewest // workers) * (min(rows, 12) + READ_PANEL)
        panels = -(-columns // tiles.width)
        few = workers > 1 and panels < 2 * workers and rows >= 2 * tiles.height
        assert (tiles.panels == 0) == few and tiles.panels <= panels
        assert few or longest_share(panels, tiles.panels, workers) <= -(-panels // workers) + 3


def longest_share(panels: int, most: int, workers: int) -> int:
    """The panels of the worker that has most of them, if each takes the next task when it can."""
    shares = [0] * workers
    for first in range(0, panels, most):
        shares[shares.index(min(shares))] += min(most, panels - first)
    return max(shares)


def test_narrow_registers_hold_fewer_rows() -> None:
    narrow = replace(CPU, vector_bits=256)
    sch = tiled(product((24, 8), (8, 16), "ik,kj->ij"), narrow)
    extents = [int(sch.get(loop).extent) for loop in sch.get_loops("C_update")]
    assert extents[-3:] == [6, 2, 8]


def test_refusals() -> None:
    outer = product((20, 1), (1, 40), "ik,kj->ij")
    vector = product((20, 30), (30,), "ik,k->i")
    for func in (outer, vector):
        with pytest.raises(GroupRefused, match="something else than one product"):
            tiled(func)
    with pytest.raises(GroupRefused, match="sizes of which nothing is known"):
        tiled(product((Var("n"), 30), (30, 40), "ik,kj->ij"))
    A, B = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="B")
    k, m = te.reduce_axis((0, 8), name="k"), te.reduce_axis((0, 8), name="m")
    C = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((8, 8), lambda i, j: te.sum(C[i, m] * B[m, j], axis=m), name="D")
    with pytest.raises(GroupRefused, match="something else than one product"):
        tiled(te.create_prim_func([A, B, D]))
    square = te.compute((8, 8), lambda i, j: te.sum((A[i, k] + 1.0) * B[k, j], axis=k), name="S")
    with pytest.raises(GroupRefused, match="what is computed"):
        tiled(te.create_prim_func([A, B, square]))


@pytest.mark.parametrize(("columns", "width"), [(64, 32), (48, 16), (60, 32), (20, 8), (33, 16)])
def test_panels_that_were_packed_before_are_read_where_they_lie(columns: int, width: int) -> None:
    """Also the last one, which may not be full, and narrow ones, in narrow vectors."""
    A = te.placeholder((13, 30), name="A")
    P = te.placeholder((-(-columns // width), 30, width), name="P")
    B = te.compute((30, columns), lambda k, j: P[j // width, k, j % width], name="B")
    k = te.reduce_axis((0, 30), name="k")
    C = te.compute((13, columns), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    func = te.create_prim_func([A, P, C])
    sch = tiled(func)
    check(func, sch)
    assert "P" in {region.buffer.name for region in sch.get(sch.get_block("C_update")).reads}
