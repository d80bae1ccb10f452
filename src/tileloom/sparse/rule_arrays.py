"""The arrays of a format from the rule that describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..base.errors import ShapeError, UserError
from ..base.record import Record
from .conversion import Conversion
from .convert import StoredStructure
from .format_rule import FormatRewriteRule, listed
from .index_values import Array
from .part_coordinates import MASK


class RuleArrays(Record):
    """A part of a tensor in the format of a rule.

    Attributes:
        arguments: arrays and sizes for the description's parameters, by name and in their order.
            They are the arguments for the parameters that `format_decompose` adds for the rule.
        slots: which element each slot holds; `slots.values` and `slots.scatter` carry values over.
    """

    arguments: Mapping[str, Any]
    slots: StoredStructure

    @property
    def given(self) -> Mapping[str, Any]:
        """What `check_partition` asks for: the arguments, and which slots hold elements."""
        return {**self.arguments, MASK: self.slots.mask}


def convert_by_rule(
    rule: FormatRewriteRule,
    coordinates: Sequence[Any],
    values: Any = None,
    *,
    shape: Sequence[int],
    sizes: Mapping[str, int] | None = None,
) -> RuleArrays:
    """The part of a tensor that has some elements, in the format of a rule.

    The coordinates of elements are mapped by `idx_map`; what axes store follows from these. Sizes
    of the description that are not known follow too: lengths from the shape, numbers of positions
    and widths of sparse_fixed axes from the elements. Where a `dense_variable` axis only cuts what
    lies under its parent into pieces, so that `inv_idx_map` does not use it, each piece has as many
    coordinates of the `sparse_fixed` axis below as that is wide.

    Args:
        rule: the format.
        coordinates: of the part's elements, on each axis that the rule rewrites.
        values: of these elements: an array, or one for each buffer by name. Other slots, and
            buffers without values, get the default value of the buffer.
        shape: of the tensor, on the same axes.
        sizes: of the description, by name, where they are to be others.

    Raises:
        UserError: the elements do not fit the format; says which axis and where.

    >>> from tileloom.script import tir as T
    >>> @T.prim_func
    ... def bsr(a: T.handle, indptr: T.handle, indices: T.handle, m: T.int32, n: T.int32,
    ...         nnz: T.int32):
    ...     T.func_attr({"sparse_tir_level": 2})
    ...     IO = T.dense_fixed(m)
    ...     JO = T.sparse_variable(IO, (n, nnz), (indptr, indices))
    ...     II = T.dense_fixed(2)
    ...     JI = T.dense_fixed(2)
    ...     A = T.match_sparse_buffer(a, [IO, JO, II, JI], "float32")
    ...     T.evaluate(0)
    >>> rule = FormatRewriteRule(
    ...     "2", bsr, ["A"], ["I", "J"], ["IO", "JO", "II", "JI"],
    ...     {"I": ["IO", "II"], "J": ["JO", "JI"]},
    ...     lambda i, j: (i // 2, j // 2, i % 2, j % 2),
    ...     lambda io, jo, ii, ji: (io * 2 + ii, jo * 2 + ji),
    ... )
    >>> made = convert_by_rule(rule, [[0, 0, 1, 2], [0, 3, 1, 0]], [1, 2, 3, 4], shape=(4, 4))
    >>> for name, value in made.arguments.items():
    ...     print(name, value.tolist() if isinstance(value, np.ndarray) else value)
    a [[[1.0, 0.0], [0.0, 3.0]], [[0.0, 2.0], [0.0, 0.0]], [[4.0, 0.0], [0.0, 0.0]]]
    indptr [0, 2, 3]
    indices [0, 1, 0]
    m 2
    n 2
    nnz 3
    """
    columns = [np.asarray(column, np.int64) for column in coordinates]
    _check_coordinates(rule, columns, shape)
    made = Conversion(rule, columns, tuple(shape), sizes or {})
    slots = made.stored()
    return RuleArrays(made.arguments(slots, values), slots)


def _check_coordinates(
    rule: FormatRewriteRule, columns: Sequence[Array], shape: Sequence[int]
) -> None:
    wanted = rule.axes_before_rewrite
    for what, given in (("coordinates", columns), ("the shape", shape)):
        if len(given) != len(wanted):
            raise ShapeError(
                f"rule {rule.name!r} is about the axes {listed(wanted)}; {what} is for {len(given)}"
            )
    for name, column, extent in zip(wanted, columns, shape, strict=True):
        if len(column) != len(columns[0]):
            raise ShapeError(
                f"there are {len(column)} coordinates on axis {name!r}, {len(columns[0])} on "
                f"{wanted[0]!r}"
            )
        outside = (column < 0) | (column >= extent)
        if outside.any():
            number = int(np.argmax(outside))
            raise UserError(
                f"element {number} is at {column[number]} on axis {name!r} of length {extent}"
            )
