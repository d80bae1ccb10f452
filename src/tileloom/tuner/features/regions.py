"""What each store accesses of each buffer, while more and more of the loops around it run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ...expr import Expr, Var, free_vars
from ...expr.bounds import ConstIntBound
from .allocations import PlacedBuffer
from .index import TermBounds, coefficients
from .program import Form, Loop, Nest

Numbers = npt.NDArray[np.float64]
READ, WRITE, READ_WRITE = 0, 1, 2


@dataclass(slots=True, eq=False)
class BufferUse:
    """How a store uses a buffer.

    Attributes:
        memory: the buffer.
        indices: into it, of each access.
        kind: whether it is read, written, or both.
        steps: the least number of elements between two iterations, by the place of the loop.
        elements: how many are accessed while the loops from a place on run.
        box: how many of each axis are accessed while all loops run.
    """

    memory: PlacedBuffer
    indices: list[list[Form]]
    kind: int
    steps: dict[int, int] = field(default_factory=dict)
    elements: Sequence[float] = ()
    box: Sequence[float] = ()

    @property
    def bytes(self) -> int:
        """Of an element."""
        return self.memory.buffer.dtype.bytes


@dataclass(slots=True, eq=False)
class Work:
    """A store with what it uses.

    Attributes:
        nest: the loops around it.
        counts: its operations.
        uses: the buffer that it writes, then those that it reads.
        bytes: of all that is accessed while the loops from a place on run.
    """

    nest: Nest
    counts: Sequence[int]
    uses: list[BufferUse]
    bytes: Sequence[float] = ()

    @property
    def iterations(self) -> int:
        """How often it runs, as far as extents are known."""
        return iterations(self.nest)


def iterations(nest: Sequence[Loop]) -> int:
    """The product of the extents that are known."""
    total = 1
    for loop in nest:
        if loop.extent is not None:
            total *= loop.extent
    return total


def find_regions(works: Sequence[Work]) -> None:
    """Fill in steps, elements, boxes and bytes of all stores."""
    depth = max((len(work.nest) for work in works), default=0)
    if not depth:
        for work in works:
            for use in work.uses:
                use.box = [1.0] * max(1, len(use.memory.shape))
        return
    rows = _Rows(depth)
    for work in works:
        places = {loop.var: place for place, loop in enumerate(work.nest)}
        for use in work.uses:
            use.steps = _steps(use, places)
            for axis in range(len(use.memory.shape)):
                rows.add_axis([index[axis] for index in use.indices], work.nest, places)
            rows.end_use(use.bytes)
        rows.end_work()
    rows.fill(works)


def _steps(use: BufferUse, places: Mapping[Var, int]) -> dict[int, int]:
    strides = [1] if use.memory.shape else []
    for extent in use.memory.shape[:0:-1]:
        strides.append(strides[-1] * extent)
    steps: dict[int, int] = {}
    for index in use.indices:
        own: dict[int, int] = {}  # of the last axis in which a variable stands
        for form, stride in zip(reversed(index), strides, strict=True):
            for var, factor in coefficients(form).items():
                place = places.get(var)
                if place is not None and place not in own:
                    own[place] = abs(factor) * stride
        for place, step in own.items():
            steps[place] = min(step, steps.get(place, step))
    return steps


class _Rows:
    """Bounds of indices: a row for each, a column for each place in the nests.

    Bounds with all variables at their first values are in `base`; `low` and `high` have what is
    added once the loop at a place runs, too.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.base: list[tuple[int, int]] = []
        self.low: list[list[int]] = []
        self.high: list[list[int]] = []
        self.axes: list[int] = []  # where the rows of an axis begin
        self.uses: list[int] = []  # where the axes of a use begin
        self.works: list[int] = []  # where the uses of a store begin
        self.use_bytes: list[int] = []
        self._axis = self._use = 0
        self._moves: dict[Expr, list[tuple[int | None, ConstIntBound]]] = {}

    def add_axis(self, forms: Sequence[Form], nest: Nest, places: Mapping[Var, int]) -> None:
        """All indices of one axis of a buffer."""
        self.axes.append(len(self.base))
        for form in dict.fromkeys(forms):
            self._add(form, nest, places)

    def _add(self, form: Form, nest: Nest, places: Mapping[Var, int]) -> None:
        low, high = [0] * self.depth, [0] * self.depth
        first = last = form.const
        for term, factor in form.terms.items():
            place = places.get(term)  # type: ignore[call-overload]
            if place is not None:
                loop = nest[place]
                first += loop.first * factor
                last += loop.first * factor
                (high if factor > 0 else low)[place] += (loop.most - 1) * factor
                continue
            moves = self._moves.get(term)
            if moves is None:
                moves = self._moves[term] = _moving(term, nest, places)
            for at, ends in moves:
                a, b = (ends[0] * factor, ends[1] * factor)
                a, b = (a, b) if a <= b else (b, a)
                if at is None:
                    first, last, before = first + a, last + b, (a, b)
                else:
                    low[at] += a - before[0]
                    high[at] += b - before[1]
                    before = a, b
        self.base.append((first, last))
        self.low.append(low)
        self.high.append(high)

    def end_use(self, size: int) -> None:
        """A buffer is done; its elements have so many bytes."""
        if len(self.axes) == self._axis:  # a scalar
            self.axes.append(len(self.base))
            self.base.append((0, 0))
            self.low.append([0] * self.depth)
            self.high.append([0] * self.depth)
        self.uses.append(self._axis)
        self._axis = len(self.axes)
        self.use_bytes.append(size)

    def end_work(self) -> None:
        """A store is done."""
        self.works.append(self._use)
        self._use = len(self.uses)
        self._moves = {}

    def fill(self, works: Sequence[Work]) -> None:
        """Compute all at once, and hand out the results."""
        base = np.array(self.base, np.float64)
        low = _inwards(self.low) + base[:, :1]
        high = _inwards(self.high) + base[:, 1:]
        box = np.maximum.reduceat(high, self.axes) - np.minimum.reduceat(low, self.axes) + 1
        elements = np.multiply.reduceat(box, self.uses)
        sizes = np.array(self.use_bytes, np.float64)[:, None]
        totals = np.add.reduceat(elements * sizes, self.works).tolist()
        first, ends, rows = box[:, 0].tolist(), [*self.uses[1:], len(box)], elements.tolist()
        uses = [use for work in works for use in work.uses]
        for use, start, end, row in zip(uses, self.uses, ends, rows, strict=True):
            use.box, use.elements = first[start:end], row
        for work, total in zip(works, totals, strict=True):
            work.bytes = total


def _inwards(rows: Sequence[Sequence[int]]) -> Numbers:
    """At each place, the sum of what stands there and further right."""
    result: Numbers = np.cumsum(np.array(rows, np.float64)[:, ::-1], axis=1)[:, ::-1]
    return result


def _moving(
    term: Expr, nest: Nest, places: Mapping[Var, int]
) -> list[tuple[int | None, ConstIntBound]]:
    """The bounds of a term: with its variables at their first values, then with more and more of
    their loops running, innermost first."""
    used = sorted({places[var] for var in free_vars(term) if var in places}, reverse=True)
    loops = [nest[place] for place in used]
    bounds = TermBounds(term, {loop.var: ConstIntBound(loop.first, loop.first) for loop in loops})
    result: list[tuple[int | None, ConstIntBound]] = [(None, bounds.still)]
    for place, loop in zip(used, loops, strict=True):
        ends = ConstIntBound(loop.first, loop.first + loop.most - 1)
        result.append((place, bounds.run(loop.var, ends)))
    return result
