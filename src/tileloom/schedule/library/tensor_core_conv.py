"""tensor_core_conv2d: a convolution on the matrix units of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...target import Target
from ._common import BlockLike, block_of, wrong
from .gpu_product import on_matrix_units
from .mma_matmul import MmaTile
from .product import find_factors
from .wgmma_matmul import WgmmaTile

if TYPE_CHECKING:
    from ..schedule import Schedule

_WINDOW, _CHANNELS = 3, 1  # variables: of a place in an image and of a tap; of channels


def tensor_core_conv2d(
    sch: Schedule,
    block: BlockLike,
    target: Target,
    tile: MmaTile | WgmmaTile | None = None,
) -> None:
    """Make a convolution of images a product of matrices, without copies of windows in memory.

    The places of all images are the rows, the output channels the columns (the other way round
    where those of a result's row are neighbours), and the taps of the filter times the input
    channels the depth. What goes to shared memory for a tile is picked from the image; where that
    is padding, zeros are. So it is done in AKG's kernels, and called implicit GEMM. Strides,
    dilations, paddings and extents are free; groups are not taken.

    Args:
        block: `Y[n, h, w, o] += X[n, h * s + r * d, w * s + q * d, c] * W[o, r, q, c]`, the axes of
            either in any order; what pads the image may be a block before it.
        target: a GPU of sm_80 or later.
        tile: how the result is distributed, by default chosen by the extents; with `stages=1` the
            next tiles are fetched through registers, as in AKG's kernels.

    Raises:
        ScheduleError: the block is no such convolution.

    >>> from tileloom import Schedule, te
    >>> from tileloom.target import target
    >>> X = te.placeholder((1, 10, 10, 16), "float16", name="X")
    >>> W = te.placeholder((8, 3, 3, 16), "float16", name="W")
    >>> r, q, c = (te.reduce_axis((0, size), name=name) for name, size in zip("rqc", (3, 3, 16)))
    >>> Y = te.compute((1, 8, 8, 8), lambda n, h, w, o: te.sum(
    ...     X[n, h + r, w + q, c].astype("float32") * W[o, r, q, c].astype("float32"),
    ...     axis=[r, q, c]), name="Y")
    >>> sch = Schedule(te.create_prim_func([X, W, Y]))
    >>> tensor_core_conv2d(sch, "Y", target("cuda -arch=sm_80"))
    >>> "T.ptx_mma(" in str(sch.mod)
    True
    """
    rv = block_of(sch, block)
    found = find_factors(sch, rv)
    sides = () if found is None else tuple(sorted((len(found.rows), len(found.columns))))
    if found is None or found.batch or sides != (_CHANNELS, _WINDOW) or len(found.depth) != _WINDOW:
        raise wrong(
            sch,
            f"block {sch.get(rv).name_hint!r} is no convolution of images without groups",
            hint="schedule_gpu_product takes other products too",
        )
    on_matrix_units(sch, rv, target, tile)
