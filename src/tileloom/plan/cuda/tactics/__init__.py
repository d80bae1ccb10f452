"""The tactics of CINN's first group scheduler, each written with schedule primitives.

Source: the write-up of CINN's lowering. What its last stage leaves unbound is bound here, and
storage is decided by an exact test.
"""

from .align_loops import align_loops
from .bind_axes import bind_axes
from .factor_reductions import factor_reductions
from .fuse_nests import fuse_horizontally, fuse_vertically
from .inline_compute import inline_compute
from .place_storage import place_storage
from .static import TacticStage, schedule_static

__all__ = [
    "TacticStage", "align_loops", "bind_axes", "factor_reductions", "fuse_horizontally",
    "fuse_vertically", "inline_compute", "place_storage", "schedule_static",
]  # fmt: skip
