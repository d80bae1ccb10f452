"""When reductions are made in parts, and how long those are."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom import te
from tileloom.plan.cpu.choices import PASS_WORK, plan_of
from tileloom.plan.cpu.fusion_groups import find_fusion_groups, inline_elementwise
from tileloom.plan.cpu.split_reduction import in_parts
from tileloom.plan.sizes import Sizes
from tileloom.schedule import Schedule
from tileloom.target import Target
from tileloom.target.cost import PARALLEL_WORK

CPU = Target(
    kind="cpu", arch="x86_64", cpu="haswell", features=("avx", "avx2", "fma"), vector_bits=256,
    cores=4, l1=1 << 15, l2=1 << 20, l3=1 << 25,
)  # fmt: skip


def splits(*tensors: Any) -> bool:
    sch = Schedule(te.create_prim_func(tensors))
    inline_elementwise(sch)
    sizes = Sizes()
    (group,) = find_fusion_groups(sch, sizes)
    return in_parts(group, plan_of(sch, group, CPU, sizes), sizes)


def sums(shape: tuple[int, int], over: int) -> list[Any]:
    a = te.placeholder(shape, name="A")
    k = te.reduce_axis((0, shape[over]), name="k")
    index = (lambda i: (i, k)) if over else (lambda i: (k, i))
    return [a, te.compute((shape[1 - over],), lambda i: te.sum(a[index(i)], axis=k), name="S")]


WORK = PARALLEL_WORK


@pytest.mark.parametrize(
    ("shape", "over", "split"),
    [
        ((1, WORK), 1, True),
        ((3, WORK), 1, True),
        ((4, WORK // 8), 1, False),  # results enough for the workers
        ((1, 1000), 1, False),  # little to do
        ((63, 1 << 17), 1, True),  # long rows
        ((64, 1 << 17), 1, False),
        ((WORK, 1), 0, True),
        ((WORK // 8, 32), 0, True),  # so few columns are one share
        ((WORK // 64, 4 * 8 * 4), 0, False),
        ((3, WORK), 0, False),  # too few elements of each result for parts
    ],
)
def test_few_results(shape: tuple[int, int], over: int, split: bool) -> None:
    assert splits(*sums(shape, over)) == split


def test_passes_and_elementwise_blocks() -> None:
    """Two passes over the data take more to be worth it; without a reduction there are no parts."""
    assert splits(*sums((1, WORK // 2), 1))
    for length, split in ((WORK // 2, False), (PASS_WORK * WORK, True)):
        a, total = sums((1, length), 1)
        b = te.compute((1, length), lambda i, j, a=a, s=total: a[i, j] / s[i], name="B")
        assert splits(a, b) == split
    a = te.placeholder((1, 2 * WORK), name="A")
    assert not splits(a, te.compute(a.shape, lambda i, j: a[i, j] + 1.0, name="B"))
