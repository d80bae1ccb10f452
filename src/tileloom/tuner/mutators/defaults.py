"""Which mutators a machine gets, and how often each is taken."""

from __future__ import annotations

from ..context import Mutator
from ..kinds import RuleKind
from .mutate_compute_location import MutateComputeLocation
from .mutate_parallel import MutateParallel
from .mutate_thread_binding import MutateThreadBinding
from .mutate_tile_size import MutateTileSize
from .mutate_unroll import MutateUnroll

_CPU: tuple[tuple[Mutator, float], ...] = (
    (MutateTileSize(), 0.9),
    (MutateComputeLocation(), 0.05),
    (MutateUnroll(), 0.03),
    (MutateParallel(max_jobs_per_core=16), 0.02),
)
_GPU: tuple[tuple[Mutator, float], ...] = (
    (MutateTileSize(), 0.9),
    (MutateUnroll(), 0.08),
    (MutateThreadBinding(), 0.02),
)
_DEFAULTS: dict[RuleKind, tuple[tuple[Mutator, float], ...]] = {
    **dict.fromkeys(("llvm", "vnni", "avx512", "avx512bf16", "amx", "dotprod", "asimd"), _CPU),
    **dict.fromkeys(("cuda", "cuda-tensorcore"), _GPU),
}


def default_mutators(kind: RuleKind) -> tuple[tuple[Mutator, float], ...]:
    """Mutators and their probabilities, which add up to 1: TVM's.

    >>> [(type(m).__name__, p) for m, p in default_mutators("cuda")]
    [('MutateTileSize', 0.9), ('MutateUnroll', 0.08), ('MutateThreadBinding', 0.02)]
    """
    return _DEFAULTS[kind]
