"""Which library an array is from, by the classes that its type is derived from.

Libraries are told by the names of modules: none of them is imported to ask whether an array is its
own. What is found for a type is kept, so that the next call costs a lookup.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from . import own, pydata_arrays, scipy_arrays, torch_tensors
from .formats import Sparse

__all__ = ["Library", "found_for", "library_of", "reader_in"]

_Found = TypeVar("_Found")


class Library(Protocol):
    """What a library's module offers."""

    def reader(self, base: type) -> Callable[[Any, str], Sparse] | None:
        """How arrays are read whose type is derived from this class, if they are sparse."""

    def dense_reader(self, base: type) -> Callable[[Any, str], Any] | None:
        """How arrays are read whose type is derived from this class, if they may be dense."""

    def wrap(self, view: Sparse, like: Any) -> Any:
        """A sparse array of the library's over the memory of a view."""

    def with_values(self, data: Any, like: Any) -> Any:
        """An array of the indices of another."""

    def dense_like(self, array: Any, like: Any) -> Any:
        """A dense array of the kind that goes with the library's sparse arrays."""


_LIBRARIES: dict[str, Library] = {
    "scipy": scipy_arrays,
    "torch": torch_tensors,
    "sparse": pydata_arrays,
    "tileloom": own,
}


def reader_in(base: type, function: str) -> Any:
    """What a function of its library's module answers for a class."""
    library = _LIBRARIES.get(base.__module__.partition(".")[0])
    return None if library is None else getattr(library, function)(base)


def library_of(kind: type) -> Library | None:
    """The library that has a type of sparse arrays, or one that a type is derived from."""
    for base in kind.__mro__:
        if reader_in(base, "reader") is not None:
            return _LIBRARIES[base.__module__.partition(".")[0]]
    return None


def found_for(
    kind: type, known: dict[type, _Found], find: Callable[[type], _Found | None]
) -> _Found:
    """What `find` says of the first class in the order of inheritance that it knows; it is kept."""
    for base in kind.__mro__:
        found = find(base)
        if found is not None:
            return known.setdefault(kind, found)
    raise LookupError(kind)
