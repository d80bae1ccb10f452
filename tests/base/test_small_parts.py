"""Types by name, launches, lazy attributes, AMX: small parts that everything uses."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from tileloom.base import machine
from tileloom.base.cached import cached_property
from tileloom.base.dtype import dtype
from tileloom.base.errors import DTypeError
from tileloom.base.launches import Launch


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
    assert isinstance(Holder.value, cached_property) and Holder.value.__doc__ == "Made once."


@pytest.mark.parametrize(("answer", "allowed"), [(0, True), (-1, False), (1, False)])
def test_linux_is_asked_for_tiles(
    answer: int, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = SimpleNamespace(syscall=lambda *_: answer)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert machine.may_use_tiles.__wrapped__() == allowed
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    assert not machine.may_use_tiles.__wrapped__()  # a system without calls by number
