"""Conflicts of banks when a tensor in registers is stored to shared memory, or loaded from it.

Shared memory has 32 banks of 4 bytes. In one cycle (a wavefront) each bank serves one word, to any
number of lanes. Lanes access up to 16 bytes at once; accesses of 8 bytes are served for one half of
the warp after the other, those of 16 bytes for one quarter after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ...base.errors import UserError
from .encodings import Encoding, SharedEncoding
from .linear_layout import LinearLayout
from .to_linear import to_linear_layout

BANKS, WORD = 32, 4  # banks, and bytes of a word
WIDEST = 16  # bytes that a lane accesses at once


@dataclass(frozen=True)
class BankUse:
    """What a load or store of a tensor asks of the banks.

    Attributes:
        vector: elements that a lane accesses at once.
        bits: the width of an element.
        accesses: instructions of each warp.
        wavefronts: cycles that the banks need for one instruction.
        ideal: cycles that they need at least, for as many different bytes.
    """

    vector: int
    bits: int
    accesses: int
    wavefronts: int
    ideal: int

    @property
    def conflicts(self) -> int:
        """Cycles too many for one instruction."""
        return self.wavefronts - self.ideal

    @property
    def total(self) -> int:
        """Cycles of a warp for the whole tensor."""
        return self.accesses * self.wavefronts

    def __str__(self) -> str:
        width = self.vector * self.bits
        conflicts = "no conflicts" if not self.conflicts else f"{self.conflicts} too many"
        return (
            f"{self.accesses} accesses of {width} bits a warp, {self.wavefronts} wavefronts each "
            f"({conflicts}), {self.total} in all"
        )


def bank_use(
    shape: Sequence[int], encoding: Encoding, shared: SharedEncoding, bits: int
) -> BankUse:
    """The use of banks when a tensor goes between registers and shared memory.

    Args:
        bits: the width of an element.

    >>> from .encodings import BlockedEncoding
    >>> rows = BlockedEncoding((1, 8), (8, 4), (4, 1), (1, 0))
    >>> print(bank_use((32, 32), rows, SharedEncoding(8, 2, 4, (1, 0)), 16))
    1 accesses of 128 bits a warp, 4 wavefronts each (no conflicts), 4 in all
    >>> columns = BlockedEncoding((1, 1), (32, 1), (1, 4), (0, 1))
    >>> print(bank_use((32, 32), columns, SharedEncoding(1, 1, 1, (1, 0)), 32))
    8 accesses of 32 bits a warp, 32 wavefronts each (31 too many), 256 in all
    """
    if bits % 8:
        raise UserError(f"elements of {bits} bits are not whole bytes")
    places = offsets(shape, encoding, shared, bits)
    vector = vector_size(places, bits)
    registers = {basis for basis in places.bases["register"] if basis}
    lanes = table(places.bases["lane"])
    wide = 1 << vector
    words = max(1, wide * bits // 8 // WORD)
    size = len(lanes) // words
    groups = [lanes[k : k + size] for k in range(0, len(lanes), size)]
    wavefronts = sum(_wavefronts(group, wide, bits) for group in groups)
    different = len(set(lanes)) * wide * bits // 8
    ideal = max(len(groups), -(-different // (BANKS * WORD)))
    return BankUse(wide, bits, 1 << len(registers) - vector, wavefronts, ideal)


def offsets(
    shape: Sequence[int], encoding: Encoding, shared: SharedEncoding, bits: int
) -> LinearLayout:
    """The offset, in elements, of what each register of each lane of each warp has."""
    memory = to_linear_layout(shape, shared, bits)
    places = to_linear_layout(shape, encoding)
    if places.outs != memory.outs:
        raise UserError(f"{encoding} and {shared} are for other shapes")
    found = places.invert_and_compose(memory)
    return found.sublayout([name for name in found.bases if name != "block"], ["offset"])


def vector_size(places: LinearLayout, bits: int) -> int:
    """How many elements, as a power of two, a lane can access at once: neighbours in memory that
    it has in registers, whichever these are, aligned to as many."""
    registers = set(places.bases["register"])
    size = 0
    while 1 << size in registers and (2 << size) * bits // 8 <= WIDEST:
        size += 1
    chosen = {1 << k for k in range(size)}
    others = [basis for basis in places.packed_bases() if basis not in chosen]
    while size and any(basis & ((1 << size) - 1) for basis in others):
        size -= 1
        others.append(1 << size)
    return size


def table(bases: Sequence[int]) -> list[int]:
    """The values at all indices of a dimension with these bases."""
    made = [0]
    for basis in bases:
        made += [value ^ basis for value in made]
    return made


def _wavefronts(lanes: Sequence[int], vector: int, bits: int) -> int:
    """The cycles for lanes that access `vector` elements each: the most words of a bank."""
    words: defaultdict[int, set[int]] = defaultdict(set)
    for offset in lanes:
        first = offset * bits // 8
        for byte in range(first, first + max(vector * bits // 8, 1), WORD):
            words[byte // WORD % BANKS].add(byte // WORD)
    return max(map(len, words.values()))
