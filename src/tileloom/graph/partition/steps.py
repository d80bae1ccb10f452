"""The steps of fusion, each taken until it finds nothing more to do, in this order.

    inline      elementwise ops go into those that alone read them
    epilogues   elementwise ops go behind the product that they read
    sink        elementwise ops go into the reduction that alone reads them
    reductions  elementwise ops and further reductions of the same domain go behind a reduction
    prologues   elementwise ops go into the reduction that reads them, also where others read them
    chains      elementwise ops go behind elementwise ops
    operands    cheap elementwise ops go into the packing of a product's operand, packed once
    siblings    nests over one domain that read the same tensor become one
    copies      results of cheap elementwise ops are computed again by those that read them
    follow      a nest goes behind another in one kernel, where little passes between them
    horizontal  independent nests share a kernel: its parallel loop is split over them

Elementwise stands for injective ops too: those that read other places than they write, such as
transposes and slices.

Where a nest could join several others, it joins the one where that saves most; of equals, the
latest. Sources: the pattern groups of CINN ("sink trivial", "reduce tree", horizontal fusion) and
the area patterns of MindSpore's graph kernels (depth and width rules, stitch, block fusion).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..symbols import hint
from . import cost
from .fuse import Fuser, Why
from .group import ANCHORED
from .node_groups import NodeGroup


class FusionRule(NamedTuple):
    """Which producers a consumer of these kinds may join."""

    consumers: tuple[str, ...]
    allowed: Callable[[Fuser, NodeGroup, NodeGroup], bool]


def run(fuser: Fuser) -> None:
    """All steps."""
    for rule in _RULES:
        _vertical(fuser, rule)
    fuser.into_operands = True
    _vertical(fuser, FusionRule(ANCHORED, _inline))
    for _ in range(4):  # each round pays; a few find nearly all
        if not (_siblings(fuser) | _copies(fuser)):
            break
        _vertical(fuser, _RULES[-1])
    if not fuser.is_symbolic:  # kernels of several nests would have buckets for all combinations
        _follow(fuser)
        _fuse_horizontally(fuser)


# ---------------------------------------------------------------------------- producers, consumers


def _inline(fuser: Fuser, a: NodeGroup, b: NodeGroup) -> bool:
    return a.kind == "elementwise" and fuser.groups.consumers(a) == [b]


def _epilogue(fuser: Fuser, a: NodeGroup, b: NodeGroup) -> bool:
    """Also elementwise ops on other tensors that only this epilogue reads."""
    if a.kind in ANCHORED:
        return b.kind == "elementwise" and not _better_below(fuser, a, b)
    return a.kind == "elementwise" and b.kind in ANCHORED and fuser.groups.consumers(a) == [b]


def _better_below(fuser: Fuser, product: NodeGroup, elementwise: NodeGroup) -> bool:
    """Whether ops save more in what reads them than behind a product that stays anyway."""
    groups = fuser.groups
    if not any(t.node in product.made for t in groups.materialized(product, elementwise)):
        return False
    gain = fuser.gain(product, elementwise)
    return any(
        reader.kind in ("elementwise", "reductions")
        and fuser.gain(elementwise, reader) > gain
        and not isinstance(fuser.joined(elementwise, reader), Why)
        for reader in groups.consumers(elementwise)
    )


def _behind_reduction(fuser: Fuser, a: NodeGroup, b: NodeGroup) -> bool:
    return a.kind == "reductions"


def _prologue(fuser: Fuser, a: NodeGroup, b: NodeGroup) -> bool:
    return a.kind == "elementwise"


def _chain(fuser: Fuser, a: NodeGroup, b: NodeGroup) -> bool:
    return a.kind not in ANCHORED


_RULES = (
    FusionRule(("elementwise",), _inline),
    FusionRule(("elementwise", *ANCHORED), _epilogue),
    FusionRule(("reductions",), _inline),
    FusionRule(("elementwise", "reductions"), _behind_reduction),
    FusionRule(("reductions",), _prologue),
    FusionRule(("elementwise", "reductions"), _chain),
)


def _vertical(fuser: Fuser, rule: FusionRule) -> None:
    """Join consumers to producers until no allowed fusion is left."""
    waiting = list(fuser.groups)
    while waiting:
        merged: dict[NodeGroup, None] = {}
        for group in waiting:
            current: NodeGroup | None = group
            while current is not None and fuser.groups.is_alive(current):
                current = _join_a_producer(fuser, current, rule)
                if current is not None:
                    merged[current] = None
        # Elsewhere nothing has changed.
        again = [group for group in merged if fuser.groups.is_alive(group)]
        around = {c: None for group in again for c in (group, *fuser.groups.consumers(group))}
        waiting = sorted(around, key=lambda c: c.serial)


def _join_a_producer(fuser: Fuser, group: NodeGroup, rule: FusionRule) -> NodeGroup | None:
    if group.kind not in rule.consumers:
        return None
    found = [a for a in fuser.groups.producers(group) if rule.allowed(fuser, a, group)]
    if len(found) > 1:
        found.sort(key=lambda a: -fuser.gain(a, group))
    for producer in found:
        joined = fuser.join(producer, group)
        if joined is not None:
            return joined
    return None


# ---------------------------------------------------------------------------- readers of the same


def _siblings(fuser: Fuser) -> bool:
    """Join nests that read the same tensor, the largest tensors first."""
    changed = False
    shared = [t for t, readers in fuser.groups.readers.items() if len(readers) > 1]
    for tensor in sorted(shared, key=lambda t: (-hint(t.type.nbytes), t.serial)):
        if hint(tensor.type.nbytes) < SHARED or (
            tensor.value is not None and tensor.type.size <= 1
        ):
            continue
        groups = _readers(fuser, tensor)
        while len(groups) > 1:
            first = groups.pop(0)
            for other in groups:
                if fuser.join(first, other) is not None:
                    changed = True
                    groups = _readers(fuser, tensor)
                    break
    return changed


#: Tensors of fewer bytes are not worth a common nest of those that read them.
SHARED = 64


def _readers(fuser: Fuser, tensor: object) -> list[NodeGroup]:
    found: dict[NodeGroup, None] = {}
    for reader in fuser.groups.readers.get(tensor, ()):  # type: ignore[call-overload]
        for group in fuser.groups.places[reader]:
            if group.kind in ("elementwise", "reductions") and tensor in group.inputs:
                found[group] = None
    return sorted(found, key=lambda c: c.serial)


def _copies(fuser: Fuser) -> bool:
    changed = False
    for group in list(fuser.groups):
        if group.kind in ("elementwise", "reductions") and not group.is_view:
            for tensor in fuser.groups.materialized(group):
                changed |= fuser.copy(tensor)
    return changed


# ---------------------------------------------------------------------------- kernels


def _follow(fuser: Fuser) -> None:
    for group in list(fuser.groups):
        current: NodeGroup | None = group
        while current is not None and fuser.groups.is_alive(current):
            consumer, current = current, None
            for producer in fuser.groups.producers(consumer):
                current = fuser.follow(producer, consumer)
                if current is not None:
                    break


def _fuse_horizontally(fuser: Fuser) -> None:
    """Put independent kernels together that are short, or that nothing waits for."""
    bins: dict[object, list[NodeGroup]] = {}
    for group in fuser.groups:
        if group.is_view or group.kind in (*ANCHORED, "alone"):
            continue
        if not group.before and not group.after:
            bins.setdefault("free", []).append(group)
        elif _is_short(fuser, group):
            bins.setdefault((group.before, group.after), []).append(group)
    for groups in bins.values():
        _pack(fuser, sorted(groups, key=_likeness))


def _is_short(fuser: Fuser, group: NodeGroup) -> bool:
    moved = cost.bytes_of(group.inputs) + cost.bytes_of(fuser.groups.materialized(group))
    return moved <= fuser.device.short


def _likeness(group: NodeGroup) -> tuple[object, ...]:
    """Kernels that compute the same stand together: what they become is then made once."""
    return (
        tuple(node.op.name for node in group.nodes),
        tuple(map(hint, group.nodes[-1].outputs[0].shape)),
        group.serial,
    )


def _pack(fuser: Fuser, groups: Sequence[NodeGroup]) -> None:
    current: NodeGroup | None = None
    for group in groups:
        joined = None if current is None else fuser.fuse_horizontally(current, group)
        current = joined or group
