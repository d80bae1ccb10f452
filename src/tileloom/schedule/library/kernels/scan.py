"""scan_kernel: running sums, products, maxima and minima along an axis, on a GPU.

Where elements along the axis are neighbours, a warp scans 32 of them with five shuffles (Hillis and
Steele 1986), several times in a row; the totals of a block's warps meet in shared memory, and a
block goes along a row tile by tile. Else every thread goes along a column of its own.

Where there are few rows, they are cut into chunks: one kernel finds the total of each chunk, and a
second scans the chunks, each from the sum of the totals before it. (That reads the input twice. A
single pass would have blocks wait for each other: Merrill and Garland 2016.) Columns have a kernel
between the two, which scans the totals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ....base import DType, dtype
from ....base.errors import UnsupportedError
from ....expr import Expr, const, intrin
from ....tir import PrimFunc
from ._text import blocks_of, kernel, under, wide_type

_ROUNDS = 8  # 32 neighbours each, that a warp scans at a time
_WARPS = 8  # of a block
_BUSY = 512  # blocks that keep a GPU busy
_COLUMNS = 128  # threads of a block that has columns
_MANY = 1 << 15  # columns that keep a GPU busy
_SHORTEST = 32  # chunk of a column

Combine = Callable[[Any, Any], Expr]
_COMBINE: dict[str, Combine] = {
    "sum": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "max": intrin.max,
    "min": intrin.min,
}


@dataclass(frozen=True)
class _Plan:
    """One pass over rows, which are cut into chunks of `length`.

    `before` and `after` are the axes of A and B beside the one it runs along.
    """

    rows: int
    extent: int
    chunks: int
    length: int
    warps: int = _WARPS
    rounds: int = _ROUNDS
    inner: int = 1
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @property
    def tile(self) -> int:
        return 32 * self.warps * self.rounds


def scan_kernel(
    shape: tuple[int, ...],
    axis: int,
    kind: str = "float32",
    op: str = "sum",
    exclusive: bool = False,
    reverse: bool = False,
) -> PrimFunc:
    """`B[.., i, ..]` is the sum (product, maximum, minimum) of `A[.., 0 .. i, ..]`.

    Args:
        shape: of A and B, with at least one element.
        axis: along which it runs.
        kind: the element type; 16-bit floats are added in float32, small integers in 32 bits.
        op: "sum", "prod", "max" or "min". Its order of evaluation is not said.
        exclusive: whether the element itself is left out; the first result is then the neutral
            element.
        reverse: whether it runs from the end.

    Raises:
        UnsupportedError: there is no such operation, or nothing to scan.

    >>> import numpy as np, tileloom
    >>> run = tileloom.build(scan_kernel((2, 1031), 1, "int32"), "cuda", device="emulator")
    >>> a = np.ones((2, 1031), "int32")
    >>> b = np.zeros_like(a)
    >>> run(a, b)
    >>> b[1, -2:]
    array([1030, 1031], dtype=int32)
    """
    if op not in _COMBINE:
        raise UnsupportedError(f"no scan {op!r}", hint=f"one of {', '.join(_COMBINE)}")
    if not shape or 0 in shape:
        raise UnsupportedError(f"nothing to scan in an array of shape {shape}")
    axis %= len(shape)
    outer, extent, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    plan = _columns(outer, extent, inner) if inner > 1 else _rows(outer, extent)
    plan = replace(plan, before=shape[:axis], after=shape[axis + 1 :])
    element = dtype(kind)
    names = {
        "KIND": str(element),
        "WIDE": str(wide_type(element)),
        "neutral": _neutral(op, wide_type(element), element),
        "combine": _COMBINE[op],
        "ALL": const(0xFFFFFFFF, "uint32"),
    }
    head = "scan(a: T.handle, b: T.handle)"
    match = [f'{x} = T.match_buffer({x.lower()}, {tuple(shape)}, "{element}")' for x in "AB"]
    return kernel(head, [*match, *_passes(plan, exclusive, reverse)], names)


def _neutral(op: str, wide: DType, kind: DType) -> Expr:
    if op in ("sum", "prod"):
        return const(int(op == "prod"), wide)
    if kind.is_float:
        return intrin.infinity(str(wide)) if op == "min" else -intrin.infinity(str(wide))
    return (intrin.max_value if op == "min" else intrin.min_value)(str(wide))


def _rows(rows: int, extent: int) -> _Plan:
    if extent <= 32 * _ROUNDS:
        return _Plan(rows, extent, 1, extent, warps=1, rounds=-(-extent // 32))
    plan = _Plan(rows, extent, 1, extent, warps=min(_WARPS, -(-extent // (32 * _ROUNDS))))
    tiles = -(-extent // plan.tile)
    wanted = min(tiles, -(-_BUSY // rows))
    if tiles < 4 or wanted < 2:
        return plan
    length = -(-tiles // wanted) * plan.tile
    return replace(plan, chunks=-(-extent // length), length=length)


def _columns(outer: int, extent: int, inner: int) -> _Plan:
    wanted = min(-(-_MANY // (outer * inner)), extent // _SHORTEST)
    length = -(-extent // max(1, wanted))
    return _Plan(outer, extent, -(-extent // length), length, inner=inner)


def _passes(plan: _Plan, exclusive: bool, reverse: bool) -> list[str]:
    if plan.inner == 1:
        scan = _scan_rows(plan, exclusive, reverse)
        if plan.chunks == 1:
            return [scan]
        return [_totals_of(plan, "totals"), _total_rows(plan, reverse), scan]
    if plan.chunks == 1:
        return [_scan_columns(plan, "A", "B", "", exclusive, reverse)]
    totals = replace(plan, extent=plan.chunks, chunks=1, length=plan.chunks)
    return [
        _totals_of(plan, "totals"),
        _totals_of(plan, "before"),
        _total_columns(plan, reverse),
        _scan_columns(totals, "totals", "before", "", True, False),
        _scan_columns(plan, "A", "B", "before", exclusive, reverse),
    ]


def _totals_of(plan: _Plan, name: str) -> str:
    """Memory for a number of every chunk."""
    shape = (plan.rows, plan.chunks, *([plan.inner] if plan.inner > 1 else []))
    return f"{name} = T.alloc_buffer({shape}, WIDE)"


# ---------------------------------------------------------------------------- neighbours


def _element(plan: _Plan, name: str, reverse: bool) -> str:
    """The element that is `at` in reading order: of A or B, or of the totals of chunks."""
    at = f"{plan.extent - 1} - at" if reverse else "at"
    if name in ("A", "B"):
        places = [*_delinearized("row", plan.before), at, *_delinearized("column", plan.after)]
    else:
        places = ["row", at, *(["column"] if plan.inner > 1 else [])]
    return f"{name}[{', '.join(places)}]"


def _delinearized(number: str, shape: tuple[int, ...]) -> list[str]:
    """The indices of axes that are counted through as one."""
    if len(shape) == 1:
        return [number]
    return [f"{number} // {prod(shape[k + 1 :])} % {n}" for k, n in enumerate(shape)]


def _row_block(plan: _Plan, name: str, *body: str) -> str:
    """Threads that know their `row`, `chunk`, `warp` and `lane`; short rows have a warp each."""
    by_warps = plan.warps == 1 and plan.chunks == 1
    rows = min(_WARPS, plan.rows) if by_warps else 1  # of a block
    blocks = -(-plan.rows // rows) * plan.chunks
    lines = [
        "lane: T.int32 = t % 32",
        f"warp: T.int32 = {0 if by_warps else 't // 32'}",
        f"row: T.int32 = {f'b * {rows} + t // 32' if by_warps else f'b // {plan.chunks}'}",
        f"chunk: T.int32 = b % {plan.chunks}",
        f'v = T.alloc_buffer(({plan.rounds},), WIDE, scope="local")',
        'kept = T.alloc_buffer((4,), WIDE, scope="local")',
    ]
    if plan.warps > 1:
        lines.append(f'sums = T.alloc_buffer(({plan.warps},), WIDE, scope="shared")')
    if plan.rows % rows:
        body = (under(f"if row < {plan.rows}:", *body),)
    return blocks_of(blocks, 32 * plan.warps * rows, name, *lines, *body)


def _rounds(plan: _Plan, *body: str) -> str:
    """What is done for every 32 neighbours of a warp: element `r` of v is the row's `at`."""
    at = f"chunk * {plan.length} + tile * {plan.tile} + (warp * {plan.rounds} + r) * 32 + lane"
    return under(f"for r in T.unroll({plan.rounds}):", f"at: T.int32 = {at}", *body)


