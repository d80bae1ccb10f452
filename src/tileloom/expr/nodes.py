"""Scalar and index expressions, in grammar order.

    expr   ::= IntImm | FloatImm | StringImm | Var | SizeVar
             | Cast(dtype, value)
             | binop(a, b)                     Add Sub Mul Div Mod FloorDiv FloorMod Min Max
             | compare(a, b)                   EQ NE LT LE GT GE            -> bool
             | And(a, b) | Or(a, b) | Not(a)                                -> bool
             | Select(condition, true_value, false_value)     both sides may be evaluated
             | Ramp(base, stride, lanes) | Broadcast(value, lanes) | Shuffle(vectors, indices)
             | Let(var, value, body) | Call(dtype, op, args)
             | Reduce(combiner, source, init, axis, condition, value_index)
             | ProducerLoad(producer, indices)                 only before tensor IR

Nodes are immutable and interned: two structurally equal expressions are one object, so `a is b` is
equality, and analyses can be memoised on nodes. A `Var` is equal to itself alone. Constructors
build exactly what they are told; the operators (`a + b`, `a < b`) convert Python numbers, match
types and fold constants.
"""

from __future__ import annotations

import itertools

from ..base import DType, dtype
from ..base.dtype import wrap_int
from ..base.errors import DTypeError, UserError
from ..base.late import TYPE_CHECKING
from .interning import TABLE, intern
from .op_name import OpName, op_name
from .operators import BUILD, Operators

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, ClassVar, Self


class Expr(Operators):
    """Any expression; `dtype` is the type of its value."""

    __slots__ = ("__weakref__", "_memo", "dtype")
    __match_args__: ClassVar[tuple[str, ...]] = ()

    dtype: DType
    _memo: dict[Any, Any] | None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot set {name!r}")

    @property
    def memo(self) -> dict[Any, Any]:
        """A dictionary for context-free analyses of this node, kept as long as the node lives."""
        if self._memo is None:
            _set(self, "_memo", {})
        return self._memo  # type: ignore[return-value]

    @property
    def children(self) -> tuple[Expr, ...]:
        """The sub-expressions, in evaluation order."""
        return ()

    def with_children(self, children: Sequence[Expr]) -> Expr:
        """The same node over other sub-expressions (as many as `children` has)."""
        return self

    def same_as(self, other: object) -> bool:
        """Structural equality, which for interned nodes is identity."""
        return self is other

    def astype(self, target: str) -> Expr:
        """A cast to another type, or the expression itself when it has that type."""
        return BUILD["cast"](target, self)  # type: ignore[no-any-return]

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), tuple(getattr(self, name) for name in self.__match_args__))

    def __bool__(self) -> bool:
        raise UserError(
            f"a symbolic expression has no truth value: {self}",
            hint="use `a is b` for equality of expressions, Select/if_then_else for a choice",
        )

    def __str__(self) -> str:
        from .show import show_expr  # the printer imports the nodes

        return show_expr(self)

    def __repr__(self) -> str:
        return str(self)

    __hash__ = object.__hash__


_set = object.__setattr__
_SERIALS = itertools.count()


# ---------------------------------------------------------------------------- leaves


class IntImm(Expr):
    """An integer or boolean constant.

    A value that the type does not hold wraps around in narrow and unsigned types, as arithmetic of
    them does. That of indices (int32 and int64) does not overflow, so there it is an error.
    """

    __slots__ = ("value",)
    __match_args__ = ("dtype", "value")
    value: int

    def __new__(cls, dtype_: str, value: int) -> IntImm:
        kind = dtype_ if isinstance(dtype_, DType) else dtype(dtype_)
        ref = TABLE.get((cls, kind, value))
        if ref is not None and (known := ref()) is not None:
            return known  # type: ignore[no-any-return]
        given, value = value, wrap_int(int(value), kind)
        if value != given and kind.code == "int" and kind.bits >= 32:
            raise DTypeError(f"{given} does not fit {kind}", hint=_WIDER.get(kind))
        return intern(cls, (kind, value), (kind, value), kind)  # type: ignore[no-any-return]

    def __bool__(self) -> bool:
        return self.value != 0

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value


