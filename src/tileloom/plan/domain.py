"""The iteration domain that the blocks of a group share.

A group is a function of blocks that were lowered one by one: reductions, and elementwise blocks
over what is reduced or over its results. Two iteration variables, of whatever blocks, run over the
same *axis* when they index the same dimension of a buffer. An axis that some block reduces over is
a reduction axis of the group; the others are spatial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from ..base.errors import UserError
from ..expr import REDUCE, Expr, IntImm, Var
from ..expr.extents import is_number, known_extent, usual
from ..schedule.schedule import Schedule
from ..tir import Block, Buffer, buffer_accesses, seq

#: How large a size is that is not constant.
Guess = Callable[[Expr], int]


class GroupRefused(UserError):
    """The blocks do not form a group that can be tiled as one, and why."""


@dataclass(eq=False)
class GroupAxis:
    """An axis of the domain.

    Attributes:
        extent: how many positions; what counts as a number (`expr.extents`), where that is known.
        reduced: whether a block reduces over it.
        weight: how far apart neighbours lie in the largest buffer that the axis runs through.
        size: the extent as the program has it.
    """

    extent: int
    reduced: bool
    weight: int
    size: Expr | None = None

    @property
    def base(self) -> int | Expr:
        """The extent as numbers along several axes take it for the base of a digit."""
        return self.extent if self.size is None or is_number(self.extent) else self.size


@dataclass(eq=False)
class Domain:
    """The axes of a group, and which of them the iteration variables of each block run over.

    Attributes:
        spatial, reduced: the axes from the longest step through memory to the shortest.
        axes: for each block by name the axis of each iteration variable, None for one of extent 1.
    """

    spatial: list[GroupAxis]
    reduced: list[GroupAxis]
    axes: dict[str, list[GroupAxis | None]]

    @property
    def rows(self) -> int:
        """The number of positions along the spatial axes."""
        return prod(axis.extent for axis in self.spatial)

    @property
    def depth(self) -> int:
        """The number of positions along the reduction axes."""
        return prod(axis.extent for axis in self.reduced)

    def over_depth(self, name: str) -> bool:
        """Whether a block runs over the reduction axes."""
        return any(axis is not None and axis.reduced for axis in self.axes[name])

    def is_regular(self, name: str) -> bool:
        """Whether a block runs over all rows, and over a whole row or none of it."""
        own = {axis for axis in self.axes[name] if axis is not None}
        return own.issuperset(self.spatial) and (
            not self.over_depth(name) or own.issuperset(self.reduced)
        )

    def copy(self) -> Domain:
        """The same, to which blocks can be added."""
        return Domain(self.spatial, self.reduced, dict(self.axes))

    @property
    def reduces_innermost(self) -> bool:
        """Whether neighbours in memory are neighbours along a reduction axis."""
        if not self.reduced:
            return False
        last = self.reduced[-1].weight
        return not self.spatial or last <= self.spatial[-1].weight


def blocks_by_name(sch: Schedule) -> dict[str, Block]:
    """The blocks of the function that is worked on, in order."""
    found = (sch.get(rv) for rv in sch.get_child_blocks(sch.get_block("root")))
    return {block.name_hint: block for block in found}


def accesses(block: Block) -> Iterator[tuple[Buffer, tuple[Expr, ...]]]:
    """Every buffer access of a block with its indices."""
    return buffer_accesses(seq(block.init, block.body))


def domain_of(blocks: Sequence[Block], guess: Guess | None = None) -> Domain:
    """The domain of some blocks of a function.

    Args:
        guess: how large a size is that is not constant, for its axis' `extent`; by default what it
            was made of, and sizes of which nothing is known are refused.

    Raises:
        GroupRefused: they share none.
    """
    return _Finder(blocks, guess or extent_of).find()


def extent_of(size: Expr) -> int:
    """A size that is not constant as what it was made of.

    Raises:
        GroupRefused: nothing is known of it.
    """
    known = known_extent(size)
    if known is None:
        raise GroupRefused(f"there is an axis whose extent {size} is not constant")
    return known


class _Finder:
    def __init__(self, blocks: Sequence[Block], guess: Guess) -> None:
        self.blocks = blocks
        self.guess = guess
        self.known: dict[object, object] = {}
        self.parent: dict[object, object] = {}

    def find(self) -> Domain:
        if len(self.blocks) > 1:  # the axes of a block by itself are its own
            for block in self.blocks:
                for buffer, indices in accesses(block):
                    for dim, index in enumerate(indices):
                        if isinstance(index, Var):
                            self._join(index, (buffer, dim))
        made: dict[object, GroupAxis] = {}
        axes: dict[str, list[GroupAxis | None]] = {}
        for block in self.blocks:
            row: list[GroupAxis | None] = []
            for iter_var in block.iter_vars:
                size = iter_var.domain.extent
                extent = self._number(size)
                if isinstance(size, IntImm) and extent == 1:
                    row.append(None)
                    continue
                key = self._root(iter_var.var)
                axis = made.setdefault(key, GroupAxis(extent, False, 1 << 62, size))
                axis.reduced |= iter_var.iter_type == REDUCE
                same = axis.size is size or isinstance(size, IntImm)
                if axis.extent != extent or not same:
                    raise GroupRefused(
                        f"axis {iter_var.var.name!r} of block {block.name_hint!r} has extent "
                        f"{size}, where another block has {axis.size}"
                    )
                if axis in row:
                    raise GroupRefused(
                        f"block {block.name_hint!r} runs over one axis of the group twice"
                    )
                row.append(axis)
            axes[block.name_hint] = row
        self._weigh(made)
        for block in self.blocks:
            self._check_roles(block, axes[block.name_hint])
        order = sorted(made.values(), key=lambda axis: -axis.weight)
        return Domain([a for a in order if not a.reduced], [a for a in order if a.reduced], axes)

    def _check_roles(self, block: Block, row: list[GroupAxis | None]) -> None:
        """A reduction runs over all reduction axes, and an elementwise block over all or none."""
        kinds = [
            (axis, iter_var.iter_type == REDUCE)
            for axis, iter_var in zip(row, block.iter_vars, strict=True)
            if axis is not None and axis.reduced
        ]
        if len({reduces for _, reduces in kinds}) > 1:
            raise GroupRefused(
                f"block {block.name_hint!r} reduces over some of the axes that others reduce over, "
                "and keeps the rest"
            )

    def _weigh(self, made: dict[object, GroupAxis]) -> None:
        """Steps through memory: of each axis, in the largest buffer that it runs through."""
        largest: dict[object, int] = {}
        for block in self.blocks:
            for buffer, indices in accesses(block):
                shape = [usual(self._number(n)) for n in buffer.shape]
                step = size = prod(shape)
                for index, n in zip(indices, shape, strict=True):
                    step //= max(1, n)
                    axis = made.get(self._root(index)) if isinstance(index, Var) else None
                    if axis is not None and size > largest.get(axis, 0):
                        largest[axis], axis.weight = size, step

    def _number(self, size: Expr) -> int:
        return size.value if isinstance(size, IntImm) else self.guess(size)

    def _root(self, item: object) -> object:
        item = self.known.setdefault(item, item)
        while (above := self.parent.get(item)) is not None:
            item = above
        return item

    def _join(self, a: object, b: object) -> None:
        a, b = self._root(a), self._root(b)
        if a is not b:
            self.parent[a] = b
