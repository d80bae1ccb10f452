"""Mutators, one a file: each gives a trace another decision."""

from __future__ import annotations

from .mutate_compute_location import MutateComputeLocation
from .mutate_parallel import MutateParallel
from .mutate_thread_binding import MutateThreadBinding
from .mutate_tile_size import MutateTileSize
from .mutate_unroll import MutateUnroll

__all__ = [
    "MutateComputeLocation", "MutateParallel", "MutateThreadBinding", "MutateTileSize",
    "MutateUnroll",
]  # fmt: skip
