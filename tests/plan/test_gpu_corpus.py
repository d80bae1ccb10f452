"""The groups of AKG's own graphs on a GPU: all are planned, and the small ones run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.planning import LIMIT, groups, measure
from frontend.akg import corpus
from tileloom.graph.blocks import block_function
from tileloom.graph.nodes import Tensor
from tileloom.graph.partition import Group
from tileloom.graph.partition.group import by_serial
from tileloom.graph.run import evaluate
from tileloom.lower import lower
from tileloom.lower.gpu.verify_gpu_code import verify_gpu_code
from tileloom.plan import schedule_gpu
from tileloom.simt import run_kernels
from tileloom.target import target

GPU = target("cuda -arch=sm_80")
#: Elements of all operands up to which a group runs in the emulator: here, and in the slow tests.
TINY, SMALL = 20_000, 3_000_000
pytestmark = pytest.mark.skipif(not corpus.SAMPLE.exists(), reason="the sample is not here")


def values_of(tensor: Tensor, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    if tensor.value is not None:
        return np.ascontiguousarray(tensor.value)
    kind = tensor.type.dtype.numpy
    if kind.kind in "iub":
        return rng.integers(0, 2 if kind.kind == "b" else 3, tensor.shape).astype(kind)
    return (rng.random(tensor.shape) + 0.5).astype(kind)


def check(group: Group) -> None:
    func, operands = block_function(group)
    flat = lower(schedule_gpu(func, GPU).mod["main"], GPU)
    assert not verify_gpu_code(flat)
    rng = np.random.default_rng(0)
    given = {tensor: values_of(tensor, rng) for tensor in group.inputs}
    wanted = dict(given)
    with np.errstate(all="ignore"):
        for node in by_serial(node for part in group.parts for node in part.nodes):
            wanted.update(zip(node.outputs, evaluate(node, wanted), strict=True))
    count = len(group.outputs)
    inputs = [np.ascontiguousarray(given[t]).reshape(-1) for t in operands[:-count]]
    results = [np.zeros(t.shape, t.type.dtype.numpy) for t in operands[-count:]]
    for array in results:
        array.reshape(-1).view(np.uint8)[:] = 0x7F
    run_kernels(flat, *inputs, *(array.reshape(-1) for array in results))
    for tensor, have in zip(group.outputs, results, strict=True):
        compare(have, np.asarray(wanted[tensor]))


def compare(have: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> None:
    if have.dtype.kind != "f":
        assert np.array_equal(have, want)
        return
    tolerance = 5e-3 if have.dtype.itemsize == 2 else 2e-5
    a, b = have.astype("float64"), want.astype("float64")
    scale = max(1.0, float(np.max(np.abs(b), where=np.isfinite(b), initial=0.0)))
    np.testing.assert_allclose(a, b, tolerance, tolerance * scale)


def small(limit: int) -> list[tuple[tuple[int, int], Group]]:
    found = []
    for where, group in groups(corpus.graphs()):
        size = sum(tensor.type.size for tensor in (*group.inputs, *group.outputs))
        if size <= limit and group.kind != "matmul":
            found.append((where, group))
    return found


def test_groups_of_few_elements() -> None:
    found = small(TINY)
    assert len(found) > 50
    for _, group in found:
        check(group)


@pytest.mark.slow
def test_groups_of_more_elements() -> None:
    for _, group in small(SMALL):
        check(group)


@pytest.mark.slow
def test_all_groups_are_planned_in_time() -> None:
    rows = measure(corpus.graphs(), "GPU")
    assert len(rows) >= 280
    assert not [row for row in rows if row.refused]
    assert sorted(row.seconds for row in rows)[len(rows) // 2] <= LIMIT
    assert max(row.kernels for row in rows) <= 4
