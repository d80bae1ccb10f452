"""Iteration variables, combiners, and the expressions of the `compute` front end that use them."""

from __future__ import annotations

from ..base import dtype
from ..base.errors import UserError
from ..base.late import TYPE_CHECKING
from .build import as_expr, const
from .interning import intern
from .nodes import Expr, Var
from .operators import ExprLike, Operators

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class Range:
    """The integers from `min` on, `extent` of them."""

    __slots__ = ("extent", "min")

    def __init__(self, min_: ExprLike, extent: ExprLike) -> None:
        self.min = min_ if isinstance(min_, Expr) else as_expr(min_)
        self.extent = extent if isinstance(extent, Expr) else as_expr(extent)

    @staticmethod
    def from_extent(extent: ExprLike) -> Range:
        """The range [0, extent)."""
        size = as_expr(extent)
        return Range(const(0, size.dtype), size)

    def __repr__(self) -> str:
        return f"Range({self.min}, {self.min + self.extent})"


SPATIAL, THREAD, REDUCE, ORDERED, OPAQUE = 0, 1, 2, 3, 4  # IterVar.iter_type, numbered as in TVM


class IterVar(Operators):
    """A variable with its domain and its role: spatial, thread, reduce, ordered or opaque."""

    __slots__ = ("dom", "iter_type", "thread_tag", "var")

    def __init__(
        self, dom: Range | None, var: Var, iter_type: int = SPATIAL, thread_tag: str = ""
    ) -> None:
        self.dom = dom
        self.var = var
        self.iter_type = iter_type
        self.thread_tag = thread_tag

    @property
    def domain(self) -> Range:
        """The domain, which only thread variables of a launch may lack."""
        if self.dom is None:
            raise UserError(f"the iteration variable {self.var.name!r} has no domain")
        return self.dom

    def __tileloom_expr__(self) -> Expr:
        return self.var

    def __repr__(self) -> str:
        return f"IterVar({self.var.name}, {self.dom}, {self.iter_type})"


class CommReducer:
    """An associative and commutative combiner of tuples: `result[i]` of `lhs` and `rhs`."""

    __slots__ = ("identity", "lhs", "result", "rhs")

    def __init__(
        self,
        lhs: Sequence[Var],
        rhs: Sequence[Var],
        result: Sequence[Expr],
        identity: Sequence[Expr],
    ) -> None:
        self.lhs = tuple(lhs)
        self.rhs = tuple(rhs)
        self.result = tuple(result)
        self.identity = tuple(identity)


class Reduce(Expr):
    """The combination of `source` over `axis` where `condition` holds; component `value_index`."""

    __slots__ = ("axis", "combiner", "condition", "init", "source", "value_index")
    __match_args__ = ("combiner", "source", "init", "axis", "condition", "value_index")
    combiner: CommReducer
    source: tuple[Expr, ...]
    init: tuple[Expr, ...]
    axis: tuple[IterVar, ...]
    condition: Expr
    value_index: int

    def __new__(
        cls,
        combiner: CommReducer,
        source: Sequence[Expr],
        init: Sequence[Expr],
        axis: Sequence[IterVar],
        condition: Expr,
        value_index: int = 0,
    ) -> Reduce:
        fields = (combiner, tuple(source), tuple(init), tuple(axis), condition, value_index)
        ids = (id(combiner), *map(id, source), *map(id, init), *map(id, axis))
        key = (*ids, id(condition), value_index, len(init), len(axis))
        return intern(cls, key, fields, fields[1][value_index].dtype)  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Expr, ...]:
        return (*self.source, *self.init, self.condition)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        n, m = len(self.source), len(self.init)
        source, init = children[:n], children[n : n + m]
        return Reduce(self.combiner, source, init, self.axis, children[n + m], self.value_index)


class ProducerLoad(Expr):
    """An element of a tensor of the `compute` front end."""

    __slots__ = ("indices", "producer")
    __match_args__ = ("producer", "indices")
    producer: Any
    indices: tuple[Expr, ...]

    def __new__(cls, producer: Any, indices: Sequence[Expr]) -> ProducerLoad:
        parts = tuple(indices)
        kind = dtype(producer.dtype)
        return intern(cls, (id(producer), *map(id, parts)), (producer, parts), kind)  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.indices

    def with_children(self, children: Sequence[Expr]) -> Expr:
        return ProducerLoad(self.producer, children)
