"""Sampled products of dense matrices, for masks that people have, against NumPy in float64."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom.base.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from tileloom.frontend.sparse import sddmm_plan
from tileloom.sparse import explain_sddmm, sddmm
from tileloom.sparse.arrays import Bsc, Csr

sp = pytest.importorskip("scipy.sparse")
Array = np.ndarray[Any, Any]


def matrix(m: int, n: int, density: float = 0.2, dtype: str = "float32", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return (sp.random_array((m, n), density=density, format="csr", rng=rng) * 9 + 0).astype(dtype)


def operand(rows: int, k: int, dtype: str = "float32", seed: int = 1) -> Array:
    return (np.random.default_rng(seed).random((rows, k)) * 9).astype(dtype)


def operands(mask: Any, k: int, dtype: str = "float32") -> tuple[Array, Array]:
    return operand(mask.shape[0], k, dtype), operand(mask.shape[1], k, dtype, seed=2)


def dense_of(mask: Any) -> Array:
    return np.asarray(mask.todense() if hasattr(mask, "todense") else mask, "float64")


def check(mask: Any, x: Any, y: Any, found: Any = None, rtol: float = 1e-5) -> None:
    found = sddmm(mask, x, y) if found is None else found
    wanted = dense_of(mask) * (np.asarray(x, "float64") @ np.asarray(y, "float64").T)
    np.testing.assert_allclose(dense_of(found), wanted, rtol=rtol, atol=1e-4)


@pytest.mark.parametrize("k", [0, 1, 3, 16, 37, 64, 80, 130, 300])
def test_numbers_of_columns(k: int) -> None:
    mask = matrix(53, 41)
    check(mask, *operands(mask, k))


@pytest.mark.parametrize(
    ("shape", "density"),
    [((0, 5), 0.3), ((5, 0), 0.3), ((0, 0), 0.3), ((1, 7), 0.9), ((7, 1), 0.9), ((64, 64), 0.3),
     ((40, 40), 0.0), ((40, 40), 0.005), ((3, 300), 1.0)],
)  # fmt: skip
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_shapes_and_index_types(shape: tuple[int, int], density: float, index_dtype: str) -> None:
    mask = matrix(*shape, density=density)
    mask.indptr, mask.indices = mask.indptr.astype(index_dtype), mask.indices.astype(index_dtype)
    check(mask, *operands(mask, 20))


def test_results_share_the_indices_of_the_mask() -> None:
    mask = matrix(53, 41)
    found = sddmm(mask, *operands(mask, 16))
    assert type(found) is type(mask)
    assert found.indices is mask.indices
    assert found.indptr is mask.indptr
    assert not np.shares_memory(found.data, mask.data)


def test_values_of_the_mask_may_be_ignored() -> None:
    mask = matrix(53, 41)
    x, y = operands(mask, 30)
    mask.data[:] = np.nan
    found = sddmm(mask, x, y, values="ignore")
    ones = mask._with_data(np.ones_like(mask.data))
    check(ones, x, y, found)
    flags = matrix(53, 41).astype(bool)
    assert sddmm(flags, x, y, values="ignore").dtype == "float32"
    check(ones, x[:, :0], y[:, :0], sddmm(mask, x[:, :0], y[:, :0], values="ignore"))
    with pytest.raises(ArgumentError, match="values='add'"):
        sddmm(mask, x, y, values="add")


# ---------------------------------------------------------------------------- types of elements


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64", "int8", "uint16", "uint32"])
def test_types(dtype: str) -> None:
    mask = matrix(31, 29, dtype=dtype)
    x, y = operands(mask, 20, dtype)
    found = sddmm(mask, x, y)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.toarray(), mask.toarray() * (x @ y.T), rtol=1e-12)


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("float32", "float64", "float64"),
        ("int32", "float32", "float64"),
        ("bool", "bool", "bool"),
        ("bool", "float32", "float32"),
    ],
)
def test_types_are_promoted_as_numpy_has_it(left: str, right: str, result: str) -> None:
    mask = matrix(31, 29, dtype=left)
    x, y = operands(mask, 20, right)
    found = sddmm(mask, x, y)
    assert found.dtype == result
    wanted = dense_of(mask) * (x.astype("float64") @ y.astype("float64").T)
    np.testing.assert_allclose(dense_of(found), wanted != 0 if result == "bool" else wanted, 1e-4)


def test_short_floats_are_summed_in_long_ones() -> None:
    mask = matrix(40, 30)
    short = Csr(mask.indptr, mask.indices, (mask.data / 99).astype("float16"), mask.shape)
    x, y = (array.astype("float16") for array in operands(mask, 200))
    found = sddmm(short, x, y)
    assert found.data.dtype == "float16"
    as_array = sp.csr_array((found.data, mask.indices, mask.indptr), shape=mask.shape)
    wide = sp.csr_array((short.data.astype("float32"), mask.indices, mask.indptr), mask.shape)
    check(wide, x, y, as_array.astype("float32"), rtol=2e-3)
    out = np.zeros(mask.nnz, "float16")
    np.testing.assert_array_equal(sddmm(short, x, y, out).data, found.data)
    np.testing.assert_array_equal(out, found.data)


def test_complex_numbers_are_refused() -> None:
    mask = matrix(3, 4)
    with pytest.raises(DTypeError, match="complex64, for which there is no kernel"):
        sddmm(mask.astype("complex64"), *operands(mask, 3))


def test_not_a_number_and_infinity() -> None:
    mask = sp.csr_array(np.array([[1, 2], [0, 3]], "float32"))
    x = np.array([[np.nan, 1], [np.inf, 1]], "float32")
    y = np.array([[1, 1], [0, 1]], "float32")
    np.testing.assert_array_equal(sddmm(mask, x, y).data, [np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(sddmm(mask, x[1:].repeat(2, 0), y + 1).data, [np.inf] * 3)
    rows = np.full((2, 33), np.nan, "float32")  # what follows a row does not matter
    rows[:, :19] = 1
    np.testing.assert_array_equal(sddmm(mask, rows[:, :19], rows[:, :19]).data, [19, 38, 57])


# ---------------------------------------------------------------------------- structures


def test_rows_without_elements_unsorted_columns_and_duplicates() -> None:
    indptr = np.array([0, 0, 4, 4, 6, 6], "int32")
    indices = np.array([3, 0, 3, 1, 2, 2], "int32")
    mask = sp.csr_array((np.arange(1.0, 7.0, dtype="float32"), indices, indptr), shape=(5, 4))
    check(mask, *operands(mask, 33))


def test_more_values_than_elements() -> None:
    mask = matrix(24, 36)
    nnz = mask.nnz
    mask.data = np.append(mask.data, [7, 7]).astype("float32")
    x, y = operands(mask, 16)
    out = np.zeros(nnz + 2, "float32")
    for found in (sddmm(mask, x, y), sddmm(mask, x, y, out)):
        assert len(found.data) == nnz + 2
        found.data = found.data[:nnz]
        check(matrix(24, 36), x, y, found)


@pytest.mark.parametrize("kind", ["csc", "coo", "bsr", "dia", "lil", "dok"])
def test_formats_of_scipy(kind: str) -> None:
    mask = matrix(24, 36).asformat(kind)
    x, y = operands(mask, 16)
    for _ in range(2):  # what was found before is used again
        found = sddmm(mask, x, y)
        assert found.format == (kind if kind in ("csc", "coo", "bsr") else "csr")
        check(mask, x, y, found)


def test_coordinates_in_any_order() -> None:
    mask = matrix(24, 36).tocoo()
    order = np.random.default_rng(3).permutation(mask.nnz)
    rows, columns = mask.coords
    twice = np.concatenate([order, order[:9]])
    mixed = sp.coo_array((mask.data[twice], (rows[twice], columns[twice])), shape=mask.shape)
    x, y = operands(mask, 16)
    check(mixed, x, y)
    out = np.zeros(len(twice), "float32")
    assert sddmm(mixed, x, y, out).data is out
    np.testing.assert_allclose(out, np.sum(x[mixed.coords[0]] * y[mixed.coords[1]], 1) * mixed.data,
                               rtol=1e-5)  # fmt: skip


def test_blocks_by_columns() -> None:
    data = np.random.default_rng(0).random((2, 2, 3))
    mask = Bsc([0, 1, 2], [1, 0], data, (4, 6))
    x, y = operand(4, 5, "float64"), operand(6, 5, "float64")
    found = sddmm(mask, x, y)
    wanted = (x @ y.T).reshape(2, 2, 2, 3).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(found.data, data * [wanted[1, 0], wanted[0, 1]])


def test_values_may_change_where_structure_is_kept() -> None:
    for kind in ("csr", "csc", "coo"):
        mask = matrix(24, 36).asformat(kind)
        check(mask, *operands(mask, 16))
        mask.data *= 3
        check(mask, *operands(mask, 16))


def test_dense_operands_of_any_strides() -> None:
    mask = matrix(24, 36)
    x, y = operands(mask, 40)
    for view in (np.s_[:, ::2], np.s_[:, 3:20], np.s_[:, ::-1]):
        check(mask, x[view], y[view])
    check(mask, np.asfortranarray(x), y[::-1])
    assert sddmm(mask, x.tolist(), y).dtype == "float64"


@pytest.mark.parametrize("k", [64, 128, 256])
def test_long_rows_part_by_part(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sddmm_plan, "cache_sizes", lambda: (1 << 15, 40_000, 1 << 25))
    mask = matrix(90, 400, density=0.6)
    mask.sort_indices()
    assert explain_sddmm(mask, k).startswith("parts: ")
    check(mask, *operands(mask, k))
    mask.data[: mask.indptr[30]] = 0
    mask.eliminate_zeros()  # rows without elements
    check(mask, *operands(mask, k))


@pytest.mark.parametrize(
    ("features", "density", "sort", "reason"),
    [
        (17, 0.6, True, "17 columns; parts need a multiple"),
        (256, 0.05, True, "20.0 elements a row"),
        (128, 0.6, False, "the columns are not sorted"),
        (128, 0.2, True, "0% of the elements are in rows of"),
        (128, 0.6, True, "stays in the second-level cache"),
    ],
)
def test_the_choice_is_explained(
    features: int, density: float, sort: bool, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask = matrix(90, 400, density=density)
    mask.sort_indices()
    if not sort:
        mask.indices[:2] = mask.indices[1::-1].copy()
    if "cache" not in reason:
        size = 40_000 if density > 0.5 else 20_000
        monkeypatch.setattr(sddmm_plan, "cache_sizes", lambda: (1 << 15, size, 1 << 25))
    found = explain_sddmm(mask, features)
    assert found.startswith("groups: ")
    assert reason in found


def test_calls_from_several_threads_and_by_one() -> None:
    mask = matrix(300, 400, density=0.6)
    x, y = operands(mask, 128)
    wanted = sddmm(mask, x, y).data
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: sddmm(mask, x, y), range(40)):
            np.testing.assert_allclose(found.data, wanted, rtol=1e-5)
    before = tileloom.get_num_threads()
    try:
        for threads in (1, 5):
            tileloom.set_num_threads(threads)
            again = matrix(300, 400, density=0.6)
            np.testing.assert_allclose(sddmm(again, x, y).data, wanted, rtol=1e-5)
    finally:
        tileloom.set_num_threads(before)


def test_results_into_arrays_that_are_there() -> None:
    mask = matrix(24, 36)
    x, y = operands(mask, 32)
    for kind in ("csr", "csc", "bsr"):
        like = mask.asformat(kind)
        out = np.full(like.data.shape, np.nan, "float32")
        found = sddmm(like, x, y, out)
        assert found.data is out
        check(like, x, y, found)


# ---------------------------------------------------------------------------- other libraries


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    mask = matrix(24, 36).tobsr((2, 3)).tocsr()
    tensor = torch.sparse_csr_tensor(*map(torch.from_numpy, (mask.indptr, mask.indices, mask.data)),
                                     mask.shape)  # fmt: skip
    x, y = operands(mask, 16)
    left, right = torch.from_numpy(x), torch.from_numpy(y)
    for other in (
        tensor,
        tensor.to_sparse_csc(),
        tensor.to_sparse_coo(),
        tensor.to_sparse_bsr((2, 3)),
    ):
        found = sddmm(other, left, right)
        assert found.layout == other.layout
        check(mask, x, y, found.to_dense().numpy())
    ones = torch.sparse_csr_tensor(tensor.crow_indices(), tensor.col_indices(),
                                   torch.ones(mask.nnz), mask.shape)  # fmt: skip
    wanted = torch.sparse.sampled_addmm(ones, left, right.T, beta=0.0).values()
    torch.testing.assert_close(sddmm(tensor, left, right, values="ignore").values(), wanted)
    out = torch.empty(mask.nnz)
    assert sddmm(tensor, left, right, out).values().data_ptr() == out.data_ptr()
    half = sddmm(tensor.bfloat16(), left.bfloat16(), right.bfloat16())
    assert half.dtype == torch.bfloat16
    check(mask, x, y, half.to_dense().float().numpy(), rtol=3e-2)


def test_pydata() -> None:
    sparse = pytest.importorskip("sparse")
    mask = matrix(24, 36)
    x, y = operands(mask, 16)
    for kind in (sparse.COO, sparse.GCXS):
        found = sddmm(kind.from_scipy_sparse(mask), x, y)
        assert isinstance(found, kind)
        check(mask, x, y, found.todense())


# ---------------------------------------------------------------------------- refusals


def test_misfits_are_refused() -> None:
    mask = matrix(24, 36)
    x, y = operands(mask, 4)
    with pytest.raises(ShapeError, match=r"mask has shape \(24, 36\) and x has shape \(36, 4\)"):
        sddmm(mask, y, x)
    with pytest.raises(ShapeError, match="y must be a matrix of 36 rows"):
        sddmm(mask, x, y.T)
    with pytest.raises(ShapeError, match="x has 4 columns and y has 3"):
        sddmm(mask, x, y[:, :3])
    with pytest.raises(ShapeError, match="x must be a matrix of 24 rows"):
        sddmm(mask, x[:, 0], y)
    with pytest.raises(ArgumentError, match="mask is a dense numpy array"):
        sddmm(mask.toarray(), x, y)
    with pytest.raises(ArgumentError, match="y is a scipy csr_array"):
        sddmm(mask, x, mask)


def test_arrays_for_the_result_that_do_not_fit_are_refused() -> None:
    mask = matrix(24, 36)
    x, y = operands(mask, 4)
    with pytest.raises(ShapeError, match=r"out has shape \(5,\)"):
        sddmm(mask, x, y, np.zeros(5, "float32"))
    with pytest.raises(DTypeError, match="out holds float64"):
        sddmm(mask, x, y, np.zeros(mask.nnz))
    with pytest.raises(ArgumentError, match="out shares memory with mask"):
        sddmm(mask, x, y, mask.data)
    memory = np.zeros(mask.nnz + 96, "float32")
    with pytest.raises(ArgumentError, match="out shares memory with x"):
        sddmm(mask, memory[:96].reshape(24, 4), y, memory[: mask.nnz])


def test_index_arrays_that_contradict_themselves_are_refused() -> None:
    mask = matrix(24, 36)
    x, y = operands(mask, 4)
    mask.indices[5] = 36
    with pytest.raises(IndexingError, match="index 36 at position 5"):
        sddmm(mask, x, y)
