"""Attention along the elements of sparse matrices, against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom.base.errors import (
    ArgumentError,
    DTypeError,
    IndexingError,
    ShapeError,
)
from tileloom.frontend.sparse import attention
from tileloom.frontend.sparse.rows import compressed_rows
from tileloom.sparse import graph_attention
from tileloom.sparse.arrays import Csr, view

sp = pytest.importorskip("scipy.sparse")
Array = np.ndarray[Any, Any]


def matrix(m: int, n: int, density: float = 0.3, dtype: str = "float32", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return sp.random_array((m, n), density=density, format="csr", rng=rng).astype(dtype)


def operands(
    m: int, n: int, d: int = 16, e: int = 16, dtype: str = "float32", heads: tuple[int, ...] = ()
) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((*heads, *shape)) for shape in ((m, d), (n, d), (n, e)))
    return q.astype(dtype), k.astype(dtype), v.astype(dtype)


def reference(
    mask: Any, q: Any, k: Any, v: Any, scale: float | None = None, values: str = "ignore"
) -> Array:
    q, k, v = (np.asarray(x, "float64") for x in (q, k, v))
    scale = max(1, q.shape[1]) ** -0.5 if scale is None else scale
    out = np.zeros((mask.shape[0], v.shape[1]))
    for i, (begin, end) in enumerate(zip(mask.indptr[:-1], mask.indptr[1:], strict=True)):
        if begin < end:
            columns, data = mask.indices[begin:end], mask.data[begin:end].astype("float64")
            scores = scale * (k[columns] @ q[i])
            scores = {"ignore": scores, "add": scores + data, "multiply": scores * data}[values]
            with np.errstate(invalid="ignore"):
                powers = np.exp(scores - scores.max())
                out[i] = powers / powers.sum() @ v[columns]
    return out


def check(mask: Any, arrays: tuple[Any, Any, Any], found: Any = None, **options: Any) -> None:
    found = graph_attention(mask, *arrays, **options) if found is None else found
    wanted = reference(mask, *arrays, **options)
    np.testing.assert_allclose(np.asarray(found, "float64"), wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("d", "e"), [(16, 16), (1, 1), (0, 3), (5, 0), (37, 5), (64, 130), (131, 17), (300, 520)]
)
def test_numbers_of_features(d: int, e: int) -> None:
    check(matrix(23, 41), operands(23, 41, d, e))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("values", ["ignore", "add", "multiply"])
def test_what_values_of_the_mask_are_for(values: str, dtype: str) -> None:
    mask, arrays = matrix(20, 300, dtype=dtype), operands(20, 300, dtype=dtype)
    found = graph_attention(mask, *arrays, values=values)
    assert found.dtype == dtype
    rtol, atol = (1e-4, 1e-5) if dtype == "float32" else (1e-10, 1e-13)
    wanted = reference(mask, *arrays, values=values)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)


def test_masks_of_truth_values_and_integers_are_structure() -> None:
    arrays = operands(20, 30)
    for dtype in ("bool", "int32", "float64"):
        mask = matrix(20, 30, dtype="float32")
        mask.data = np.ones(mask.nnz, dtype)
        assert graph_attention(mask, *arrays).dtype == "float32"
        check(mask, arrays)


@pytest.mark.parametrize("count", [1, 15, 16, 17, 127, 128, 129, 256, 1025, 1500])
def test_lengths_of_rows(count: int) -> None:
    indices = np.random.default_rng(2).permutation(1500)[:count].astype("int32")  # not sorted
    mask = sp.csr_array((np.ones(count, "float32"), indices, [0, 0, count, count]), shape=(3, 1500))
    check(mask, operands(3, 1500, 8, 8))


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 7), (7, 1), (64, 64)])
def test_shapes_and_index_types(shape: tuple[int, int], index_dtype: str) -> None:
    mask = matrix(*shape)
    mask.indptr, mask.indices = mask.indptr.astype(index_dtype), mask.indices.astype(index_dtype)
    check(mask, operands(*shape))


def test_columns_may_occur_twice() -> None:
    mask = sp.csr_array(
        (np.ones(4, "float32"), np.array([2, 2, 0, 2], "int32"), [0, 4, 4]), shape=(2, 3)
    )
    check(mask, operands(2, 3))


@pytest.mark.parametrize("kind", ["csc", "coo", "bsr"])
def test_formats(kind: str) -> None:
    mask, arrays = matrix(24, 36), operands(24, 36)
    if kind == "bsr":
        check(
            sp.csr_array(np.ones((24, 36))), arrays, graph_attention(mask.tobsr((24, 36)), *arrays)
        )
        return
    check(mask, arrays, graph_attention(mask.asformat(kind), *arrays, values="add"), values="add")


def test_large_matrices_are_fetched_early_and_written_past_the_caches() -> None:
    mask = matrix(5000, 9000, density=0.002)
    check(mask, operands(5000, 9000, 64, 64))


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which few keys and values stay in the second-level cache."""
    monkeypatch.setattr(attention, "cache_sizes", lambda: (1 << 15, 1 << 17, 1 << 20))


