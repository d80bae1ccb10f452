"""Sparse programs on their way to an automatic schedule, and the rules of each kind of target."""

from __future__ import annotations

from ..schedule import Schedule
from ..tir import IRModule, PrimFunc
from .iteration_order import with_columns_innermost
from .lower_iter import lower_sparse_iter
from .schedule_cpu import schedule_cpu as schedule_cpu
from .schedule_cuda import schedule_cuda as schedule_cuda
from .spec import verify


def over_positions(program: IRModule | PrimFunc) -> Schedule:
    """A schedule without any step of a program that was verified, its iterations lowered."""
    mod = IRModule({"main": program}) if isinstance(program, PrimFunc) else program
    for func in mod.functions.values():
        verify(func)
    return Schedule(lower_sparse_iter(with_columns_innermost(mod)))