_WIDER = {dtype("int32"): "use int64, or cast the number where it is to wrap around"}


def wrapped(kind: DType, value: int) -> IntImm:
    """A constant of which as many bits are kept as the type has.

    >>> wrapped(dtype("int32"), 2**31)
    -2147483648
    """
    return IntImm(kind, wrap_int(value, kind))


class FloatImm(Expr):
    """A floating-point constant; -0.0 and 0.0 differ, every NaN is one."""

    __slots__ = ("value",)
    __match_args__ = ("dtype", "value")
    value: float

    def __new__(cls, dtype_: str, value: float) -> FloatImm:
        kind = dtype(dtype_)
        value = float(value)
        return intern(cls, (kind, value.hex()), (kind, value), kind)  # type: ignore[no-any-return]

    def __float__(self) -> float:
        return self.value


class StringImm(Expr):
    """A string constant, as an argument of calls."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    value: str

    def __new__(cls, value: str) -> StringImm:
        return intern(cls, (value,), (value,), dtype("handle"))  # type: ignore[no-any-return]


class Var(Expr):
    """A variable. Each call makes a new one; the name is for people.

    A pointer (`handle`) may know what it points to: `pointee` is `(element type, storage scope)`.
    """

    __slots__ = ("name", "pointee", "serial")
    __match_args__ = ("name", "dtype")
    name: str
    serial: int  # grows with every variable made: an order that is the same in every run
    pointee: tuple[DType, str] | None

    def __new__(
        cls, name: str, dtype_: str = "int32", pointee: tuple[str, str] | None = None
    ) -> Self:
        node = object.__new__(cls)
        _set(node, "name", name)
        _set(node, "dtype", dtype(dtype_))
        _set(node, "pointee", None if pointee is None else (dtype(pointee[0]), pointee[1]))
        _set(node, "serial", next(_SERIALS))
        _set(node, "_memo", None)
        return node

    def with_name(self, name: str) -> Self:
        """A new variable of the same type."""
        return type(self)(name, self.dtype, self.pointee)

    def __reduce__(self) -> tuple[Any, ...]:
        # One pickle keeps identity through its own memo; two pickles make two variables.
        return (type(self), (self.name, self.dtype, self.pointee))


class SizeVar(Var):
    """A variable that is never negative: an extent or a size."""

    __slots__ = ()


# ---------------------------------------------------------------------------- operators


class Cast(Expr):
    """A conversion as C does it (truncation toward zero; a bool is 0 or 1)."""

    __slots__ = ("value",)
    __match_args__ = ("dtype", "value")
    value: Expr

    def __new__(cls, dtype_: str, value: Expr) -> Cast:
        kind = dtype(dtype_)
        return intern(cls, (kind, id(value)), (kind, value), kind)  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        return Cast(self.dtype.with_lanes(children[0].dtype.lanes), children[0])


class BinaryOp(Expr):
    """An operator on two values of one type; the result has that type.

    `commutative` and `idempotent` hold exactly for integers, and for floating point
    as far as the field treats them so.
    """

    __slots__ = ("a", "b")
    __match_args__ = ("a", "b")
    a: Expr
    b: Expr
    symbol: ClassVar[str] = ""
    commutative: ClassVar[bool] = False
    idempotent: ClassVar[bool] = False

    def __new__(cls, a: Expr, b: Expr) -> Self:
        ref = TABLE.get((cls, id(a), id(b)))
        if ref is not None and (known := ref()) is not None:
            return known  # type: ignore[no-any-return]
        if a.dtype is not b.dtype:
            raise DTypeError(
                f"{cls.__name__} needs operands of one type, got {a.dtype} and {b.dtype}"
            )
        return intern(cls, (id(a), id(b)), (a, b), cls.result_type(a.dtype))  # type: ignore[no-any-return]

    @classmethod
    def result_type(cls, operand: DType) -> DType:
        """The type of the result for operands of a type."""
        return operand

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.a, self.b)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        a, b = match_lanes(children[0], children[1])
        return type(self)(a, b)


class Add(BinaryOp):
    """a + b."""

    __slots__ = ()
    symbol = "+"
    commutative = True


class Sub(BinaryOp):
    """a - b."""

    __slots__ = ()
    symbol = "-"


class Mul(BinaryOp):
    """a * b."""

    __slots__ = ()
    symbol = "*"
    commutative = True


class Div(BinaryOp):
    """a / b: true division of floats, division of integers truncated toward zero."""

    __slots__ = ()
    symbol = "/"


class Mod(BinaryOp):
    """The remainder of truncated division; it has the sign of `a`."""

    __slots__ = ()
    symbol = "%"


class FloorDiv(BinaryOp):
    """Division rounded toward minus infinity."""

    __slots__ = ()
    symbol = "//"


class FloorMod(BinaryOp):
    """The remainder of floor division; it has the sign of `b`."""

    __slots__ = ()
    symbol = "%"


class Min(BinaryOp):
    """The smaller value; NaN if either is NaN."""

    __slots__ = ()
    commutative = idempotent = True


class Max(BinaryOp):
    """The larger value; NaN if either is NaN."""

    __slots__ = ()
    commutative = idempotent = True


class CompareOp(BinaryOp):
    """A comparison; the result is bool with the operands' lanes."""

    __slots__ = ()

    @classmethod
    def result_type(cls, operand: DType) -> DType:
        return _BOOL if operand.lanes == 1 else _BOOL.with_lanes(operand.lanes)


