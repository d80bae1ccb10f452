"""Programs over sparse axes scheduled by rule, against NumPy and by what the rules decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from sparse_fitting import fitting
from sparse_inputs import CASES, case, kinds, program
from sparse_programs import csrmm
from sparse_rules import hyb_parts, with_parts
from tileloom.base.errors import ArgumentError, UnsupportedError
from tileloom.sparse import auto_schedule, format_decompose, lower_sparse_buffer
from tileloom.tir import PARALLEL, For, IRModule, PrimFunc, SparseIteration, collect, sparse_level

KINDS = [(name, kind) for name in CASES for kind in kinds(name)]
#: What needs threads that wait for each other's results.
NOT_ON_GPUS = ("rgcn_hetero_forward",)


def scheduled(name: str, kind: str = "random", idtype: str = "int32", target: str = "cpu") -> Any:
    return auto_schedule(program(name, kind, idtype), target).mod["main"]


def check(name: str, kind: str, idtype: str = "int32", target: str = "cpu") -> None:
    arguments, expected = case(name, kind, 1, idtype)
    func = program(name, kind, idtype)
    plain = lower_sparse_buffer(auto_schedule(func, target).mod)["main"]
    values = fitting(plain, arguments)
    device = "emulator" if target == "cuda" else None
    tileloom.sparse.compile(func, target, device)(*values)
    found = {param.name: value for param, value in zip(plain.params, values, strict=True)}
    for key, wanted in expected.items():
        got = found[key].reshape(-1)
        np.testing.assert_allclose(got, wanted.reshape(-1), 2e-5, 1e-5, err_msg=key)


@pytest.mark.parametrize("name", CASES)
def test_programs_compute_the_same(name: str) -> None:
    check(name, "random", "int64" if len(name) % 2 else "int32")


@pytest.mark.slow
@pytest.mark.parametrize("idtype", ["int32", "int64"])
@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_all_of_them(name: str, kind: str, idtype: str) -> None:
    check(name, kind, idtype)


@pytest.mark.parametrize("name", ["csrmm", "sddmm", "bsrmm", "csr_add"])
def test_on_the_emulator(name: str) -> None:
    check(name, "empty_rows", target="cuda")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_all_of_them_on_the_emulator(name: str, kind: str) -> None:
    if name in NOT_ON_GPUS:
        with pytest.raises(UnsupportedError):
            auto_schedule(program(name, kind), "cuda")
    else:
        check(name, kind, target="cuda")


# ---------------------------------------------------------------------------- what is decided


def loops(func: PrimFunc) -> list[tuple[str, str, dict[str, Any]]]:
    found = collect(func.body, For)
    return [(loop.loop_var.name, loop.kind, dict(loop.annotations)) for loop in found]


def test_rows_run_in_parallel_and_columns_in_vectors() -> None:
    target = "cpu -mcpu=x86-64-v3"
    assert loops(scheduled("csrmm", target=target)) == [
        ("i", PARALLEL, {"schedule": "dynamic"}),
        ("k_0", "serial", {}),
        ("j", "serial", {}),
        ("k_1", "serial", {"vector_lanes": 8}),
    ]


def test_columns_become_innermost() -> None:
    names = [name for name, *_ in loops(scheduled("bsrmm"))]
    assert names == ["i", "bi", "f_0", "j", "bj", "f_1"]


def test_every_program_has_a_parallel_loop() -> None:
    for name in CASES:
        assert any(kind == PARALLEL for _, kind, _ in loops(scheduled(name))), name


def test_loops_that_combine_stay_serial() -> None:
    """The results of all relations are added up, so these run one after the other."""
    found = loops(scheduled("rgcn_hetero_forward"))
    assert [kind for name, kind, _ in found if name == "r"] == [PARALLEL, "serial"]  # start, sums
    assert sum(kind == PARALLEL for _, kind, _ in found) == 1


def test_steps_are_recorded() -> None:
    sch = auto_schedule(csrmm)
    steps = [step.kind.name for step in sch.trace.insts]
    assert {"Split", "Reorder", "Parallel"} <= set(steps)
    assert sparse_level(sch.mod["main"]) == 1
    assert not collect(sch.mod["main"].body, SparseIteration)


# ---------------------------------------------------------------------------- decomposed programs


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_decomposed_programs(target: str) -> None:
    """Two parts of the columns, by the lengths of their rows."""
    matrix, expected = case("csrmm", "power_law")
    rules, parts = hyb_parts(matrix, 2, [1, 3])
    func = format_decompose(csrmm, rules, include_format_rewrite_blks=False)
    plain = lower_sparse_buffer(auto_schedule(func, target).mod)["main"]
    given = with_parts(plain, matrix, parts)
    named = {param.name: value for param, value in zip(plain.params, given, strict=True)}
    values = fitting(plain, named)
    kernel = tileloom.sparse.compile(func, target, "emulator" if target == "cuda" else None)
    kernel(*values)
    np.testing.assert_allclose(values[2].reshape(-1), expected["c"].reshape(-1), 2e-5, 1e-5)


def test_what_is_refused() -> None:
    two = IRModule({"a": csrmm, "b": csrmm})
    with pytest.raises(ArgumentError, match="one function is compiled, the module has 2"):
        tileloom.sparse.compile(two)
