"""What a kernel costs: accesses are counted for all threads, also where only some are looked at."""

from __future__ import annotations

import pytest

from tileloom.base.target import target
from tileloom.lower import lower
from tileloom.script import parse
from tileloom.simt.cost import kernel_costs

GPU = target("cuda -arch=sm_80")


@pytest.mark.parametrize("blocks", [1, 2, 17, 18, 19, 100])
@pytest.mark.parametrize("steps", [1, 3, 18, 77])
def test_accesses_of_all_blocks_and_steps(blocks: int, steps: int) -> None:
    shape = f"({blocks}, {steps}, 32)"
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer({shape}, "float32"), B: T.Buffer({shape}, "float32")):
    for b in T.thread_binding({blocks}, "blockIdx.x"):
        for t in T.thread_binding(32, "threadIdx.x"):
            for k in range({steps}):
                B[b, k, t] = T.exp(A[b, k, t])
""")
    [cost] = kernel_costs(lower(func, GPU), GPU)
    for traffic in (cost.loads["global"], cost.stores["global"]):
        assert (traffic.elements, traffic.bytes) == (32 * blocks * steps, 128 * blocks * steps)
        assert (traffic.requests, traffic.moves) == (blocks * steps, 4 * blocks * steps)
        assert traffic.efficiency == 1.0
    assert cost.calls == {"exp": 32 * blocks * steps}
    assert (cost.blocks, cost.threads, cost.unknown) == (blocks, 32, 0)
