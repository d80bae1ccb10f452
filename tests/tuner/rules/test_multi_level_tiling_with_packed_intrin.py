"""Products of bfloat16 and of bytes on tile registers and on dot products of vectors."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileloom
from tileloom import te
from tileloom.driver import assembly
from tileloom.driver.tuning import kernels_of
from tileloom.schedule import Schedule, Trace
from tileloom.target import Target, target
from tileloom.target.description import current_process_may_run
from tileloom.tir import Block, IRModule, collect, run
from tileloom.tuner.context import TuneContext
from tileloom.tuner.design_space import design_spaces
from tileloom.tuner.kinds import rule_kind
from tileloom.tuner.postprocs.defaults import default_postprocs
from tileloom.tuner.rules.multi_level_tiling_with_packed_intrin import (
    MultiLevelTilingWithPackedIntrin,
)

RAPIDS, COOPER = target("cpu -mcpu=sapphirerapids"), target("cpu -mcpu=cooperlake")
ALL = ("bf16", "u8s8", "s8s8", "u8u8", "s8u8")
RULES = {unit: MultiLevelTilingWithPackedIntrin(unit=unit, kinds=ALL) for unit in ("amx", "dots")}
BF16, U8, S8 = "bfloat16", "uint8", "int8"
#: The shapes and the types of the factors, and whether the right one is stored by columns.
PRODUCTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], str, str]] = {
    "bf16": ((24, 64), (64, 32), BF16, BF16),
    "transposed": ((8, 64), (16, 64), BF16, BF16),
    "batches": ((2, 16, 64), (2, 64, 16), U8, S8),
    "signed": ((16, 128), (128, 16), S8, S8),
    "unsigned": ((4, 64), (64, 16), U8, U8),
}


def total_of(kind: str) -> str:
    return "float32" if kind == BF16 else "int32"


def product(name: str) -> IRModule:
    left, right, one, other = PRODUCTS[name]
    total, by_columns = total_of(one), name == "transposed"
    a, b = te.placeholder(left, one, name="A"), te.placeholder(right, other, name="B")
    k: Any = te.reduce_axis((0, left[-1]), "k")

    def element(*at: Any) -> Any:
        *batch, i, j = at
        x, y = a[(*batch, i, k)], b[(*batch, *((j, k) if by_columns else (k, j)))]
        return te.sum(x.astype(total) * y.astype(total), axis=k)

    columns = right[-2] if by_columns else right[-1]
    c = te.compute((*left[:-1], columns), element, name="C")
    return IRModule({"main": te.create_prim_func([a, b, c])})


def convolution() -> IRModule:
    """Channels last: rows of the product are places, its depth is what the kernel covers."""
    a, b = te.placeholder((1, 4, 3, 32), BF16, "A"), te.placeholder((3, 2, 32, 16), BF16, "B")
    y, x, c = (te.reduce_axis((0, n), name) for n, name in ((3, "y"), (2, "x"), (32, "c")))

    def element(n: Any, i: Any, j: Any, o: Any) -> Any:
        left, right = a[n, i + y, j + x, c], b[y, x, c, o]
        return te.sum(left.astype("float32") * right.astype("float32"), axis=[y, x, c])

    out = te.compute((1, 2, 2, 16), element, name="C")
    return IRModule({"main": te.create_prim_func([a, b, out])})


def numbers(shape: tuple[int, ...], kind: str, seed: int) -> Any:
    """Such as are multiplied and added exactly."""
    random = np.random.default_rng(seed)
    if kind == BF16:
        return (random.integers(-8, 9, shape) / 8).astype(ml_dtypes.bfloat16)
    return random.integers(*((0, 256) if kind == U8 else (-128, 128)), shape).astype(kind)


def finished(way: Schedule, mod: IRModule, machine: Target) -> Schedule:
    """A candidate of a design space: decisions drawn, postprocessing steps taken."""
    assert way.trace is not None
    context, sch = TuneContext(mod, machine), Schedule(mod, seed=7)
    Trace.from_json([way.trace.as_json()[0], []]).apply_to_schedule(sch, remove_postproc=True)
    sch.enter_postproc()
    assert all(step.apply(sch, context) for step in default_postprocs(rule_kind(machine)))
    return sch


def calculate(sch: Schedule, *arguments: Any) -> None:
    """Run a candidate on this machine, or in the interpreter where this one cannot."""
    if current_process_may_run(RAPIDS):
        tileloom.build(sch.mod["main"], RAPIDS)(*arguments)
    else:
        run(sch.mod["main"], *arguments)


def ways_of(mod: IRModule, unit: str, machine: Target = RAPIDS) -> list[Schedule]:
    sch = Schedule(mod, seed=3)
    return RULES[unit].apply(sch, sch.get_block("C"), TuneContext(mod, machine))


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("bf16", "amx"),
        ("batches", "dots"),
        *(
            pytest.param(name, unit, marks=pytest.mark.slow)
            for name in PRODUCTS
            for unit in ("amx", "dots")
            if (name, unit) not in (("bf16", "amx"), ("batches", "dots"))
        ),
    ],
)
def test_ways_with_an_intrinsic_compute_the_same(name: str, unit: str) -> None:
    mod = product(name)
    *found, plain = ways_of(mod, unit)
    assert len(found) == 3 and plain.mod["main"] is mod["main"]
    left, right, one, other = PRODUCTS[name]
    a, b = numbers(left, one, 0), numbers(right, other, 1)
    total = total_of(one)
    expected = a.astype(total) @ (b.T if name == "transposed" else b).astype(total)
    out = np.zeros(expected.shape, total)
    sch = finished(found[1], mod, RAPIDS)
    calculate(sch, a, b, out)
    np.testing.assert_array_equal(out, expected)
    assert ("amx_dot" if unit == "amx" else "T.dot_") in sch.mod.script()


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["amx", "dots"])
def test_the_interpreter_agrees(unit: str) -> None:
    mod = product("bf16")
    (left, right, one, other), out = PRODUCTS["bf16"], np.zeros((24, 32), "float32")
    a, b = numbers(left, one, 0), numbers(right, other, 1)
    run(finished(ways_of(mod, unit)[2], mod, RAPIDS).mod["main"], a, b, out)
    np.testing.assert_array_equal(out, a.astype("f4") @ b.astype("f4"))


@pytest.mark.parametrize(
    ("name", "unit", "machine", "instruction"),
    [
        ("bf16", "amx", RAPIDS, "tdpbf16ps"),
        pytest.param("batches", "amx", RAPIDS, "tdpbusd", marks=pytest.mark.slow),
        pytest.param("signed", "amx", RAPIDS, "tdpbssd", marks=pytest.mark.slow),
        pytest.param("unsigned", "amx", RAPIDS, "tdpbuud", marks=pytest.mark.slow),
        ("bf16", "dots", COOPER, "vdpbf16ps"),
        pytest.param("batches", "dots", COOPER, "vpdpbusd", marks=pytest.mark.slow),
    ],
)
def test_code_for_machines_that_this_one_may_not_be(
    name: str, unit: str, machine: Target, instruction: str
) -> None:
    mod = product(name)
    text = assembly(finished(ways_of(mod, unit)[0], mod, machine).mod, machine)
    assert re.search(rf"\b{instruction}\b", text)
    assert ("ldtilecfg" in text) is (unit == "amx")


@pytest.mark.parametrize("unit", ["amx", pytest.param("dots", marks=pytest.mark.slow)])
def test_kernels_of_graphs_multiply_words(unit: str) -> None:
    """Which graphs make of bfloat16 and of bytes; they are packed into panels right away."""
    a, b = numbers((32, 64), BF16, 0), numbers((64, 16), BF16, 1)
    graph = tileloom.jit(lambda x, y: x @ y).graph(a, b)
    (task,) = kernels_of(graph, RAPIDS)
    spaces = design_spaces(task.context)
    found = next(s for s in spaces if re.search(rf"matmul_bf16_words_\w+_{unit}", s.mod.script()))
    sch = finished(found, task.context.mod, RAPIDS)
    names = [block.name_hint for block in collect(sch.mod["main"].body, Block)]
    assert "in0_words" in names and "in1_words" not in names
    out = np.zeros((32, 16), ml_dtypes.bfloat16)
    calculate(sch, a, b, out)
    expected = (a.astype("float32") @ b.astype("float32")).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(out, expected)


def test_axes_of_a_convolution_are_fused() -> None:
    mod = convolution()
    found = ways_of(mod, "amx")[0]
    outer = found.get(found.get_block("C_o"))
    assert outer.annotations["meta_schedule.auto_tensorize"] == "matmul_bf16_4x16x192_amx"
    a, b = numbers((1, 4, 3, 32), BF16, 0), numbers((3, 2, 32, 16), BF16, 1)
    out = np.zeros((1, 2, 2, 16), "float32")
    calculate(finished(found, mod, RAPIDS), a, b, out)
    windows = np.lib.stride_tricks.sliding_window_view(a.astype("f4"), (3, 2), axis=(1, 2))
    expected = np.einsum("nijcyx,yxco->nijo", windows, b.astype("f4"))
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("machine", "name", "units"),
    [
        (RAPIDS, "bf16", {"amx", "dots", ""}),
        (COOPER, "bf16", {"dots", ""}),
        (target("cpu -mcpu=cascadelake"), "bf16", {""}),
        (RAPIDS, "signed", {"amx", ""}),
        (RAPIDS, "batches", {"amx", "dots", "vnni"}),
        (COOPER, "batches", {"dots", "vnni"}),
    ],
)
def test_design_spaces_of_machines(machine: Target, name: str, units: set[str]) -> None:
    """A product of unsigned by signed bytes has no plain way where there is TVM's intrinsic."""
    found = set()
    for space in design_spaces(TuneContext(product(name), machine)):
        marks = re.findall(r'auto_tensorize": "\w+_(\w+)"', space.mod.script())
        found.add(marks[0] if marks else "")
    assert found == units


@pytest.mark.parametrize(
    ("rows", "columns", "depth"), [(7, 32, 64), (3, 32, 64), (8, 24, 64), (8, 32, 40)]
)
def test_sizes_that_no_tile_divides(rows: int, columns: int, depth: int) -> None:
    PRODUCTS["odd"] = ((rows, depth), (depth, columns), U8, S8)
    assert len(ways_of(product("odd"), "amx")) == (4 if rows == 7 else 1)
    assert len(ways_of(product("odd"), "dots")) == (1 if columns == 24 else 4)
    del PRODUCTS["odd"]
