"""Loops over products of open sizes as the nests that they were fused from.

A quotient of a loop variable by an open size is not affine. Of a loop over `m * n` whose variable
is only used as `f // n` and `f % n`, these two are the variables of loops over `m` and over `n`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...expr import Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Var, const, free_vars, post_order
from ...tir import PARALLEL, SERIAL, Block, Buffer, For, PrimFunc, Stmt, StmtRewriter, pre_order
from ...tir.walk import map_exprs, stmt_exprs


def unfuse(func: PrimFunc) -> PrimFunc:
    """The function with loops over products of open sizes cut at these sizes.

    >>> from tileloom import Schedule, te
    >>> from tileloom.expr import Var
    >>> from tileloom.tir import collect
    >>> n, m = Var("n"), Var("m")
    >>> A = te.placeholder((m, n), name="A")
    >>> B = te.compute((m, n), lambda i, j: A[i, j] + 1.0, name="B")
    >>> sch = Schedule(te.create_prim_func([A, B]))
    >>> fused = sch.fuse(*sch.get_loops("B"))
    >>> [str(loop.extent) for loop in collect(unfuse(sch.mod["main"]).body, For)]
    ['m', 'n']
    """
    sizes = {extent for buffer in _buffers(func) for extent in buffer.shape}
    body = _Unfuser(sizes).visit(func.body)
    return func if body is func.body else func.replace(body=body)


def _buffers(func: PrimFunc) -> Iterator[Buffer]:
    yield from func.buffer_map.values()
    for stmt in pre_order(func.body):
        if isinstance(stmt, Block):
            yield from stmt.alloc_buffers


@dataclass(frozen=True)
class _Size:
    """A product: of a number, and of what is no number. The number 0 says that there is none."""

    number: int
    rest: tuple[Expr, ...] = ()

    @staticmethod
    def of(expr: Expr) -> _Size:
        match expr:
            case IntImm(_, value):
                return _Size(value)
            case Mul(a, b):
                return _Size.of(a) * _Size.of(b)
            case _:
                return _Size(1, (expr,))

    def __mul__(self, other: _Size) -> _Size:
        rest = sorted((*self.rest, *other.rest), key=str)
        return _Size(self.number * other.number, tuple(rest))

    def __truediv__(self, other: _Size) -> _Size:
        """The quotient, if it is such a product."""
        rest = list(self.rest)
        for factor in other.rest:
            if factor not in rest:
                return _Size(0)
            rest.remove(factor)
        if other.number <= 0 or self.number % other.number:
            return _Size(0)
        return _Size(self.number // other.number, tuple(rest))

    def expr(self, like: Expr) -> Expr:
        """As an expression of another's type."""
        result: Expr = const(self.number, like.dtype)
        for factor in self.rest:
            result = factor if result is const(1, like.dtype) else result * factor
        return result


_ONE = _Size(1)


class _Unfuser(StmtRewriter):
    def __init__(self, sizes: Collection[Expr]) -> None:
        self.sizes = sizes

    def visit_For(self, stmt: For) -> Stmt:
        result = super().visit_For(stmt)
        if not isinstance(result, For) or result.kind not in (SERIAL, PARALLEL):
            return result
        cuts = self._cuts(result)
        return result if len(cuts) < 3 else _nest(result, cuts)

    def _cuts(self, loop: For) -> list[_Size]:
        """1, the sizes at which the numbers of a loop are cut, and its extent."""
        whole = _Size.of(loop.extent)
        if not isinstance(loop.min, IntImm) or loop.min.value or len(whole.rest) < 2:
            return []
        found = {_Size.of(cut) for cut in _divisors(loop)}
        cuts = [_ONE]
        for cut in sorted(found, key=lambda cut: (len(cut.rest), cut.number)):
            fits = all((large / small).number and large != small
                       for small, large in ((cuts[-1], cut), (cut, whole)))  # fmt: skip
            if fits and self._is_positive(cut):
                cuts.append(cut)
        return [*cuts, whole]

    def _is_positive(self, size: _Size) -> bool:
        """Whether a size is positive wherever a product of it with others is not zero."""
        return size.number > 0 and all(map(self._is_extent, size.rest))

    def _is_extent(self, expr: Expr) -> bool:
        """Whether a value is an extent of a buffer, or as little negative as one."""
        match expr:
            case IntImm(_, value):
                return value >= 0
            case Add(a, b) | Mul(a, b):
                return expr in self.sizes or (self._is_extent(a) and self._is_extent(b))
            case FloorDiv(a, IntImm(_, value)):
                return value > 0 and self._is_extent(a)
            case _:
                return expr in self.sizes


def _divisors(loop: For) -> Iterator[Expr]:
    """The sizes by which the variable of a loop is divided, all in all."""
    for stmt in pre_order(loop.body):
        for expr in stmt_exprs(stmt):
            if loop.loop_var in free_vars(expr):
                for node in post_order(expr):
                    if isinstance(node, FloorDiv | FloorMod):
                        scale = _scale(loop.loop_var, node.a)
                        if scale is not None:
                            yield node.b if isinstance(scale, IntImm) else node.b * scale


def _scale(var: Var, expr: Expr) -> Expr | None:
    """How many steps of the variable are one of an expression; None if it is no part of it."""
    match expr:
        case Var():
            return const(1, var.dtype) if expr is var else None
        case FloorMod(a, _):
            return _scale(var, a)
        case FloorDiv(a, by):
            scale = _scale(var, a)
            return by if isinstance(scale, IntImm) else scale and scale * by
        case _:
            return None


def _nest(loop: For, cuts: Sequence[_Size]) -> Stmt:
    """A loop as a nest of a loop for each split between cuts."""
    name, kind = loop.loop_var.name, loop.loop_var.dtype
    splits = [Var(f"{name}_{k}", kind) for k in reversed(range(len(cuts) - 1))]
    parts = _Splits(loop.loop_var, splits, cuts)
    body = map_exprs(loop.body, parts.visit)
    for split, (low, high) in zip(splits, pairwise(cuts)):
        extent = (high / low).expr(loop.extent)
        body = loop.replace(loop_var=split, extent=extent, body=body, annotations={})
    return body


class _Splits:
    """Puts splits where they are computed from a number."""

    def __init__(self, var: Var, splits: Sequence[Var], cuts: Sequence[_Size]) -> None:
        self.var, self.splits, self.cuts = var, splits, cuts

    def visit(self, expr: Expr) -> Expr:
        """The expression of splits that an expression of the number is."""
        if self.var not in free_vars(expr):
            return expr
        part = self._slice(expr)
        if part is None:
            return expr.with_children(tuple(map(self.visit, expr.children)))
        low, high = part
        result: Expr = const(0, expr.dtype)
        for k in range(low, high):
            scale = (self.cuts[k] / self.cuts[low]).expr(expr)
            result = result + self.splits[k] * scale
        return result

    def _slice(self, expr: Expr) -> tuple[int, int] | None:
        """Of which neighbouring splits an expression is the number."""
        if expr is self.var:
            return 0, len(self.splits)
        if not isinstance(expr, FloorDiv | FloorMod):
            return None
        part, by = self._slice(expr.a), _Size.of(expr.b)
        if part is None:
            return None
        low, high = part
        at = next((k for k in range(low, high + 1) if self.cuts[k] / self.cuts[low] == by), None)
        if at is None:
            return None
        return (at, high) if isinstance(expr, FloorDiv) else (low, at)
