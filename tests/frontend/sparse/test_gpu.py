"""The operators' kernels for GPUs, on the emulator, against NumPy and SciPy in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
import tileloom.sparse as tls
from gpu import ARCHS, assemble, spills
from tileloom.base.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from tileloom.frontend.sparse.gpu import place as places
from tileloom.frontend.sparse.gpu import reduce
from tileloom.sparse.arrays import Csr
from tileloom.sparse.kernels.gpu.dots import DotsCase, sampled_dots
from tileloom.sparse.kernels.gpu.reductions import ReductionCase, reduce_rows
from tileloom.sparse.kernels.gpu.softmax import SoftmaxCase, softmax_rows
from tileloom.sparse.kernels.gpu.threads import ThreadGroup

sp = pytest.importorskip("scipy.sparse")
Array = np.ndarray[Any, Any]
GPU: dict[str, Any] = {"target": "cuda -arch=sm_80", "device": "emulator"}
TYPES = {"float32": 1e-5, "float64": 1e-13, "float16": 2e-3, "int8": 0, "int64": 0, "uint16": 0}


def slow(*names: str) -> list[Any]:
    """Cases that most runs leave out."""
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


def matrix(lengths: Any, columns: int, dtype: str = "float32", index: str = "int32") -> Any:
    """A matrix with so many elements in each row."""
    rng = np.random.default_rng(0)
    chosen = [rng.permutation(columns)[:length] for length in lengths]
    indices = np.concatenate([*chosen, np.empty(0)]).astype(index)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(index)
    data = (rng.uniform(-3, 3, len(indices))).astype(dtype)
    return Csr(indptr, indices, data, (len(lengths), columns))


def power_law(rows: int, columns: int) -> Array:
    """Lengths of rows: few long ones, many short ones, and a fifth without elements."""
    rng = np.random.default_rng(1)
    lengths: Array = np.minimum((1.5 * (1 + rng.pareto(1.1, rows))).astype(int), columns)
    lengths[rng.random(rows) < 0.2] = 0
    lengths[rows // 2] = columns
    return lengths


def dense(*shape: int, dtype: str = "float32", seed: int = 2) -> Array:
    return np.random.default_rng(seed).uniform(-3, 3, shape).astype(dtype)


def exact(a: Csr) -> Array:
    kind = "int64" if a.data.dtype.kind in "iu" else "float64"
    return np.asarray(sp.csr_array((a.data.astype(kind), a.indices, a.indptr), a.shape).toarray())


def check_spmm(a: Csr, k: int, dtype: str = "float32") -> None:
    x = dense(a.shape[1], k, dtype=dtype)
    found = tls.spmm(a, x, **GPU)
    assert found.dtype == dtype and found.shape == (a.shape[0], k)
    wanted = exact(a) @ x.astype(exact(a).dtype)
    if found.dtype.kind in "iu":
        np.testing.assert_array_equal(found, wanted.astype(dtype))
        return
    scale = abs(exact(a)) @ abs(x.astype("float64")) + 1e-30
    assert (abs(found - wanted) <= TYPES[dtype] * scale).all()


STRUCTURES = {
    "random": np.random.default_rng(0).integers(0, 9, 37),
    "empty rows": [0, 5, 0, 0, 3, 0],
    "no elements": [0, 0, 0],
    "no rows": [],
    "one row": [19],
    "power law": power_law(60, 41),
}


@pytest.mark.parametrize("lengths", STRUCTURES.values(), ids=STRUCTURES)
def test_structures(lengths: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduce, "_MOST", 1)
    a = matrix(lengths, 41, index="int64" if len(lengths) % 2 else "int32")
    check_spmm(a, 12)
    x = dense(41)
    np.testing.assert_allclose(tls.spmv(a, x, **GPU), exact(a) @ x, 1e-4, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, 1, 3, 37, 64, 130, 600])
@pytest.mark.parametrize("most", [2, 256])
@pytest.mark.parametrize("lengths", STRUCTURES.values(), ids=STRUCTURES)
def test_numbers_of_columns(
    lengths: Any, most: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduce, "_MOST", most)
    check_spmm(matrix(lengths, 41), k)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_types(dtype: str) -> None:
    check_spmm(matrix([3, 0, 7], 9, dtype), 5, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("dtype", TYPES)
def test_all_types(dtype: str, index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduce, "_MOST", 1)
    check_spmm(matrix(power_law(40, 30), 30, dtype, index), 20, dtype)
    check_spmm(matrix([1, 2], 9, dtype, index), 1, dtype)


def test_types_are_promoted() -> None:
    a = matrix([1, 2], 3, "int32")
    assert tls.spmm(a, dense(3, 2), **GPU).dtype == "float64"
    found = tls.spmm(
        Csr(a.indptr, a.indices, np.ones(3, bool), a.shape), np.ones((3, 2), bool), **GPU
    )
    assert found.dtype == bool and found.all()
    with pytest.raises(DTypeError, match="complex128, for which there is no kernel"):
        tls.spmm(a, np.ones((3, 2), "complex64"), **GPU)


@pytest.mark.parametrize("kind", ["bsr", *slow("csc", "coo")])
def test_formats(kind: str) -> None:
    a = sp.csr_array(exact(matrix([3, 0, 7, 1], 9))).asformat(kind)
    x = dense(9, 4)
    np.testing.assert_allclose(tls.spmm(a, x, **GPU), a.toarray() @ x, 1e-5)
    a.data *= 2  # values may change, while the structure is kept
    np.testing.assert_allclose(tls.spmm(a, x, **GPU), a.toarray() @ x, 1e-5)
    mask, y = exact(matrix([3, 0, 7, 1], 9)), dense(4, 4, seed=3)
    found = tls.sddmm(a, y, x, **GPU)
    assert found.format == kind
    np.testing.assert_allclose(found.toarray(), 2 * mask * (y @ x.T), 1e-4)


def test_out() -> None:
    a, x, out = matrix([3, 0, 7], 9), dense(9, 4), np.full((3, 4), 9, "float32")
    assert tls.spmm(a, x, out, **GPU) is out
    np.testing.assert_allclose(out, exact(a) @ x, 1e-5)
    vector = np.zeros(3, "float16")
    short = Csr(a.indptr, a.indices, a.data.astype("float16"), a.shape)
    assert tls.spmv(short, x[:, 0].astype("float16"), vector, **GPU) is vector
    np.testing.assert_allclose(vector, exact(a) @ x[:, 0], 1e-2)
    with pytest.raises(ArgumentError, match="out shares memory with x"):
        tls.spmm(matrix([1, 1], 2), x[:2], x[:2], **GPU)
    with pytest.raises(ShapeError, match=r"x must be a matrix of 9 rows"):
        tls.spmm(a, x[:3], **GPU)


def test_calls_that_were_made_before_on_the_cpu() -> None:
    """What is kept of them is not for a target."""
    a, x = sp.csr_array(exact(matrix([3, 0], 9)).astype("f")), dense(9, 4)
    calls: list[tuple[Any, ...]] = [
        (tls.spmm, a, x),
        (tls.spmv, a, dense(9)),
        (tls.sddmm, a, x[:2], x),
        (tls.graph_attention, a, x[:2], x, x),
    ]
    for operator, *operands in calls:
        operator(*operands)
        with pytest.raises(UnsupportedError, match="in the CPU's memory, where kernels for cuda"):
            operator(*operands, target="cuda")


# ---------------------------------------------------------------------------- other operators


@pytest.mark.parametrize(("k", "dtype"), [(0, "float32"), (7, "float64"), (20, "float16")])
def test_sddmm(k: int, dtype: str) -> None:
    a = matrix(power_law(20, 30), 30, dtype)
    x, y = dense(20, k, dtype=dtype), dense(30, k, dtype=dtype, seed=3)
    rows = np.repeat(np.arange(20), np.diff(a.indptr))
    dots = (x.astype("float64") @ y.astype("float64").T)[rows, a.indices]
    for values, wanted in (("ignore", dots), ("multiply", a.data * dots)):
        found = tls.sddmm(a, x, y, values=values, **GPU).data
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted, 1e-2 if dtype == "float16" else 1e-4, 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 33, 128, 300, 2048])
def test_long_dot_products(k: int) -> None:
    a, x, y = matrix([3, 0, 7], 9), dense(3, k), dense(9, k, seed=3)
    rows = np.repeat(np.arange(3), np.diff(a.indptr))
    found = tls.sddmm(a, x, y, values="ignore", **GPU).data
    np.testing.assert_allclose(found, (x @ y.T)[rows, a.indices], 1e-3, 1e-3)


@pytest.mark.parametrize("values", ["add", *slow("ignore", "multiply")])
def test_attention(values: str) -> None:
    """Two heads, whose results do not both begin at multiples of 16 bytes."""
    a = matrix(power_law(9, 30), 30)
    q, k, v = dense(2, 9, 5), dense(2, 30, 5, seed=3), dense(2, 30, 3, seed=4)
    found = tls.graph_attention(a, q, k, v, values=values, **GPU)
    exact_q, exact_k, exact_v = (each.astype("float64") for each in (q, k, v))
    wanted = tls.graph_attention(a, exact_q, exact_k, exact_v, values=values)
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-5)
    assert (found[:, np.diff(a.indptr) == 0] == 0).all()
    if values == "ignore":
        q, k, v = (each[0].astype("float16") for each in (q, k, v))
        out = np.empty((9, 3), "float16")
        tls.graph_attention(a, q, k, v, 0.1, out, **GPU)
        np.testing.assert_allclose(out, tls.graph_attention(a, q, k, v, 0.1), 1e-2, 1e-3)


def test_scores_that_are_infinite() -> None:
    mask = Csr(
        np.array([0, 2, 3]), np.array([0, 1, 0]), np.array([-np.inf, 0, -np.inf], "f"), (2, 2)
    )
    x = np.eye(2, dtype="float32")
    found = tls.graph_attention(mask, x, x, x, values="add", **GPU)
    np.testing.assert_array_equal(found, [[0, 1], [np.nan, np.nan]])


@pytest.mark.parametrize("op", ["mean", "max", *slow("sum", "min", "prod")])
def test_segment_reduce(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduce, "_MOST", 1)
    starts = [0, 3, 3, 4, 40]
    for dtype, initial in (("float32", None), ("int8", 2), ("int8", None)):
        values = dense(40, 3, dtype=dtype)
        for rows in (values,) if initial is None else (values[:, 0],):
            found = tls.segment_reduce(rows, starts, op, initial, **GPU)
            wanted = tls.segment_reduce(rows, starts, op, initial)
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, 1e-4, 1e-5)
    values = np.array([np.nan, 1, 2], "f")
    if op in ("max", "min"):
        assert np.isnan(tls.segment_reduce(values, [0, 3], op, **GPU)).all()
    nothing = tls.segment_reduce(values[:0], [0, 0], op, **GPU)
    np.testing.assert_array_equal(nothing, tls.segment_reduce(values[:0], [0, 0], op))


def test_segment_softmax() -> None:
    for values in (dense(40, 3), dense(40, dtype="float16")):
        found = tls.segment_softmax(values, [0, 3, 3, 4, 40], **GPU)
        wanted = tls.segment_softmax(values, [0, 3, 3, 4, 40])
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, 1e-2 if values.itemsize == 2 else 1e-5)
    with pytest.raises(ShapeError, match="ends with 3, but values has 40 rows"):
        tls.segment_softmax(dense(40), [0, 3], **GPU)


# ---------------------------------------------------------------------------- where they run


def test_where_nothing_runs() -> None:
    a, x = matrix([1, 2], 3), dense(3, 2)
    with pytest.raises(UnsupportedError, match="a and x are in the CPU's memory"):
        tls.spmm(a, x, target="cuda")
    with pytest.raises(UnsupportedError, match="on cpu, not cuda:1"):
        tls.spmm(a, x, device="cuda:1")
    np.testing.assert_array_equal(tls.spmm(a, x, target="cpu"), tls.spmm(a, x))


def test_kernels_on_a_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Launched through the driver, from arrays in a GPU's memory: long rows are two launches."""
    pytest.importorskip("cuda.bindings.driver")
    from runtime.cuda import fake_library
    from runtime.cuda.fake_driver import FakeDriver
    from runtime.cuda.test_graphs import taught
    from tileloom.base.settings import override
    from tileloom.runtime import cuda

    class OnDriver(places.HostPlace):
        def run(self, make: Any, case: Any, *arguments: Any) -> None:
            kernel = tileloom.build(make(case), "cuda")
            there = [cuda.asarray(x) if isinstance(x, np.ndarray) else x for x in arguments]
            kernel(*there)
            for array, copy in zip(arguments, there, strict=True):
                if isinstance(array, np.ndarray):
                    array[...] = copy.numpy()

    if fake_library.library() is None:
        pytest.skip("there is a true CUDA driver, or no C compiler for the fake one")
    monkeypatch.setattr(places, "_place", lambda *_: OnDriver("cuda"))
    monkeypatch.setattr(reduce, "_MOST", 3)
    cuda.reset()
    driver = FakeDriver()
    with override(cache_dir=tmp_path), fake_library.plugged(driver):
        taught(driver, monkeypatch)
        check_spmm(matrix(power_law(30, 41), 41), 128)
        assert len(driver.launched) == 2
        none = tls.segment_reduce(np.zeros((0, 3), "f"), [0, 0], **GPU)
        np.testing.assert_array_equal(none, np.zeros((1, 3)))
        assert not driver.problems
    cuda.reset()


@pytest.mark.parametrize("arch", ARCHS)
def test_assembler(arch: str, tmp_path: Path) -> None:
    """Sums stay in registers, and dense rows are read 16 bytes at a time."""
    group = reduce.row_group(64, 4, 16)
    case = ReductionCase("sum", "0", 64, "float32", "int64", group, 2, "float32", is_cut=True)
    kernels = {
        "product": reduce_rows(case),
        "short": reduce_rows(case._replace(dtype="float16", weights="float16", is_cut=False)),
        "dots": sampled_dots(
            DotsCase(
                64, "float32", "float32", "int32", ThreadGroup(4, 4), "multiply", is_scaled=True
            )
        ),
        "softmax": softmax_rows(SoftmaxCase(1, "float64", "int32", ThreadGroup(1, 1, 16))),
    }
    for name, func in kernels.items():
        text = tileloom.assembly(func, f"cuda -arch={arch}")
        assert name == "softmax" or "ld.global.nc.v4" in text
        assert not spills(assemble(text, arch, tmp_path))
