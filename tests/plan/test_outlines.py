"""The loops that planners make: a change of any decision shows, whether or not results change.

Results stay right where a heuristic is broken, so other tests do not see it. After a change that is
meant, `pytest tests/plan/test_outlines.py --rewrite` writes `test_outlines.txt` anew; its
difference says which groups are planned another way.
"""

from __future__ import annotations

import pytest

from outline import outline
from plan.shapes import PROGRAMS
from recorded import Compare
from tileloom.plan import schedule_cpu, schedule_gpu
from tileloom.target import Target, target

CPU = Target(
    kind="cpu", arch="x86_64", cpu="haswell", features=("avx", "avx2", "fma"), vector_bits=256,
    cores=4, l1=1 << 15, l2=1 << 20, l3=1 << 25,
)  # fmt: skip
GPU = target("cuda -arch=sm_80")

CASES = [
    (name, shape)
    for name, program in PROGRAMS.items()
    for shape in (program.shape, program.small)
]  # fmt: skip
#: Extents around thresholds: few and many rows, short and long ones, odd ones.
MORE = [
    (name, shape)
    for name, shapes in {
        "last_reduce_3": [(1, 1 << 20), (3, 1 << 16), (1 << 16, 8), (1 << 16, 16), (4096, 17),
                          (100_000, 128), (64, 4100), (7, 12_289), (1 << 14, 2048), (1, 31)],
        "first_reduce": [(1 << 20, 1), (1 << 18, 4), (1 << 14, 33), (64, 1 << 16), (31, 5)],
        "all_reduce": [(4096, 4096), (3, 5)],
        "shuffled_reduce_2": [(256, 3, 7, 7), (2, 512, 1, 1)],
        "softmax": [(1, 1 << 20), (4096, 4096), (1 << 16, 30), (2, 40_000), (64, 4097)],
        "layer_norm": [(4096, 768), (1, 1 << 18), (100, 12_288), (1 << 15, 24)],
        "reduce_broadcast_2": [(128, 4, 14, 14)],
        "reduce_broadcast_3": [(2, 4096, 64)],
        "elementwise_1": [(1 << 12, 1 << 12), (1, 1), (1 << 20, 3)],
        "elementwise_2": [(1031, 1033)],
        "broadcast_1": [(4096, 4096), (4096, 33)],
        "broadcast_2": [(4096, 4096), (1 << 14, 31), (3, 1 << 20)],
        "broadcast_3": [(64, 64, 7, 7), (16, 64, 56, 56), (1, 64, 1, 32)],
        "transpose": [(4096, 4096), (1 << 20, 3), (64, 64)],
        "channels_last": [(8, 3, 224, 224)],
    }.items()
    for shape in shapes  # type: ignore[attr-defined]
]  # fmt: skip


@pytest.mark.parametrize(("name", "shape"), CASES + MORE, ids=str)
def test_loops_of_cpu_kernels(name: str, shape: tuple[int, ...], recorded: Compare) -> None:
    sch = schedule_cpu(PROGRAMS[name].function(shape), CPU)
    recorded(f"{name} {shape} cpu", outline(sch.mod["main"]))


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "shape"), CASES + MORE, ids=str)
def test_loops_of_gpu_kernels(name: str, shape: tuple[int, ...], recorded: Compare) -> None:
    sch = schedule_gpu(PROGRAMS[name].function(shape), GPU)
    recorded(f"{name} {shape} gpu", outline(sch.mod["main"]))
