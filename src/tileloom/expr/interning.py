"""The table of live nodes: building a node again gives the one that is there."""

from __future__ import annotations

import weakref

from ..base import DType
from ..base.late import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

TABLE: dict[tuple[Any, ...], weakref.ref[Any]] = {}


class _Key(weakref.ref[object]):
    """A weak reference that knows the table key to drop when its node dies."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


def _drop(ref: weakref.ref[Any], table: dict[Any, Any] = TABLE) -> None:
    # The table is an argument since at the end of a process nodes may die after the module.
    key = ref.key  # type: ignore[attr-defined]
    if table.get(key) is ref:
        del table[key]


_set = object.__setattr__


def intern(cls: type[Any], key: tuple[Any, ...], fields: tuple[Any, ...], kind: DType) -> Any:
    """The one node of class `cls` with these field values; `key` identifies them."""
    key = (cls, *key)
    ref = TABLE.get(key)
    if ref is not None:
        found = ref()
        if found is not None:
            return found
    node = object.__new__(cls)
    _set(node, "dtype", kind)
    _set(node, "_memo", None)
    for name, value in zip(cls.__match_args__, fields, strict=True):
        if name != "dtype":
            _set(node, name, value)
    new = _Key(node, _drop)
    new.key = key
    # Another thread may have built the node in the meantime: the first one in the table wins.
    winner = TABLE.setdefault(key, new)
    if winner is not new:
        found = winner()
        if found is not None:
            return found
        TABLE[key] = new
    return node
