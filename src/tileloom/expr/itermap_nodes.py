"""The affine view of index expressions: marks, splits and sums of splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import is_int
from .build import const
from .nodes import Expr, Var
from .walk import free_vars


@dataclass(frozen=True, slots=True, eq=False)
class IterMark:
    """An iterator that runs over [0, extent).

    `source` is a variable (or a variable minus the start of its range), or the sum that makes the
    iterator; marks compare by identity.
    """

    source: Expr | IterSumExpr
    extent: Expr

    def __repr__(self) -> str:
        return f"({self.source})" if isinstance(self.source, IterSumExpr) else str(self.source)


@dataclass(frozen=True, slots=True, eq=False)
class IterSplitExpr:
    """`mark // lower_factor % extent * scale`."""

    source: IterMark
    lower_factor: Expr
    extent: Expr
    scale: Expr

    def scaled(self, scale: Expr) -> IterSplitExpr:
        """The same split with another scale."""
        return IterSplitExpr(self.source, self.lower_factor, self.extent, scale)

    @property
    def position(self) -> tuple[int, Expr, Expr]:
        """What identifies the split, without its scale."""
        return id(self.source), self.lower_factor, self.extent

    def __repr__(self) -> str:
        text = str(self.source)
        if not is_int(self.lower_factor, 1):
            text += f" // {self.lower_factor}"
        if self.extent is not self.source.extent:
            text += f" % {self.extent}"
        return text if is_int(self.scale, 1) else f"{text} * {self.scale}"


@dataclass(frozen=True, slots=True, eq=False)
class IterSumExpr:
    """`sum(args) + base`."""

    args: tuple[IterSplitExpr, ...]
    base: Expr

    def __repr__(self) -> str:
        parts = self.args if is_int(self.base, 0) and self.args else (*self.args, self.base)
        return " + ".join(map(str, parts))


@dataclass(frozen=True, slots=True)
class IterMapResult:
    """The outcome of a detection; `indices` is empty if it failed and `errors` says why."""

    indices: tuple[IterSumExpr, ...]
    errors: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.errors

    @property
    def padding_predicate(self) -> Expr:
        """Where the splits stand for padding, which is nowhere."""
        return const(False)


def whole(mark: IterMark) -> IterSplitExpr:
    """The split that is the mark itself."""
    one = const(1, mark.extent.dtype)
    return IterSplitExpr(mark, one, mark.extent, one)


def collect_marks(sums: Sequence[IterSumExpr]) -> dict[int, tuple[IterMark, list[IterSplitExpr]]]:
    """Every mark in the sums and inside marks, with the splits made of it, outermost first."""
    found: dict[int, tuple[IterMark, list[IterSplitExpr]]] = {}
    work = [split for total in sums for split in total.args]
    while work:
        split = work.pop(0)
        mark = split.source
        first = id(mark) not in found
        found.setdefault(id(mark), (mark, []))[1].append(split)
        if first and isinstance(mark.source, IterSumExpr):
            work.extend(mark.source.args)
    return found


def mark_variables(mark: IterMark) -> set[Var]:
    """The variables that a mark is made of."""
    if isinstance(mark.source, Expr):
        return set(free_vars(mark.source))
    return set().union(*(mark_variables(split.source) for split in mark.source.args))
