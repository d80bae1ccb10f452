"""Kinds of steps: how a primitive's arguments become a step of a trace and back.

`@primitive("Split")` on a function registers it. Everything else follows from its signature:

* the first parameter is the `ScheduleState`; the others have the names, the order and the defaults
  that users see;
* annotations say what an argument is: `BlockRef`, `LoopRef`, `PlaceRef` (a block or a loop),
  `IterationRef` (a sparse iteration), `AnyRef` (any of the three) and `IntRef` (a number or a
  number variable) are *inputs* of the step, everything else is an *attribute*. Inside the
  function a reference is a `StmtSRef`, a number an `int` or an expression;
* `decision` is what a sampling primitive has drawn; such a function returns `Sampled`;
* the annotation of the result says what the step defines.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from ..base.errors import InternalError, UserError
from ..expr import Expr, IndexMap
from .sref import StmtSRef

BlockRef = Annotated[StmtSRef, "block"]
LoopRef = Annotated[StmtSRef, "loop"]
PlaceRef = Annotated[StmtSRef, "place"]
IterationRef = Annotated[StmtSRef, "iteration"]
AnyRef = Annotated[StmtSRef, "any"]
IntRef = Annotated[int | Expr, "int"]
#: Data that may have number variables somewhere inside.
ValueRef = Annotated[Any, "value"]
#: An index map that number variables may be part of.
MapRef = Annotated[IndexMap, "value"]
#: An index into the reads or writes of the parameter `block`; users may name the buffer instead.
ReadIndex = Annotated[int, "read_index"]
WriteIndex = Annotated[int, "write_index"]

REFERENCE_ROLES = {"block", "loop", "place", "iteration", "any"}
_INPUT_ROLES = {*REFERENCE_ROLES, "int", "value"}
_ROLES = {*_INPUT_ROLES, "read_index", "write_index"}
Arguments = dict[str, Any]


class Sampled(NamedTuple):
    """What a sampling primitive returns: the numbers (or the place), and the decision to record."""

    outputs: Any
    decision: Any


class Text(str):
    """Python text that stands for itself."""

    __slots__ = ()


class Codec(NamedTuple):
    """How an attribute is written into JSON, into Python text, and read back from JSON."""

    to_json: Callable[[Any], Any]
    to_python: Callable[[Any], str]
    from_json: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a primitive."""

    name: str
    role: str  # an input role, "read_index", "write_index", "attr" or "decision"
    listed: bool  # whether it is a list of such
    variadic: bool
    default: Any

    @property
    def is_input(self) -> bool:
        """Whether it is an input of the step; else it is an attribute or the decision."""
        return self.role in _INPUT_ROLES

    @property
    def is_attr(self) -> bool:
        """Whether it is an attribute of the step."""
        return not self.is_input and self.role != "decision"


