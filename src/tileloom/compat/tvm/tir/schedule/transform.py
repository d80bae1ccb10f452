"""`tvm.tir.schedule.transform`: loops put in place for an intrinsic."""

from __future__ import annotations

from typing import Any

from ..... import schedule
from .....schedule import LoopRV
from .....schedule.library import intrinsic_tile
from ..._names import missing


def tile_with_tensor_intrin(
    sch: schedule.Schedule, block: Any, intrin_name: str, allow_padding: bool = False
) -> LoopRV | None:
    """Split and reorder the loops of a block so that the innermost are those of an intrinsic.

    Answers the outermost of them, which `tensorize` takes; None where the loops do not fit.
    """
    block = sch.get_block(block) if isinstance(block, str) else block
    return intrinsic_tile.tile_with_tensor_intrin(sch, block, intrin_name, allow_padding)


__all__ = ["tile_with_tensor_intrin"]
__getattr__ = missing(__name__)