class EQ(CompareOp):
    """a == b. As a Python truth value: whether both are one expression."""

    __slots__ = ()
    symbol = "=="
    commutative = True

    def __bool__(self) -> bool:
        return self.a is self.b


class NE(CompareOp):
    """a != b. As a Python truth value: whether they are two expressions."""

    __slots__ = ()
    symbol = "!="
    commutative = True

    def __bool__(self) -> bool:
        return self.a is not self.b


class LT(CompareOp):
    """a < b."""

    __slots__ = ()
    symbol = "<"


class LE(CompareOp):
    """a <= b."""

    __slots__ = ()
    symbol = "<="


class GT(CompareOp):
    """a > b."""

    __slots__ = ()
    symbol = ">"


class GE(CompareOp):
    """a >= b."""

    __slots__ = ()
    symbol = ">="


class And(CompareOp):
    """Both hold; `b` may be left unevaluated."""

    __slots__ = ()
    symbol = "and"
    commutative = idempotent = True


class Or(CompareOp):
    """One holds; `b` may be left unevaluated."""

    __slots__ = ()
    symbol = "or"
    commutative = idempotent = True


class Not(Expr):
    """The negation of a bool."""

    __slots__ = ("a",)
    __match_args__ = ("a",)
    a: Expr

    def __new__(cls, a: Expr) -> Not:
        return intern(cls, (id(a),), (a,), a.dtype)  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.a,)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        return Not(children[0])


class Select(Expr):
    """`true_value` where the condition holds, else `false_value`; both sides may be evaluated."""

    __slots__ = ("condition", "false_value", "true_value")
    __match_args__ = ("condition", "true_value", "false_value")
    condition: Expr
    true_value: Expr
    false_value: Expr

    def __new__(cls, condition: Expr, true_value: Expr, false_value: Expr) -> Select:
        if true_value.dtype is not false_value.dtype:
            raise DTypeError(
                f"Select needs values of one type, got {true_value.dtype} and {false_value.dtype}"
            )
        fields = (condition, true_value, false_value)
        return intern(cls, tuple(map(id, fields)), fields, true_value.dtype)  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.condition, self.true_value, self.false_value)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        lanes = max(child.dtype.lanes for child in children)
        condition, yes, no = children
        if condition.dtype.lanes > 1:
            condition = broadcast_to(condition, lanes)
        return Select(condition, broadcast_to(yes, lanes), broadcast_to(no, lanes))


