"""How a sparse program runs on a GPU, by rule."""

from __future__ import annotations

from ..base.errors import UnsupportedError
from ..schedule import BlockRV, Schedule, ScheduleError
from .loop_nests import is_spatial, leaves_below, nests, tiled_columns

#: Threads of a block.
THREADS = 128


def schedule_cuda(sch: Schedule, func_name: str) -> None:
    """Schedule a function: each nest a launch, a block of threads for each row of a result.

    Where a nest does nothing but make sums of dense columns, a thread has one of these. Else, where
    the elements of a row are results of their own, it has one element; and else a row.

    Raises:
        UnsupportedError: a nest may not run so, as its results depend on each other.
    """
    for nest in nests(sch, func_name):
        name = sch.get(nest).name_hint
        try:
            _launch(sch, nest)
        except ScheduleError as error:
            raise UnsupportedError(
                f"the loops around {name!r} have no automatic schedule on a GPU: {error.message}"
            ) from error


def _launch(sch: Schedule, nest: BlockRV) -> None:
    loops = sch.get_loops(nest)
    if not loops:
        sch.bind(sch.add_unit_loop(nest), "blockIdx.x")
    elif _to_threads(sch, nest):
        sch.bind(sch.get_loops(nest)[0], "blockIdx.x")
    else:
        outer, inner = sch.split(loops[0], [None, THREADS])
        sch.bind(outer, "blockIdx.x")
        sch.bind(inner, "threadIdx.x")


def _to_threads(sch: Schedule, nest: BlockRV) -> bool:
    """Give each thread columns or elements of a row, if there is but one statement in a nest."""
    leaves = leaves_below(sch, nest)
    if len(leaves) != 1:
        return False
    (leaf,) = leaves
    inner = tiled_columns(sch, leaf, THREADS)
    if inner is None:
        outermost = sch.get(sch.get_loops(nest)[0])
        loops = [loop for loop in sch.get_loops(leaf) if sch.get(loop) is not outermost]
        spatial = [loop for loop in loops if is_spatial(sch, loop)]
        if not spatial:
            return False
        _, inner = sch.split(spatial[-1], [None, THREADS])
    try:
        sch.bind(inner, "threadIdx.x")
    except ScheduleError:
        return False
    return True
