"""Whether a list of affine indices is surjective or bijective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .analyzer import Analyzer
from .build import const
from .itermap_nodes import IterMark, IterSplitExpr, IterSumExpr, collect_marks
from .nodes import Expr, IntImm, Var, is_int


class Detection(Protocol):
    """What the check needs to know of how the indices were found."""

    analyzer: Analyzer
    variables: dict[Var, IterSumExpr]
    wide: dict[Var, IterSumExpr]  # the same in wider types, where they are used so
    constrained: list[tuple[IterSumExpr, IterMark]]


def check_mapping(sums: Sequence[IterSumExpr], found: Detection, level: str) -> list[str]:
    """Why the indices are not as the level wants them; empty if they are."""
    marks = collect_marks(sums)
    errors: list[str] = []
    for mark, splits in marks.values():
        reason = _check_splits(mark, splits, found.analyzer, level)
        if reason is not None:
            errors.append(reason)
    for flattened, mark in found.constrained:
        if id(mark) not in marks and any(id(split.source) in marks for split in flattened.args):
            errors.append(f"the predicate bounds {mark.source}, which no index is made of")
    if level == "bijective":
        errors.extend(_unused(found, marks))
    return errors


def _unused(found: Detection, marks: dict[int, tuple[IterMark, list[IterSplitExpr]]]) -> list[str]:
    return [
        f"the variable {var.name} is in no index"
        for var, total in {**found.variables, **found.wide}.items()
        if any(id(split.source) not in marks for split in total.args)
    ]


def _check_splits(
    mark: IterMark, splits: Sequence[IterSplitExpr], analyzer: Analyzer, level: str
) -> str | None:
    """Whether the splits of a mark are independent, and for a bijection all there.

    Splits whose ranges do not overlap reach every combination exactly when the smallest value with
    all splits at their largest, `sum(lower * (extent - 1))`, is still in the mark's range.
    """
    ordered = sort_splits(splits, analyzer)
    if ordered is None:
        return f"the splits of {mark.source} cannot be ordered"
    end: Expr = const(1, mark.extent.dtype)
    largest: Expr = const(0, mark.extent.dtype)
    for split in ordered:
        if is_int(end, 0):
            return None  # it has no values at all
        if not analyzer.can_prove_equal(split.lower_factor % end, 0):
            if is_int(split.lower_factor, 1):
                return (
                    f"the splits of {mark.source} overlap: {mark.source} is used as a whole "
                    "more than once"
                )
            return f"the splits of {mark.source} overlap at factor {split.lower_factor}"
        if level == "bijective" and not analyzer.can_prove_equal(split.lower_factor, end):
            return f"{mark.source} % {split.lower_factor} // {end} is in no index"
        end = analyzer.simplify(split.lower_factor * split.extent)
        largest = analyzer.simplify(largest + split.lower_factor * (split.extent - 1))
    if not analyzer.can_prove_less(largest, mark.extent):
        return f"the splits of {mark.source} reach {largest}, beyond its extent {mark.extent}"
    if level == "bijective" and not analyzer.can_prove_equal(end, mark.extent):
        return f"the splits of {mark.source} cover {end} of its extent {mark.extent}"
    return None


def sort_splits(splits: Sequence[IterSplitExpr], analyzer: Analyzer) -> list[IterSplitExpr] | None:
    """The splits from the lowest on; None if symbolic factors leave the order open."""
    if all(isinstance(split.lower_factor, IntImm) for split in splits):
        return sorted(splits, key=lambda split: split.lower_factor.value)  # type: ignore[attr-defined]
    left, ordered = list(splits), []
    while left:
        for split in left:
            if all(
                o is split or analyzer.can_prove(split.lower_factor <= o.lower_factor) for o in left
            ):
                ordered.append(split)
                left = [o for o in left if o is not split]
                break
        else:
            return None
    return ordered
