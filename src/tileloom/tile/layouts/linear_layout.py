"""Linear layouts: maps over GF(2) from places (register, lane, warp, block) to elements.

A layout L says where a place is in a tensor, and is given by its bases, the values at powers of
two: L(a xor b) = L(a) xor L(b). The values along all output dimensions are packed in one integer,
the first dimension in the lowest bits; so are the inputs, where that matters. (Linear Layouts:
Robust Code Generation of Efficient Tensor Computation Using F2, arXiv 2505.23819.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...base.errors import InternalError, UserError


def log2(size: int) -> int:
    """The logarithm of a power of two.

    Raises:
        UserError: if it is not one.
    """
    bits = size.bit_length() - 1
    if size < 1 or size != 1 << bits:
        raise UserError(f"linear layouts have sizes that are powers of two, not {size}")
    return bits


class LinearLayout:
    """A linear map from named input dimensions to named output dimensions.

    Attributes:
        bases: by input dimension, the packed outputs at 1, 2, 4, ...
        outs: the output dimensions and how many bits each has, lowest first.

    >>> lanes = LinearLayout.identity1d(4, "lane", "x")
    >>> layout = lanes * LinearLayout.identity1d(2, "register", "x")
    >>> layout.apply(lane=3, register=1)
    {'x': 7}
    """

    __slots__ = ("_table", "bases", "outs")

    def __init__(self, bases: Mapping[str, Sequence[int]], outs: Mapping[str, int]) -> None:
        self.bases = {name: tuple(values) for name, values in bases.items()}
        self.outs = dict(outs)
        self._table: Any = None

    # Making.

    @classmethod
    def identity1d(cls, size: int, dim: str, out: str) -> LinearLayout:
        """`dim` is `out`."""
        bits = log2(size)
        return cls({dim: [1 << k for k in range(bits)]}, {out: bits})

    @classmethod
    def strided1d(cls, size: int, stride: int, dim: str, out: str) -> LinearLayout:
        """`out` is `stride` times `dim`."""
        bits, shift = log2(size), log2(stride)
        return cls({dim: [1 << shift + k for k in range(bits)]}, {out: bits and bits + shift})

    @classmethod
    def zeros1d(cls, size: int, dim: str, out: str, out_size: int = 1) -> LinearLayout:
        """All of `dim` are at 0."""
        return cls({dim: [0] * log2(size)}, {out: log2(out_size)})

    @classmethod
    def from_bases(
        cls, bases: Mapping[str, Iterable[Sequence[int]]], outs: Mapping[str, int]
    ) -> LinearLayout:
        """From the bases as values along each output dimension, and the sizes of these.

        >>> LinearLayout.from_bases({"lane": [(0, 1), (1, 1)]}, {"x": 2, "y": 2}).apply(lane=3)
        {'x': 1, 'y': 0}
        """
        bits = {name: log2(size) for name, size in outs.items()}
        shifts = _shifts(bits)
        packed = {
            dim: [sum(v << s for v, s in zip(b, shifts, strict=True)) for b in values]
            for dim, values in bases.items()
        }
        return cls(packed, bits)

    # Reading.

    @property
    def in_sizes(self) -> dict[str, int]:
        """The sizes of the input dimensions."""
        return {name: 1 << len(values) for name, values in self.bases.items()}

    @property
    def out_sizes(self) -> dict[str, int]:
        """The sizes of the output dimensions."""
        return {name: 1 << bits for name, bits in self.outs.items()}

    @property
    def in_bits(self) -> int:
        """The bits of all inputs."""
        return sum(map(len, self.bases.values()))

    @property
    def out_bits(self) -> int:
        """The bits of all outputs."""
        return sum(self.outs.values())

    def packed_bases(self) -> list[int]:
        """The bases of all input dimensions, one after the other."""
        return [basis for values in self.bases.values() for basis in values]

    def basis_vectors(self, dim: str) -> list[tuple[int, ...]]:
        """The bases of an input dimension, as values along each output dimension."""
        return [self.unpack(basis) for basis in self.bases[dim]]

    def unpack(self, packed: int) -> tuple[int, ...]:
        """A packed output as values along each output dimension."""
        made = []
        for bits in self.outs.values():
            made.append(packed & ((1 << bits) - 1))
            packed >>= bits
        return tuple(made)

    def apply(self, **indices: int) -> dict[str, int]:
        """The outputs at inputs; those left out are 0."""
        packed = 0
        for name, index in indices.items():
            packed ^= combine(self.bases[name], index)
        return dict(zip(self.outs, self.unpack(packed), strict=True))

    def apply_packed(self, index: int) -> int:
        """The packed output at a packed input."""
        return combine(self.packed_bases(), index)

    def table(self) -> np.ndarray[Any, Any]:
        """The packed outputs at all inputs: an array whose last axis is the first input."""
        if self._table is None:
            made = np.zeros(1, np.int64)
            for basis in self.packed_bases():
                made = np.concatenate([made, made ^ basis])
            self._table = made.reshape(tuple(reversed(self.in_sizes.values())))
            self._table.flags.writeable = False
        table: np.ndarray[Any, Any] = self._table
        return table

    def __eq__(self, other: object) -> bool:
        """Whether dimensions, in their order, and bases are the same."""
        return isinstance(other, LinearLayout) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return tuple(self.bases.items()), tuple(self.outs.items())

    def __repr__(self) -> str:
        bases = ", ".join(f"{dim}={self.basis_vectors(dim)}" for dim in self.bases)
        outs = ", ".join(f"{name}: {size}" for name, size in self.out_sizes.items())
        return f"LinearLayout({bases} -> {outs})"

    # Properties.

    def rank(self) -> int:
        """The bits of the outputs that are reached."""
        return len(Echelon(self.packed_bases()).pivots)

    def is_surjective(self) -> bool:
        """Whether all outputs are reached."""
        return self.rank() == self.out_bits

    def is_injective(self) -> bool:
        """Whether no two inputs are at the same output."""
        return self.rank() == self.in_bits

    def is_invertible(self) -> bool:
        """Whether inputs and outputs correspond one to one."""
        return self.in_bits == self.out_bits == self.rank()

    def free_masks(self) -> dict[str, int]:
        """By input dimension, the bits whose bases depend on those of the bits before."""
        echelon = Echelon(())
        masks = {}
        for name, values in self.bases.items():
            masks[name] = sum(1 << k for k, basis in enumerate(values) if not echelon.add(basis))
        return masks

    # Dimensions.

    def transpose_outs(self, names: Sequence[str]) -> LinearLayout:
        """The output dimensions in another order."""
        if tuple(self.outs) == tuple(names):
            return self
        return self.sublayout(tuple(self.bases), names)

    def transpose_ins(self, names: Sequence[str]) -> LinearLayout:
        """The input dimensions in another order."""
        _same_names(self.bases, names)
        return LinearLayout({name: self.bases[name] for name in names}, self.outs)

    def sublayout(self, ins: Sequence[str], outs: Sequence[str]) -> LinearLayout:
        """Some inputs, the others 0, to some outputs."""
        starts = dict(zip(self.outs, _shifts(self.outs), strict=True))
        kept = {name: self.outs[name] for name in outs}
        if tuple(outs) == tuple(self.outs):
            return LinearLayout({name: self.bases[name] for name in ins}, kept)
        fields = [
            (starts[name], (1 << bits) - 1, place)
            for (name, bits), place in zip(kept.items(), _shifts(kept), strict=True)
        ]
        moved = {name: [_moved(basis, fields) for basis in self.bases[name]] for name in ins}
        return LinearLayout(moved, kept)

    def reshape_ins(self, sizes: Mapping[str, int]) -> LinearLayout:
        """The same inputs under other names, cut elsewhere."""
        rest = self.packed_bases()
        made = {}
        for name, size in sizes.items():
            bits = log2(size)
            made[name], rest = rest[:bits], rest[bits:]
        if rest or sum(map(len, made.values())) != self.in_bits:
            raise InternalError(f"inputs {self.in_sizes} are not {dict(sizes)}")
        return LinearLayout(made, self.outs)

    def reshape_outs(self, sizes: Mapping[str, int]) -> LinearLayout:
        """The same outputs under other names, cut elsewhere."""
        outs = {name: log2(size) for name, size in sizes.items()}
        if sum(outs.values()) != self.out_bits:
            raise InternalError(f"outputs {self.out_sizes} are not {dict(sizes)}")
        return LinearLayout(self.bases, outs)

    def without_zeros(self, dim: str) -> LinearLayout:
        """Without the bases of an input dimension that move nothing."""
        return LinearLayout(
            {**self.bases, dim: tuple(basis for basis in self.bases[dim] if basis)}, self.outs
        )

    # Algebra.

    def __mul__(self, other: LinearLayout) -> LinearLayout:
        """The product: along each dimension `other` is laid out in steps of this one's size."""
        outs = {name: bits + other.outs.get(name, 0) for name, bits in self.outs.items()}
        outs.update((name, bits) for name, bits in other.outs.items() if name not in outs)
        starts = dict(zip(outs, _shifts(outs), strict=True))
        low = _fields(self.outs, starts, {})
        high = _fields(other.outs, starts, self.outs)
        made = {name: [_moved(b, low) for b in values] for name, values in self.bases.items()}
        for name, values in other.bases.items():
            made.setdefault(name, []).extend(_moved(b, high) for b in values)
        return LinearLayout(made, outs)

    def compose(self, outer: LinearLayout) -> LinearLayout:
        """`outer` of this: outer's inputs are this one's outputs, which may be fewer.

        >>> halves = LinearLayout.from_bases({"x": [(0,), (1,)]}, {"y": 2})
        >>> LinearLayout.identity1d(4, "lane", "x").compose(halves)
        LinearLayout(lane=[(0,), (1,)] -> y: 2)
        """
        _same_names(self.outs, outer.bases)
        if any(bits > len(outer.bases[name]) for name, bits in self.outs.items()):
            raise InternalError(f"outputs {self.out_sizes} are not in inputs {outer.in_sizes}")
        flat = [b for name, bits in self.outs.items() for b in outer.bases[name][:bits]]
        made = {
            name: [combine(flat, basis) for basis in values] for name, values in self.bases.items()
        }
        return LinearLayout(made, outer.outs)

    def invert(self) -> LinearLayout:
        """The inverse.

        Raises:
            InternalError: if there is none.
        """
        if not self.is_invertible():
            raise InternalError(f"there is no inverse of {self!r}")
        return self.pseudoinvert()

    def pseudoinvert(self) -> LinearLayout:
        """An input for each output: that of the first places, of those that have the element."""
        identity = {
            name: _units(bits, start)
            for (name, bits), start in zip(self.outs.items(), _shifts(self.outs), strict=True)
        }
        return LinearLayout(identity, self.outs)._solved_by(self)

    def invert_and_compose(self, source: LinearLayout) -> LinearLayout:
        """Where in `source` is what this layout has: C with source(C(x)) = this(x).

        Input dimensions that both layouts place alike are mapped to themselves, so that copies
        stay where they are; else the first place that has an element is taken.
        """
        target = self.transpose_outs(tuple(source.outs))
        if target.outs != source.outs:
            raise InternalError(f"{self!r} and {source!r} have other outputs")
        same = [name for name, values in source.bases.items() if target.bases.get(name) == values]
        if same:
            found = target._partly_solved_by(source, same)
            if found is not None:
                return found
        return target._solved_by(source)

    def _solved_by(self, source: LinearLayout) -> LinearLayout:
        echelon = Echelon(source.packed_bases())
        made = {name: [echelon.solve(b) for b in values] for name, values in self.bases.items()}
        unsolved = next((name for name, values in made.items() if None in values), None)
        if unsolved is not None:
            raise InternalError(f"not all that {unsolved} has is in {source!r}")
        outs = {name: len(values) for name, values in source.bases.items()}
        return LinearLayout(made, outs)  # type: ignore[arg-type]

    def _partly_solved_by(self, source: LinearLayout, same: Sequence[str]) -> LinearLayout | None:
        """The solution that maps the dimensions `same` to themselves, or None."""
        kept = [() if name in same else values for name, values in source.bases.items()]
        starts = dict(zip(source.bases, _shifts_of(source.bases), strict=True))
        echelon = Echelon(())
        for start, values in zip(starts.values(), kept, strict=True):
            echelon.add_all(values, start)
        made: dict[str, list[int]] = {}
        for name, values in self.bases.items():
            if name in same:
                made[name] = _units(len(values), starts[name])
                continue
            solved = [echelon.solve(basis) for basis in values]
            if None in solved:
                return None
            made[name] = solved  # type: ignore[assignment]
        outs = {name: len(values) for name, values in source.bases.items()}
        return LinearLayout(made, outs)

    def divide_left(self, divisor: LinearLayout) -> LinearLayout | None:
        """The layout Q with divisor * Q = this, or None."""
        low = dict(divisor.outs)
        for name, values in divisor.bases.items():
            if len(values) > len(self.bases.get(name, ())):
                return None
        if any(bits > self.outs.get(name, -1) for name, bits in low.items()):
            return None
        outs = {name: bits - low.get(name, 0) for name, bits in self.outs.items()}
        starts = _shifts(self.outs)
        fields = [
            (start + low.get(name, 0), (1 << bits) - 1, place)
            for (name, bits), start, place in zip(outs.items(), starts, _shifts(outs), strict=True)
        ]
        made = {
            name: [_moved(b, fields) for b in values[len(divisor.bases.get(name, ())) :]]
            for name, values in self.bases.items()
        }
        quotient = LinearLayout(made, outs)
        product = (divisor * quotient).transpose_outs(tuple(self.outs))
        return quotient if product.transpose_ins(tuple(self.bases)) == self else None

    def is_trivial_over(self, dims: Iterable[str]) -> bool:
        """Whether each of some dimensions, inputs and outputs by name, is mapped to itself, and
        nothing else to it or from it.

        Dimensions that are not there have one position.
        """
        starts = dict(zip(self.outs, _shifts(self.outs), strict=True))
        mask = 0
        for name in dims:
            bits = self.outs.get(name, 0)
            mask |= ((1 << bits) - 1) << starts.get(name, 0)
            if list(self.bases.get(name, ())) != _units(bits, starts.get(name, 0)):
                return False
        names = set(dims)
        others = (b for name, values in self.bases.items() if name not in names for b in values)
        return not any(basis & mask for basis in others)

    def quotient(self, dims: Sequence[str]) -> LinearLayout | None:
        """Without dimensions that are mapped to themselves, or None if they are not."""
        if not self.is_trivial_over(dims):
            return None
        ins = [name for name in self.bases if name not in dims]
        return self.sublayout(ins, [name for name in self.outs if name not in dims])


