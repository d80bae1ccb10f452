"""`examples/hyb_spmm.py`: products in hyb as one launch, on the emulator and through the assembler.

SciPy is the reference, in float64.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from gpu import ARCHS, assemble, spills
from sampling import sampled
from tileloom.lower import lower
from tileloom.sparse.convert import hyb
from tileloom.target import target
from tileloom.tir import AttrStmt, PrimFunc, collect

scipy_sparse = pytest.importorskip("scipy.sparse")

from examples import hyb_spmm as example  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
GPU = target("cuda -arch=sm_80")
Array = np.ndarray[Any, Any]


def matrix_of(degrees: Array, columns: int, seed: int = 0) -> Any:
    """A matrix with so many elements in each row."""
    rng = np.random.default_rng(seed)
    chosen = [np.sort(rng.permutation(columns)[:degree]) for degree in degrees]
    indices = np.concatenate([*chosen, np.empty(0)]).astype("int32")
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype("int32")
    data = rng.standard_normal(len(indices)).astype("float32")
    return scipy_sparse.csr_array((data, indices, indptr), shape=(len(degrees), columns))


def power_law(rows: int, columns: int, seed: int = 0) -> Any:
    """Few long rows, many short ones, and a fifth without elements."""
    rng = np.random.default_rng(seed)
    degrees = np.minimum((1.5 * (1 + rng.pareto(1.1, rows))).astype(int), columns)
    degrees[rng.random(rows) < 0.2] = 0
    return matrix_of(degrees, columns, seed)


def even(rows: int, columns: int, most: int, seed: int = 0) -> Any:
    """Rows of any length up to one."""
    degrees = np.random.default_rng(seed).integers(0, most + 1, rows)
    return matrix_of(degrees, columns, seed)


def check(matrix: Any, features: int, **options: Any) -> None:
    """The product is SciPy's."""
    x = np.random.default_rng(7).uniform(-1, 1, (matrix.shape[1], features)).astype("float32")
    found = example.emulated(matrix, x, **options)
    precise, exact = matrix.astype("float64"), x.astype("float64")
    off = np.abs(found - precise @ exact)
    assert (off <= 1e-6 * (abs(precise) @ np.abs(exact)) + 1e-7).all()


def program(matrix: Any, features: int, parts: int, widths: tuple[int, ...]) -> PrimFunc:
    structure = hyb(matrix.indptr, matrix.indices, matrix.shape, num_col_parts=parts, widths=widths)
    return example.hyb_spmm(structure, matrix.shape, features)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(
    "matrix",
    [even(77, 61, 9), power_law(203, 157), power_law(64, 331, seed=1)],
    ids=["even", "power-law", "wide"],
)
def test_graphs(matrix: Any, parts: int) -> None:
    """Rows longer than the last width among them, and sizes that are multiples of nothing."""
    assert parts > 1 or matrix.shape[0] == 77 or np.diff(matrix.indptr).max() > example.WIDTHS[-1]
    check(matrix, 64, column_parts=parts)


@pytest.mark.parametrize(
    ("features", "coarsening"), [(32, 2), (96, 2), (160, 1), (128, 4), (96, 3)]
)
def test_features(features: int, coarsening: int) -> None:
    """Where columns cannot be dealt out so, a thread has fewer of them."""
    check(even(40, 30, 5), features, widths=(1, 2, 4), coarsening=coarsening)


@pytest.mark.parametrize("widths", [(4,), (1, 2, 4), (2, 5, 7), (1, 64)])
def test_widths(widths: tuple[int, ...]) -> None:
    check(power_law(50, 90, seed=2), 32, widths=widths, keep_loops=widths[-1] > 7)


EMPTY = {
    "no elements": np.zeros(5, int),
    "no rows": np.zeros(0, int),
    "one row": np.array([1]),
    "only long rows": np.full(9, 37),
    "only the first bucket": np.ones(20, int),
    "one in the middle": np.array([0, 0, 3, 0]),
}


