"""Groups of blocks scheduled as one kernel: one decision about tiles, applied to every block."""

from .choose import choose_tile
from .cpu import schedule_cpu
from .domain import Domain, GroupRefused, find_domain
from .gpu import schedule_gpu
from .tile import Tile

__all__ = [
    "Domain", "GroupRefused", "Tile", "choose_tile", "find_domain", "schedule_cpu", "schedule_gpu",
]  # fmt: skip
