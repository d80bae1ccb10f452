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
from typing import NamedTuple

from ..base.polynomial import Polynomial
from ..expr import GE, And, Call, Expr, StringImm, Var, binary, const
from ..tir import Evaluate, IfThenElse, PrimFunc, Stmt
from ..tir.structural import structural_equal
from .nodes import Tensor
from .space import Space
from .symbols import expr_of

Made = tuple[PrimFunc, list[Tensor]]


class Bucket(NamedTuple):
    """A kernel and the size expressions that are not negative where it is called."""

    kernel: str
    predicates: tuple[Polynomial, ...]

    def __str__(self) -> str:
        return f"{self.kernel}: {' and '.join(f'{p} >= 0' for p in self.predicates) or 'always'}"


def kernel_variants(
    make: Callable[[str], Made], name: str, space: Space, most: int
) -> tuple[dict[str, PrimFunc], list[Tensor], list[Bucket]]:
    """A kernel over symbolic extents.

    Args:
        make: the kernel under a name, planned with the answers that `space` gives.
        most: so many ways are followed; further answers are guards of the program.

    Returns:
        Functions by name; that of `name` calls the others. It takes the symbols of the space after
        the tensors, which come next. Then the buckets.
    """
    found = space.variants(lambda: make(name), most)
    symbols = [symbol.var for symbol in space.symbols.values()]
    functions: dict[str, PrimFunc] = {}
    buckets = []
    for k, (predicates, (func, _)) in enumerate(found):
        func = func.replace(params=(*func.params, *symbols))
        same = (n for n, f in functions.items() if structural_equal(f, func))
        own = next(same, f"{name}_{k}")
        functions.setdefault(own, func)
        buckets.append(Bucket(own, predicates))
    tensors = found[0][1][1]
    if len(functions) == 1:
        (only,) = functions.values()
        return {name: only}, tensors, [Bucket(name, ())]
    for own, func in functions.items():
        functions[own] = func.replace(attrs={**func.attrs, "global_symbol": own})
    functions[name] = _dispatcher(functions[buckets[0].kernel], name, buckets, symbols)
    return functions, tensors, buckets


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
