"""Exact sets of integer points, through isl: the only file of this room that imports `islpy`.

Expressions over integers become piecewise quasi-affine functions, conditions become sets, both over
a space of named variables and symbolic parameters. What is not quasi-affine gives None. Index
arithmetic is taken to be exact: it does not wrap around.

Objects of isl are immutable here and typed `Any`, as the package has no types of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..base.errors import UnsupportedError, UserError
from ..expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
    const,
    substitute,
)

_COMPARISONS = {
    EQ: "eq_set",
    NE: "ne_set",
    LT: "lt_set",
    LE: "le_set",
    GT: "gt_set",
    GE: "ge_set",
}
_SUMS = {Add: "add", Sub: "sub", Min: "min", Max: "max"}


class TooHardError(UserError):
    """A question about integer sets that was given up after the allowed number of operations."""


def load_isl() -> Any:
    """The package `islpy`, or an error that names the extra to install."""
    try:
        import islpy
    except ImportError as error:
        raise UnsupportedError(
            "exact dependence checks need the package islpy, which is not installed",
            hint='install it with: pip install "tileloom[poly]"',
        ) from error
    return islpy


class Integers:
    """A workspace of isl: a context and the symbolic parameters that all spaces share.

    Args:
        params: the symbolic integers.
        max_operations: how much work isl may do until `TooHardError`; 0 sets no limit.
        context: isl's context, if there is one already.

    Attributes:
        resolve: tells the numbers of expressions that are not quasi-affine by themselves.
    """

    def __init__(
        self, params: Sequence[Var] = (), max_operations: int = 0, context: Any = None
    ) -> None:
        self.isl = load_isl()
        self.context = self.isl.Context() if context is None else context
        self.params = tuple(params)
        self.resolve: Callable[[Space, Expr], Any | None] | None = None
        if context is None:
            self.context.set_max_operations(max_operations)
        self.set_dim = self.isl.dim_type.set
        self.param_dim = self.isl.dim_type.param
        self.in_dim = self.isl.dim_type.in_
        self.out_dim = self.isl.dim_type.out

    def renamed(self, params: Sequence[Var]) -> Integers:
        """The same workspace where other variables stand for the parameters, in order."""
        return Integers(params, context=self.context)

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Errors of isl, mostly about the number of operations, become `TooHardError`."""
        try:
            yield
        except self.isl.Error:
            raise TooHardError("the integer sets of this program are too hard to solve") from None

    def space(self, variables: Sequence[Var]) -> Space:
        """A space with a dimension for each variable."""
        return Space(self, tuple(variables))

    def box(self, shape: Sequence[Expr]) -> Any | None:
        """All indices into a shape; None if it is not quasi-affine in the parameters."""
        space = self.space([Var("x", extent.dtype) for extent in shape])
        points = space.universe
        for var, extent in zip(space.variables, shape):
            within = space.between(const(0, extent.dtype), space.number(var), extent)
            if within is None:
                return None
            points = points.intersect(within)
        return points

    def value(self, number: int) -> Any:
        """An isl number."""
        if -(1 << 63) <= number < 1 << 63:
            return self.isl.Val.int_from_si(self.context, number)
        return self.isl.Val.read_from_str(self.context, str(number))

    def map(self, text: str) -> Any:
        """The map written in isl's notation."""
        return self.isl.Map.read_from_str(self.context, text)

    def set(self, text: str) -> Any:
        """The set written in isl's notation."""
        return self.isl.Set.read_from_str(self.context, text)

    def no_maps(self) -> Any:
        """The empty union of maps."""
        return self.isl.UnionMap.read_from_str(self.context, "{}")

    def point(self, nonempty: Any) -> tuple[dict[Var, int], tuple[int, ...]]:
        """One point of a set: values of the parameters, and its coordinates."""
        point = nonempty.sample_point()
        space = point.get_space()
        given: dict[Var, int] = {}
        for k, param in enumerate(self.params):
            place = space.find_dim_by_name(self.param_dim, f"p{k}")
            if place >= 0:
                given[param] = _coordinate(point, self.param_dim, place)
        size = space.dim(self.set_dim)
        return given, tuple(_coordinate(point, self.set_dim, k) for k in range(size))


def _coordinate(point: Any, kind: Any, place: int) -> int:
    return int(point.get_coordinate_val(kind, place).to_python())