def uses_parts(mask: Any) -> bool:
    structure, _ = compressed_rows(mask, view(mask), "mask")
    plans = structure.plans.values()
    return any(plan.parts for plan in plans)


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize(
    ("d", "e", "dtype"), [(64, 64, "float64"), (16, 128, "float32"), (128, 32, "float32")]
)
def test_long_rows_part_by_part(d: int, e: int, dtype: str) -> None:
    mask = sp.vstack([matrix(40, 2000, 0.3, dtype), matrix(60, 2000, 0.02, dtype)], format="csr")
    mask.sort_indices()
    mask.data = mask.data * np.dtype(dtype).type(300)
    arrays = operands(100, 2000, d // (2 if dtype == "float64" else 1), e // 2, dtype)
    for values in ("ignore", "add"):
        known = sp.csr_array(mask)
        check(known, arrays, values=values)
        assert uses_parts(known)


@pytest.mark.usefixtures("parts")
def test_infinite_scores_part_by_part() -> None:
    mask = biased(5, 2000, {(1, 5): np.nan, (2, 1999): np.inf})
    mask.data[6000:9000] = -np.inf  # row 3 and the first parts of row 4
    arrays = operands(5, 2000, 64, 64)
    found = graph_attention(mask, *arrays, values="add")
    assert uses_parts(mask)
    assert np.isnan(found).all(axis=1).tolist() == [False, True, True, True, False]
    check(mask, arrays, found, values="add")


@pytest.mark.usefixtures("parts")
def test_columns_that_are_not_sorted_are_not_taken_part_by_part() -> None:
    mask = matrix(40, 2000)
    mask.indices[:2] = mask.indices[1::-1].copy()
    check(mask, operands(40, 2000, 64, 64))
    assert not uses_parts(mask)


def test_scale() -> None:
    mask, arrays = matrix(20, 30), operands(20, 30)
    for scale in (0, 0.7, -2.0, np.float32(3)):
        check(mask, arrays, scale=scale)


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_large_scores(size: float) -> None:
    mask, (q, k, v) = matrix(20, 700, density=0.6), operands(20, 700)
    check(mask, (q, k, v), graph_attention(mask, q, k, v, scale=0), scale=0)
    bias = sp.csr_array(mask)
    bias.data = (bias.data * 4 + np.float32(size)).astype("float32")
    check(bias, (q, k, v), scale=0.0, values="add")
    found = graph_attention(mask, q, k, v, scale=size)
    assert np.isfinite(found).all()


def test_scores_that_rise_from_block_to_block() -> None:
    count = 1000
    for data in (np.arange(count), -np.arange(count), np.abs(np.arange(count) - 500)):
        mask = sp.csr_array((data.astype("float32") / 20, np.arange(count), [0, count]))
        check(mask, operands(1, count), values="add")


def biased(m: int, n: int, places: dict[tuple[int, int], float]) -> Any:
    """A dense mask of zeros with some other values."""
    data = np.zeros((m, n), "float32")
    for place, value in places.items():
        data[place] = value
    indptr = np.arange(m + 1) * n
    return sp.csr_array((data.reshape(-1), np.tile(np.arange(n), m), indptr), shape=(m, n))


@pytest.mark.parametrize("at", [0, 5, 127, 128, 299])
@pytest.mark.parametrize("value", [np.inf, np.nan, -np.inf])
def test_scores_that_are_not_finite(value: float, at: int) -> None:
    mask, arrays = biased(3, 300, {(1, at): value}), operands(3, 300)
    found = graph_attention(mask, *arrays, values="add")
    assert np.isnan(found[1]).all() == (value != -np.inf)
    check(mask, arrays, found, values="add")


def test_blocks_and_rows_of_negative_infinity() -> None:
    mask = biased(4, 300, {(1, j): -np.inf for j in range(300)})
    mask.data[600:800] = -np.inf  # the first block of row 2 and more
    mask.data[1000:] = -np.inf  # the last of row 3
    arrays = operands(4, 300)
    found = graph_attention(mask, *arrays, values="add")
    assert np.isnan(found[1]).all() and np.isfinite(found[[0, 2, 3]]).all()
    check(mask, arrays, found, values="add")


def test_operands_that_are_not_finite_reach_the_rows_that_see_them() -> None:
    mask = sp.csr_array(np.array([[1, 1, 0], [0, 1, 1]], "float32"))
    q, k, v = operands(2, 3)
    v[0, 3], k[2, 1] = np.nan, np.nan
    found = graph_attention(mask, q, k, v)
    assert np.isnan(found[0]).tolist() == [column == 3 for column in range(16)]
    assert np.isnan(found[1]).all()


def test_heads() -> None:
    mask, (q, k, v) = matrix(20, 30), operands(20, 30, 12, 20, heads=(3,))
    found, out = graph_attention(mask, q, k, v), np.zeros((3, 20, 20), "float32")
    assert graph_attention(mask, q, k, v, out=out) is out
    np.testing.assert_array_equal(found, out)
    for head in range(3):
        check(mask, (q[head], k[head], v[head]), found[head])
    none = graph_attention(mask, q[:0], k[:0], v[:0])
    assert none.shape == (0, 20, 20)


def test_operands_of_any_strides_and_out_with_any_alignment() -> None:
    mask, (q, k, v) = matrix(20, 30), operands(20, 30, 32, 32)
    strided = q[:, ::2], np.asfortranarray(k[:, ::2]), v[:, ::-1]
    memory = np.zeros(20 * 32 + 1, "float32")
    out = memory[1:].reshape(20, 32)
    check(mask, strided, graph_attention(mask, *strided, out=out))


def test_short_floats_are_computed_in_long_ones() -> None:
    mask, arrays = matrix(20, 30), operands(20, 30, dtype="float16")
    found, out = graph_attention(mask, *arrays), np.zeros((20, 16), "float16")
    assert found.dtype == "float16"
    np.testing.assert_allclose(found, reference(mask, *arrays), rtol=2e-3, atol=2e-3)
    np.testing.assert_array_equal(graph_attention(mask, *arrays, out=out), found)


def test_types_are_promoted() -> None:
    mask, (q, k, v) = matrix(20, 30, dtype="float64"), operands(20, 30)
    assert graph_attention(mask, q, k.astype("float64"), v).dtype == "float64"
    assert graph_attention(mask, q, k, v).dtype == "float32"
    assert graph_attention(mask, q, k, v, values="add").dtype == "float64"


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    mask, arrays = matrix(20, 30), operands(20, 30)
    tensors = [torch.from_numpy(a) for a in arrays]
    parts = (torch.from_numpy(mask.indptr), torch.from_numpy(mask.indices))
    own = torch.sparse_csr_tensor(*parts, torch.from_numpy(mask.data), mask.shape)
    found = graph_attention(own, *tensors)
    assert isinstance(found, torch.Tensor)
    check(mask, arrays, found.numpy())
    full = torch.nn.functional.scaled_dot_product_attention(
        *(x[None] for x in tensors), attn_mask=torch.from_numpy(mask.toarray() != 0)[None]
    )[0]
    np.testing.assert_allclose(found, full, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_do_not_depend_on_threads(threads: int) -> None:
    mask, arrays = matrix(200, 900), operands(200, 900, 32, 32)
    wanted = graph_attention(mask, *arrays)
    before = tileloom.runtime.get_num_threads()
    tileloom.runtime.set_num_threads(threads)
    try:
        np.testing.assert_array_equal(graph_attention(sp.csr_array(mask), *arrays), wanted)
    finally:
        tileloom.runtime.set_num_threads(before)


def test_what_is_refused() -> None:
    mask, (q, k, v) = matrix(20, 30), operands(20, 30)
    with pytest.raises(ShapeError, match=r"q has shape \(19, 16\)"):
        graph_attention(mask, q[1:], k, v)
    with pytest.raises(ShapeError, match=r"k has shape \(30, 15\)"):
        graph_attention(mask, q, k[:, 1:], v)
    with pytest.raises(ShapeError, match=r"it is \(30, e\)"):
        graph_attention(mask, q, k, v[:-1])
    with pytest.raises(ShapeError, match=r"it is \(2, 30, e\)"):
        graph_attention(mask, np.stack([q, q]), np.stack([k, k]), v)
    with pytest.raises(ArgumentError, match="values='bias'"):
        graph_attention(mask, q, k, v, values="bias")
    with pytest.raises(DTypeError, match="floating-point numbers, not int64"):
        graph_attention(mask, q.astype(int), k.astype(int), v.astype(int))
    with pytest.raises(DTypeError, match="complex"):
        graph_attention(mask, q.astype("complex64"), k, v)
    with pytest.raises(ShapeError, match=r"the result has \(20, 16\)"):
        graph_attention(mask, q, k, v, out=np.zeros((20, 15), "float32"))
    with pytest.raises(DTypeError, match="out holds float64"):
        graph_attention(mask, q, k, v, out=np.zeros((20, 16)))
    with pytest.raises(ArgumentError, match="shares memory with v"):
        square = matrix(30, 30)
        graph_attention(square, k, k, v, out=v)


def test_index_arrays_that_contradict_themselves_are_refused() -> None:
    mask = matrix(20, 30)
    wrong = Csr(mask.indptr, np.full_like(mask.indices, 30), mask.data, mask.shape)
    with pytest.raises(IndexingError, match="index 30"):
        graph_attention(wrong, *operands(20, 30))
