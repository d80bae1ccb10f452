"""tile, register_tile: nests of tiles, and a tile that is computed in registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...expr import Expr
from ..rv import BlockRV, LoopRV
from ._common import BlockLike, block_of, extent, is_spatial, loops_below, wrong

if TYPE_CHECKING:
    from ..schedule import Schedule

Factors = Sequence[int | Expr | None]


def tile(
    sch: Schedule, block: BlockLike, structure: str, factors: Sequence[Factors]
) -> list[list[LoopRV]]:
    """Tile the loops of a block on several levels.

    Args:
        block: the block; all loops around it are tiled.
        structure: the levels from outside to inside, `S` for one of spatial loops and `R` for one
            of reduction loops, as in TVM's multi-level tiling: "SRS" makes tiles of the result,
            runs the whole reduction for each, and its elements innermost.
        factors: for each loop the extents on its levels, outermost first; one of them may be None.

    Returns:
        The loops of each level.

    >>> from tileloom import Schedule, te
    >>> A, B = te.placeholder((64, 32), name="A"), te.placeholder((32, 64), name="B")
    >>> k = te.reduce_axis((0, 32), name="k")
    >>> C = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    >>> sch = Schedule(te.create_prim_func([A, B, C]))
    >>> levels = tile(sch, "C", "SRS", [[None, 8], [None, 16], [None]])
    >>> [[sch.get(loop).extent.value for loop in level] for level in levels]
    [[8, 4], [32], [8, 16]]
    """
    if set(structure) - {"S", "R"}:
        raise wrong(sch, f"a structure has the letters S and R, got {structure!r}")
    found = block_of(sch, block)
    loops: list[LoopRV] = sch.get_loops(found)
    if len(factors) != len(loops):
        raise wrong(
            sch,
            f"factors for {len(factors)} loops are given, but there are {len(loops)} around "
            f"the block {sch.get(found).name_hint!r}",
            hint="give a list of factors for each loop",
        )
    parts: list[list[LoopRV]] = [[] for _ in structure]
    for loop, given in zip(loops, factors):
        letter = "S" if is_spatial(sch, loop) else "R"
        levels = [i for i, kind in enumerate(structure) if kind == letter]
        if len(given) != len(levels):
            name = sch.get(loop).loop_var.name
            raise wrong(
                sch,
                f"loop {name!r} gets {len(given)} factors, but {structure!r} has {len(levels)} "
                f"levels {letter}",
            )
        for level, part in zip(levels, sch.split(loop, list(given))):
            parts[level].append(part)
    sch.reorder(*(loop for level in parts for loop in level))
    return parts


def register_tile(
    sch: Schedule, block: BlockLike, loop: LoopRV, lanes: int, decompose: bool = True
) -> BlockRV:
    """Compute a tile of the result in registers, and store it once it is ready.

    The block writes a local buffer that is copied back at the end of each iteration of `loop`. The
    spatial loops inside of the block's last reduction loop are unrolled, the innermost one is
    vectorised; the copy likewise.

    Args:
        block: a reduction block, tiled so that below `loop` there are reduction loops and then the
            loops of the tile.
        loop: the loop whose iterations each compute a tile.
        lanes: the length of vectors; it divides the extents of the innermost loops.
        decompose: move the initial value before the reduction loops. To run outer loops in
            parallel, mark them before: a schedule refuses that for a decomposed reduction.

    Returns:
        The block that copies the tile back.

    >>> from tileloom import Schedule, te
    >>> A, B = te.placeholder((64, 32), name="A"), te.placeholder((32, 64), name="B")
    >>> k = te.reduce_axis((0, 32), name="k")
    >>> C = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    >>> sch = Schedule(te.create_prim_func([A, B, C]))
    >>> levels = tile(sch, "C", "SRS", [[None, 4], [None, 16], [None]])
    >>> copy = register_tile(sch, "C", levels[0][-1], lanes=8)
    >>> [sch.get(loop).kind for loop in sch.get_loops(copy)]
    ['serial', 'serial', 'unrolled', 'unrolled', 'vectorized']
    """
    found = block_of(sch, block)
    inner = loops_below(sch, found, loop)
    sums = [one for one in inner if not is_spatial(sch, one)]
    own = inner[inner.index(sums[-1]) + 1 :] if sums else inner
    if not own:
        raise wrong(sch, "there are no loops of a tile inside of the reduction loops")
    _check_lanes(sch, own[-1], lanes)
    copy: BlockRV = sch.cache_write(found, 0, "local")
    sch.reverse_compute_at(copy, loop)
    back = loops_below(sch, copy, loop)
    if not back:
        raise wrong(sch, "a tile of one element needs no registers")
    for loops in (own, back):
        _in_registers(sch, loops, lanes)
    if decompose and sums:
        sch.decompose_reduction(found, sums[0])
    return copy


def _check_lanes(sch: Schedule, loop: LoopRV, lanes: int) -> None:
    size = extent(sch, loop)
    if lanes < 1 or size is None or size % lanes:
        raise wrong(
            sch,
            f"the innermost loop {sch.get(loop).loop_var.name!r} runs over {sch.get(loop).extent} "
            f"elements, which vectors of {lanes} do not divide",
        )


def _in_registers(sch: Schedule, loops: Sequence[LoopRV], lanes: int) -> None:
    *outer, last = loops
    if extent(sch, last) != lanes:
        more, last = sch.split(last, [None, lanes])
        outer.append(more)
    sch.vectorize(last)
    for loop in reversed(outer):
        sch.unroll(loop)