@dataclass(frozen=True, slots=True, eq=False)
class InstructionKind:
    """A primitive, as traces know it.

    Attributes:
        name: in JSON, such as "Split".
        method: of `Schedule`, such as "split".
        pure: whether the step can be left out when nobody uses what it defines.
        coordinates: whether it is for functions over coordinates, too.
        flat: the list parameter that is written into the inputs one by one.
        int_bools: whether truth values are 0 and 1 in JSON, as TVM has them for some kinds.
        front: turns what users may pass into the arguments of the step.
        shown: turns the arguments of the step into what Python text passes to the method.
        check: raises a refusal if the primitive would, and changes nothing.
        front_parameters: those of `front`, else the same as `parameters`.
        attr_names: of the attributes of a step, in their order.
        signature: what users may pass.
        defaults: the default of each argument of it, if all are passed by position or name.
    """

    name: str
    method: str
    func: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    returns: tuple[str, bool] | None
    pure: bool
    coordinates: bool
    flat: str | None
    int_bools: bool
    skip_empty: tuple[str, ...]
    codecs: Mapping[str, Codec]
    front: Callable[..., Arguments] | None
    shown: Callable[[Arguments], Arguments] | None
    check: Callable[..., object] | None
    front_parameters: tuple[Parameter, ...]
    attr_names: tuple[str, ...]
    signature: inspect.Signature
    defaults: Mapping[str, Any] | None

    @property
    def is_pure(self) -> bool:
        """`pure`, as TVM calls it."""
        return self.pure

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
        """The arguments by name, with defaults filled in."""
        known = self.defaults
        if known is not None and len(args) <= len(known):
            found = {**known, **dict(zip(known, args)), **kwargs}
            given_twice = kwargs and not kwargs.keys().isdisjoint([*known][: len(args)])
            missing = any(value is inspect.Parameter.empty for value in found.values())
            if len(found) == len(known) and not given_twice and not missing:
                return found
        try:  # which also says what is wrong
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            usage = f"{self.method}{self.signature}"
            raise UserError(f"{self.method}: {error}", hint=usage) from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def pack(self, arguments: Arguments) -> tuple[list[Any], list[Any]]:
        """Inputs and attributes of the step."""
        inputs: list[Any] = []
        attrs: list[Any] = []
        for p in self.parameters:
            if p.role == "decision":
                continue
            value = arguments[p.name]
            if not p.is_input:
                attrs.append(value)
            elif p.variadic or p.name == self.flat:
                inputs.extend(value)
            else:
                inputs.append(list(value or ()) if p.listed else value)
        return inputs, attrs

    def unpack(self, inputs: Sequence[Any], attrs: Sequence[Any]) -> Arguments:
        """The arguments by name from inputs and attributes."""
        rest, more = list(inputs), list(attrs)
        result: Arguments = {}
        for p in self.parameters:
            if p.role == "decision":
                result[p.name] = None
            elif not p.is_input:
                value = self._next(more, p, "attributes")
                result[p.name] = bool(value) if isinstance(p.default, bool) else value
            elif p.variadic or p.name == self.flat:
                result[p.name], rest = rest, []
            else:
                result[p.name] = self._next(rest, p, "inputs")
        if rest or more:
            raise UserError(f"too many inputs or attributes for {self.name}: {inputs}, {attrs}")
        return result

    def _next(self, values: list[Any], p: Parameter, what: str) -> Any:
        if not values:
            raise UserError(f"too few {what} for {self.name}: {p.name} is missing")
        return values.pop(0)


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One step: its kind, what it uses, its attributes, and the variables it defines."""

    kind: InstructionKind
    inputs: list[Any]
    attrs: list[Any]
    outputs: list[Any]


_KINDS: dict[str, InstructionKind] = {}
_METHODS: dict[str, InstructionKind] = {}


def find_kind(name: str) -> InstructionKind:
    """The kind with a name, such as "Split"."""
    found = _KINDS.get(name)
    if found is None:
        raise UserError(f"no schedule primitive has the instruction kind {name!r}")
    return found


def can(state: Any, name: str, *args: Any, **kwargs: Any) -> bool:
    """Whether a primitive would accept references and other arguments; it changes nothing.

    False for a primitive without a `check`.
    """
    kind = _KINDS.get(name)
    if kind is None or kind.check is None:
        return False
    try:
        kind.check(state, *args, **kwargs)
    except UserError:
        return False
    return True


def kinds() -> Mapping[str, InstructionKind]:
    """All registered kinds by the names of their methods."""
    return _METHODS


def primitive(
    name: str,
    *,
    pure: bool = False,
    coordinates: bool = False,
    flat: str | None = None,
    int_bools: bool = False,
    skip_empty: Sequence[str] = (),
    codecs: Mapping[str, Codec] | None = None,
    front: Callable[..., Arguments] | None = None,
    shown: Callable[[Arguments], Arguments] | None = None,
    check: Callable[..., object] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the primitive of an instruction kind; the function is left as it is.

    Args:
        name: the instruction kind, such as "ComputeAt".
        pure: a look-up or a draw that `Trace.simplified` may drop.
        coordinates: a step that functions at level 2 (`sparse_tir_level`) can take, in which sparse
            iterations stand for loops and blocks.
        flat: the list parameter whose elements are inputs of their own (the last of the inputs).
        int_bools: write truth values as 0 and 1 in JSON.
        skip_empty: parameters that Python text leaves out when they are empty.
        codecs: for attributes that are no plain data.
        front: for a method whose arguments differ from what the step records. Users see its
            signature; it gets references like the primitive itself, and returns the arguments of
            the step that users do not pass as they are.
        shown: the inverse of `front` for Python text; values that are no plain data are given as
            the text itself, in a `Text`.
        check: `check(state, **arguments)` refuses what the primitive would refuse.
    """

    def register(func: Callable[..., Any]) -> Callable[..., Any]:
        parameters, returns = _read_signature(func)
        kind = InstructionKind(
            name=name,
            method=func.__name__,
            func=func,
            parameters=parameters,
            returns=returns,
            pure=pure or any(p.role == "decision" for p in parameters),
            coordinates=coordinates,
            flat=flat,
            int_bools=int_bools,
            skip_empty=tuple(skip_empty),
            codecs=codecs or {},
            front=front,
            shown=shown,
            check=check,
            front_parameters=_read_signature(front)[0] if front else parameters,
            attr_names=tuple(p.name for p in parameters if p.is_attr),
            signature=_without_state(front or func),
            defaults=_defaults(_without_state(front or func)),
        )
        if kind.method in _METHODS:
            raise InternalError(f"two schedule primitives are called {kind.method}")
        _KINDS[name] = _METHODS[kind.method] = kind
        return func

    return register


def _without_state(func: Callable[..., Any]) -> inspect.Signature:
    signature = inspect.signature(func)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def _defaults(signature: inspect.Signature) -> Mapping[str, Any] | None:
    """The default of each parameter, if all can be given by position or by name."""
    parameters = signature.parameters.values()
    if any(p.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD for p in parameters):
        return None
    return {p.name: p.default for p in parameters}


def _read_signature(
    func: Callable[..., Any],
) -> tuple[tuple[Parameter, ...], tuple[str, bool] | None]:
    hints = get_type_hints(func, include_extras=True)
    parameters = []
    for p in list(inspect.signature(func).parameters.values())[1:]:
        role, listed = _role(hints[p.name])
        if p.name == "decision":
            role = "decision"
        variadic = p.kind is inspect.Parameter.VAR_POSITIONAL
        default = None if p.default is inspect.Parameter.empty else p.default
        parameters.append(Parameter(p.name, role, listed, variadic, default))
    role, listed = _role(hints["return"])
    return tuple(parameters), None if role == "attr" else (role, listed)


def _role(hint: Any) -> tuple[str, bool]:
    """What an annotation says: the role, and whether it is a list of such."""
    if get_origin(hint) is Annotated:
        marks = [mark for mark in hint.__metadata__ if mark in _ROLES]
        return (str(marks[0]), False) if marks else _role(hint.__origin__)
    for part in get_args(hint):
        role, _ = _role(part)
        if role != "attr":
            listed = get_origin(hint) in (list, Sequence) or _role(part)[1]
            return role, listed
    return "attr", False