def _fetch(plan: _Plan, reverse: bool) -> str:
    value = f"T.Cast(WIDE, {_element(plan, 'A', reverse)})"
    return _rounds(plan, f"v[r] = T.if_then_else(at < {plan.extent}, {value}, neutral)")


#: kept[0]: of the row before the tile; kept[1]: of the warp's elements before a round; kept[2]: of
#: the row before the warp; kept[3]: what comes from another lane.
_WARP_SCAN = under(
    "for d in T.unroll(5):",
    "kept[3] = T.tvm_warp_shuffle_up(ALL, v[r], T.shift_left(1, d), 32, 32)",
    "v[r] = T.Select(lane >= T.shift_left(1, d), combine(kept[3], v[r]), v[r])",
)


def _scan_rows(plan: _Plan, exclusive: bool, reverse: bool) -> str:
    store = f"{_element(plan, 'B', reverse)} = T.Cast(KIND, "
    leave_out = (
        "kept[3] = T.tvm_warp_shuffle_up(ALL, v[r], 1, 32, 32)",
        "v[r] = T.Select(lane == 0, neutral, kept[3])",
    )
    tile = (
        _fetch(plan, reverse),
        "kept[1] = neutral",
        under(
            f"for r in T.unroll({plan.rounds}):",
            _WARP_SCAN,
            "kept[2] = T.tvm_warp_shuffle(ALL, v[r], 31, 32, 32)",
            *(leave_out if exclusive else ()),
            "v[r] = combine(kept[1], v[r])",
            "kept[1] = combine(kept[1], kept[2])",
        ),
        "kept[2] = kept[0]",
        *(_combine_warps(plan) if plan.warps > 1 else ("kept[0] = combine(kept[0], kept[1])",)),
        _rounds(plan, under(f"if at < {plan.extent}:", f"{store}combine(kept[2], v[r]))")),
    )
    return _row_block(
        plan,
        "scan",
        "kept[0] = neutral",
        *(_before(plan) if plan.chunks > 1 else ()),
        under(f"for tile in range({-(-plan.length // plan.tile)}):", *tile),
    )


