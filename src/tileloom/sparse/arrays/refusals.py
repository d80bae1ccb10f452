"""What is said of a value that is no sparse array, or no dense one, where one is meant."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import ArgumentError, UserError

__all__ = ["describe", "not_dense", "not_sparse"]

_LIBRARIES = "SciPy, PyTorch and pydata/sparse"
# As people call a package that has another name when it is imported.
_KNOWN_AS = {"sparse": "pydata/sparse"}


def describe(value: Any) -> str:
    """A value in words, by its type.

    >>> describe(np.zeros(3)), describe([1, 2]), describe(None)
    ('a dense numpy array', 'a list', 'None')
    """
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    if value is None:
        return "None"
    if isinstance(value, np.ma.MaskedArray):
        return "a dense numpy masked array"
    if isinstance(value, np.ndarray):
        return "a dense numpy array"
    if package == "torch" and hasattr(value, "layout"):
        layout = str(value.layout).removeprefix("torch.")
        return f"a {'dense' if layout == 'strided' else layout} torch tensor"
    name = kind.__qualname__
    if package != "builtins":
        name = f"{_KNOWN_AS.get(package, package)} {name}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def not_sparse(value: Any, what: str) -> UserError:
    """The error for a value where a sparse array is meant."""
    package = type(value).__module__.partition(".")[0]
    hint = f"sparse arrays of {_LIBRARIES} are taken, and tileloom's own formats"
    if isinstance(value, np.ma.MaskedArray):
        hint = f"scipy.sparse.coo_array({what}.filled(0)) keeps the nonzeros"
    elif isinstance(value, np.ndarray | list | tuple):
        hint = f"scipy.sparse.coo_array({what}) keeps the nonzeros; .tocsr() of it is a matrix"
    elif package == "torch":
        hint = f"{what}.to_sparse_csr() keeps the nonzeros"
    return ArgumentError(f"{what} is {describe(value)}; a sparse array is meant here", hint=hint)


def not_dense(value: Any, what: str, hint: str | None) -> UserError:
    """The error for a value where a dense array is meant."""
    return ArgumentError(f"{what} is {describe(value)}; a dense array is meant here", hint=hint)
