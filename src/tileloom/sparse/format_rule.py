"""Rules that say how a tensor is stored in another format, or a part of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..base.errors import ArgumentError, ShapeError, UnsupportedError, UserError
from ..expr import ExprLike, IndexMap
from ..tir import COORDINATES, PrimFunc, SparseBuffer, sparse_level

Coordinates = Callable[..., Sequence[ExprLike] | ExprLike] | IndexMap


class FormatRewriteRule:
    """How a tensor, or a part of it, is stored in another format.

    The maps hold for all coordinates: the element of the old format at `I` is that of the new one
    at `idx_map(I)`, and the element of the new one at `N` that of the old one at
    `inv_idx_map(N)`. Where that is beyond the old one, as in blocks over the edge of a matrix,
    there is no element. Source: SparseTIR (Ye et al., ASPLOS 2023).

    Args:
        name: of the part; all that the description declares gets the suffix `_<name>`.
        new_format_desc: a function that declares axes and buffers, of level 2, with nothing to do.
        buffers_to_rewrite: names of buffers, which the function and the description have both.
        axes_before_rewrite: names of the axes that the coordinates of `idx_map` are of.
        axes_after_rewrite: names of the description's axes, in the order of its results.
        axis_map: for each axis before those that iterations run over in its place.
        idx_map: old coordinates to new ones.
        inv_idx_map: new coordinates to old ones.

    Raises:
        ArgumentError: the description has no such axis or buffer.
        ShapeError: a map has another number of coordinates than there are axes, or `axis_map` does
            not have each axis before as a key and each axis after once.

    >>> from tileloom.script import tir as T
    >>> @T.prim_func
    ... def bsr(a: T.handle, indptr: T.handle, indices: T.handle, m: T.int32, n: T.int32,
    ...         nnz: T.int32):
    ...     T.func_attr({"sparse_tir_level": 2})
    ...     IO = T.dense_fixed(m)
    ...     JO = T.sparse_variable(IO, (n, nnz), (indptr, indices))
    ...     II = T.dense_fixed(4)
    ...     JI = T.dense_fixed(4)
    ...     A = T.match_sparse_buffer(a, [IO, JO, II, JI], "float32")
    ...     T.evaluate(0)
    >>> FormatRewriteRule(
    ...     "4", bsr, ["A"], ["I", "J"], ["IO", "JO", "II", "JI"],
    ...     {"I": ["IO", "II"], "J": ["JO", "JI"]},
    ...     lambda i, j: (i // 4, j // 4, i % 4, j % 4),
    ...     lambda io, jo, ii, ji: (io * 4 + ii, jo * 4 + ji),
    ... )
    FormatRewriteRule('4': A(I, J) -> A_4(IO_4, JO_4, II_4, JI_4))
    """

    __slots__ = (
        *("name", "new_format_desc", "buffers_to_rewrite", "axes_before_rewrite"),
        *("axes_after_rewrite", "axis_map", "idx_map", "inv_idx_map"),
    )

    def __init__(
        self,
        name: str,
        new_format_desc: PrimFunc,
        buffers_to_rewrite: Sequence[str],
        axes_before_rewrite: Sequence[str],
        axes_after_rewrite: Sequence[str],
        axis_map: Mapping[str, Sequence[str]],
        idx_map: Coordinates,
        inv_idx_map: Coordinates,
    ) -> None:
        if not re.fullmatch(r"\w+", name):
            raise ArgumentError(f"the name of a rule is part of names in scripts, got {name!r}")
        self.name = name
        self.new_format_desc = new_format_desc
        self.buffers_to_rewrite = tuple(buffers_to_rewrite)
        self.axes_before_rewrite = tuple(axes_before_rewrite)
        self.axes_after_rewrite = tuple(axes_after_rewrite)
        self.axis_map = {axis: tuple(new) for axis, new in axis_map.items()}
        self._check_description()
        self._check_axis_map()
        before, after = self.axes_before_rewrite, self.axes_after_rewrite
        self.idx_map = self._as_map("idx_map", idx_map, before, after)
        self.inv_idx_map = self._as_map("inv_idx_map", inv_idx_map, after, before)

    @property
    def suffix(self) -> str:
        """What is appended to the names of the description."""
        return f"_{self.name}"

    def _check_description(self) -> None:
        func = self.new_format_desc
        if not isinstance(func, PrimFunc) or sparse_level(func) != COORDINATES:
            raise UnsupportedError(f"the format of rule {self.name!r} is no function of level 2")
        what = f"the format of rule {self.name!r}"
        check_names(f"{what} has no axis", self.axes_after_rewrite, axis_names(func))
        buffers = sparse_buffers(func)
        check_names(f"{what} has no buffer", self.buffers_to_rewrite, buffers)
        if not self.buffers_to_rewrite:
            raise UserError(f"rule {self.name!r} rewrites no buffer")
        for name in self.buffers_to_rewrite:
            for axis in buffers[name].axes:
                if axis.name not in self.axes_after_rewrite:
                    raise ShapeError(
                        f"axis {axis.name!r} of buffer {name!r} is not among the axes after rule "
                        f"{self.name!r}: {listed(self.axes_after_rewrite)}"
                    )

    def _check_axis_map(self) -> None:
        for what, names in (
            ("axes_before_rewrite", self.axes_before_rewrite),
            ("axes_after_rewrite", self.axes_after_rewrite),
        ):
            if len(set(names)) < len(names):
                raise ShapeError(f"{what} of rule {self.name!r} has an axis twice: {listed(names)}")
        new = [axis for axes in self.axis_map.values() for axis in axes]
        pairs = (
            ("axes before", self.axes_before_rewrite, list(self.axis_map)),
            ("axes after", self.axes_after_rewrite, new),
        )
        for what, wanted, given in pairs:
            if sorted(given) != sorted(wanted):
                raise ShapeError(
                    f"axis_map of rule {self.name!r} must have each of the {what} once, "
                    f"{listed(wanted)}; it has {listed(given)}"
                )

    def _as_map(
        self, what: str, given: Coordinates, before: Sequence[str], after: Sequence[str]
    ) -> IndexMap:
        made = given
        if not isinstance(made, IndexMap):
            made = IndexMap.from_func(made, len(before))
        counts = (len(made.initial_indices), len(made.final_indices))
        if counts != (len(before), len(after)):
            raise ShapeError(
                f"{what} of rule {self.name!r} is from {counts[0]} to {counts[1]} coordinates; "
                f"it must be from ({listed(before)}) to ({listed(after)})"
            )
        return made

    def __repr__(self) -> str:
        buffers, suffix = sparse_buffers(self.new_format_desc), self.suffix
        before = ", ".join(self.axes_before_rewrite)
        shown = [
            f"{name}({before}) -> {name}{suffix}"
            f"({', '.join(axis.name + suffix for axis in buffers[name].axes)})"
            for name in self.buffers_to_rewrite
        ]
        return f"FormatRewriteRule({self.name!r}: {', '.join(shown)})"


def axis_names(func: PrimFunc) -> list[str]:
    """The names of the axes of a function."""
    return [axis.name for axis in func.sp_axes]


def sparse_buffers(func: PrimFunc) -> dict[str, SparseBuffer]:
    """The sparse buffers of the parameters of a function, by name."""
    return {buffer.name: buffer for buffer in func.buffers if isinstance(buffer, SparseBuffer)}


def check_names(what: str, wanted: Sequence[str], there: Iterable[str]) -> None:
    """Refuse a name that is not there."""
    known = list(there)
    for name in wanted:
        if name not in known:
            raise ArgumentError(f"{what} {name!r}; there are {listed(known)}")


def listed(names: Iterable[str]) -> str:
    """Names with commas between them.

    >>> listed(["I", "J"]), listed([])
    ('I, J', 'none')
    """
    return ", ".join(names) or "none"
