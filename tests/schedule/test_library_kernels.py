"""Scans and histograms for GPUs: their values, their races, and what ptxas says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from gpu import ARCHS, assemble, spills
from tileloom.base import dtype
from tileloom.base.errors import UnsupportedError
from tileloom.driver import assembly
from tileloom.schedule.library.kernels import histogram_kernel, scan_kernel, scatter_kernel
from tileloom.script import from_source
from tileloom.simt import KernelDefect, run_kernels
from tileloom.tir import AttrStmt, collect

OPS: dict[str, Any] = {"sum": np.cumsum, "prod": np.cumprod, "max": np.maximum.accumulate,
       "min": np.minimum.accumulate}  # fmt: skip


def emulate(func: Any, *arrays: np.ndarray) -> None:
    tileloom.build(func, target="cuda", device="emulator")(*arrays)


def threads_of(func: Any) -> list[tuple[int, int]]:
    """Blocks and threads of each kernel."""
    text = func.script()
    blocks, threads = (
        map(int, re.findall(rf'T.thread_binding\((\d+), thread="{tag}"\)', text))
        for tag in ("blockIdx.x", "threadIdx.x")
    )
    return [*zip(blocks, threads, strict=True)]


def expected(a: np.ndarray, axis: int, op: str, exclusive: bool, reverse: bool) -> np.ndarray:
    wide = a.astype("float64") if a.dtype.kind not in "iu" else a
    wide = np.flip(wide, axis) if reverse else wide
    if op in ("sum", "prod"):
        result = OPS[op](wide, axis=axis, dtype=wide.dtype)
    else:
        result = OPS[op](wide, axis=axis)
    if exclusive:
        low, high = (
            (-np.inf, np.inf)
            if wide.dtype.kind == "f"
            else (np.iinfo(a.dtype).min, np.iinfo(a.dtype).max)
        )
        first = {"sum": 0, "prod": 1, "max": low, "min": high}[op]
        head = np.full_like(np.take(result, [0], axis), first)
        rest = np.take(result, range(result.shape[axis] - 1), axis)
        result = np.concatenate([head, rest], axis)
    return np.flip(result, axis) if reverse else result


def check(
    shape: tuple[int, ...],
    axis: int,
    kind: str = "int32",
    op: str = "sum",
    exclusive: bool = False,
    reverse: bool = False,
) -> None:
    rng = np.random.default_rng(len(shape))
    low = 0 if kind.startswith("u") else -9
    a = rng.integers(low, 9, shape).astype(dtype(kind).numpy)
    if not dtype(kind).is_int:
        a = (rng.standard_normal(shape) / 4 + (op == "prod")).astype(dtype(kind).numpy)
    b = np.empty_like(a)
    emulate(scan_kernel(shape, axis, kind, op, exclusive, reverse), a, b)
    wanted = expected(a, axis, op, exclusive, reverse)
    if dtype(kind).is_int:
        np.testing.assert_array_equal(b, wanted.astype(b.dtype))
        return
    close = {16: 1e-2, 32: 2e-5, 64: 1e-13}[dtype(kind).bits]
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1)
    np.testing.assert_allclose(b.astype("float64"), wanted, rtol=close, atol=close * scale)


# One warp for a row, one block, several tiles, chunks; primes; one element.
LENGTHS = [1, 2, 31, 32, 33, 97, 256, 257, 1031, 2048, 2049, 6151, 30011]


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(length: int, exclusive: bool) -> None:
    check((length,), 0, exclusive=exclusive)


@pytest.mark.parametrize("shape", [(3, 1031), (1, 7), (9, 33), (17, 257), (700, 5), (2, 20000)])
@pytest.mark.parametrize("reverse", [False, True])
def test_rows(shape: tuple[int, int], reverse: bool) -> None:
    check(shape, 1, reverse=reverse, exclusive=reverse)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((7, 5), 0), ((1, 3), 0), ((1031, 3), 0), ((2, 331, 37), 1), ((97, 130), 0), ((3, 4, 5), -2)],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_columns(shape: tuple[int, ...], axis: int, reverse: bool) -> None:
    check(shape, axis % len(shape), reverse=reverse)
    check(shape, axis % len(shape), reverse=reverse, exclusive=True)


@pytest.mark.parametrize(
    "kind",
    ["int8", "uint8", "int16", "uint32", "int64", "uint64", "float16", "bfloat16", "float32",
     "float64"],
)  # fmt: skip
def test_types(kind: str) -> None:
    check((2, 515), 1, kind)
    check((67, 3), 0, kind, exclusive=True)


@pytest.mark.parametrize("op", ["prod", "max", "min"])
@pytest.mark.parametrize("kind", ["int32", "float32"])
@pytest.mark.parametrize("exclusive", [False, True])
def test_operations(op: str, kind: str, exclusive: bool) -> None:
    check((2, 331), 1, kind, op, exclusive)
    check((40, 3), 0, kind, op, exclusive)


def test_nan_stays_from_where_it_stands() -> None:
    a = np.ones((1, 5000), "float32")
    a[0, 1234] = np.nan
    for op in ("sum", "max"):
        b = np.empty_like(a)
        emulate(scan_kernel((1, 5000), 1, "float32", op), a, b)
        assert np.isnan(b[0]).tolist() == [False] * 1234 + [True] * (5000 - 1234)


SHAPES = [((1 << 22,), 0), ((4096, 1031), 1), ((64, 33), 1), ((513, 4096), 0)]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_scans_assemble(shape: tuple[int, ...], axis: int, arch: str, tmp_path: Path) -> None:
    ptx = assembly(scan_kernel(shape, axis), f"cuda -arch={arch}")
    assert ".local" not in ptx, "what a thread holds is in registers"
    assert not spills(assemble(ptx, arch, tmp_path))


def test_how_many_kernels() -> None:
    def launches(*args: Any) -> int:
        attrs = collect(scan_kernel(*args).body, AttrStmt)
        text = scan_kernel(*args).script()
        return text.count('thread="blockIdx.x"') + len(attrs)

    assert launches((1000, 1031), 1) == 1
    assert launches((1 << 20,), 0) == 2
    assert launches((1 << 20, 2), 0) == 3


@pytest.mark.parametrize(
    ("shape", "axis", "kernels"),
    [
        # Short rows have a warp each, eight in a block; longer ones as many as they fill.
        ((1000, 5), 1, [(125, 256)]),
        ((3, 256), 1, [(1, 96)]),
        ((9, 256), 1, [(2, 256)]),
        ((10, 257), 1, [(10, 64)]),
        ((10, 1000), 1, [(10, 128)]),
        ((600, 100_000), 1, [(600, 256)]),
        # Few rows are cut into chunks of tiles of 2048, until there are 512 blocks.
        ((1, 6144), 1, [(1, 256)]),
        ((1, 6145), 1, [(4, 256), (4, 256)]),
        ((1, 1 << 20), 1, [(512, 256), (512, 256)]),
        ((1, 1 << 21), 1, [(512, 256), (512, 256)]),
        ((100, 1 << 20), 1, [(600, 256), (600, 256)]),
        # A thread goes along a column; few columns are cut until there are 32768.
        ((100, 70_000), 0, [(547, 128)]),
        ((63, 1000), 0, [(8, 128)]),
        ((64, 1000), 0, [(16, 128), (8, 128), (16, 128)]),
        ((4096, 1000), 0, [(258, 128), (8, 128), (258, 128)]),
    ],
)
def test_who_scans_what(shape: tuple[int, ...], axis: int, kernels: list[tuple[int, int]]) -> None:
    assert threads_of(scan_kernel(shape, axis)) == kernels


@pytest.mark.parametrize("length", [2000, 20000])
def test_a_scan_without_a_barrier_is_a_race(length: int) -> None:
    from tileloom.lower import lower

    text = lower(scan_kernel((1, length), 1), "cuda").script().split("\n")
    sync = [k for k, line in enumerate(text) if "tvm_storage_sync" in line]
    assert sync
    for k in sync:
        bare: Any = from_source("\n".join(text[:k] + text[k + 1 :]))
        with pytest.raises(KernelDefect):
            run_kernels(bare, np.zeros((1, length), "float32"), np.zeros((1, length), "float32"))


def test_nothing_to_scan() -> None:
    with pytest.raises(UnsupportedError, match="nothing to scan"):
        scan_kernel((3, 0), 1)
    with pytest.raises(UnsupportedError, match="no scan 'mean'"):
        scan_kernel((3, 1), 1, op="mean")


# ---------------------------------------------------------------------------- histograms


@pytest.mark.parametrize("count", [1, 255, 4099, 70001])
@pytest.mark.parametrize("bins", [1, 7, 256, 1031])
def test_counts(count: int, bins: int) -> None:
    x = np.random.default_rng(0).integers(-3, bins + 3, count).astype("int32")
    h = np.full(bins, -7, "int32")
    emulate(histogram_kernel(count, bins), x, h)
    inside = x[(x >= 0) & (x < bins)]
    assert h.tolist() == np.bincount(inside, minlength=bins).tolist()


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint32", "int64"])
def test_integers_of_all_sizes(kind: str) -> None:
    x = np.random.default_rng(0).integers(0, 120, 3001).astype(kind)
    for bins in (100, 300):
        h = np.zeros(bins, "int64")
        emulate(histogram_kernel(3001, bins, kind, "int64"), x, h)
        assert h.tolist() == np.bincount(x, minlength=300)[:bins].tolist()


@pytest.mark.parametrize(
    ("kind", "bins"),
    [("uint8", 127), ("uint8", 128), ("uint8", 255), ("uint8", 256), ("uint8", 300),
     ("int8", 126), ("int8", 127), ("int8", 128), ("int8", 200)],
)  # fmt: skip
def test_every_number_of_a_type(kind: str, bins: int) -> None:
    """The last number of a type has a bin, or none, and negative numbers have none."""
    info = np.iinfo(kind)
    x = np.arange(info.min, info.max + 1).astype(kind)
    h = np.full(bins, -1, "int32")
    emulate(histogram_kernel(256, bins, kind), x, h)
    assert h.tolist() == [int(k <= info.max) for k in range(bins)]


@pytest.mark.parametrize(
    ("count", "bins", "blocks"),
    [(1, 1, 1), (2047, 256, 1), (4095, 257, 1), (4096, 7, 2), (1 << 20, 1000, 512),
     ((1 << 20) - 1, 1000, 511), (1 << 24, 20000, 512)],
)  # fmt: skip
def test_threads_count_eight_numbers_or_more(count: int, bins: int, blocks: int) -> None:
    """Up to 512 blocks; before them each bin is set to zero."""
    found = threads_of(histogram_kernel(count, bins))
    assert found == [(-(-bins // 256), 256), (blocks, 256)]


@pytest.mark.parametrize(("bins", "private"), [(12288, True), (12289, False)])
@pytest.mark.parametrize(("total", "wide"), [("int32", 1), ("int64", 2)])
def test_bins_that_fit_into_48_kib(bins: int, private: bool, total: str, wide: int) -> None:
    text = histogram_kernel(5000, bins // wide + bins % wide, total=total).script()
    assert ('scope="shared"' in text) == private


def test_all_in_one_bin() -> None:
    h = np.zeros(3, "int32")
    emulate(histogram_kernel(10007, 3), np.ones(10007, "int32"), h)
    assert h.tolist() == [0, 10007, 0]


@pytest.mark.parametrize("bins", [50, 20011])  # in shared memory, and too many for it
@pytest.mark.parametrize("total", ["float32", "float64", "int32"])
def test_weights(bins: int, total: str) -> None:
    rng = np.random.default_rng(2)
    x, w = rng.integers(0, bins, 5003).astype("int32"), rng.integers(-5, 6, 5003).astype(total)
    h = np.zeros(bins, total)
    emulate(histogram_kernel(5003, bins, total=total, weighted=True), x, w, h)
    np.testing.assert_array_equal(h, np.bincount(x, w, minlength=bins))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("bins", "total"), [(256, "int32"), (20000, "int32"), (300, "float32")])
def test_histograms_assemble(bins: int, total: str, arch: str, tmp_path: Path) -> None:
    func = histogram_kernel(1 << 20, bins, total=total, weighted=total == "float32")
    ptx = assembly(func, f"cuda -arch={arch}")
    assert ("atom.shared.add" in ptx or "red.shared.add" in ptx) == (bins < 12288)
    assert not spills(assemble(ptx, arch, tmp_path))


def test_a_histogram_without_a_barrier_is_a_race() -> None:
    from tileloom.lower import lower

    text = lower(histogram_kernel(3000, 64), "cuda").script().split("\n")
    sync = [k for k, line in enumerate(text) if "tvm_storage_sync" in line]
    assert len(sync) == 2
    x = np.zeros(3000, "int32")
    for k in sync:
        bare: Any = from_source("\n".join(text[:k] + text[k + 1 :]))
        with pytest.raises(KernelDefect, match=r"race|nobody has written"):
            run_kernels(bare, x, np.zeros(64, "int32"))


def test_nothing_to_count() -> None:
    for args in ((0, 3), (3, 0), (3, 3, "float32")):
        with pytest.raises(UnsupportedError, match="no histogram"):
            histogram_kernel(*args)


# ---------------------------------------------------------------------------- scatters


def scattered(d: Any, i: Any, u: Any, axis: Any, reduction: Any) -> Any:
    """What NumPy makes of it."""
    wide = d.astype("float64") if d.dtype.kind == "f" else d.copy()
    if axis is not None:
        at = list(np.indices(i.shape))
        extents = [(axis, i)]
    else:
        at = [None] * i.shape[-1]
        extents = [(k, i[..., k]) for k in range(i.shape[-1])]
    for k, index in extents:
        index = index.astype("int64")
        at[k] = np.clip(np.where(index < 0, index + d.shape[k], index), 0, d.shape[k] - 1)
    if reduction == "none":
        wide[tuple(at)] = u
    else:
        function = {"add": np.add, "min": np.minimum, "max": np.maximum}[reduction]
        function.at(wide, tuple(at), u)
    return wide.astype(d.dtype)


SCATTERS = [
    ((7, 5), (3, 5), 0), ((7, 5), (7, 13), 1), ((4, 3, 9), (4, 2, 9), 1), ((300,), (999,), 0),
    ((7, 5), (11, 1), None), ((7, 5), (2, 3, 2), None), ((4, 3, 9), (6, 2), None),
    ((1,), (1, 1), None),
]  # fmt: skip


@pytest.mark.parametrize("reduction", ["none", "add", "min", "max"])
@pytest.mark.parametrize(("data", "indices", "axis"), SCATTERS)
@pytest.mark.parametrize(("kind", "index"), [("int32", "int64"), ("float32", "int32")])
def test_scatters(
    data: Any, indices: Any, axis: Any, kind: str, index: str, reduction: str
) -> None:
    rng = np.random.default_rng(4)
    updates = indices if axis is not None else (*indices[:-1], *data[indices[-1] :])
    d, u = (rng.integers(-9, 9, s).astype(kind) for s in (data, updates))
    i = rng.integers(-max(data) - 1, max(data) + 2, indices).astype(index)
    b = np.zeros_like(d)
    emulate(scatter_kernel(data, indices, kind, index, reduction, axis), d, i, u, b)
    np.testing.assert_array_equal(b, scattered(d, i, u, axis, reduction))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("reduction", ["none", "add", "max"])
@pytest.mark.parametrize("kind", ["float32", "float16", "int64"])
def test_scatters_assemble(reduction: str, kind: str, arch: str, tmp_path: Path) -> None:
    func = scatter_kernel((1000, 64), (5000, 1), kind, "int64", reduction)
    assert not spills(assemble(assembly(func, f"cuda -arch={arch}"), arch, tmp_path))


def test_nothing_to_scatter() -> None:
    with pytest.raises(UnsupportedError, match="no scatter of"):
        scatter_kernel((0,), (3, 1))
    with pytest.raises(UnsupportedError, match="no scatter 'mul'"):
        scatter_kernel((3,), (3, 1), reduction="mul")
