"""Tuning of the formats in which products of sparse matrices are computed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import ArgumentError, UserError
from ...driver import TunedChoice, tune_choice
from ...runtime import get_num_threads, set_num_threads
from ...sparse.arrays import Bsc, Bsr, dense, view
from .bsr import has_kernel
from .choices import choice_key
from .kinds import computed_as
from .repeated import forget
from .rows import compressed_rows
from .sddmm import sampled_products
from .sddmm_plan import planned as planned_sddmm
from .sddmm_plan import sddmm_choices
from .spmm import product
from .spmm_plan import planned as planned_spmm
from .spmm_plan import spmm_choices
from .structure import Structure

Array = np.ndarray[Any, Any]


def tune_spmm(
    a: Any,
    features: int,
    dtype: Any = "float32",
    *,
    trials: int = 16,
    records: str | Path | None = None,
) -> TunedChoice:
    """Measure the formats that `spmm(a, x)` may use, and keep the best.

    That is kept where `tileloom.tune` keeps schedules, for matrices whose structure has such
    statistics, this type, number of threads, and machine: later products, in any process, use it.
    Each format is measured in another process, in turns with that which the model chooses, which
    stays unless another one is clearly faster.

    Args:
        a: a sparse matrix, as of `spmm`; its values do not count.
        features: columns of `x`.
        dtype: the type of the values and of `x`.
        trials: formats that are measured at most.
        records: as of `tileloom.tune`.

    Raises:
        UserError: the matrix is stored in blocks, for which there is one kernel, or there is no
            place for records.
    """
    parts = view(a, what="a")
    if isinstance(parts, Bsr | Bsc) and has_kernel(parts):
        raise UserError("there is one format for a matrix that is stored in blocks")
    structure, _ = compressed_rows(a, parts, "a")
    kind = computed_as(np.dtype(dtype), "a @ x")
    choices = spmm_choices(structure, features, kind)
    found = _tuned("spmm", structure, features, kind, choices, trials, records)
    structure.plans.pop(("spmm", features, kind), None)
    forget(a, "spmm")
    return found


def tune_sddmm(
    mask: Any,
    features: int,
    dtype: Any = "float32",
    *,
    trials: int = 16,
    records: str | Path | None = None,
) -> TunedChoice:
    """As `tune_spmm` for `sddmm(mask, x, y)`, with matrices of so many columns."""
    structure, _ = compressed_rows(mask, view(mask, what="mask"), "mask")
    kind = computed_as(np.dtype(dtype), "mask * (x @ y.T)")
    choices = sddmm_choices(structure, features, kind)
    found = _tuned("sddmm", structure, features, kind, choices, trials, records)
    for key in [key for key in structure.plans if key[:3] == ("sddmm", features, kind)]:
        del structure.plans[key]
    forget(mask, "sddmm")
    return found


def _tuned(
    operator: str,
    structure: Structure,
    features: int,
    kind: np.dtype[Any],
    choices: Sequence[str],
    trials: int,
    records: str | Path | None,
) -> TunedChoice:
    if features < 1 or trials < 1 or not structure.nnz:
        raise ArgumentError("there is nothing to measure: no features, trials or elements")
    key = choice_key(operator, structure, features, kind)
    with tempfile.TemporaryDirectory(prefix="tileloom-") as folder:
        np.save(Path(folder, "indptr.npy"), structure.indptr)
        np.save(Path(folder, "indices.npy"), structure.indices)
        about = folder, structure.shape, features, str(kind), get_num_threads()
        return tune_choice(key, partial(_MAKERS[operator], *about), choices[:trials], records)


# ---------------------------------------------------------------------------- in another process


def _spmm_call(
    folder: str, shape: tuple[int, int], features: int, dtype: str, threads: int, choice: str
) -> Callable[[], Array]:
    """A product by a format, of random numbers."""
    set_num_threads(threads)
    structure, kind = _structure(folder, shape, choice), np.dtype(dtype)
    extents = (structure.nnz,), (shape[1], features), (shape[0], features)
    values, x, out = _arrays(folder, extents, dtype)
    operand = dense(x)
    structure.plans["spmm", features, kind] = planned_spmm(structure, features, kind, choice)
    return lambda: product(structure, values, operand, out)


def _sddmm_call(
    folder: str, shape: tuple[int, int], features: int, dtype: str, threads: int, choice: str
) -> Callable[[], Array]:
    set_num_threads(threads)
    structure, kind = _structure(folder, shape, choice), np.dtype(dtype)
    nnz = (structure.nnz,)
    extents = nnz, (shape[0], features), (shape[1], features), nnz
    *operands, out = _arrays(folder, extents, dtype)
    plan = planned_sddmm(structure, features, kind, "multiply", choice)
    structure.plans["sddmm", features, kind, "multiply"] = plan

    def call() -> Array:
        sampled_products(structure, operands, out, "multiply")
        return out

    return call


_MAKERS = {"spmm": _spmm_call, "sddmm": _sddmm_call}


@lru_cache(maxsize=2)
def _structure(folder: str, shape: tuple[int, int], choice: str) -> Structure:
    indptr, indices = (np.load(Path(folder, f"{name}.npy")) for name in ("indptr", "indices"))
    return Structure(indptr, indices, shape)


@lru_cache(maxsize=1)
def _arrays(folder: str, extents: tuple[tuple[int, ...], ...], dtype: str) -> list[Array]:
    """Operands and the result, shared by all formats: where they lie decides how fast these are."""
    return [_random(shape, np.dtype(dtype)) for shape in extents]


def _random(shape: tuple[int, ...], kind: np.dtype[Any]) -> Array:
    rng = np.random.default_rng(0)
    drawn = rng.integers(1, 8, shape) if kind.kind in "iu" else rng.random(shape)
    return drawn.astype(kind)
