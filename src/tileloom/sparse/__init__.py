"""Sparse tensors: formats, programs over sparse axes, operators on arrays people already have."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING, load

if TYPE_CHECKING:
    from typing import Any

    from ..frontend.sparse import spmm
    from .lower_buffer import lower_sparse_buffer
    from .lower_iter import lower_sparse_iter

__all__ = ["lower_sparse_buffer", "lower_sparse_iter", "spmm"]

#: Public names by the module that holds them. Operators stand at a door above this room, which is
#: opened when one of them is asked for.
_HOMES = {
    "spmm": "frontend.sparse",
    "lower_sparse_buffer": "sparse.lower_buffer",
    "lower_sparse_iter": "sparse.lower_iter",
}

if not TYPE_CHECKING:  # type checkers know the names above, and no others

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(load(f"tileloom.{home}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES})