class Echelon:
    """Vectors over GF(2) brought to echelon form, with the combination that each row is of.

    >>> echelon = Echelon([0b01, 0b11])
    >>> echelon.solve(0b10)
    3
    """

    __slots__ = ("count", "pivots")

    def __init__(self, vectors: Iterable[int]) -> None:
        self.pivots: dict[int, tuple[int, int]] = {}  # by the highest bit: a row, its combination
        self.count = 0
        self.add_all(vectors, 0)

    def add_all(self, vectors: Iterable[int], start: int) -> None:
        """Adds vectors, which combinations count from `start`."""
        self.count = start
        for vector in vectors:
            self.add(vector)

    def add(self, vector: int) -> bool:
        """Adds a vector; says whether it is independent of those before."""
        combination = 1 << self.count
        self.count += 1
        pivots = self.pivots
        while vector:
            row = pivots.get(vector.bit_length())
            if row is None:
                pivots[vector.bit_length()] = vector, combination
                return True
            vector ^= row[0]
            combination ^= row[1]
        return False

    def solve(self, vector: int) -> int | None:
        """The vectors, as bits, that make up a vector, or None. Of several solutions, the one
        with none that depends on vectors before it."""
        combination = 0
        while vector:
            row = self.pivots.get(vector.bit_length())
            if row is None:
                return None
            vector ^= row[0]
            combination ^= row[1]
        return combination


