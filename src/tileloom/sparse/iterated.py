"""Where the iterated axes stand: positions, coordinates, and what an index of a buffer means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..base.errors import UserError
from ..expr import Analyzer, Expr, IntImm, Range, Sub, Var, binary, cast, const, free_vars
from ..tir import Axis, BufferLoad, SparseBuffer, SpIterVar
from ..tir.sparse import MERGED, AttachedAxis, FusedAxis
from .index_arrays import IndexArrays, Path, path_of_count, same_structure, structure


class IteratedAxis:
    """One variable of an iteration.

    Attributes:
        item: the variable, as the iteration has it.
        axis: the axis that it runs over; of a fused one the axis that it is the part of.
        var: its position; None for the parts of fused axes that have no loop.
        path: the positions of the axes above and of its own.
        coordinate: as an expression of positions.
    """

    __slots__ = ("axis", "coordinate", "item", "path", "var")

    def __init__(
        self, item: SpIterVar, axis: Axis, var: Var | None, path: Path, coordinate: Expr
    ) -> None:
        self.item = item
        self.axis = axis
        self.var = var
        self.path = path
        self.coordinate = coordinate


class IteratedAxes:
    """The variables of an iteration and of those around it, outermost first."""

    def __init__(self, arrays: IndexArrays, outer: IteratedAxes | None = None) -> None:
        self.arrays = arrays
        self.all: list[IteratedAxis] = [] if outer is None else list(outer.all)
        self.of_var: dict[Var, IteratedAxis] = {} if outer is None else dict(outer.of_var)
        self.of_axis: dict[Axis, IteratedAxis] = {} if outer is None else dict(outer.of_axis)
        self._fingers: dict[tuple[Var, Axis], tuple[Path, Expr, Expr]] = (
            {} if outer is None else dict(outer._fingers)
        )

    def add(self, place: IteratedAxis) -> None:
        """Enter a variable."""
        self.all.append(place)
        self.of_var[place.item.var] = place
        self.of_axis[place.axis] = place
        self.of_axis.setdefault(structure(place.axis), place)

    def above(self, axis: Axis) -> Path:
        """The path to the position of the parent.

        Raises:
            UserError: no variable runs over the parent.
        """
        if axis.parent is None:
            return ()
        found = self.of_axis.get(axis.parent)
        if found is None:
            raise UserError(
                f"axis {axis.name!r} is iterated without its parent {axis.parent.name!r} before it",
                hint="list the parent first, in this iteration or in one around it",
            )
        if isinstance(axis, AttachedAxis):
            return (cast(axis.idtype, found.coordinate),)
        return found.path

    def enter(self, item: SpIterVar, var: Var) -> IteratedAxis:
        """A plain variable (not of a fused or merged axis) at position `var`."""
        path = (*self.above(item.axis), var)
        coordinate = self.arrays.coordinate(item.axis, path)
        place = IteratedAxis(item, item.axis, var, path, coordinate)
        self.add(place)
        return place

    def enter_fused(self, items: Sequence[SpIterVar], var: Var, rows: Mapping[int, Expr]) -> None:
        """The variables of fused axes at position `var` of the last.

        Args:
            rows: the position, counted along the chain, of parts that a search has found.
        """
        count: Expr = var
        found: list[IteratedAxis] = []
        for k in range(len(items) - 1, -1, -1):
            axis = _part(items[k].axis)
            path = path_of_count(axis, count)
            own = var if k == len(items) - 1 else None
            coordinate = self._fused_coordinate(axis, path, count, rows.get(k - 1))
            found.append(IteratedAxis(items[k], axis, own, path, coordinate))
            if k:
                count = rows[k - 1] if axis.is_variable else count // _width(axis, count)
        for place in reversed(found):
            self.add(place)

    def _fused_coordinate(self, axis: Axis, path: Path, count: Expr, row: Expr | None) -> Expr:
        if axis.is_sparse or axis.parent is None or not axis.is_variable:
            return self.arrays.coordinate(axis, path)
        if row is None:
            raise UserError(f"the row of axis {axis.name!r} is not known")
        return binary(Sub, count, self.arrays.start(axis, path_of_count(axis.parent, row)))

    def add_finger(self, var: Var, axis: Axis, above: Path, position: Expr, is_there: Expr) -> None:
        """Note where on an axis the coordinate of a merged variable is, if it is there."""
        self._fingers[var, structure(axis)] = (above, position, is_there)

    def finger(self, axis: Axis, above: Path, index: Expr) -> tuple[Expr, Expr] | None:
        """The position of a merged variable on an axis, and whether it has one."""
        found = self._fingers.get((index, structure(axis))) if isinstance(index, Var) else None
        if found is None or len(found[0]) != len(above):
            return None
        same = all(a is b for a, b in zip(found[0], above, strict=True))
        return found[1:] if same else None

    def matched(self, buffer: SparseBuffer, indices: Sequence[Expr]) -> dict[int, Expr]:
        """The positions of axes whose index is just the variable that runs over that very axis.

        An axis counts if the axes above it in the buffer count too.
        """
        known: dict[int, Expr] = {}
        number = {axis: k for k, axis in enumerate(buffer.axes)}
        for k, axis in enumerate(buffer.axes):
            index = indices[k]
            place = self.of_var.get(index) if isinstance(index, Var) else None
            if place is None or not same_structure(structure(place.axis), axis):
                continue
            if isinstance(place.item.axis, MERGED):
                continue
            above = [number.get(part) for part in axis.ancestors]
            if any(position is None or position not in known for position in above):
                continue
            chain = [position for position in above if position is not None]
            if not self._same_rows(place, indices, chain):
                continue
            known.update(zip([*chain, k], place.path, strict=True))
        return known

    def _same_rows(
        self, place: IteratedAxis, indices: Sequence[Expr], chain: Sequence[int]
    ) -> bool:
        """Whether the indices above are those below which the variable itself runs."""
        axis: Axis | None = place.item.axis
        if isinstance(axis, AttachedAxis):
            return False  # its parent in the buffer is another axis than the one it hangs below
        if isinstance(axis, FusedAxis):
            return all(self._is_part(indices[k], axis.group) for k in chain)
        for k in reversed(chain):
            axis = None if axis is None else axis.parent
            index = indices[k]
            outer = self.of_var.get(index) if isinstance(index, Var) else None
            if axis is None or outer is None or outer is not self.of_axis.get(axis):
                return False
        return True

    def _is_part(self, index: Expr, group: tuple[Axis, ...]) -> bool:
        place = self.of_var.get(index) if isinstance(index, Var) else None
        found = None if place is None else place.item.axis
        return isinstance(found, FusedAxis) and found.group == group

    def domains(self) -> dict[Var, Range]:
        """The range of each position."""
        found: dict[Var, Range] = {}
        for place in self.all:
            if place.var is not None:
                extent = cast(place.var.dtype, place.item.axis.positions)
                found[place.var] = Range(const(0, place.var.dtype), extent)
        return found


def _part(axis: Axis) -> Axis:
    return axis.base if isinstance(axis, FusedAxis) else axis


def _width(axis: Axis, count: Expr) -> Expr:
    return cast(count.dtype, axis.positions)


def in_range(value: Expr, length: Expr, places: IteratedAxes) -> list[Expr]:
    """What must hold for a coordinate to be in [0, length); nothing where it is known to hold."""
    analyzer = Analyzer(places.domains())
    bounded = _bounded_loads(value, places, analyzer)
    conditions = []
    if not analyzer.can_prove(bounded >= 0):
        conditions.append(value >= 0)
    if not analyzer.can_prove(bounded < length):
        conditions.append(value < length)
    return conditions


def _bounded_loads(value: Expr, places: IteratedAxes, analyzer: Analyzer) -> Expr:
    """The value with variables of known range for loads of coordinates."""
    if isinstance(value, BufferLoad):
        for place in places.all:
            if place.coordinate is value:
                stand_in = Var("coordinate", value.dtype)
                length = place.axis.length
                analyzer.bind(stand_in, Range(const(0, value.dtype), cast(value.dtype, length)))
                return stand_in
        return value
    if not value.children or isinstance(value, IntImm) or not free_vars(value):
        return value
    children = [_bounded_loads(child, places, analyzer) for child in value.children]
    return value.with_children(children)
