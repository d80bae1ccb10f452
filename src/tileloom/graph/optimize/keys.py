"""Attributes and nodes as hashable keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

#: Constants up to this many bytes are compared by content to find equal ones.
BYTES_COMPARED = 1 << 12


def freeze(value: Any) -> Any:
    """Attributes as a hashable key; equal keys mean the same while the values are alive.

    Large arrays are known by identity: a key must not outlive the node that it describes.

    >>> freeze(0.0) == freeze(-0.0), freeze(float("nan")) == freeze(float("nan"))
    (False, True)
    """
    if isinstance(value, Mapping):
        return tuple(sorted((key, freeze(part)) for key, part in value.items())) if value else ()
    if isinstance(value, (list, tuple)):
        return tuple(freeze(part) for part in value)
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        content = array.tobytes() if array.nbytes <= BYTES_COMPARED else id(value)
        return (array.dtype.name, array.shape, content)
    if isinstance(value, float):
        return value.hex()
    return (type(value).__name__, value)
