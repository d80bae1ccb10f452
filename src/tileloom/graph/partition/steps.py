"""The steps of fusion, each taken until it finds nothing more to do, in this order.

    inline      formulas go into the formulas that alone read them
    epilogues   formulas go behind the product that they read
    sink        formulas go into the reduction that alone reads them
    reductions  formulas and further reductions of the same domain go behind a reduction
    prologues   formulas go into the reduction that reads them, also where others read them too
    chains      formulas go behind formulas
    operands    cheap formulas go into the packing of a product's operand that is packed once
    siblings    nests over one domain that read the same tensor become one
    copies      results of cheap formulas are computed again by those that read them
    follow      a nest goes behind another in one kernel, where little passes between them
    beside      independent nests share a kernel: its parallel loop is shared out over them

Where a nest could join several others, it joins the one where that saves most; of equals, the
latest. Sources: the pattern groups of CINN ("sink trivial", "reduce tree", horizontal fusion) and
the area patterns of MindSpore's graph kernels (depth and width rules, stitch, block fusion).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..symbols import hint
from . import cost
from .cells import Cell
from .fuse import Fuser, Why
from .group import ANCHORED


class Rule(NamedTuple):
    """Which producers a consumer of these kinds may join."""

    consumers: tuple[str, ...]
    allowed: Callable[[Fuser, Cell, Cell], bool]


def run(fuser: Fuser) -> None:
    """All steps."""
    for rule in _RULES:
        _vertical(fuser, rule)
    fuser.into_operands = True
    _vertical(fuser, Rule(ANCHORED, _inline))
    for _ in range(4):  # each round pays; a few find nearly all
        if not (_siblings(fuser) | _copies(fuser)):
            break
        _vertical(fuser, _RULES[-1])
    if not fuser.is_symbolic:  # kernels of several nests would have buckets for all combinations
        _follow(fuser)
        _beside(fuser)


# ---------------------------------------------------------------------------- producers, consumers


def _inline(fuser: Fuser, a: Cell, b: Cell) -> bool:
    return a.kind == "formulas" and fuser.cells.consumers(a) == [b]


def _epilogue(fuser: Fuser, a: Cell, b: Cell) -> bool:
    """Also formulas of other tensors that only this epilogue reads."""
    if a.kind in ANCHORED:
        return b.kind == "formulas" and not _better_below(fuser, a, b)
    return a.kind == "formulas" and b.kind in ANCHORED and fuser.cells.consumers(a) == [b]


def _better_below(fuser: Fuser, product: Cell, formulas: Cell) -> bool:
    """Whether formulas save more in what reads them than behind a product that is kept anyway."""
    cells = fuser.cells
    if not any(t.node in product.made for t in cells.kept(product, formulas)):
        return False
    gain = fuser.gain(product, formulas)
    return any(
        reader.kind in ("formulas", "reductions")
        and fuser.gain(formulas, reader) > gain
        and not isinstance(fuser.joined(formulas, reader), Why)
        for reader in cells.consumers(formulas)
    )


def _behind_reduction(fuser: Fuser, a: Cell, b: Cell) -> bool:
    return a.kind == "reductions"


def _prologue(fuser: Fuser, a: Cell, b: Cell) -> bool:
    return a.kind == "formulas"


def _chain(fuser: Fuser, a: Cell, b: Cell) -> bool:
    return a.kind not in ANCHORED


_RULES = (
    Rule(("formulas",), _inline),
    Rule(("formulas", *ANCHORED), _epilogue),
    Rule(("reductions",), _inline),
    Rule(("formulas", "reductions"), _behind_reduction),
    Rule(("reductions",), _prologue),
    Rule(("formulas", "reductions"), _chain),
)


def _vertical(fuser: Fuser, rule: Rule) -> None:
    """Join consumers to producers until no allowed fusion is left."""
    waiting = list(fuser.cells)
    while waiting:
        merged: dict[Cell, None] = {}
        for cell in waiting:
            current: Cell | None = cell
            while current is not None and fuser.cells.is_alive(current):
                current = _join_a_producer(fuser, current, rule)
                if current is not None:
                    merged[current] = None
        # Elsewhere nothing has changed.
        again = [cell for cell in merged if fuser.cells.is_alive(cell)]
        around = {c: None for cell in again for c in (cell, *fuser.cells.consumers(cell))}
        waiting = sorted(around, key=lambda c: c.serial)


def _join_a_producer(fuser: Fuser, cell: Cell, rule: Rule) -> Cell | None:
    if cell.kind not in rule.consumers:
        return None
    found = [a for a in fuser.cells.producers(cell) if rule.allowed(fuser, a, cell)]
    if len(found) > 1:
        found.sort(key=lambda a: -fuser.gain(a, cell))
    for producer in found:
        joined = fuser.join(producer, cell)
        if joined is not None:
            return joined
    return None


# ---------------------------------------------------------------------------- readers of the same


def _siblings(fuser: Fuser) -> bool:
    """Join nests that read the same tensor, the largest tensors first."""
    changed = False
    shared = [t for t, readers in fuser.cells.readers.items() if len(readers) > 1]
    for tensor in sorted(shared, key=lambda t: (-hint(t.type.nbytes), t.serial)):
        if hint(tensor.type.nbytes) < SHARED or (
            tensor.value is not None and tensor.type.size <= 1
        ):
            continue
        cells = _readers(fuser, tensor)
        while len(cells) > 1:
            first = cells.pop(0)
            for other in cells:
                if fuser.join(first, other) is not None:
                    changed = True
                    cells = _readers(fuser, tensor)
                    break
    return changed


#: Tensors of fewer bytes are not worth a common nest of those that read them.
SHARED = 64


def _readers(fuser: Fuser, tensor: object) -> list[Cell]:
    found: dict[Cell, None] = {}
    for reader in fuser.cells.readers.get(tensor, ()):  # type: ignore[call-overload]
        for cell in fuser.cells.places[reader]:
            if cell.kind in ("formulas", "reductions") and tensor in cell.inputs:
                found[cell] = None
    return sorted(found, key=lambda c: c.serial)


def _copies(fuser: Fuser) -> bool:
    changed = False
    for cell in list(fuser.cells):
        if cell.kind in ("formulas", "reductions") and not cell.is_view:
            for tensor in fuser.cells.kept(cell):
                changed |= fuser.copy(tensor)
    return changed


# ---------------------------------------------------------------------------- kernels


def _follow(fuser: Fuser) -> None:
    for cell in list(fuser.cells):
        current: Cell | None = cell
        while current is not None and fuser.cells.is_alive(current):
            consumer, current = current, None
            for producer in fuser.cells.producers(consumer):
                current = fuser.follow(producer, consumer)
                if current is not None:
                    break


def _beside(fuser: Fuser) -> None:
    """Put independent kernels together that are short, or that nothing waits for."""
    bins: dict[object, list[Cell]] = {}
    for cell in fuser.cells:
        if cell.is_view or cell.kind in (*ANCHORED, "alone"):
            continue
        if not cell.before and not cell.after:
            bins.setdefault("free", []).append(cell)
        elif _is_short(fuser, cell):
            bins.setdefault((cell.before, cell.after), []).append(cell)
    for cells in bins.values():
        _pack(fuser, sorted(cells, key=_likeness))


def _is_short(fuser: Fuser, cell: Cell) -> bool:
    moved = cost.bytes_of(cell.inputs) + cost.bytes_of(fuser.cells.kept(cell))
    return moved <= fuser.device.short


def _likeness(cell: Cell) -> tuple[object, ...]:
    """Kernels that compute the same stand together: what they become is then made once."""
    return (
        tuple(node.op.name for node in cell.nodes),
        tuple(map(hint, cell.nodes[-1].outputs[0].shape)),
        cell.serial,
    )


def _pack(fuser: Fuser, cells: Sequence[Cell]) -> None:
    current: Cell | None = None
    for cell in cells:
        joined = None if current is None else fuser.beside(current, cell)
        current = joined or cell
