"""A rule for the axes and buffers of a function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..base.errors import DTypeError, ShapeError, UserError
from ..base.record import Record
from ..expr import IntImm, Var, free_vars_of, simplify
from ..tir import Axis, PrimFunc, SparseBuffer
from .format_part import FormatPart, format_part
from .format_rule import FormatRewriteRule, axis_names, check_names, listed, sparse_buffers
from .index_values import Array, evaluate_map


class AppliedRule(Record):
    """A rule applied to a function.

    Attributes:
        part: the format.
        axes: the function's axes that are rewritten, by name.
        buffers: for each buffer of the function that is rewritten the one in its place.
    """

    part: FormatPart
    axes: Mapping[str, Axis]
    buffers: Mapping[SparseBuffer, SparseBuffer]

    @property
    def name(self) -> str:
        """That of the rule."""
        return self.part.rule.name

    @property
    def before(self) -> tuple[str, ...]:
        """The names of the rewritten axes, in the order of the coordinates of `idx_map`."""
        return self.part.rule.axes_before_rewrite


def apply_rule(func: PrimFunc, rule: FormatRewriteRule) -> AppliedRule:
    """The rule for a function, which must have what it rewrites."""
    what = f"rule {rule.name!r}: function {func.name!r} has no"
    check_names(f"{what} axis", rule.axes_before_rewrite, axis_names(func))
    buffers = sparse_buffers(func)
    check_names(f"{what} sparse buffer parameter", rule.buffers_to_rewrite, buffers)
    part = format_part(rule)
    axes = {axis.name: axis for axis in func.sp_axes if axis.name in rule.axes_before_rewrite}
    for name in rule.buffers_to_rewrite:
        old, new = buffers[name], part.buffers[name]
        if old.dtype is not new.dtype:
            raise DTypeError(f"buffer {name!r} is {old.dtype}, in rule {rule.name!r} {new.dtype}")
        for axis in old.axes:
            if axes.get(axis.name) is not axis:
                raise ShapeError(
                    f"axis {axis.name!r} of buffer {name!r} is not among the axes before rule "
                    f"{rule.name!r}: {listed(rule.axes_before_rewrite)}"
                )
    made = AppliedRule(part, axes, {buffers[n]: part.buffers[n] for n in rule.buffers_to_rewrite})
    _check_inverse(made)
    return made


#: Coordinates at which maps are tried: around the edges of blocks of usual sizes.
_TRIED = (0, 1, 2, 3, 4, 5, 15, 16, 31, 32, 63, 64, 97, 128)


def _check_inverse(rule: AppliedRule) -> None:
    """Refuse maps that do not lead back to the coordinates they come from.

    They are simplified where they use sizes that are not known, and tried otherwise.
    """
    forth, back = rule.part.idx_map, rule.part.inv_idx_map
    own = {*forth.initial_indices, *back.initial_indices}
    if not free_vars_of((*forth.final_indices, *back.final_indices)) <= own:
        inputs = [Var(name.lower(), rule.axes[name].idtype) for name in rule.before]
        outputs = back.map_indices(forth.map_indices(inputs))
        for given, found in zip(inputs, outputs, strict=True):
            apart = simplify(found - given.astype(found.dtype))
            if isinstance(apart, IntImm) and apart.value:
                _refuse(rule, listed(map(str, inputs)), listed(map(str, outputs)))
        return
    tried = _grid([_numbers(rule.axes[name]) for name in rule.before])
    again = evaluate_map(back, evaluate_map(forth, tried))
    wrong = np.any([a != b for a, b in zip(tried, again, strict=True)], axis=0)
    if wrong.any():
        first = int(np.argmax(wrong))
        _refuse(rule, _point(tried, first), _point(again, first))


def _refuse(rule: AppliedRule, given: str, found: str) -> None:
    raise UserError(
        f"inv_idx_map of rule {rule.name!r} is not the inverse of idx_map: ({given}) comes back as "
        f"({found})"
    )


def _numbers(axis: Axis) -> list[int]:
    length = axis.length
    return [x for x in _TRIED if not isinstance(length, IntImm) or x < length.value]


def _grid(numbers: Sequence[Sequence[int]]) -> list[Array]:
    """All combinations, as one array for each place."""
    return [part.reshape(-1) for part in np.meshgrid(*numbers, indexing="ij")]


def _point(coordinates: Sequence[Array], number: int) -> str:
    return ", ".join(str(part[number]) for part in coordinates)
