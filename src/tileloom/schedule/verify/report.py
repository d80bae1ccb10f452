"""What the check of a program says: a state, violations with witnesses, doubts, notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...expr import IntImm, simplify, substitute
from .model import Access, Instance, Model

# What does not matter where the results are known to be the same.
_ABOUT_VALUES = ("missing", "repeated", "unfinished", "late-init")
OK, WRONG, UNKNOWN = "ok", "wrong", "unknown"


@dataclass(frozen=True, slots=True)
class Point:
    """One concrete instance.

    Attributes:
        block: the block that runs.
        loops: values of the loops around it, outermost first.
        iters: values of the iteration variables of the block and those around it.
        buffer: the buffer concerned, if one is.
        element: the indices into it.
        params: values of the symbolic parameters.
    """

    block: str
    loops: Mapping[str, int] = field(default_factory=dict)
    iters: Mapping[str, int] = field(default_factory=dict)
    buffer: str = ""
    element: tuple[int, ...] = ()
    params: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [f"block {self.block!r}" if self.block else "the function"]
        if self.buffer:
            indices = f"[{', '.join(map(str, self.element))}]" if self.element else ""
            parts.append(f"{self.buffer}{indices}")
        groups = (values for values in (self.iters, self.loops, self.params) if values)
        parts += [", ".join(f"{name}={value}" for name, value in v.items()) for v in groups]
        return " at ".join(parts[:2]) + "".join(f" ({part})" for part in parts[2:])


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong.

    Attributes:
        kind: "uncovered", "over-run", "missing", "repeated", "unfinished", "late-init", "race",
            "out-of-bounds", "undefined", "misfit" or "different".
        message: what is wrong, in a sentence.
        blocks: the names of the blocks concerned.
        witness: an instance for which it goes wrong.
        other: the instance that it collides with.
    """

    kind: str
    message: str
    blocks: tuple[str, ...]
    witness: Point
    other: Point | None = None

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.message}", f"  for example {self.witness}"]
        if self.other is not None:
            lines.append(f"  and {self.other}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict.

    `state` is "ok" when the program is proven right, "wrong" when there are violations, and
    "unknown" when neither could be shown; `unknown` then says why. Notes are assumptions that the
    verdict rests on.
    """

    violations: tuple[Violation, ...] = ()
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """ "ok", "wrong" or "unknown"."""
        return WRONG if self.violations else UNKNOWN if self.unknown else OK

    @property
    def ok(self) -> bool:
        """Whether the program is proven right."""
        return self.state == OK

    def __str__(self) -> str:
        lines = [self.state]
        lines += [str(violation) for violation in self.violations]
        lines += [f"not decided: {reason}" for reason in self.unknown]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)


class Findings:
    """Collects violations about a model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.violations: list[Violation] = []
        self.left_out: list[Violation] = []

    def add(
        self,
        kind: str,
        message: str,
        where: tuple[Access, Any],
        other: Access | None = None,
    ) -> None:
        """A violation at an instance of an access out of a set; or at a pair out of a map."""
        access, found = where
        integers = self.model.integers
        params, row = integers.point(found if other is None else found.wrap())
        size = len(access.dims)
        point = self.point(access, row[:size], params)
        blocks = [access.block]
        second = None
        if other is not None:
            second = self.point(other, row[size:], params)
            blocks.append(other.block)
        names = tuple(dict.fromkeys(blocks))
        self.violations.append(Violation(kind, message, names, point, second))

    def at_iters(self, kind: str, message: str, access: Access, found: Any, skip: int = 0) -> None:
        """Add a violation at values of the iteration variables, from coordinate `skip` on."""
        self.violations.append(self.iterations(kind, message, access, found, skip))

    def leaves_out(self, message: str, access: Access, found: Any, skip: int = 0) -> None:
        """Declared iterations never run: wrong, unless the original shows that none is needed."""
        self.left_out.append(self.iterations("missing", message, access, found, skip))
        self.violations.append(self.left_out[-1])

    def compared(self, same: bool) -> None:
        """What the comparison with the original says about other findings.

        No iteration is missed, for example, if the results are the same; if it is not known whether
        those are, it is not known either whether the iterations are missed. Nor is it whether sums
        that are not finished are used: a block may run after each step, the last time in the end.
        """
        if same:
            self.violations = [v for v in self.violations if v.kind not in _ABOUT_VALUES]
            self.model.unknown_values.clear()
        elif not any(violation.kind == "different" for violation in self.violations):
            gone = [v for v in self.violations if v in self.left_out or v.kind == "unfinished"]
            self.violations = [v for v in self.violations if v not in gone]
            for violation in gone:
                self.model.doubt(f"{violation.message}: perhaps that does not change a result")

    def iterations(
        self, kind: str, message: str, access: Access, found: Any, skip: int = 0
    ) -> Violation:
        """A violation at values of the iteration variables, from coordinate `skip` on."""
        params, row = self.model.integers.point(found)
        iters = dict(zip(access.iter_names, row[skip:]))
        point = Point(access.block, {}, iters, access.memory.name, (), self.named(params))
        return Violation(kind, message, (access.block,), point)

    def at_place(self, kind: str, message: str, place: Instance, found: Any, dims: Any) -> None:
        """A violation at values of the loops around a block."""
        params, row = self.model.integers.point(found)
        values = {dim.var: value for dim, value in zip(dims, row)} | params
        loops = {dim.name: value for dim, value in zip(dims, row)}
        point = Point(place.name, loops, _iters(place, values), "", (), self.named(params))
        self.violations.append(Violation(kind, message, (place.name,), point))

    def point(self, access: Access, row: tuple[int, ...], params: Mapping[Any, int]) -> Point:
        """An instance of an access, with all that it stands for."""
        values = {dim.var: value for dim, value in zip(access.dims, row)} | dict(params)
        loops = {dim.name: value for dim, value in zip(access.dims, row)}
        iters = {} if access.place is None else _iters(access.place, values)
        return Point(
            access.block, loops, iters, access.memory.name, self.element(access, row, params),
            self.named(params),
        )  # fmt: skip

    def element(
        self, access: Access, row: tuple[int, ...], params: Mapping[Any, int]
    ) -> tuple[int, ...]:
        """The element that an instance touches."""
        integers = self.model.integers
        instances = access.element.domain()
        for k, value in enumerate(row):
            instances = instances.fix_val(integers.set_dim, k, integers.value(value))
        for k, param in enumerate(integers.params):
            place = instances.find_dim_by_name(integers.param_dim, f"p{k}")
            if param in params and place >= 0:
                value = integers.value(params[param])
                instances = instances.fix_val(integers.param_dim, place, value)
        found = access.element.intersect_domain(instances).range()
        return () if found.is_empty() else integers.point(found)[1]

    @staticmethod
    def named(params: Mapping[Any, int]) -> dict[str, int]:
        """Values of parameters by name."""
        return {param.name: value for param, value in params.items()}


def _iters(place: Instance, values: Mapping[Any, int]) -> dict[str, int]:
    given = {var: IntImm(var.dtype, value) for var, value in values.items()}
    result = {}
    for name, _, _, value in place.axes():
        number = simplify(substitute(value, given))
        if isinstance(number, IntImm):
            result[name] = number.value
    return result
