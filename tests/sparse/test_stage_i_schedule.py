"""Steps on sparse iterations against NumPy: orders and fusions that are accepted change nothing."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from schedule.common import check_trace
from sparse_fitting import fitting
from sparse_inputs import CASES, case, program
from tileloom.base.errors import UserError
from tileloom.schedule import Schedule, ScheduleError
from tileloom.sparse import lower_sparse_buffer, lower_sparse_iter
from tileloom.sparse.run import run as run_coordinates
from tileloom.sparse.spec import verify
from tileloom.tir import IRModule, PrimFunc, SparseIteration, collect, run

#: Fusions, by hand: the order before, and what is fused.
FUSIONS = {
    "csr_element_wise": (None, ["i", "j"]),
    "csr2bsr": (None, ["i", "j"]),
    "sddmm": (None, ["i", "j"]),
    "sddmm_values": (["k", "i", "j"], ["i", "j"]),
    "rgcn_hetero_forward": (None, ["r", "i"]),
    "bmm": (None, ["b", "i"]),
}


def iterations(module: IRModule) -> list[SparseIteration]:
    return collect(module["main"].body, SparseIteration)


def check(name: str, kind: str, func: PrimFunc, lowered: bool) -> None:
    """The function computes what the program of a name is to compute."""
    arguments, expected = case(name, kind, seed=3)
    if lowered:
        func = lower_sparse_buffer(lower_sparse_iter(func))["main"]
        values = fitting(func, arguments)
        run(func, *values)
    else:
        verify(func)
        values = [arguments[param.name] for param in func.params]
        run_coordinates(func, *values)
    found = {param.name: value for param, value in zip(func.params, values, strict=True)}
    for key, wanted in expected.items():
        got = found[key].reshape(-1)
        np.testing.assert_allclose(got, wanted.reshape(-1), rtol=2e-5, atol=1e-5, err_msg=key)


def orders(name: str) -> tuple[list[PrimFunc], list[tuple[PrimFunc, str]]]:
    """The program in all orders that are accepted, and in those that are refused, and why."""
    func = program(name)
    accepted, refused = [], []
    for stmt in iterations(Schedule(func).mod):
        names = [part.var.name for part in stmt.sp_iter_vars]
        for order in list(permutations(names))[1:]:
            sch = Schedule(func, debug_mask="all")
            rv = sch.get_sparse_iteration(stmt.name)
            try:
                sch.sparse_reorder(rv, order)
            except ScheduleError as error:
                parts = {part.var.name: part for part in stmt.sp_iter_vars}
                forced = stmt.replace(sp_iter_vars=tuple(parts[v] for v in order))
                sch.state.replace(sch.get_sref(rv), forced)
                refused.append((sch.mod["main"], error.message))
            else:
                accepted.append(sch.mod["main"])
    return accepted, refused


@pytest.mark.parametrize("name", CASES)
def test_orders(name: str) -> None:
    accepted, refused = orders(name)
    for k, func in enumerate(accepted):
        kind = ("random", "empty_rows", "power_law")[k % 3]
        check(name, kind, func, lowered=False)
        if k % 7 == 0:
            check(name, kind, func, lowered=True)
    for func, _ in refused:
        with pytest.raises(UserError):
            verify(func)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all_orders_lowered(name: str) -> None:
    for func in orders(name)[0]:
        check(name, "empty_rows", func, lowered=True)


@pytest.mark.parametrize("name", FUSIONS)
def test_fusions(name: str) -> None:
    order, iters = FUSIONS[name]
    func = program(name)
    sch = Schedule(func, debug_mask="all")
    rv = sch.get_sparse_iteration(name.removesuffix("_values"))
    if order is not None:
        sch.sparse_reorder(rv, order)
    sch.sparse_fuse(rv, iters)
    check_trace(sch, func)
    for kind in ("random", "empty_rows", "power_law", "one_row"):
        check(name, kind, sch.mod["main"], lowered=False)
        check(name, kind, sch.mod["main"], lowered=True)


def chains(stmt: SparseIteration) -> Any:
    """All runs of two variables or more that stand next to each other."""
    row = [part.var.name for part in stmt.sp_iter_vars]
    for first in range(len(row)):
        for last in range(first + 2, len(row) + 1):
            yield row[first:last]


@pytest.mark.parametrize("name", CASES)
def test_every_fusion_that_is_accepted_is_legal(name: str) -> None:
    func = program(name)
    for stmt in iterations(Schedule(func).mod):
        for iters in chains(stmt):
            sch = Schedule(func, debug_mask="all")
            rv = sch.get_sparse_iteration(stmt.name)
            try:
                sch.sparse_fuse(rv, iters)
            except ScheduleError:
                continue
            check(name, "empty_rows", sch.mod["main"], lowered=False)
            check(name, "random", sch.mod["main"], lowered=True)


def test_after_lowering_there_are_blocks() -> None:
    """The other way round, steps on iterations do not fit."""
    sch = Schedule(lower_sparse_iter(program("csrmm")))
    sch.split(sch.get_loops("csrmm1")[1], [None, 4])
    with pytest.raises(ScheduleError, match="its iterations may be loops and blocks by now"):
        sch.get_sparse_iteration("csrmm")
    with pytest.raises(ScheduleError, match="a sparse iteration is needed, got block 'csrmm0'"):
        sch.sparse_reorder(sch.get_block("csrmm0"), ["i"])  # type: ignore[arg-type]
