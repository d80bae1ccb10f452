"""Passes keep what programs compute: every step of a pipeline is run, by threads too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tile.matmul import matmul
from tile.oracle import needs_oracle, triton_passes
from tile.run.programs import MATMUL, SOFTMAX, VECTOR_ADD
from tile.run.random_programs import RandomProgram
from tile.validation import check_pass
from tileloom.tile import parse, run_passes, show
from tileloom.tile.ir.core import Operation

RNG = np.random.default_rng(11)
STEPS = (
    "convert-triton-to-tritongpu{{target=cuda:{} num-warps=4}}",
    "tritongpu-coalesce",
    "tritongpu-remove-layout-conversions",
    "tritongpu-optimize-thread-locality",
    "tritongpu-accelerate-matmul",
    "tritongpu-remove-layout-conversions",
    "tritongpu-optimize-dot-operands",
    "cse",
    "tritongpu-reorder-instructions",
    "canonicalize",
)
TRITON_STEPS = (
    "ttir.add_convert_to_ttgpuir:cuda-{}:4:32:1",
    "ttgpuir.add_coalesce",
    "ttgpuir.add_remove_layout_conversions",
    "ttgpuir.add_accelerate_matmul",
    "ttgpuir.add_remove_layout_conversions",
    "ttgpuir.add_optimize_dot_operands:1",
    "ttgpuir.add_pipeline:3",
    "ttgpuir.add_prefetch",
    "ttgpuir.add_optimize_dot_operands:1",
    "ttgpuir.add_remove_layout_conversions",
    "ttgpuir.add_reduce_data_duplication",
    "ttgpuir.add_reorder_instructions",
    "common.add_canonicalizer",
    "ttgpuir.add_allocate_shared_memory",
)


def example(name: str) -> tuple[str, list[Any], tuple[int, ...]]:
    """A program, its arguments and its grid."""
    if name == "add":
        return VECTOR_ADD, [*RNG.random((2, 100), np.float32), np.zeros(100, np.float32), 100], (2,)
    if name == "softmax":
        x = RNG.standard_normal((3, 20)).astype(np.float32)
        return SOFTMAX, [x, np.zeros_like(x), 20], (3,)
    shape = (16, 48) if name == "blocks" else (32, 64)
    a = RNG.standard_normal(shape).astype(np.float16)
    b = RNG.standard_normal((shape[1], shape[0])).astype(np.float16)
    c = np.zeros((shape[0], shape[0]), np.float32)
    if name == "blocks":
        return MATMUL, [a, b, c, 48], (1,)
    return matmul(32, 32, 16), [a, b, c, 60, 64, 32, 32], (1,)


@pytest.mark.parametrize("target", ["80", "90"])
@pytest.mark.parametrize("name", ["add", "softmax", "blocks", "matmul"])
def test_pipelines(name: str, target: str) -> None:
    text, arguments, grid = example(name)
    before, module = parse(text), parse(text)
    for step in STEPS:
        run_passes(module, [step.format(target)])
        check_pass(before, module, arguments, grid=grid, rtol=1e-3, atol=1e-3)


def integers(seed: int) -> tuple[Operation, list[Any]]:
    """A random program on integers, and arguments."""
    generator = np.random.default_rng(seed)
    a, b = generator.integers(-(2**31), 2**31, (2, 64))
    b[:32] = generator.integers(-9, 9, 32)
    program = RandomProgram(seed, a.tolist(), b.tolist(), 25)
    return parse(program.text()), [a.astype(np.int32), b.astype(np.int32)]


def check_random(seed: int) -> None:
    before, arguments = integers(seed)
    after = parse(show(before))
    run_passes(after, ["canonicalize", "cse"])
    check_pass(before, after, arguments)
    run_passes(after, [STEPS[0].format(80), "tritongpu-coalesce", STEPS[2], "canonicalize"])
    check_pass(before, after, arguments)


@pytest.mark.parametrize("seed", range(5))
def test_random_programs(seed: int) -> None:
    check_random(seed)


@pytest.mark.slow
def test_many_random_programs() -> None:
    for seed in range(500):
        check_random(seed)


@needs_oracle
@pytest.mark.parametrize("target", ["80", "90"])
def test_what_triton_makes_of_a_product(target: str) -> None:
    """Layouts, pipelines with copies ahead, asynchronous products: as Triton has them."""
    text, arguments, grid = example("matmul")
    text = text.replace(", inputPrecision = tf32", "")
    before = parse(text)
    for count in (1, 7, 8, len(TRITON_STEPS)):
        steps = [step.format(target) for step in TRITON_STEPS[:count]]
        after = triton_passes(show(before, spelling="3.2"), *steps)
        check_pass(before, after, arguments, grid=grid, rtol=1e-3, atol=1e-3)