#: kept[0] of all lanes of a warp together, in each of them.
_WARP_TOTAL = under(
    "for d in T.unroll(5):",
    "kept[3] = T.tvm_warp_shuffle_xor(ALL, kept[0], T.shift_left(1, d), 32, 32)",
    "kept[0] = combine(kept[0], kept[3])",
)


def _before(plan: _Plan) -> tuple[str, ...]:
    """kept[0] becomes what comes before the chunk: every block adds up the totals by itself."""
    at = f"k * {32 * plan.warps} + t"
    return (
        under(
            f"for k in range({-(-plan.chunks // (32 * plan.warps))}):",
            under(f"if {at} < chunk:", f"kept[0] = combine(kept[0], totals[row, {at}])"),
        ),
        _WARP_TOTAL,
        under("if lane == 0:", "sums[warp] = kept[0]"),
        "kept[0] = neutral",
        under(f"for w in T.unroll({plan.warps}):", "kept[0] = combine(kept[0], sums[w])"),
    )


def _combine_warps(plan: _Plan) -> tuple[str, ...]:
    """Warps tell each other their totals."""
    return (
        under("if lane == 0:", "sums[warp] = kept[1]"),
        under(
            f"for w in T.unroll({plan.warps}):",
            "kept[2] = T.Select(w < warp, combine(kept[2], sums[w]), kept[2])",
            "kept[0] = combine(kept[0], sums[w])",
        ),
    )


def _total_rows(plan: _Plan, reverse: bool) -> str:
    """The total of every chunk."""
    body = (
        "kept[0] = neutral",
        under(
            f"for tile in range({-(-plan.length // plan.tile)}):",
            _fetch(plan, reverse),
            under(f"for r in T.unroll({plan.rounds}):", "kept[0] = combine(kept[0], v[r])"),
        ),
        _WARP_TOTAL,
        under("if lane == 0:", "sums[warp] = kept[0]"),
        under(
            "if t == 0:",
            under(
                f"for w in T.unroll({plan.warps - 1}):", "kept[0] = combine(kept[0], sums[w + 1])"
            ),
            "totals[row, chunk] = kept[0]",
        ),
    )
    return _row_block(plan, "total", *body)


# ---------------------------------------------------------------------------- columns


def _column_block(plan: _Plan, name: str, *body: str) -> str:
    """Threads that know their `row`, `chunk` and `column`, and run along it."""
    columns = plan.rows * plan.chunks * plan.inner
    lines = (
        f"row: T.int32 = (b * {_COLUMNS} + t) // {plan.chunks * plan.inner}",
        f"chunk: T.int32 = (b * {_COLUMNS} + t) // {plan.inner} % {plan.chunks}",
        f"column: T.int32 = (b * {_COLUMNS} + t) % {plan.inner}",
        'kept = T.alloc_buffer((2,), WIDE, scope="local")',
        under(f"if b * {_COLUMNS} + t < {columns}:", *body),
    )
    return blocks_of(-(-columns // _COLUMNS), _COLUMNS, name, *lines)


def _along(plan: _Plan, *body: str) -> str:
    """What is done for every element of a chunk of a column."""
    at = f"at: T.int32 = chunk * {plan.length} + k"
    whole = plan.extent % plan.length == 0
    rest = body if whole else (under(f"if at < {plan.extent}:", *body),)
    return under(f"for k in range({plan.length}):", at, *rest)


def _scan_columns(
    plan: _Plan, source: str, target: str, before: str, exclusive: bool, reverse: bool
) -> str:
    step = (
        f"kept[1] = T.Cast(WIDE, {_element(plan, source, reverse)})",
        f"{_element(plan, target, reverse)} = T.Cast({_kind(target)}, kept[0])",
        "kept[0] = combine(kept[0], kept[1])",
    )
    if not exclusive:
        step = (step[0], step[2], step[1])
    start = f"kept[0] = {f'{before}[row, chunk, column]' if before else 'neutral'}"
    return _column_block(plan, f"scan_{target}", start, _along(plan, *step))


def _total_columns(plan: _Plan, reverse: bool) -> str:
    value = f"T.Cast(WIDE, {_element(plan, 'A', reverse)})"
    return _column_block(
        plan,
        "total",
        "kept[0] = neutral",
        _along(plan, f"kept[0] = combine(kept[0], {value})"),
        "totals[row, chunk, column] = kept[0]",
    )


def _kind(target: str) -> str:
    return "KIND" if target == "B" else "WIDE"