@pytest.mark.parametrize("degrees", EMPTY.values(), ids=EMPTY)
@pytest.mark.parametrize("parts", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_empty_buckets(degrees: Array, parts: int) -> None:
    """Buckets without rows, whose arrays have no elements."""
    check(matrix_of(degrees, 40), 32, column_parts=parts, widths=(1, 2, 4, 8))


def test_what_results_hold_before() -> None:
    """Rows alone in a bucket are set; what others have, and rows without elements, stays."""
    matrix = matrix_of(np.array([0, 1, 2, 3]), 8)
    structure = hyb(matrix.indptr, matrix.indices, matrix.shape, widths=(1, 2))
    func = example.hyb_spmm(structure, matrix.shape, 32)
    x, out = np.ones((8, 32), "float32"), np.full((4, 32), 100, "float32")
    kernel = tileloom.build(func, "cuda", device="emulator")
    arrays = example.bucket_arrays(structure, matrix.data)
    kernel(x.reshape(-1), out.reshape(-1), *arrays)
    np.testing.assert_allclose(out - np.array([[100], [0], [100], [100]]), matrix @ x, 0, 1e-5)


def test_one_launch_with_equal_blocks() -> None:
    """Each block of threads has as many slots: 8 warps, each of the last bucket's width."""
    matrix = power_law(203, 157)
    structure = hyb(matrix.indptr, matrix.indices, matrix.shape, widths=example.WIDTHS)
    slots = 8 * example.WIDTHS[-1]
    blocks = sum(-(-bucket.indices.size // slots) for bucket in structure[0])
    func = lower(program(matrix, 64, 1, example.WIDTHS), GPU)
    launched = [n for n in collect(func.body, AttrStmt) if n.attr_key == "thread_extent"]
    extents = {n.node.thread_tag: getattr(n.value, "value", None) for n in launched}
    assert len(launched) == len(extents)
    assert extents == {"blockIdx.x": blocks, "blockIdx.y": 1, "threadIdx.y": 8, "threadIdx.x": 32}


@pytest.mark.parametrize(("parts", "atomics"), [(1, 2), (2, 12)])
def test_only_shared_rows_are_added_atomically(parts: int, atomics: int) -> None:
    """Two columns of each thread; each bucket, or the last one alone."""
    text = str(lower(program(power_law(203, 157), 64, parts, (1, 2, 4)), GPU))
    assert text.count("T.atomic_add(") == atomics
    assert 'T.allocate([2], "float32", "local")' in text


def test_parameters() -> None:
    names = [param.name for param in program(even(20, 20, 3), 32, 1, (1, 4)).params]
    assert names == [
        "b",
        "c",
        *(f"{n}_0_{k}" for k in (0, 1) for n in ("a", "indices_i", "indices_j")),
    ]


def test_features_that_are_no_multiple() -> None:
    with pytest.raises(ValueError, match="there are 48 columns; they are dealt out by 32"):
        program(even(20, 20, 3), 48, 1, (1, 4))


@pytest.mark.parametrize(
    ("arch", "parts"), sampled([(arch, parts) for arch in ARCHS for parts in (1, 2)], 3, True)
)
def test_assembler(arch: str, parts: int, tmp_path: Path) -> None:
    """Sums stay in registers, and slots are read four at a time."""
    func = program(power_law(203, 157), 128, parts, example.WIDTHS)
    text = tileloom.assembly(func, f"cuda -arch={arch}")
    assert text.count(".visible .entry") == 1
    assert "ld.global.nc.v4" in text
    said = assemble(text, arch, tmp_path)
    assert not spills(said)
    assert all(int(count) <= 64 for count in re.findall(r"Used (\d+) registers", said))


def test_page_shows_the_example() -> None:
    """The schedule on the page is that of the example, step by step."""
    page = (ROOT / "docs" / "sparse-hyb.md").read_text()
    (shown,) = re.findall(r"^def schedule_bucket.*?\n(?=\n|```)", page, re.DOTALL | re.MULTILINE)
    source = (ROOT / "examples" / "hyb_spmm.py").read_text()
    (real,) = re.findall(r"^def schedule_bucket.*?\n(?=\n\n)", source, re.DOTALL | re.MULTILINE)
    steps = [re.sub(r"\s+#.*", "", line).strip() for line in real.split('"""')[2].splitlines()]
    assert [re.sub(r"\s+#.*", "", line).strip() for line in shown.splitlines()[1:]] == [
        step for step in steps if step
    ]
