"""Sums over relations and sparse convolutions, against NumPy and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import ArgumentError, DTypeError, ShapeError, UserError
from tileloom.sparse import convolution_map, relations, rgms, sparse_conv

sp = pytest.importorskip("scipy.sparse")
Array = np.ndarray[Any, Any]


def relation(m: int, n: int, density: float, seed: int, dtype: str = "float32") -> Any:
    rng = np.random.default_rng(seed)
    return sp.random_array((m, n), density=density, format="csr", rng=rng, dtype=dtype)


def random(*shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(7).random(shape).astype(dtype)


def reference(adjacency: list[Any], x: Array, w: Array) -> Array:
    found: Array = np.zeros((adjacency[0].shape[0], w.shape[2]))
    for a, weights in zip(adjacency, w, strict=True):
        found += a.astype("float64") @ x.astype("float64") @ weights.astype("float64")
    return found


@pytest.mark.parametrize(
    ("m", "n", "k", "features"),
    [(37, 41, 19, 37), (64, 64, 32, 32), (1, 9, 1, 1), (200, 5, 64, 100), (8, 8, 3, 50)],
)
def test_sums_over_relations(m: int, n: int, k: int, features: int) -> None:
    adjacency = [relation(m, n, d, s) for s, d in enumerate((0.05, 0.5, 0.0, 1.0))]
    x, w = random(n, k), random(4, k, features)
    np.testing.assert_allclose(rgms(adjacency, x, w), reference(adjacency, x, w), rtol=1e-4)


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_types(dtype: str, index_dtype: str) -> None:
    adjacency = [relation(30, 20, 0.2, s, dtype) for s in range(2)]
    for a in adjacency:
        a.indptr, a.indices = a.indptr.astype(index_dtype), a.indices.astype(index_dtype)
    x, w = random(20, 8, dtype=dtype), random(2, 8, 24, dtype=dtype)
    found = rgms(adjacency, x, w)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, reference(adjacency, x, w), rtol=1e-5)


def test_many_rows_on_threads() -> None:
    adjacency = [relation(3000, 3000, 0.001, s) for s in range(5)]
    x, w = random(3000, 16), random(5, 16, 16)
    prepared = relations(adjacency)
    out = np.full((3000, 16), np.nan, "float32")
    assert rgms(prepared, x, w, out) is out
    np.testing.assert_allclose(out, reference(adjacency, x, w), rtol=1e-4, atol=1e-6)


def test_relations_by_coordinates() -> None:
    sparse = pytest.importorskip("sparse")
    adjacency = [relation(12, 9, 0.2, s) for s in range(3)]
    array = sparse.COO.from_numpy(np.stack([a.toarray() for a in adjacency]))
    x, w = random(9, 4), random(3, 4, 5)
    np.testing.assert_allclose(rgms(array, x, w), reference(adjacency, x, w), rtol=1e-5)


def test_torch_in_torch_out() -> None:
    torch = pytest.importorskip("torch")
    adjacency = [relation(12, 9, 0.2, s) for s in range(3)]
    x, w = random(9, 4), random(3, 4, 5)
    found = rgms(adjacency, torch.from_numpy(x), torch.from_numpy(w))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), reference(adjacency, x, w), rtol=1e-5)


def test_misfits_are_refused() -> None:
    adjacency = [relation(12, 9, 0.2, s) for s in range(3)]
    x, w = random(9, 4), random(3, 4, 5)
    with pytest.raises(ShapeError, match="no relation is given"):
        relations([])
    with pytest.raises(ShapeError, match="different shapes"):
        relations([*adjacency, relation(12, 8, 0.2, 1)])
    with pytest.raises(ShapeError, match="the relations have 9 columns"):
        rgms(adjacency, random(8, 4), w)
    with pytest.raises(ShapeError, match=r"it is \(3, 4, l\)"):
        rgms(adjacency, x, random(2, 4, 5))
    with pytest.raises(DTypeError, match="floating-point numbers, not int64"):
        rgms([a.astype("int64") for a in adjacency], x.astype("int64"), w.astype("int64"))
    with pytest.raises(UserError, match="a sequence of sparse matrices"):
        rgms(adjacency[0], x, w)
    square = [relation(9, 9, 0.2, 1)]
    with pytest.raises(ArgumentError, match="out shares memory with x"):
        rgms(square, x, random(1, 4, 4), x)


# ---------------------------------------------------------------------------- convolutions


def voxels(shape: tuple[int, ...], count: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    flat = rng.choice(int(np.prod(shape)), count, replace=False)
    return np.stack(np.unravel_index(flat, shape), axis=1)


def dense_image(coords: Array, x: Array, shape: tuple[int, ...]) -> Array:
    image = np.zeros((shape[0], x.shape[1], *shape[1:]), x.dtype)
    image[(coords[:, 0], slice(None), *coords[:, 1:].T)] = x
    return image


@pytest.mark.parametrize(
    ("rank", "size", "stride", "padding", "dilation"),
    [(1, 3, 1, 1, 1), (2, 3, 2, 1, 1), (2, (3, 2), 1, 0, (1, 2)), (3, 3, 1, 1, 1), (3, 2, 2, 0, 1)],
)
def test_convolutions_against_dense_ones(
    rank: int, size: Any, stride: int, padding: int, dilation: Any
) -> None:
    torch = pytest.importorskip("torch")
    shape = (2, *(9, 8, 7)[:rank])
    coords = voxels(shape, 40 if rank > 1 else 7)
    x = random(len(coords), 5)
    found = convolution_map(coords, size, stride=stride, padding=padding, dilation=dilation)
    w = random(*found.kernel_size, 5, 6)
    convolve = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)
    wanted = convolve[rank - 1](
        torch.from_numpy(dense_image(coords, x, shape)),
        torch.from_numpy(np.ascontiguousarray(np.moveaxis(w, (-1, -2), (0, 1)))),
        stride=stride,
        padding=padding,
        dilation=dilation,
    ).numpy()
    extents = np.array(wanted.shape[2:])
    inside = ((found.coords[:, 1:] >= 0) & (found.coords[:, 1:] < extents)).all(axis=1)
    result = sparse_conv(found, x, w)[inside]
    own = found.coords[inside]
    np.testing.assert_allclose(
        dense_image(own, result, (shape[0], *wanted.shape[2:])), wanted, rtol=1e-4, atol=1e-5
    )


def test_submanifold_convolutions_stay_where_they_are() -> None:
    torch = pytest.importorskip("torch")
    shape = (1, 9, 8, 7)
    coords = voxels(shape, 60)
    x, w = random(60, 4), random(3, 3, 3, 4, 6)
    found = convolution_map(coords, 3, submanifold=True)
    np.testing.assert_array_equal(found.coords, coords)
    wanted = torch.nn.functional.conv3d(
        torch.from_numpy(dense_image(coords, x, shape)),
        torch.from_numpy(np.ascontiguousarray(np.moveaxis(w, (-1, -2), (0, 1)))),
        padding=1,
    ).numpy()
    at = (coords[:, 0], slice(None), *coords[:, 1:].T)
    np.testing.assert_allclose(sparse_conv(found, x, w), wanted[at], rtol=1e-4)
    np.testing.assert_allclose(
        sparse_conv(found, x, w.reshape(27, 4, 6)), sparse_conv(found, x, w), rtol=0
    )
    assert sparse_conv(found, x.astype("float64"), w).dtype == "float64"


def test_no_points_and_far_ones() -> None:
    none = convolution_map(np.zeros((0, 4), "int64"), 3, submanifold=True)
    assert sparse_conv(none, random(0, 4), random(27, 4, 2)).shape == (0, 2)
    far = convolution_map([[0, -(10**9), 5], [0, 10**9, -5]], 3, submanifold=True)
    assert len(far.relations.columns) == 2
    with pytest.raises(ArgumentError, match="too far apart"):
        convolution_map([[0, -(10**15), 0], [0, 10**15, 10**9]], 3, submanifold=True)


def test_convolution_mistakes_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"point \[0, 1\] occurs twice, at 0 and 2"):
        convolution_map([[0, 1], [0, 2], [0, 1]], 3)
    with pytest.raises(ShapeError, match="kernel_size has 2 numbers for 1 dimensions"):
        convolution_map([[0, 1]], (3, 3))
    with pytest.raises(ArgumentError, match="stride is 0; it is at least 1"):
        convolution_map([[0, 1]], 3, stride=0)
    with pytest.raises(ShapeError, match="coords are integers"):
        convolution_map(np.zeros((3, 3)), 3)
    found = convolution_map([[0, 1]], 3)
    with pytest.raises(ShapeError, match=r"\(3, channels, channels out\)"):
        sparse_conv(found, random(1, 2), random(2, 2, 2))
