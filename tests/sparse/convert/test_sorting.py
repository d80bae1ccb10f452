"""Orders of keys that do and do not fit into one number with the element's."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.sparse.convert.sorting import lexical_order, stable_order


@pytest.mark.parametrize("bound", [1, 2, 1 << 20, 1 << 53, 1 << 54, (1 << 63) - 1])
@pytest.mark.parametrize("count", [0, 1, 2, 500])
def test_orders_are_stable(rng: np.random.Generator, bound: int, count: int) -> None:
    keys = rng.choice(rng.integers(0, bound, 40), count)
    given = keys.copy()
    order, ascending = stable_order(keys, bound)
    np.testing.assert_array_equal(order, np.argsort(keys, kind="stable"))
    np.testing.assert_array_equal(ascending, np.sort(keys))
    np.testing.assert_array_equal(keys, given)


@pytest.mark.parametrize(
    "bounds",
    [(4, 5, 6), (1, 1, 1), (1 << 20, 1 << 20, 1 << 20), (1 << 62, 3, 1 << 62), (3, 1 << 60, 7)],
)
@pytest.mark.parametrize("given_in_order", [False, True])
def test_lexical_orders(
    rng: np.random.Generator, bounds: tuple[int, ...], given_in_order: bool
) -> None:
    columns = [rng.choice(rng.integers(0, bound, 5), 400) for bound in bounds]
    if given_in_order:
        order = np.lexsort(columns[::-1])
        columns = [column[order] for column in columns]
    np.testing.assert_array_equal(lexical_order(columns, bounds), np.lexsort(columns[::-1]))


def test_keys_of_int32_are_not_wrapped() -> None:
    columns = [np.array([1, 0, 1], np.int32), np.array([2**31 - 1, 2**31 - 1, 0], np.int32)]
    assert lexical_order(columns, [2, 2**31]).tolist() == [1, 2, 0]
