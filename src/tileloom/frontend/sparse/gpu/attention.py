"""`graph_attention` in a place: scores of elements, their softmax row by row, and a product."""

from __future__ import annotations

from ....sparse.kernels.gpu.threads import VECTOR
from .dots import dots
from .place import Array, Kind
from .reduce import product
from .rows import Matrix
from .segments import softmax


def attend(
    matrix: Matrix, weights: Array, arrays: list[Array], result: Array, scale: float, values: str,
    kind: Kind,
) -> None:  # fmt: skip
    """All heads of `softmax(scale * q @ k.T) @ v` where a matrix has elements.

    Args:
        weights: its values, of the type that scores have.
        arrays: q, k and v, of one type.
        result: for the result, of the same type.
        values: what the weights are for; see `DotsCase`.
        kind: the type of scores.
    """
    place, every = matrix.place, (*arrays, result)
    used = [] if values == "ignore" else [weights]
    for q, k, v, out in [every] if result.ndim == 2 else zip(*every, strict=True):
        scores = place.empty((matrix.nnz, 1), kind)
        q, k = (place.prepared(array, place.kind(array)) for array in (q, k))
        dots(matrix, q, k, scores.reshape(-1), used, values, scale)
        shares = softmax(matrix, scores).reshape(-1)
        if out.nbytes % VECTOR:  # not all heads begin where kernels take addresses
            out[...] = product(place, matrix, shares, place.prepared(v, place.kind(v)), None)
        else:
            product(place, matrix, shares, place.prepared(v, place.kind(v)), out)