class Ramp(Expr):
    """The vector base, base + stride, ..., of `lanes` elements."""

    __slots__ = ("base", "lanes", "stride")
    __match_args__ = ("base", "stride", "lanes")
    base: Expr
    stride: Expr
    lanes: int

    def __new__(cls, base: Expr, stride: Expr, lanes: int) -> Ramp:
        kind = base.dtype.with_lanes(base.dtype.lanes * lanes)
        fields = (base, stride, lanes)
        return intern(cls, (id(base), id(stride), lanes), fields, kind)  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.base, self.stride)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        return Ramp(children[0], children[1], self.lanes)


class Broadcast(Expr):
    """A vector of `lanes` copies of one value."""

    __slots__ = ("lanes", "value")
    __match_args__ = ("value", "lanes")
    value: Expr
    lanes: int

    def __new__(cls, value: Expr, lanes: int) -> Broadcast:
        kind = value.dtype.with_lanes(value.dtype.lanes * lanes)
        return intern(cls, (id(value), lanes), (value, lanes), kind)  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        return Broadcast(children[0], self.lanes)


class Shuffle(Expr):
    """Elements of the concatenated vectors, picked by constant positions."""

    __slots__ = ("indices", "vectors")
    __match_args__ = ("vectors", "indices")
    vectors: tuple[Expr, ...]
    indices: tuple[int, ...]

    def __new__(cls, vectors: Sequence[Expr], indices: Sequence[int]) -> Shuffle:
        parts, picks = tuple(vectors), tuple(int(i) for i in indices)
        lanes = sum(part.dtype.lanes for part in parts)
        if not parts or not picks or any(not 0 <= pick < lanes for pick in picks):
            raise UserError(f"a shuffle of {lanes} elements has no positions {list(picks)}")
        kind = parts[0].dtype.with_lanes(len(picks))
        return intern(cls, (*map(id, parts), picks), (parts, picks), kind)  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.vectors

    def with_children(self, children: Sequence[Expr]) -> Expr:
        return Shuffle(children, self.indices)


class Let(Expr):
    """`body` with `var` standing for `value`, which is evaluated once."""

    __slots__ = ("body", "value", "var")
    __match_args__ = ("var", "value", "body")
    var: Var
    value: Expr
    body: Expr

    def __new__(cls, var: Var, value: Expr, body: Expr) -> Let:
        fields = (var, value, body)
        return intern(cls, tuple(map(id, fields)), fields, body.dtype)  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.value, self.body)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        return Let(self.var, children[0], children[1])


class Call(Expr):
    """An intrinsic, built-in or external function; `op` is its registered name (see `ops`)."""

    __slots__ = ("args", "op")
    __match_args__ = ("dtype", "op", "args")
    op: OpName
    args: tuple[Expr, ...]

    def __new__(cls, dtype_: str, op: str, args: Sequence[Expr]) -> Call:
        kind, parts = dtype(dtype_), tuple(args)
        name = op_name(op)
        return intern(cls, (kind, name, *map(id, parts)), (kind, name, parts), kind)  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args

    def with_children(self, children: Sequence[Expr]) -> Expr:
        return Call(self.dtype, self.op, children)


def is_int(value: Expr | None, number: int) -> bool:
    """Whether the expression is that integer constant."""
    return isinstance(value, IntImm) and value.value == number


def broadcast_to(value: Expr, lanes: int) -> Expr:
    """`value` with that many lanes, repeating a scalar."""
    if value.dtype.lanes == lanes:
        return value
    if value.dtype.lanes != 1:
        raise DTypeError(f"cannot broadcast {value.dtype} to {lanes} lanes")
    return Broadcast(value, lanes)


def match_lanes(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Both with the lanes of the wider."""
    if a.dtype.lanes == b.dtype.lanes:
        return a, b
    lanes = max(a.dtype.lanes, b.dtype.lanes)
    return broadcast_to(a, lanes), broadcast_to(b, lanes)


_BOOL = dtype("bool")
