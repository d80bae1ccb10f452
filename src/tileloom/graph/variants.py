"""Kernels for extents that are not known yet: one for each way that planning them can go.

What a planner asks of an extent and the bounds do not answer (does a row fit into the cache, is
there enough work for several workers) decides which kernel is right, not whether one is. So the
planner is run once for each combination of answers that can occur, and the answers become the
predicates of *buckets*. The kernel that the program calls evaluates them and goes to the one bucket
whose predicates hold. Source of the idea: the buckets of CINN's dynamic-shape scheduler, there
chosen beforehand; here they are what the planner in fact distinguishes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from ..base.polynomial import Polynomial
from ..expr import GE, And, Call, Expr, StringImm, Var, binary, const
from ..target import Target
from ..tir import Evaluate, IfThenElse, PrimFunc, Stmt
from ..tir.structural import structural_equal
from .nodes import Tensor
from .space import Space
from .symbols import expr_of


class Planned(Protocol):
    """What the planner makes of a function of blocks: `plan.PlannedKernel`."""

    @property
    def blocks(self) -> PrimFunc:
        """The function before it was scheduled."""

    @property
    def func(self) -> PrimFunc:
        """The scheduled function."""

    @property
    def trace(self) -> Any:
        """The steps from the one to the other."""

    @property
    def target(self) -> Target:
        """The machine that it was scheduled for."""

    def named(self, name: str) -> Planned:
        """The same under another name."""


class MadeKernel(NamedTuple):
    """The kernel of a group.

    Attributes:
        func: the function; sizes that it takes come after the tensors.
        tensors: what its parameters are: inputs, then outputs.
        planned: how it was scheduled, if it was.
    """

    func: PrimFunc
    tensors: list[Tensor]
    planned: Planned | None = None


class Bucket(NamedTuple):
    """A kernel and the size expressions that are not negative where it is called."""

    kernel: str
    predicates: tuple[Polynomial, ...]

    def __str__(self) -> str:
        return f"{self.kernel}: {' and '.join(f'{p} >= 0' for p in self.predicates) or 'always'}"


class Variants(NamedTuple):
    """A kernel over symbolic extents.

    Attributes:
        functions: by name; that of the kernel calls the others, if there are any.
        planned: how those functions were scheduled that were.
        tensors: what the parameters are, before the sizes.
        buckets: the kernels that are chosen from.
    """

    functions: dict[str, PrimFunc]
    planned: dict[str, Planned]
    tensors: list[Tensor]
    buckets: list[Bucket]


def kernel_variants(
    make: Callable[[str], MadeKernel], name: str, space: Space, most: int
) -> Variants:
    """A kernel over symbolic extents.

    Args:
        make: the kernel under a name, planned with the answers that `space` gives; it takes the
            symbols of the space after the tensors.
        most: so many ways are followed; further answers are guards of the program.
    """
    found = space.variants(lambda: make(name), most)
    made: dict[str, MadeKernel] = {}
    buckets = []
    for k, (predicates, kernel) in enumerate(found):
        same = (n for n, known in made.items() if structural_equal(known.func, kernel.func))
        own = next(same, f"{name}_{k}")
        made.setdefault(own, kernel)
        buckets.append(Bucket(own, predicates))
    if len(made) == 1:
        made, buckets = {name: found[0][1]}, [Bucket(name, ())]
    tensors = found[0][1].tensors
    functions = {own: kernel.func.with_attr("global_symbol", own) for own, kernel in made.items()}
    planned = {own: k.planned.named(own) for own, k in made.items() if k.planned is not None}
    if len(made) > 1:
        symbols = [symbol.var for symbol in space.symbols.values()]
        functions[name] = _dispatcher(functions[buckets[0].kernel], name, buckets, symbols)
    return Variants(functions, planned, tensors, buckets)


def _dispatcher(
    model: PrimFunc, name: str, buckets: Sequence[Bucket], symbols: Sequence[Var]
) -> PrimFunc:
    """A function with the parameters of a kernel that calls the first whose predicates hold."""
    handles = [model.buffer_map[p].data for p in model.params if p in model.buffer_map]
    wide = {var.name: var.astype("int64") for var in symbols}

    def call(bucket: Bucket) -> Stmt:
        args = [StringImm(bucket.kernel), *handles, *symbols]
        return Evaluate(Call("int32", "tir.call_extern", args))

    stmt = call(buckets[-1])
    for bucket in reversed(buckets[:-1]):
        condition: Expr | None = None
        for predicate in bucket.predicates:
            part = binary(GE, expr_of(predicate, wide), const(0, "int64"))
            condition = part if condition is None else binary(And, condition, part)
        stmt = stmt if condition is None else IfThenElse(condition, call(bucket), stmt)
    attrs = {**model.attrs, "global_symbol": name}
    return PrimFunc(model.params, stmt, model.buffer_map, attrs)
