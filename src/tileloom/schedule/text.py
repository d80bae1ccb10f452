"""Values of steps as JSON and as Python text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import UserError
from ..expr import Expr, FloatImm, IndexMap, IntImm, StringImm, Var, free_vars, substitute
from .index_maps import (
    index_map_from_json,
    index_map_json,
    index_map_text,
    own_variables,
    with_values,
)
from .instruction import InstructionKind, Text
from .rv import RV, BlockRV, LoopRV, SparseIterationRV, is_rv

Names = dict[RV | None, str]
#: The name of what a step leaves open.
OPEN = "_"
_LETTERS = ((BlockRV, "b"), (LoopRV, "l"), (SparseIterationRV, "s"))


def define(names: Names, rv: RV | None) -> str:
    """The next name: b0, l1, v2, s3, ...; an underscore for no variable, which counts once."""
    if rv is None:
        return names.setdefault(None, OPEN)
    letter = next((letter for kind, letter in _LETTERS if isinstance(rv, kind)), "v")
    names[rv] = f"{letter}{len(names)}"
    return names[rv]


def _name(names: Names, rv: RV) -> str:
    found = names.get(rv)
    if found is None:
        raise UserError("a step uses a variable that no step before it defines")
    return found


def plain(value: Any) -> Any:
    """Numbers and strings of expressions as those of Python."""
    if isinstance(value, IntImm):
        return bool(value.value) if value.dtype.is_bool else value.value
    if isinstance(value, (FloatImm, StringImm)):
        return value.value
    return value


# ------------------------------------------------------------------------ JSON


def input_to_json(value: Any, names: Names) -> Any:
    """An input: variables by name, strings in quotes."""
    value = plain(value)
    if value is None:
        return "None"
    if is_rv(value):
        return _name(names, value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, IndexMap):
        return index_map_json(_named(value, names))
    if isinstance(value, Mapping):
        return {key: input_to_json(item, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [input_to_json(item, names) for item in value]
    if isinstance(value, Expr):
        raise UserError(f"the expression {value} cannot be written into a trace as JSON")
    return value


def input_from_json(value: Any, rvs: Mapping[str, RV | None]) -> Any:
    """The inverse of `input_to_json`."""
    if isinstance(value, str):
        if value == "None":
            return None
        if len(value) >= 2 and value[0] == value[-1] == '"':
            return value[1:-1]
        if value[:1] == "{":
            return _with_rvs(index_map_from_json(value), rvs)
        if value not in rvs:
            raise UserError(f"a step uses {value!r}, which no step before it defines")
        return rvs[value]
    if isinstance(value, Mapping):
        return {key: input_from_json(item, rvs) for key, item in value.items()}
    if isinstance(value, list):
        return [input_from_json(item, rvs) for item in value]
    return value


def _named(value: IndexMap, names: Names) -> IndexMap:
    """An index map whose number variables have the names that the trace gives them."""
    own = own_variables(value)
    return with_values(value, {v: Var(names[v], v.dtype) for v in own if v in names})


def _with_rvs(value: IndexMap, rvs: Mapping[str, RV | None]) -> IndexMap:
    """The inverse of `_named`."""
    found = {v: rvs.get(v.name) for v in own_variables(value)}
    return with_values(value, {v: rv for v, rv in found.items() if isinstance(rv, Var)})


def attrs_to_json(kind: InstructionKind, attrs: Sequence[Any]) -> list[Any]:
    """Attributes; truth values are numbers for some kinds."""
    result = []
    for name, value in zip(kind.attr_names, attrs, strict=True):
        if name in kind.codecs:
            result.append(kind.codecs[name].to_json(value))
        elif kind.int_bools and isinstance(value, bool):
            result.append(int(value))
        else:
            result.append(_data(value))
    return result


def attrs_from_json(kind: InstructionKind, attrs: Sequence[Any]) -> list[Any]:
    """The inverse of `attrs_to_json`."""
    names = kind.attr_names
    if len(names) != len(attrs):
        raise UserError(f"{kind.name} has the attributes {', '.join(names)}, got {list(attrs)}")
    return [
        kind.codecs[name].from_json(value) if name in kind.codecs else value
        for name, value in zip(names, attrs)
    ]


def _data(value: Any) -> Any:
    value = plain(value)
    if isinstance(value, Mapping):
        return {key: _data(item) for key, item in value.items()}
    return [_data(item) for item in value] if isinstance(value, (list, tuple)) else value


# ------------------------------------------------------------------------ Python


def to_python(value: Any, names: Names) -> str:
    """A value as TVM writes it into Python text."""
    value = plain(value)
    if value is None or isinstance(value, (bool, int, Text)):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, str):
        return f'"{value}"'
    if is_rv(value):
        return _name(names, value)
    if isinstance(value, Mapping):
        items = (f'"{key}": {to_python(item, names)}' for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(to_python(item, names) for item in value) + "]"
    if isinstance(value, IndexMap):
        return index_map_text(_named(value, names))
    if isinstance(value, Expr):
        known = {v: Var(_name(names, v), v.dtype) for v in free_vars(value)}
        return str(substitute(value, known))
    return str(value)


def _float(value: float) -> str:
    text = f"{value:.17g}"
    return text if any(c in text for c in ".en") else f"{text}.0"


def call_text(
    kind: InstructionKind,
    inputs: Sequence[Any],
    attrs: Sequence[Any],
    outputs: Sequence[RV | None],
    names: Names,
    decision: Any = None,
) -> str:
    """The step as a line of Python; its outputs get names."""
    arguments = kind.unpack(inputs, attrs)
    parts = []
    if kind.shown is not None:
        parts = [f"{k}={to_python(v, names)}" for k, v in kind.shown(arguments).items()]
    for p in () if kind.shown is not None else kind.parameters:
        value = arguments[p.name]
        if p.role == "decision":
            if decision is not None:
                parts.append(f"decision={to_python(decision, names)}")
        elif p.variadic:
            parts += [to_python(item, names) for item in value]
        elif p.name in kind.codecs:
            parts.append(f"{p.name}={kind.codecs[p.name].to_python(value)}")
        elif p.name not in kind.skip_empty or value:
            parts.append(f"{p.name}={to_python(value, names)}")
    call = f"sch.{kind.method}({', '.join(parts)})"
    defined = [define(names, rv) for rv in outputs]
    if not defined:
        return call
    comma = "," if len(defined) == 1 and kind.returns is not None and kind.returns[1] else ""
    return f"{', '.join(defined)}{comma} = {call}"
