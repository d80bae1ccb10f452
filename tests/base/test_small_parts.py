"""Types by name, launches, lazy attributes: small parts that everything uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base.cached import cached_property
from tileloom.base.dtype import dtype
from tileloom.base.errors import DTypeError
from tileloom.base.faults import with_numbers
from tileloom.base.launches import Launch
from tileloom.base.panels import pack_panels
from tileloom.base.sums import equal_parts


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("complex64", "complex numbers are not supported, got 'complex64'"),
        ("int33", "unknown data type 'int33'"),
        ("int32x0", "unknown data type 'int32x0'"),
        ("int32x", "unknown data type 'int32x'"),
        ("int32x-2", "unknown data type 'int32x-2'"),
        ("x4", "unknown data type 'x4'"),
    ],
)
def test_names_of_no_type(name: str, text: str) -> None:
    with pytest.raises(DTypeError) as caught:
        dtype(name)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("name", "bits", "lanes", "size", "facts"),
    [
        ("bool", 1, 1, 1, (False, False, True)),
        ("int4", 4, 1, 1, (False, True, False)),
        ("uint8x4", 8, 4, 4, (False, True, False)),
        ("float16x2", 16, 2, 4, (True, False, False)),
        ("bfloat16", 16, 1, 2, (True, False, False)),
        ("float64", 64, 1, 8, (True, False, False)),
    ],
)
def test_facts_of_types(
    name: str, bits: int, lanes: int, size: int, facts: tuple[bool, bool, bool]
) -> None:
    kind = dtype(name)
    assert (kind.bits, kind.lanes, kind.bytes) == (bits, lanes, size)
    assert (kind.is_float, kind.is_int, kind.is_bool) == facts
    assert kind.element == name.split("x")[0] and kind is dtype(name)


@pytest.mark.parametrize(
    ("grid", "block", "empty"),
    [
        ((1, 1, 1), (1, 1, 1), False),
        ((0, 1, 1), (2, 1, 1), True),
        ((2, 2, 2), (32, 1, 0), True),
    ],
)
def test_launches_without_threads(grid: Any, block: Any, empty: bool) -> None:
    assert Launch("k", (), grid, block).is_empty == empty


def test_lazy_attributes() -> None:
    class Holder:
        @cached_property
        def value(self) -> object:
            """Made once."""
            return object()

    holder = Holder()
    assert holder.value is holder.value
    on_the_class: Any = Holder.value
    assert isinstance(on_the_class, cached_property) and on_the_class.__doc__ == "Made once."


@pytest.mark.parametrize(
    ("extent", "parts", "length"),
    [
        (1000, 7, 125), (1009, 7, None), (12, 3, 4), (24, 2, 12), (7, 7, 1), (6, 7, None),
        (11 * 3, 4, 3), (13 * 3, 4, 3), (17 * 31, 4, None), (8 * 31, 7, 31), (28, 15, 1),
        (19 * 29, 5, 29), (12 * 12, 3, 48), (16, 4, 4), (22, 6, 2),
    ],
)  # fmt: skip
def test_equal_parts(extent: int, parts: int, length: int | None) -> None:
    assert equal_parts(extent, parts) == length


@pytest.mark.parametrize("width", [1, 2, 3, 5, 7])
def test_panels(width: int) -> None:
    matrix = np.arange(10, dtype="int32").reshape(2, 5)
    found = pack_panels(matrix, False, width)
    count = -(-5 // width)
    assert found.shape == (count, 2, width)
    padded = np.zeros((2, count * width), "int32")
    padded[:, :5] = matrix
    assert (found == padded.reshape(2, count, width).swapaxes(0, 1)).all()


def test_numbers_in_messages() -> None:
    twice = with_numbers("{index} {index} {extent} {extent}", 17, 16)
    assert twice == "17 {index} 16 {extent}"  # the texts of a program are left as they are