def combine(bases: Sequence[int], index: int) -> int:
    """The exclusive or of the bases at the bits of an index."""
    value = 0
    while index:
        low = index & -index
        value ^= bases[low.bit_length() - 1]
        index ^= low
    return value


# Packing.


def _shifts(bits: Mapping[str, int]) -> list[int]:
    starts, at = [], 0
    for width in bits.values():
        starts.append(at)
        at += width
    return starts


def _shifts_of(bases: Mapping[str, Sequence[int]]) -> list[int]:
    return _shifts({name: len(values) for name, values in bases.items()})


def _units(bits: int, start: int) -> list[int]:
    return [1 << start + k for k in range(bits)]


Field = tuple[int, int, int]  # where it is, its mask, where it goes


def _fields(
    outs: Mapping[str, int], starts: Mapping[str, int], below: Mapping[str, int]
) -> list[Field]:
    """How packed values move to where dimensions start, above those `below`."""
    return [
        (at, (1 << bits) - 1, starts[name] + below.get(name, 0))
        for (name, bits), at in zip(outs.items(), _shifts(outs), strict=True)
    ]


def _moved(basis: int, fields: Sequence[Field]) -> int:
    return sum((basis >> at & mask) << to for at, mask, to in fields) if basis else 0


def _same_names(names: Iterable[str], others: Iterable[str]) -> None:
    if set(names) != set(others):
        raise InternalError(f"dimensions {sorted(names)} are not {sorted(others)}")
