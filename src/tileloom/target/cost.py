"""What things cost: operations on one element, and a small model of the machine that does them.

    seconds = bytes / bandwidth + operations / rate + launches * launch

One table and one model for all who weigh one way of computing something against another: rewrites
of graphs, fusion, and the planners of kernels. Only ratios count.
"""

from __future__ import annotations

from dataclasses import dataclass

from .description import Target

#: Simple operations that an operation takes on one element, of those that do not take one.
WORK = {
    "constant": 0, "reshape": 0, "broadcast_to": 0, "transpose": 0, "slice": 0, "iota": 0,
    "div": 8, "trunc_div": 8, "floor_divide": 20, "mod": 10, "fmod": 10,
    "sqrt": 8, "rsqrt": 12, "reciprocal": 8, "cbrt": 12, "hypot": 12,
    "exp": 10, "exp2": 10, "exp10": 10, "expm1": 12, "log": 12, "log2": 12, "log10": 12,
    "log1p": 14, "tanh": 14, "sigmoid": 12, "silu": 14, "erf": 16, "erfc": 20, "gelu": 20,
    "gelu_tanh": 20, "sin": 14, "cos": 14, "tan": 20, "asin": 16, "acos": 16, "atan": 16,
    "atan2": 20, "sinh": 16, "cosh": 16, "asinh": 20, "acosh": 20, "atanh": 20, "pow": 30,
    "sign": 6, "shift_left": 8, "shift_right": 8, "call_extern": 10, "call_pure_extern": 10,
    "gather": 4, "concat": 2, "pad": 2,
}  # fmt: skip

#: What it costs, in simple operations, to keep a value for a second use: in a register or a near
#: cache, and in memory.
KEEP_NEAR, KEEP_IN_MEMORY = 6, 9

#: Loops with less work than this run on one thread of a CPU.
PARALLEL_WORK = 1 << 17


def work_of(name: str) -> int:
    """Simple operations that an op of a graph, or a function, takes on one element.

    >>> work_of("add"), work_of("exp")
    (1, 10)
    """
    return WORK.get(name, 1)


def is_costly(work: int, *, near: bool = False) -> bool:
    """Whether it pays to keep a value for a second use rather than to do so much work again.

    Args:
        near: whether it would stay in a register or a near cache; else it goes through memory.

    >>> is_costly(work_of("exp")), is_costly(work_of("div")), is_costly(work_of("div"), near=True)
    (True, False, True)
    """
    return work > (KEEP_NEAR if near else KEEP_IN_MEMORY)


@dataclass(frozen=True)
class DeviceCosts:
    """What a machine takes for its work, and what programs on it may be like.

    Attributes:
        bandwidth: bytes per second from and to memory, all workers together.
        rate: simple operations per second on elements, all workers together.
        launch: seconds to start a kernel and wait for its workers.
        near: bytes that stay in a cache from one nest of a kernel to the next.
        short: bytes; a kernel that moves less is over almost as soon as it is launched.
        has_entries: whether a native function calls kernels that follow each other, and the nests
            of one run in their order; else kernels are launched one by one, by threads that do not
            wait for each other.
        most_variants: so many ways to plan a group of unknown sizes are followed.
        most_elements: of an array of unknown sizes.
    """

    bandwidth: float = 1.5e10
    rate: float = 4e10
    launch: float = 4e-6
    near: int = 1 << 16
    short: int = 1 << 20
    has_entries: bool = True
    most_variants: int = 24
    most_elements: int = (1 << 31) - 1

    @staticmethod
    def of(target: Target) -> DeviceCosts:
        """What the data of a target say.

        Few workers are enough to keep the memory of a CPU busy. On a GPU nests follow each other in
        other kernels: nothing stays near from one to the next, and all of a GPU waits between them.
        Blocks of threads number elements, the last of which goes beyond an array.

        >>> from tileloom.target import target
        >>> DeviceCosts.of(target("cpu -mcpu=x86-64-v4 -num-cores=2")).rate
        40000000000.0
        >>> DeviceCosts.of(target("cuda -arch=sm_80")).bandwidth
        1512000000000.0
        """
        if target.kind == "cuda":
            cycles = target.processors * CYCLES
            return DeviceCosts(
                bandwidth=bytes_per_cycle(target) * cycles,
                rate=LANES * cycles,
                launch=3e-6,
                near=0,
                short=0,
                has_entries=False,
                most_variants=48,
                most_elements=(1 << 31) - (1 << 17),
            )
        return DeviceCosts(
            bandwidth=7.5e9 * min(target.cores, 8),
            rate=VECTORS * target.lanes(32) * target.cores,
            near=2 * target.l1,
        )

    def seconds(self, bytes_: float, operations: float = 0, launches: int = 0) -> float:
        """How long it takes."""
        return bytes_ / self.bandwidth + operations / self.rate + launches * self.launch


#: Vectors per second that a core of a CPU computes; cycles per second of a GPU's processors, and
#: elements that one of these computes in a cycle.
VECTORS, CYCLES, LANES = 1.25e9, 1.4e9, 64


def bytes_per_cycle(gpu: Target) -> int:
    """What memory gives to each processor of a GPU in a cycle."""
    return 15 if gpu.sm >= 90 else 10
