"""What a program does, as integer sets: accesses with their instances, elements and times.

An *access* is one load or store of the text. Its instances are the values of the loops around it
for which it runs; `cell` says which memory each instance touches; `time` places instances in
lexicographic order. Sets and maps are objects of isl.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...base import Span
from ...expr import REDUCE, Expr, Var
from ...tir import PARALLEL, THREAD_BINDING, VECTORIZED, Block, Buffer, For, PrimFunc
from ..integer_sets import Integers

_LANES = ("threadIdx", "vthread")  # threads that wait for each other between statements
READ, WRITE = 0, 1
BODY, INIT = "body", "init"


@dataclass(frozen=True, slots=True, eq=False)
class LoopDim:
    """A loop around an access; `var` belongs to this place alone."""

    var: Var
    loop: For
    tag: str = ""

    @property
    def name(self) -> str:
        """The name of the loop variable."""
        return self.var.name

    @property
    def is_lane(self) -> bool:
        """Whether it is a thread within a thread block."""
        return self.tag.startswith(_LANES)

    @property
    def is_unordered(self) -> bool:
        """Whether its iterations may run in any order or at once, with no waiting in between."""
        kind = self.loop.kind
        return kind in (PARALLEL, VECTORIZED) or (kind == THREAD_BINDING and not self.is_lane)


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """A place where a block runs: the blocks around it, outermost first, and what they bind."""

    block: Block
    outer: Instance | None
    values: tuple[Expr, ...]  # of the block's own iteration variables, over loops
    depth: int  # the number of loops around it
    path: tuple[Step, ...]
    domain: Any  # where it runs, over the loops around it
    exact: bool
    space: Any

    @property
    def name(self) -> str:
        """The name of the block."""
        return self.block.name_hint

    def chain(self) -> tuple[Instance, ...]:
        """The blocks around it that have iteration variables, and itself."""
        outer = () if self.outer is None else self.outer.chain()
        return (*outer, self)

    def axes(self) -> Iterator[tuple[str, bool, Any, Expr]]:
        """Name, whether it reduces, iteration variable, value: of all blocks of the chain."""
        for place in self.chain():
            for axis, value in zip(place.block.iter_vars, place.values, strict=True):
                yield axis.var.name, axis.iter_type == REDUCE, axis, value


# A step of a time: a fixed position, or the loop with this number.
Step = tuple[str, int]


@dataclass(eq=False, slots=True)
class Memory:
    """A buffer that is allocated or passed in, under all its names."""

    index: int
    buffer: Buffer
    param: int | None  # its place among the buffer parameters
    depth: int  # the number of loops around its allocation
    accesses: list[Access] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the buffer."""
        return self.buffer.name

    @property
    def reads(self) -> list[Access]:
        """The loads from it."""
        return [access for access in self.accesses if access.is_read]

    @property
    def writes(self) -> list[Access]:
        """The stores to it."""
        return [access for access in self.accesses if access.is_write]


@dataclass(eq=False, slots=True)
class Access:
    """One load or store of the text.

    Attributes:
        name: of its space: instances are `name[loops...]`.
        domain: its instances; all that may be, if it is not `sure`.
        element: from instances to the indices into the buffer.
        cell: from instances to memory: private copies are different memory.
        outside: the instances whose indices are out of bounds.
        sure: whether `domain` is what really happens, not more.
        affine: whether `element` is what really happens, not more.
        statement: the number of the statement it belongs to.
        slot: its place among the loads (or stores) of that statement.
        iters: from instances to the values of the iteration variables of the blocks around it, and
            of the loops inside the innermost block; None if they are not affine.
        value: of a store: what it stores, as written.
        site: where it stands, for reading expressions there (a frame of the extraction).
        loads: of a store: the loads of its statement by their slots.
        symbols: of a load: what its indices take from data, as written. Its last dimensions stand
            for that, and have all values that do not lead out of bounds.
    """

    name: str
    kind: int
    memory: Memory
    place: Instance | None
    role: str
    dims: tuple[LoopDim, ...]
    path: tuple[Step, ...]
    domain: Any
    element: Any
    outside: Any
    sure: bool
    affine: bool
    statement: int
    slot: int
    iters: Any
    value: Expr | None = None
    site: Any = None
    loads: Mapping[Expr, int] = field(default_factory=dict)
    symbols: tuple[Expr, ...] = ()
    is_copy: bool = False
    span: Span | None = None
    cell: Any = None
    time: Any = None

    @property
    def exact(self) -> bool:
        """Whether it is known exactly what happens."""
        return self.sure and self.affine

    @property
    def is_read(self) -> bool:
        """Whether it loads."""
        return self.kind == READ

    @property
    def is_write(self) -> bool:
        """Whether it stores."""
        return self.kind == WRITE

    @property
    def block(self) -> str:
        """The name of the block it belongs to."""
        return "" if self.place is None else self.place.name

    @property
    def inner(self) -> tuple[LoopDim, ...]:
        """The loops between its block and itself."""
        return self.dims if self.place is None else self.dims[self.place.depth :]

    @property
    def reduces(self) -> tuple[bool, ...]:
        """Which coordinates of `iters` reduce."""
        outer = () if self.place is None else tuple(r for _, r, _, _ in self.place.axes())
        return (*outer, *(False for _ in self.inner))

    @property
    def iter_names(self) -> tuple[str, ...]:
        """The names of the coordinates of `iters`."""
        outer = () if self.place is None else tuple(name for name, *_ in self.place.axes())
        return (*outer, *(dim.name for dim in self.inner))


@dataclass(eq=False, slots=True)
class Model:
    """A whole program."""

    func: PrimFunc
    integers: Integers
    accesses: list[Access] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    places: list[Instance] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)  # why a verdict may be impossible
    unknown_values: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    nameless: dict[tuple[str, Var], None] = field(default_factory=dict)  # by blocks that use them
    misfits: dict[tuple[str, str], None] = field(default_factory=dict)  # views, by their blocks
    parameters: Any = None  # what is known about the symbolic parameters

    def doubt(self, reason: str, about_values: bool = False) -> None:
        """Remember why the program cannot be judged in full.

        Args:
            reason: that.
            about_values: whether it no longer matters once the results are known to be right.
        """
        reasons = self.unknown_values if about_values else self.unknown
        if reason not in reasons:
            reasons.append(reason)

    def note(self, text: str) -> None:
        """Remember an assumption."""
        if text not in self.notes:
            self.notes.append(text)

    def reads(self) -> Iterator[Access]:
        """All loads."""
        return (access for access in self.accesses if access.is_read)

    def writes(self) -> Iterator[Access]:
        """All stores."""
        return (access for access in self.accesses if access.is_write)
