"""The table of what operations cost, and the model of a machine."""

from __future__ import annotations

import pytest

from tileloom.expr.ops import get_op
from tileloom.graph import ops  # noqa: F401 (registers them)
from tileloom.graph.op import REGISTRY
from tileloom.target import Target, target
from tileloom.target.cost import WORK, DeviceCosts, bytes_per_cycle, is_costly


def test_every_name_is_an_op_or_a_function() -> None:
    for name in WORK:
        assert name in REGISTRY or get_op(f"tir.{name}") is not None


def test_memory_is_further_than_registers() -> None:
    near = [work for work in range(40) if is_costly(work, near=True)]
    far = [work for work in range(40) if is_costly(work)]
    assert set(far) < set(near)


def cpu(cores: int, bits: int, l1: int = 32 << 10) -> DeviceCosts:
    return DeviceCosts.of(Target(kind="cpu", arch="x86_64", vector_bits=bits, cores=cores, l1=l1))


def test_costs_of_cpus() -> None:
    one, two, many = (cpu(cores, 512) for cores in (1, 2, 64))
    assert two == DeviceCosts()
    assert two.rate == 2 * one.rate and many.rate == 64 * one.rate
    assert two.bandwidth == 2 * one.bandwidth and many.bandwidth == 8 * one.bandwidth
    assert cpu(2, 256).rate == two.rate / 2
    assert cpu(2, 512, 48 << 10).near == 96 << 10


@pytest.mark.parametrize(("arch", "terabytes"), [("sm_80", 1.5), ("sm_90", 2.8), ("sm_75", 0.56)])
def test_costs_of_gpus(arch: str, terabytes: float) -> None:
    gpu = target(f"cuda -arch={arch}")
    costs = DeviceCosts.of(gpu)
    assert costs.bandwidth == pytest.approx(terabytes * 1e12, rel=0.02)
    assert not costs.has_entries and costs.near == costs.short == 0
    assert bytes_per_cycle(gpu) == (15 if arch == "sm_90" else 10)


def test_seconds() -> None:
    costs = DeviceCosts(bandwidth=100.0, rate=10.0, launch=1.0)
    assert costs.seconds(200, 5, 3) == 2.0 + 0.5 + 3.0
