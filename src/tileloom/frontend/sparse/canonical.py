"""Rows whose columns ascend, each stored once: what can be merged."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...sparse.convert import SummedCsr, has_duplicates, sum_duplicates
from .structure import Structure

Array = np.ndarray[Any, Any]
_KEY = "canonical"


def canonical(structure: Structure, values: Array) -> tuple[Structure, Array]:
    """The matrix with sorted columns; elements that are stored several times are added up.

    What the structure becomes is found once for each; its values are put in order at each call.
    """
    found: tuple[Structure, SummedCsr | None] | None = structure.plans.get(_KEY)
    if found is None:
        found = structure.plans[_KEY] = _canonical(structure)
    ordered, summed = found
    return ordered, values if summed is None else summed.values(values)


def _canonical(structure: Structure) -> tuple[Structure, SummedCsr | None]:
    indptr, indices = structure.indptr, structure.indices
    if structure.is_sorted and not has_duplicates(indptr, indices):
        return structure, None
    summed = sum_duplicates(indptr, indices)
    return Structure(summed.indptr, summed.indices, structure.shape), summed
