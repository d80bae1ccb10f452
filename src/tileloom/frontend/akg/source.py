"""AKG's composite JSON, read and checked.

    file    ::= {op, op_desc: [op...], input_desc: [[tensor]...] | null, output_desc: [tensor...]}
    op      ::= {name, attr: [{name, value}...] | null, input_desc: [[tensor...]...], output_desc}
    tensor  ::= {tensor_name, shape, data_type, format, value?}        a value makes it a literal

What else a file holds (`process`, `parallel_fusion`, `buffer_stitch`, ...) says how AKG compiled
it, and is kept in `Composite.about`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...base import DType, dtype
from ...base.errors import DTypeError, UnsupportedError, UserError

#: Names that files use for element types, where they differ from ours.
_TYPES = {"float": "float32", "double": "float64", "half": "float16", "int": "int32"}
_PARTS = {"op", "op_desc", "input_desc", "output_desc"}


@dataclass(frozen=True)
class TensorDesc:
    """A tensor as a file describes it; `value` is a literal's number or list of them."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    format: str = "DefaultFormat"
    value: Any = None


@dataclass(frozen=True)
class OpDesc:
    """An operator: each input is one tensor, or several under one name (`AddN`)."""

    name: str
    attrs: Mapping[str, Any]
    inputs: tuple[tuple[TensorDesc, ...], ...]
    outputs: tuple[TensorDesc, ...]


@dataclass(frozen=True)
class Composite:
    """A file: operators in the order in which they run."""

    name: str
    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]
    ops: tuple[OpDesc, ...]
    about: Mapping[str, Any] = field(default_factory=dict)


def read_source(source: Any) -> Composite:
    """The composite in a path, a JSON text, or what `json.load` made of one.

    Raises:
        UserError: there is no such file, or it is no composite; says where.
    """
    data = _parse(source)
    if isinstance(data, Mapping) and "op_desc" not in data and isinstance(data.get("graph"), dict):
        data = data["graph"]  # a record of a collection: {network, name, graph}
    if not isinstance(data, Mapping) or not isinstance(data.get("op_desc"), list):
        raise UserError("this is no AKG graph: it has no list 'op_desc'")
    name = str(data.get("op") or "akg")
    try:
        return Composite(
            name,
            tuple(_tensor(desc) for desc in _flat(data.get("input_desc"))),
            tuple(_tensor(desc) for desc in _flat(data.get("output_desc"))),
            tuple(_op(desc, k) for k, desc in enumerate(data["op_desc"])),
            {key: value for key, value in data.items() if key not in _PARTS},
        )
    except UserError as error:
        raise type(error)(f"AKG graph {name!r}: {error.message}", hint=error.hint) from None


def _parse(source: Any) -> Any:
    if isinstance(source, Mapping):
        return source
    text = source
    if isinstance(source, os.PathLike) or (isinstance(source, str) and not _is_json(source)):
        try:
            text = Path(source).read_bytes()
        except OSError as error:
            raise UserError(f"cannot read {str(source)!r}: {error.strerror}") from None
    if not isinstance(text, (str, bytes)):
        raise UserError(f"an AKG graph is a path, a text or a dictionary, not {type(source)!r}")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"this is no JSON: {error}") from None


def _is_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


def _flat(descs: Any) -> Iterable[Any]:
    """The tensors of a list whose items are tensors or lists of them; null is empty."""
    if descs is None:
        return
    if not isinstance(descs, list):
        raise UserError(f"a list of tensors is {descs!r:.60}")
    for desc in descs:
        yield from desc if isinstance(desc, list) else [desc]


def _op(desc: Any, index: int) -> OpDesc:
    if not isinstance(desc, Mapping) or not isinstance(desc.get("name"), str):
        raise UserError(f"op {index} has no name")
    name = desc["name"]
    try:
        inputs = desc.get("input_desc") or []
        if not isinstance(inputs, list):
            raise UserError(f"its inputs are {inputs!r:.60}")
        outputs = tuple(_tensor(part) for part in _flat(desc.get("output_desc")))
        if not outputs:
            raise UserError("it has no outputs")
        operands = tuple(tuple(_tensor(part) for part in _flat([item])) for item in inputs)
        return OpDesc(name, _attrs(desc.get("attr")), operands, outputs)
    except UserError as error:
        raise type(error)(f"op {index} ({name}): {error.message}", hint=error.hint) from None


def _attrs(attrs: Any) -> dict[str, Any]:
    found = {}
    if attrs is not None and not isinstance(attrs, list):
        raise UserError(f"its attributes are {attrs!r:.60}")
    for attr in attrs or []:
        if not isinstance(attr, Mapping) or not isinstance(attr.get("name"), str):
            raise UserError(f"an attribute has no name: {attr!r:.60}")
        found[attr["name"]] = attr.get("value")
    return found


def _tensor(desc: Any) -> TensorDesc:
    if not isinstance(desc, Mapping) or not isinstance(desc.get("tensor_name"), str):
        raise UserError(f"a tensor has no 'tensor_name': {desc!r:.60}")
    name = desc["tensor_name"]
    kind = str(desc.get("data_type"))
    try:
        known = dtype(_TYPES.get(kind, kind))
    except DTypeError:
        raise UnsupportedError(f"tensor {name!r} has element type {kind!r}") from None
    shape = desc.get("shape")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        hint = "only graphs of static shapes can be compiled"
        raise UserError(f"tensor {name!r} has shape {shape!r:.60}", hint=hint)
    if math.prod(shape) >> 47:
        raise UserError(f"tensor {name!r} of shape {shape} is larger than any memory")
    format_ = str(desc.get("format") or "DefaultFormat")
    return TensorDesc(name, tuple(shape), known, format_, desc.get("value"))
