"""Groups of blocks scheduled as one kernel: one decision about tiles, applied to every block."""

from .cpu.schedule import schedule_cpu
from .cuda.choose import choose_tile
from .cuda.schedule import schedule_gpu
from .cuda.tile import Tile
from .domain import Domain, GroupRefused, find_domain

__all__ = [
    "Domain", "GroupRefused", "Tile", "choose_tile", "find_domain", "schedule_cpu", "schedule_gpu",
]  # fmt: skip
