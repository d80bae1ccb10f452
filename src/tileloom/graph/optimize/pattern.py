"""Rules as text: `log(exp(A)) = A`.

    rule     ::= term "=" term
    term     ::= tensor | constant | number | op "(" term, ... ")" | "-" term
               | term "+" term | term "-" term | term "*" term | term "/" term
    tensor   ::= a capital letter: any tensor; twice the same letter is twice the same tensor
    constant ::= a small letter and digits: a constant tensor
    number   ::= a constant with this value everywhere; 0 is a zero of either sign, 0.0 and -0.0
               are zeros of theirs; True and False

An op is named as in the registry. Operands of commutative ops are found in either order.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.errors import InternalError
from ...target.cost import work_of
from ..nodes import Node, Tensor
from .rule import Case, Key

if TYPE_CHECKING:
    from .rewriter import Rewriter

#: Constants of more elements are not taken into new ones.
MAX_CONSTANT = 1 << 16
COMMUTATIVE = {"add", "mul", "minimum", "maximum", "equal", "not_equal", "logical_and",
               "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"}  # fmt: skip
_OPERATORS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}


@dataclass(frozen=True, slots=True)
class Any_:
    """Any tensor, or any constant."""

    name: str

    @property
    def is_constant(self) -> bool:
        return self.name[0].islower()


@dataclass(frozen=True, slots=True)
class NumberPattern:
    """A constant that has one value everywhere."""

    value: bool | int | float

    def fits(self, array: np.ndarray[Any, Any]) -> bool:
        """Whether this is the value of all elements."""
        if array.size == 0 or array.size > MAX_CONSTANT:
            return False
        first = array.flat[0]
        if first != self.value or isinstance(self.value, bool) != (array.dtype == bool):
            return False
        if array.size > 1 and not (array == self.value).all():
            return False
        if isinstance(self.value, int) or self.value != 0:
            return True
        return bool((np.signbit(array) == (math.copysign(1.0, self.value) < 0)).all())


@dataclass(frozen=True, slots=True)
class Apply_:
    """An op applied to terms."""

    op: str
    args: tuple[Term, ...]


Term = Any_ | NumberPattern | Apply_
Bindings = dict[str, Tensor]
Guard = Callable[[Bindings], bool]


def parse_rule(text: str) -> tuple[Term, Term]:
    """Both sides of a rule.

    >>> parse_rule("A + -0.0 = A")[0]
    Apply_(op='add', args=(Any_(name='A'), NumberPattern(value=-0.0)))
    """
    left, _, right = text.partition(" = ")
    return parse_term(left), parse_term(right)


def parse_term(text: str) -> Term:
    """A term from its text."""
    return _term(ast.parse(text.strip(), mode="eval").body)


def _term(tree: ast.expr) -> Term:
    match tree:
        case ast.Name(id=name):
            return Any_(name)
        case ast.Constant(value=bool() | int() | float() as value):
            return NumberPattern(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return NumberPattern(-value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Apply_("neg", (_term(operand),))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return Apply_(_OPERATORS[type(op)], (_term(left), _term(right)))
        case ast.Call(func=ast.Name(id=name), args=args):
            return Apply_(name, tuple(map(_term, args)))
        case _:
            raise InternalError(f"{ast.unparse(tree)!r} is no term of a rule")


def orders(term: Term) -> Iterator[Term]:
    """The term with the operands of commutative ops in every order."""
    if not isinstance(term, Apply_):
        yield term
        return
    for args in product(*(list(orders(arg)) for arg in term.args)):
        yield Apply_(term.op, args)
        if term.op in COMMUTATIVE and args[0] != args[1]:
            yield Apply_(term.op, args[::-1])


def cases_of(text: str, guard: Guard | None = None) -> tuple[Case, ...]:
    """The ways in which the left side of a rule may be met."""
    left, right = parse_rule(text)
    seen: dict[Term, None] = dict.fromkeys(orders(left))
    return tuple((_key(form), PatternCase(text, form, right, guard)) for form in seen)


def _key(term: Term) -> Key:
    if not isinstance(term, Apply_):
        raise InternalError("the left side of a rule must be an op")
    makers = [_maker(arg) for arg in term.args[:2]]
    return (term.op, makers[0], makers[1] if len(makers) > 1 else None)


def _maker(term: Term) -> str | None:
    if isinstance(term, Apply_):
        return term.op
    return "constant" if isinstance(term, NumberPattern) or term.is_constant else None


@dataclass(slots=True)
class _Match:
    bound: Bindings = field(default_factory=dict)
    #: The nodes below the root, once for each time that they are met.
    inner: list[Node] = field(default_factory=list)

    def take(self, term: Term, tensor: Tensor) -> bool:
        """Whether the tensor is of the form of the term."""
        if isinstance(term, Any_):
            known = self.bound.setdefault(term.name, tensor)
            if known is not tensor:
                return False
            return not term.is_constant or (
                tensor.value is not None and tensor.type.size <= MAX_CONSTANT
            )
        if isinstance(term, NumberPattern):
            value = tensor.value
            return value is not None and term.fits(value)
        node = tensor.node
        if node is None or node.op.name != term.op:
            return False
        self.inner.append(node)
        return self.take_all(term, node)

    def take_all(self, term: Apply_, node: Node) -> bool:
        """Whether the inputs of the node are of the form of the arguments."""
        return all(map(self.take, term.args, node.inputs))


class PatternCase:
    """One form of the left side, and what takes its place."""

    __slots__ = ("gains", "guard", "left", "right", "text", "work")

    def __init__(self, text: str, left: Term, right: Term, guard: Guard | None) -> None:
        if not isinstance(left, Apply_):
            raise InternalError("the left side of a rule must be an op")
        self.text = text
        self.left, self.right, self.guard = left, right, guard
        self.work = _work(right)
        #: Whether the right side costs no more than the root alone.
        self.gains = self.work <= work_of(left.op)

    def __call__(self, node: Node, rewriter: Rewriter) -> Tensor | None:
        match = _Match()
        if not match.take_all(self.left, node):
            return None
        if self.guard is not None and not self.guard(match.bound):
            return None
        if not self.gains and not self._pays(node, match.inner, rewriter):
            return None
        wanted = node.outputs[0].type
        result = _build(self.right, match.bound, rewriter, node)
        if result.shape != wanted.shape:
            result = rewriter.make("broadcast_to", (result,), shape=wanted.shape)
        return result

    def _pays(self, node: Node, inner: list[Node], rewriter: Rewriter) -> bool:
        """Whether no work is repeated since others read what the root reads."""
        freed = work_of(node.op.name)
        shared = False
        for part in inner:
            if rewriter.uses[part.outputs[0]] == inner.count(part):
                freed += work_of(part.op.name)
            else:
                shared = True
        if shared and self.work > freed:
            rewriter.hold_back()
            return False
        return True


def _work(term: Term) -> int:
    """The work of a term per element; what is made of constants alone is none."""
    if not isinstance(term, Apply_) or not _has_tensor(term):
        return 0
    return work_of(term.op) + sum(map(_work, term.args))


def _has_tensor(term: Term) -> bool:
    if isinstance(term, Apply_):
        return any(map(_has_tensor, term.args))
    return isinstance(term, Any_) and not term.is_constant


def _build(term: Term, bound: Bindings, rewriter: Rewriter, root: Node) -> Tensor:
    if isinstance(term, Any_):
        return bound[term.name]
    if isinstance(term, NumberPattern):
        return rewriter.scalar(term.value, root.outputs[0].dtype)
    return rewriter.make(term.op, [_build(arg, bound, rewriter, root) for arg in term.args])
