"""Formats as texts, and those that tuning has found for matrices of some structure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log2
from typing import Any, TypeVar

import numpy as np

from ...base.errors import UserError
from ...base.record import Record
from ...driver import chosen
from ...runtime import get_num_threads
from .filling import fillings
from .structure import Structure

Plan = TypeVar("Plan", bound=Record)

_VERSION = 1  # of the key: another one finds no records of this one
_STEPS = 8  # that fillings and shares are told apart in
_QUANTILES = (0.1, 0.5, 0.9, 1.0)


def parsed(format: str, names: Sequence[str]) -> tuple[str, int | None]:
    """The name of a format and its size, if it has one.

    Raises:
        UserError: there is no such format.

    >>> parsed("auto", ["rows", "parts"]), parsed("parts 900", ["rows", "parts"])
    (('auto', None), ('parts', 900))
    """
    name, _, size = format.partition(" ")
    is_known = name in names or format == "auto"
    if not is_known or (size and not (size.isdecimal() and int(size))):
        raise UserError(f"unknown format {format!r}", hint=f"one of auto, {', '.join(names)}")
    return name, int(size) if size else None


def choice_key(operator: str, structure: Structure, features: int, kind: np.dtype[Any]) -> str:
    """A name for products that take the same time: by statistics of the structure, not by it.

    >>> indptr, indices = np.arange(5), np.arange(4)
    >>> one = Structure(indptr, indices, (4, 4))
    >>> choice_key("spmm", one, 16, np.dtype("float32"))
    'spmm-1 4x4 of 4 int64, 1.0 1.0 1.0 1.0 sorted near 8, 2:4 4:2, 16 float32, ... threads'
    """
    key = ("statistics",)
    if key not in structure.plans:
        structure.plans[key] = _statistics(structure)
    threads = get_num_threads()
    statistics = structure.plans[key]
    return f"{operator}-{_VERSION} {statistics}, {features} {kind}, {threads} threads"


def recorded(
    operator: str,
    structure: Structure,
    features: int,
    kind: np.dtype[Any],
    plan: Callable[[Structure, int, np.dtype[Any], str], Plan],
) -> Plan | None:
    """The plan by the format that tuning has found; None where it has found none."""
    format = chosen(lambda: choice_key(operator, structure, features, kind))
    if format is None:
        return None
    try:
        found = plan(structure, features, kind, format)
        return found.replace(reason=f"{format}, as tuning has found")
    except UserError:  # of another matrix with such statistics, which it could serve
        return None


def _statistics(structure: Structure) -> str:
    m, n = structure.shape
    lengths = np.sort(structure.lengths)
    places = [int(q * (m - 1)) for q in _QUANTILES] if m else []
    rows = " ".join(f"{round(2 * log2(1 + int(lengths[k]))) / 2:.1f}" for k in places)
    order = "sorted" if structure.is_sorted else "unsorted"
    near = round(_STEPS * structure.share_near(n // 64))
    full = " ".join(f"{e}:{round(_STEPS * f)}" for e, f in fillings(structure).items())
    count = f"{structure.nnz:.2g}" if structure.nnz >= 100 else structure.nnz
    return f"{m}x{n} of {count} {structure.indices.dtype}, {rows} {order} near {near}, {full}"
