"""What a kernel costs: accesses are counted for all threads, also where only some are looked at."""

from __future__ import annotations

import pytest

from tileloom.lower import lower
from tileloom.script import parse
from tileloom.simt.cost import SAMPLES, KernelCost, MemoryTraffic, _samples, kernel_costs
from tileloom.target import target

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


KERNEL = """
@T.prim_func
def main(A: T.Buffer((4096,), "float32"), I: T.Buffer((64,), "int32"), n: T.int32):
    b = T.launch_thread("blockIdx.x", 4)
    t = T.launch_thread("threadIdx.x", THREADS)
    S_data = T.allocate([SHARED], "float32", "shared")
    S = T.decl_buffer((SHARED,), data=S_data, scope="shared")
    R_data = T.allocate([LOCAL], "float32", "local")
    R = T.decl_buffer((LOCAL,), data=R_data, scope="local")
    LINE
"""


def cost_of(
    line: str, threads: int = 64, shared: int = 2048, local: int = 10, arch: int = 80
) -> KernelCost:
    """The cost of a kernel with one line."""
    text = KERNEL.replace("THREADS", str(threads)).replace("SHARED", str(shared))
    text = text.replace("LOCAL", str(local)).replace("LINE", line)
    [cost] = kernel_costs(parse(text), target(f"cuda -arch=sm_{arch}"))
    return cost


WHOLE = (256, 1024, 8, 32, 32)  # four blocks of two warps, each with neighbouring elements
SPREAD = (256, 1024, 8, 64, 32)


@pytest.mark.parametrize(
    ("line", "loads", "stores", "unknown"),
    [
        ("S[t] = A[t]", {"global": WHOLE}, {"shared": (256, 1024, 8, 8, 8)}, 0),
        ("S[t * 2] = A[t * 2]", {"global": SPREAD}, {"shared": (256, 1024, 8, 16, 8)}, 0),
        ("S[t * 32] = A[t * 8]", {"global": (256, 1024, 8, 256, 32)},
         {"shared": (256, 1024, 8, 256, 8)}, 0),
        ("S[0] = A[t % 2]", {"global": (256, 1024, 8, 8, 8)},
         {"shared": (256, 1024, 8, 8, 8)}, 0),
        ("A[I[t]] = 1.0", {"global": WHOLE}, {"global": (256, 1024, 0, 0, 0)}, 4),
        ("x: T.int32 = I[t]\n    A[x] = 1.0", {"global": WHOLE}, {"global": (256, 1024, 0, 0, 0)},
         4),
        ("x: T.int32 = t * 2\n    A[x] = 1.0", {}, {"global": SPREAD}, 0),
        ("A[b * 1024 + t + 1] = 1.0", {}, {"global": (256, 1024, 8, 40, 32)}, 0),
        ("if t < 20:\n        A[t] = 1.0\n    else:\n        A[t + 4] = 2.0",
         {}, {"global": (256, 1024, 12, 40, 36)}, 0),
        ("if t < 32:\n        A[t] = 1.0", {}, {"global": (128, 512, 4, 16, 16)}, 0),
        ("if n < 32:\n        A[t] = 1.0", {}, {"global": WHOLE}, 4),
        ("if I[t] < 3:\n        A[t] = 1.0", {"global": WHOLE}, {"global": WHOLE}, 4),
        ("for k in range(n):\n        A[t] = 1.0", {}, {}, 4),
        ("for k in range(2, 5):\n        R[k] = A[t + k - 2]", {"global": (768, 3072, 24, 112, 96)},
         {"local": (768, 3072, 0, 0, 0)}, 0),
        ("A[t * 4:t * 4 + 4] = T.Broadcast(T.float32(1), 4)", {},
         {"global": (1024, 4096, 8, 128, 128)}, 0),
    ],
)  # fmt: skip
def test_traffic(line: str, loads: object, stores: object, unknown: int) -> None:
    found = cost_of(line)
    seen = [
        {k: (t.elements, t.bytes, t.requests, t.moves, t.ideal) for k, t in table.items()}
        for table in (found.loads, found.stores)
    ]
    assert (*seen, found.unknown) == (loads, stores, unknown)


def test_calls_barriers_and_memory() -> None:
    found = cost_of("for k in range(3):\n        R[k] = T.exp(A[t]) + T.sqrt(A[t + 1])")
    assert found.calls == {"exp": 768, "sqrt": 768}
    assert (found.shared_bytes, found.local_bytes, found.registers) == (8192, 40, 18 + 10 + 2)
    found = cost_of("for k in range(5):\n        T.tvm_storage_sync('shared')\n        S[t] = 1.0")
    assert found.syncs == 5
    assert cost_of("A[t] = 1.0", local=1000).registers == 255
    vectors = cost_of("A[t * 4:t * 4 + 4] = A[t * 4:t * 4 + 4] + S[t * 4:t * 4 + 4]")
    assert vectors.registers == 18 + 10 + 8


@pytest.mark.parametrize(
    ("threads", "shared", "local", "arch", "share"),
    [
        (64, 2048, 10, 80, 20 * 64 / 2048),  # shared memory
        (64, 2048, 10, 86, 12 * 64 / 1536),
        (64, 1, 10, 80, 32 * 64 / 2048),  # blocks
        (64, 1, 10, 75, 16 * 64 / 1024),
        (64, 1, 10, 89, 24 * 64 / 1536),
        (1024, 1, 10, 80, 2048 / 2048),  # threads
        (1024, 1, 10, 86, 1024 / 1536),
        (33, 1, 10, 80, 32 * 64 / 2048),  # whole warps
        (1024, 1, 60, 80, 0.0),  # registers: 78 of each thread are 80
        (512, 1, 60, 80, 512 / 2048),
        (512, 1, 14, 80, 2048 / 2048),  # 32 registers
        (512, 1, 15, 80, 1536 / 2048),  # 33 are 40
    ],
)
def test_occupancy(threads: int, shared: int, local: int, arch: int, share: float) -> None:
    found = cost_of("A[t] = 1.0", threads, shared, local, arch)
    assert found.occupancy == pytest.approx(share)


def test_nothing_is_all_efficient_and_no_thread_occupies_nothing() -> None:
    assert MemoryTraffic().efficiency == 1.0 and MemoryTraffic(ideal=1, moves=4).efficiency == 0.25
    assert cost_of("A[t] = 1.0", threads=0).occupancy == 0.0


def test_costs_as_text() -> None:
    assert str(cost_of("S[t] = T.exp(A[t + 1])")).splitlines() == [
        "4 blocks of 64 threads",
        "global loads: 256 elements, 1024 bytes, 40 sectors (80%)",
        "shared stores: 256 elements, 1024 bytes, 8 passes (100%)",
        "exp: 256",
        "barriers in a block: 0",
        "shared memory of a block: 8192 bytes",
        "registers of a thread: about 29",
        "occupancy: about 62%",
    ]
    assert "local stores: 256 elements, 1024 bytes" in str(cost_of("R[0] = 1.0")).splitlines()


@pytest.mark.parametrize("extent", [0, 1, 17, 18, 19, 20, 1000])
def test_samples_stand_for_all(extent: int) -> None:
    found = list(_samples(extent))
    assert sum(many for _, many in found) == extent and len(found) <= SAMPLES
    assert all(many == 1 for _, many in found) or extent > SAMPLES
    if extent:
        assert found[0] == (0, 1) and found[-1] == (extent - 1, 1)
    starts = [at for at, _ in found]
    assert all(a + n == b for (a, n), b in zip(found, starts[1:]))
