"""annotate_buffer_access: say by hand which region of a buffer a block touches."""

from __future__ import annotations

import inspect
from typing import Any

from ...expr import Analyzer, Expr, IndexMap, Range, Var, as_expr
from ...tir import BufferRegion
from ..errors import name_of, refuse
from ..index_maps import index_map_from_json, index_map_json
from ..instruction import Arguments, BlockRef, IntRef, Text, ValueRef, primitive
from ..sizes import in_sizes_of
from ..sref import StmtSRef
from ..state import ScheduleState

_SIDES = ("read", "write")


def _front(
    state: ScheduleState, block: BlockRef, buffer_index: int, buf_type: str, gen_new_ranges: Any
) -> Arguments:
    if buf_type not in _SIDES:
        raise refuse(
            f"the kind of access is {buf_type!r}",
            at=[block],
            hint='say "read" or "write"',
            fast="Unrecognized buffer type",
        )
    return {
        "buffer_index": buffer_index,
        "buffer_index_type": _SIDES.index(buf_type),
        "index_map": index_map_json(_as_map(block, gen_new_ranges)),
    }


def _as_map(block: StmtSRef, ranges: Any) -> IndexMap:
    """From the block's iteration variables to the ends of all ranges, one after the other."""
    if isinstance(ranges, IndexMap):
        return ranges
    if not callable(ranges):
        raise refuse(f"gen_new_ranges is a function, got {type(ranges).__name__}", at=[block])
    axes = [Var(axis.var.name, axis.var.dtype) for axis in block.block.iter_vars]
    try:
        inspect.signature(ranges).bind(*axes)
    except TypeError:
        raise refuse(
            f"gen_new_ranges takes other arguments than the {len(axes)} iteration variables of "
            f"{name_of(block)}",
            at=[block],
        ) from None
    parts = ranges(*axes)
    if not isinstance(parts, (tuple, list)):
        raise refuse(f"gen_new_ranges gives a list of ranges, got {parts}", at=[block])
    ends: list[Expr] = []
    for part in parts:
        pair = part if isinstance(part, (tuple, list)) else (part, part + 1)
        if len(pair) != 2:
            raise refuse(f"a range is (begin, end) or one index, got {part}", at=[block])
        ends += [as_expr(end) for end in pair]
    return IndexMap(axes, ends)


def _shown(arguments: Arguments) -> Arguments:
    found = index_map_from_json(arguments["index_map"])
    ends = found.final_indices
    parts = [f"({a}, {b})" for a, b in zip(ends[::2], ends[1::2], strict=True)]
    names = ", ".join(var.name for var in found.initial_indices)
    return {
        "block": arguments["block"],
        "buffer_index": arguments["buffer_index"],
        "buf_type": _SIDES[arguments["buffer_index_type"]],
        "gen_new_ranges": Text(f"lambda {names}: [{', '.join(parts)}]"),
    }


@primitive("AnnotateBufferAccess", front=_front, shown=_shown)
def annotate_buffer_access(
    state: ScheduleState,
    block: BlockRef,
    buffer_index: IntRef,
    buffer_index_type: IntRef,
    index_map: ValueRef,
) -> None:
    """Declare a region that a block reads or writes (unsafe: analyses trust it).

    `sch.annotate_buffer_access(block, buffer_index, buf_type, gen_new_ranges)`, where `buf_type`
    is "read" or "write" and `gen_new_ranges` makes ranges of the iteration variables: for each
    dimension `(begin, end)`, or one index. The block gets the annotation `explicit_read_region` or
    `explicit_write_region` with the indices of the regions that were given by hand.

    Of use where indices are too hard to analyse: regions say what `compute_at` must compute.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((9,), name="A")
    >>> B = te.compute((8,), lambda i: A[(i * i) % 9] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> sch.annotate_buffer_access("B", 0, "read", lambda i: [(0, 9)])
    >>> block = sch.get(sch.get_block("B"))
    >>> block.reads[0].region[0], block.annotations["explicit_read_region"]
    (Range(0, 9), [0])
    """
    is_write = buffer_index_type == 1
    regions = list(block.block.writes if is_write else block.block.reads)
    if not isinstance(buffer_index, int) or not 0 <= buffer_index < len(regions):
        raise refuse(
            f"{name_of(block)} has {len(regions)} {_SIDES[is_write]} regions, "
            f"there is no {buffer_index}",
            at=[block],
            fast="Buffer index out of range",
        )
    buffer = regions[buffer_index].buffer
    found = in_sizes_of(state.mod, index_map_from_json(index_map))
    ranges = _ranges(block, found)
    if len(ranges) != buffer.ndim:
        raise refuse(
            f"{buffer.name!r} has {buffer.ndim} dimensions, got {len(ranges)} ranges", at=[block]
        )
    regions[buffer_index] = BufferRegion(buffer, tuple(ranges))
    key = f"explicit_{_SIDES[is_write]}_region"
    noted = list(block.block.annotations.get(key, ()))
    if buffer_index not in noted:
        noted.append(buffer_index)
    annotations = {**block.block.annotations, key: noted}
    side = {"writes" if is_write else "reads": tuple(regions)}
    state.replace(block, block.block.replace(annotations=annotations, **side))


def _ranges(block: StmtSRef, found: IndexMap) -> list[Range]:
    axes = [axis.var for axis in block.block.iter_vars]
    if len(axes) != len(found.initial_indices) or len(found.final_indices) % 2:
        raise refuse(
            f"{name_of(block)} has {len(axes)} iteration variables, the ranges are of "
            f"{len(found.initial_indices)}",
            at=[block],
        )
    known = Analyzer()
    ends = found.map_indices(axes, known)
    return [
        Range(low, known.simplify(end - low))
        for low, end in zip(ends[::2], ends[1::2], strict=True)
    ]
