"""What a walk over a program gathers: loops, scopes, accesses, allocations and stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...expr import Expr, Var
from ...expr.bounds import ConstIntBound
from ...expr.linear import Linear
from ...tir import Buffer

Form = Linear  # an index: a sum of loop variables and of what is no sum
Bounds = Mapping[Expr, ConstIntBound]  # of variables, and of what predicates limit


@dataclass(slots=True, eq=False)
class Loop:
    """A loop that runs, after threads of one tag have become one loop.

    Attributes:
        var: its variable.
        first: its first value.
        extent: the number of iterations; None where it is not known.
        most: the greatest number of iterations that there can be.
        kind: as of `For`.
        tag: of the thread that it is bound to; empty for none.
        unroll_step: what `pragma_auto_unroll_max_step` says; 0 for nothing.
    """

    var: Var
    first: int
    extent: int | None
    most: int
    kind: str
    tag: str = ""
    unroll_step: int = 0


Nest = tuple[Loop, ...]  # outermost first


@dataclass(slots=True, eq=False)
class AllocationScope:
    """A loop or a block of the program as it is written, where memory may be allocated.

    Attributes:
        parent: the scope around it; None for the function.
        nest: the loops around what is allocated here.
        variables: the loop variables that are in force here.
    """

    parent: AllocationScope | None
    nest: Nest
    variables: frozenset[Var]
    depth: int = 0

    def common(self, other: AllocationScope) -> AllocationScope:
        """The innermost scope that holds both."""
        here, there = self, other
        while here is not there:
            if here.depth >= there.depth:
                here = here.parent  # type: ignore[assignment]
            else:
                there = there.parent  # type: ignore[assignment]
        return here


@dataclass(frozen=True, slots=True, eq=False)
class AccessedRegion:
    """What an access reaches of a buffer.

    Attributes:
        axes: the first and the last index of each axis.
        limits: what is known of sums in the indices, besides the ranges of loops.
    """

    axes: Sequence[tuple[Form, Form]]
    limits: Bounds


@dataclass(slots=True, eq=False)
class BlockAllocation:
    """A buffer that a block allocates, and what is accessed of it."""

    buffer: Buffer
    owner: AllocationScope
    scope: AllocationScope | None = None  # the innermost around all accesses so far
    regions: list[AccessedRegion | None] = field(default_factory=list)  # None: all of it

    def access(self, scope: AllocationScope, region: AccessedRegion | None) -> None:
        """Note an access."""
        self.move_to(scope)
        self.regions.append(region)

    def move_to(self, scope: AllocationScope) -> None:
        """Keep the allocation around a scope."""
        self.scope = scope if self.scope is None else self.scope.common(scope)


@dataclass(slots=True, eq=False)
class ElementAccess:
    """An element of a buffer that a store writes or reads."""

    buffer: Buffer
    indices: Sequence[Form]


@dataclass(slots=True, eq=False)
class Store:
    """A store that computes something.

    Attributes:
        nest: the loops around it.
        target: what it writes.
        loads: what it reads, in order, as often as it stands there.
        counts: the operations of its value, without those of the indices of loads.
    """

    nest: Nest
    target: ElementAccess
    loads: Sequence[ElementAccess]
    counts: Sequence[int]

    def accesses(self) -> Iterator[ElementAccess]:
        """The store, then the loads."""
        yield self.target
        yield from self.loads


@dataclass(slots=True, eq=False)
class GatheredProgram:
    """What a function has to say."""

    stores: list[Store] = field(default_factory=list)
    allocations: dict[Buffer, BlockAllocation] = field(default_factory=dict)
    tags: dict[Var, str] = field(default_factory=dict)  # of the variables of threads
    ranges: dict[Expr, ConstIntBound] = field(default_factory=dict)  # of loop variables
    grids: list[AllocationScope] = field(
        default_factory=list
    )  # loops that are bound to blocks of threads
