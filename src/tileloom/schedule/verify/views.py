"""Views (`T.match_buffer` in a block) that are not what their regions are, if numbers tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...expr import Expr, IntImm
from ...tir import Block, Buffer, MatchBufferRegion
from .model import Model
from .report import Findings, Point, Violation


def note_views(model: Model, block: Block) -> None:
    """Remember the views of a block that have other extents or strides than their regions."""
    for match in block.match_buffers:
        for fault in _faults(match):
            text = f"the view {match.buffer.name!r} in block {block.name_hint!r} {fault}"
            model.misfits.setdefault((block.name_hint, text))


def check_views(model: Model, findings: Findings) -> None:
    """Each view is as large as its region, which is within its buffer."""
    for block, message in model.misfits:
        findings.violations.append(Violation("misfit", message, (block,), Point(block)))


def _faults(match: MatchBufferRegion) -> Iterator[str]:
    view, source, region = match.buffer, match.source.buffer, match.source.region
    lows, extents = _numbers(p.min for p in region), _numbers(p.extent for p in region)
    for axis, (low, extent, size) in enumerate(zip(lows, extents, _numbers(source.shape))):
        if extent is not None and size is not None and (low or 0) + extent > size:
            yield f"is of elements up to {(low or 0) + extent} along axis {axis}, of {size}"
    own = len(region) - len(view.shape)  # leading axes of one element may be left out
    for what, declared, found in (
        ("elements", _numbers(view.shape), extents[own:]),
        ("as its stride", _numbers(view.strides), _strides(source)[own:]),
    ):
        for axis, (one, other) in enumerate(zip(declared, found)):
            if one is not None and other is not None and one != other:
                yield f"declares {one} {what} along axis {axis}, where there are {other}"


def _numbers(values: Iterable[Expr]) -> list[int | None]:
    return [value.value if isinstance(value, IntImm) else None for value in values]


def _strides(buffer: Buffer) -> list[int | None]:
    if buffer.strides:
        return _numbers(buffer.strides)
    found: list[int | None] = [1]
    for extent in reversed(_numbers(buffer.shape[1:])):
        below = found[-1]
        found.append(None if extent is None or below is None else extent * below)
    return found[::-1]
