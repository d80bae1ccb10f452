"""What a conversion between two layouts over threads moves: nothing, registers, or data between
lanes, warps or thread blocks.

With a source layout S and a target layout T, a place x needs the element T(x), which is at a place
y with S(y) = T(x). Data stays in its warp if there is such a y in the same warp for each x. By
linearity it is enough to look at bases: T and S may differ at each warp bit by something that
registers and lanes of S reach. The same holds for lanes, and for thread blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from ...base.errors import UserError
from ..ir.types import TensorType, element_bits
from .encodings import DotOperandEncoding, Encoding, NvidiaMmaEncoding
from .linear_layout import Echelon, LinearLayout
from .to_linear import to_linear_layout

LEVELS = ("register", "lane", "warp", "block")


class Movement(IntEnum):
    """How far data goes in a conversion; more is dearer."""

    NOTHING = 0
    REGISTERS = 1  # the same renaming of registers in every thread
    SELECTS = 2  # registers of the own thread, others in other threads
    SHUFFLES = 3  # between lanes of a warp
    SHARED_MEMORY = 4  # between warps of a block
    BLOCKS = 5  # between thread blocks of a cluster


WORDS = {
    Movement.NOTHING: "no-op",
    Movement.REGISTERS: "register permutation",
    Movement.SELECTS: "register selects",
    Movement.SHUFFLES: "warp shuffle",
    Movement.SHARED_MEMORY: "shared memory",
    Movement.BLOCKS: "distributed shared memory",
}


AWAY = (
    "which the thread does not have in the source",
    "which the warp does not have in the source",
    "which the block does not have in the source",
)


@dataclass(frozen=True)
class LayoutConversion:
    """A conversion between two layouts.

    Attributes:
        movement: how far data goes.
        reason: why it does not stay nearer.
        source, target: the linear layouts.
    """

    movement: Movement
    reason: str
    source: LinearLayout
    target: LinearLayout

    def places(self) -> LinearLayout:
        """Where in the source each place of the target finds its element."""
        return self.target.invert_and_compose(self.source)

    def __str__(self) -> str:
        words = WORDS[self.movement]
        return f"{words}: {self.reason}" if self.reason else words


def classify_conversion(
    shape: Sequence[int], source: Encoding, target: Encoding
) -> LayoutConversion:
    """How far data goes when a tensor is converted from one layout to another.

    >>> from .encodings import BlockedEncoding
    >>> rows = BlockedEncoding((1, 4), (4, 8), (4, 1), (1, 0))
    >>> print(classify_conversion((16, 32), rows, rows.replace(size_per_thread=(1, 2))))
    warp shuffle: register bit 1 of the target has dim1 = 16, which the thread does not have in
    the source
    >>> print(classify_conversion((16, 32), rows, rows.replace(warps_per_cta=(2, 2))))
    shared memory: register bit 2 of the target has dim0 = 8, which the warp does not have in the
    source
    """
    old, new = to_linear_layout(shape, source), to_linear_layout(shape, target)
    for name in LEVELS[1:]:
        if len(old.bases.get(name, ())) != len(new.bases.get(name, ())):
            raise UserError(f"{source} and {target} have different numbers of {name}s")
    return LayoutConversion(*compare_layouts(old, new), old, new)


def compare_layouts(source: LinearLayout, target: LinearLayout) -> tuple[Movement, str]:
    """How far data goes from one linear layout to another, and why."""
    if source.bases == target.bases:
        return Movement.NOTHING, ""
    reason = ""
    reach = Echelon(())
    for level in range(1, len(LEVELS)):
        for basis in source.bases.get(LEVELS[level - 1], ()):
            reach.add(basis)
        found = _misfit(source, target, level, reach)
        if not found:
            return _at_level(source, target, level, reason)
        reason = found
    return Movement.BLOCKS, reason


def _at_level(
    source: LinearLayout, target: LinearLayout, level: int, reason: str
) -> tuple[Movement, str]:
    """The movement if all stays within a thread (level 1), a warp (2) or a block (3)."""
    if level > 1:
        return (Movement.SHUFFLES, Movement.SHARED_MEMORY)[level - 2], reason
    for name in LEVELS[1:]:
        found = _first_difference(source, target, name)
        if found:
            return Movement.SELECTS, found
    return Movement.REGISTERS, _first_difference(source, target, "register")


def _misfit(source: LinearLayout, target: LinearLayout, level: int, reach: Echelon) -> str:
    """Why data does not stay within a thread, warp or block, by the first basis that is out of
    the reach of what is in it; empty if it does."""
    for name in LEVELS[:level]:
        for bit, basis in enumerate(target.bases.get(name, ())):
            if reach.solve(basis) is None:
                place = _place(target, basis)
                return f"{name} bit {bit} of the target has {place}, {AWAY[level - 1]}"
    for name in LEVELS[level:]:
        pairs = zip(source.bases.get(name, ()), target.bases.get(name, ()), strict=True)
        for bit, (old, new) in enumerate(pairs):
            if reach.solve(old ^ new) is None:
                return _differ(source, name, bit, old, new)
    return ""


def _first_difference(source: LinearLayout, target: LinearLayout, name: str) -> str:
    old, new = source.bases.get(name, ()), target.bases.get(name, ())
    for bit, (a, b) in enumerate(zip(old, new, strict=False)):
        if a != b:
            return _differ(source, name, bit, a, b)
    return "" if len(old) == len(new) else f"{1 << len(old)} become {1 << len(new)} {name}s"


def _differ(layout: LinearLayout, name: str, bit: int, old: int, new: int) -> str:
    before, after = _place(layout, old), _place(layout, new)
    return f"{name} bit {bit} has {before} in the source, {after} in the target"


def _place(layout: LinearLayout, basis: int) -> str:
    """A basis as text: `dim0 = 4`."""
    moves = zip(layout.outs, layout.unpack(basis), strict=True)
    return ", ".join(f"{name} = {value}" for name, value in moves if value) or "nothing"


# What passes ask.


def is_register_permutation(source: TensorType, target: TensorType) -> bool:
    """Whether a conversion renames registers at most."""
    return _movement(source, target) <= Movement.REGISTERS


def feeds_wgmma(source: TensorType, target: TensorType) -> bool:
    """Whether results of `wgmma` become a left operand of one in registers, as they are."""
    before, after = source.encoding, target.encoding
    if not isinstance(before, NvidiaMmaEncoding) or not isinstance(after, DotOperandEncoding):
        return False
    parent = after.parent
    return (
        before.version == 3
        and after.op_idx == 0
        and before.warps_per_cta[1] == 1
        and element_bits(source) in (8, 16)
        and isinstance(parent, NvidiaMmaEncoding)
        and not needs_shared_memory(source, source.with_encoding(parent))
    )


def needs_shared_memory(source: TensorType, target: TensorType) -> bool:
    """Whether a conversion goes through shared memory, as Triton lowers it: whatever is no
    renaming of registers does, also what shuffles could do, but results of `wgmma` that are an
    operand again."""
    return not is_register_permutation(source, target) and not feeds_wgmma(source, target)


def _movement(source: TensorType, target: TensorType) -> Movement:
    if source.shape != target.shape:
        raise UserError(f"{source} and {target} have different shapes")
    if source.encoding is target.encoding:
        return Movement.NOTHING
    before, after = source.encoding, target.encoding
    if not isinstance(before, Encoding) or not isinstance(after, Encoding):
        raise UserError(f"{source} or {target} has no layout")
    return classify_conversion(source.shape, before, after).movement
