"""Groups of blocks scheduled as one kernel: one decision about tiles, applied to every block.

`plan_kernel` is the door: blocks in, the scheduled function and its trace out.
"""

from .cpu.contraction import CONTRACTION, tile_product
from .cpu.schedule import schedule_cpu
from .cuda.choose import choose_tile
from .cuda.schedule import schedule_gpu
from .cuda.tile import Tile
from .domain import Domain, GroupRefused
from .in_place import plan_in_place
from .kernel import (
    PlannedKernel,
    TraceRecord,
    plan_kernel,
    read_traces,
    write_traces,
)

__all__ = [
    "CONTRACTION", "Domain", "GroupRefused", "PlannedKernel", "Tile", "TraceRecord", "choose_tile",
    "plan_in_place", "plan_kernel", "read_traces", "schedule_cpu",
    "schedule_gpu", "tile_product", "write_traces",
]  # fmt: skip