class Space:
    """Points with a coordinate for each variable; reads expressions over them.

    >>> i, j = Var("i"), Var("j")
    >>> space = Integers().space([i, j])
    >>> print(space.condition(FloorDiv(i, IntImm("int32", 4)) < j))
    { [i0, i1] : 4i1 > i0 }
    >>> print(space.number(i * j))
    None
    """

    def __init__(self, integers: Integers, variables: tuple[Var, ...]) -> None:
        self.integers = integers
        self.variables = variables
        isl = integers.isl
        space = isl.Space.set_alloc(integers.context, len(integers.params), len(variables))
        for k in range(len(integers.params)):
            space = space.set_dim_name(integers.param_dim, k, f"p{k}")
        self.universe = isl.Set.universe(space)
        self._space = space
        self._numbers: dict[Expr, Any] = {}
        local = isl.LocalSpace.from_space(space)
        for kind, names in (
            (integers.param_dim, integers.params),
            (integers.set_dim, variables),
        ):
            for k, name in enumerate(names):
                self._numbers[name] = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, kind, k))

    def number(self, expr: Expr) -> Any | None:
        """The expression as a piecewise quasi-affine function, or None."""
        if expr not in self._numbers:
            self._numbers[expr] = self._number(expr)
        return self._numbers[expr]

    def constant(self, value: int) -> Any:
        """A constant function."""
        isl = self.integers.isl
        return isl.PwAff.from_aff(
            isl.Aff.val_on_domain_space(self._space, self.integers.value(value))
        )

    def map(self, numbers: Sequence[Any]) -> Any:
        """The map from points to tuples of these functions' values."""
        isl = self.integers.isl
        result = isl.Map.from_domain(self.universe)
        for number in numbers:
            result = result.flat_range_product(isl.Map.from_pw_aff(number))
        return result

    def between(self, low: Expr, value: Any, extent: Expr) -> Any | None:
        """Where low <= value < low + extent."""
        first, count = self.number(low), self.number(extent)
        if first is None or count is None:
            return None
        return value.ge_set(first).intersect(value.lt_set(first.add(count)))

    def _number(self, expr: Expr) -> Any | None:
        match expr:
            case IntImm(_, value):
                return self.constant(value)
            case Cast(kind, value) if kind.is_int and kind.bits >= 32:
                return self._indicator(value) if value.dtype.is_bool else self.number(value)
            case Add() | Sub() | Min() | Max() if not expr.dtype.is_float:
                return self._sum(expr)
            case Mul() | Div() | Mod() | FloorDiv() | FloorMod() if not expr.dtype.is_float:
                return self._product(expr)
            case Select(condition, yes, no):
                return self._choice(condition, yes, no)
            case Call(_, "tir.if_then_else", (condition, yes, no)):
                return self._choice(condition, yes, no)
            case Call(_, "tir.likely", (value,)) | Broadcast(value, _):
                return self.number(value)
            case Call(_, op, (value, IntImm(_, amount))) if 0 <= amount < 62:
                return self._bits(op, value, amount)
            case Let(var, value, body):
                return self.number(substitute(body, {var: value}))
            case _:
                resolve = self.integers.resolve
                return None if resolve is None else resolve(self, expr)

    def _sum(self, expr: Add | Sub | Min | Max) -> Any | None:
        a, b = self.number(expr.a), self.number(expr.b)
        if a is None or b is None:
            return None
        return getattr(a, _SUMS[type(expr)])(b)

    def _product(self, expr: Mul | Div | Mod | FloorDiv | FloorMod) -> Any | None:
        a, b = self.number(expr.a), self.number(expr.b)
        if a is None or b is None:
            return None
        if isinstance(expr, Mul):
            return a.mul(b) if a.is_cst() or b.is_cst() else None
        if not b.is_cst() or not isinstance(expr.b, IntImm) or expr.b.value == 0:
            return None
        match expr:
            case FloorDiv():
                return a.div(b).floor()
            case FloorMod():
                return a.sub(a.div(b).floor().mul(b))
            case Div():
                return a.tdiv_q(b)
            case _:
                return a.sub(a.tdiv_q(b).mul(b))

    def _bits(self, op: str, value: Expr, amount: int) -> Any | None:
        number = None if value.dtype.is_float else self.number(value)
        if number is None:
            return None
        if op == "tir.shift_left":
            return number.mul(self.constant(1 << amount))
        if op == "tir.shift_right":
            return number.div(self.constant(1 << amount)).floor()
        if op == "tir.bitwise_and" and amount & (amount + 1) == 0:
            return number.mod_val(self.integers.value(amount + 1))
        return None

    def _choice(self, condition: Expr, yes: Expr, no: Expr) -> Any | None:
        where, a, b = self.condition(condition), self.number(yes), self.number(no)
        if where is None or a is None or b is None:
            return None
        other = b.intersect_domain(self.universe.subtract(where))
        return a.intersect_domain(where).union_add(other)

    def _indicator(self, condition: Expr) -> Any | None:
        where = self.condition(condition)
        return None if where is None else where.indicator_function()

    def condition(self, expr: Expr) -> Any | None:
        """The set of points where the condition holds, or None."""
        match expr:
            case IntImm(_, value):
                return self.universe if value else self.universe.complement()
            case Cast(kind, value) if kind.is_bool:
                return self.condition(value)
            case EQ(a, b) | NE(a, b) if a.dtype.is_bool:
                return self._same_truth(a, b, isinstance(expr, EQ))
            case EQ() | NE() | LT() | LE() | GT() | GE():
                return self._comparison(expr)
            case And(a, b) | Call(_, "tir.bitwise_and", (a, b)) if a.dtype.is_bool:
                return self._both(a, b, "intersect")
            case Or(a, b) | Call(_, "tir.bitwise_or", (a, b)) if a.dtype.is_bool:
                return self._both(a, b, "union")
            case Not(a):
                where = self.condition(a)
                return None if where is None else self.universe.subtract(where)
            case Call(_, "tir.likely", (value,)) | Broadcast(value, _):
                return self.condition(value)
            case Call(_, "tir.if_then_else", (c, yes, no)) | Select(c, yes, no):
                return self.condition(Or(And(c, yes), And(Not(c), no)))
            case Let(var, value, body):
                return self.condition(substitute(body, {var: value}))
            case _:
                number = None if expr.dtype.is_float else self.number(expr)
                return None if number is None else number.ne_set(self.constant(0))

    def _comparison(self, expr: EQ | NE | LT | LE | GT | GE) -> Any | None:
        a, b = self.number(expr.a), self.number(expr.b)
        return None if a is None or b is None else getattr(a, _COMPARISONS[type(expr)])(b)

    def _both(self, a: Expr, b: Expr, operation: str) -> Any | None:
        first, second = self.condition(a), self.condition(b)
        if first is None or second is None:
            return None
        return getattr(first, operation)(second)

    def _same_truth(self, a: Expr, b: Expr, same: bool) -> Any | None:
        first, second = self.condition(a), self.condition(b)
        if first is None or second is None:
            return None
        differ = first.subtract(second).union(second.subtract(first))
        return self.universe.subtract(differ) if same else differ
