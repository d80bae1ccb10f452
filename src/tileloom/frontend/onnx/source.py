"""Where a model comes from: a path, bytes, or a message; read and looked over before anything else.

Nothing in a file is trusted: what is malformed or not supported is refused here, by name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from ...base.errors import UnsupportedError, UserError
from .handlers import load_handlers
from .registry import DOMAINS, lookup
from .schema import has_body

Key: TypeAlias = tuple[str, str]
#: The checker serialises the message, which protobuf cannot do above this.
_CHECKER_LIMIT = 1_900_000_000
_DEEPEST = 60


@dataclass(frozen=True)
class ModelSource:
    """A model that has been looked over.

    Attributes:
        model: the message.
        folder: where external data is, if the model was a file.
        opsets: versions by domain ("" is ONNX's own).
        functions: the model's own functions by (domain, name).
    """

    model: ModelProto
    folder: Path | None
    opsets: dict[str, int]
    functions: dict[Key, FunctionProto] = field(default_factory=dict)

    @property
    def graph(self) -> GraphProto:
        """The main graph."""
        return self.model.graph


def read_source(model: Any, folder: str | os.PathLike[str] | None = None) -> ModelSource:
    """Read a model from a path, bytes, or a ModelProto.

    Args:
        model: what to read.
        folder: where external data is; the model file's folder unless given.

    Raises:
        UserError: the file is missing, not a model, or breaks the rules of ONNX.
        UnsupportedError: it uses an operator or a version that is not supported.
    """
    path = None
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        model = _read_file(path)
        folder = path.parent if folder is None else folder
    if isinstance(model, (bytes, bytearray, memoryview)):
        model = _parse(bytes(model), path)
    if not isinstance(model, ModelProto):
        raise UserError(
            f"a model is a path, bytes or a ModelProto, not {type(model).__name__}",
        )
    _check_text(model)
    load_handlers()
    source = ModelSource(
        model,
        None if folder is None else Path(folder),
        _opsets(model.opset_import, "the model"),
        {(normal_domain(f.domain), f.name): f for f in model.functions},
    )
    _check_nodes(source)
    _check_with_onnx(source, path)
    return source


def normal_domain(domain: str) -> str:
    """The empty string for ONNX's own domain, which has two names."""
    return "" if domain == "ai.onnx" else domain


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"there is no file {str(path)!r}") from None
    except OSError as error:
        raise UserError(f"cannot read {str(path)!r}: {error.strerror}") from None


def _parse(data: bytes, path: Path | None) -> ModelProto:
    what = "the bytes are" if path is None else f"{str(path)!r} is"
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's errors have no narrower root of ours or Python's
        raise UserError(f"{what} not an ONNX model, or truncated: {error}") from None
    if not model.HasField("graph"):
        raise UserError(f"{what} not an ONNX model: there is no graph in it")
    return model


def _opsets(imports: Iterable[Any], what: str) -> dict[str, int]:
    result: dict[str, int] = {}
    for entry in imports:
        domain = normal_domain(entry.domain)
        result[domain] = int(entry.version)
        known = DOMAINS.get(domain)
        if known is not None and not known[0] <= entry.version <= known[1]:
            raise UnsupportedError(
                f"{what} imports opset {entry.version} of domain {domain or 'ai.onnx'!r}; "
                f"opsets {known[0]} to {known[1]} are supported",
                hint="convert it with onnx.version_converter.convert_version"
                if not domain
                else None,
            )
    return result


def _check_text(message: Any, depth: int = 0) -> None:
    """Refuse text that is not UTF-8: protobuf would hand it on as bytes, a surprise to all."""
    if depth > 4 * _DEEPEST:
        raise UserError("the model is malformed: messages are nested too deeply")
    for kind, value in message.ListFields():
        if kind.type == kind.TYPE_STRING:
            texts = [value] if isinstance(value, (str, bytes)) else value
            for text in texts:
                if isinstance(text, bytes):
                    raise UserError(f"the model is malformed: {kind.name} {text!r:.60} is no text")
        elif kind.type == kind.TYPE_MESSAGE:
            for inner in [value] if hasattr(value, "ListFields") else value:
                _check_text(inner, depth + 1)


# ---------------------------------------------------------------------------- nodes


def _check_nodes(source: ModelSource) -> None:
    """Refuse unknown operators, all of them at once, before looking closer."""
    unknown: dict[str, None] = {}
    for nodes, opsets in _bodies(source):
        for node in _all_nodes(nodes):
            text = _complaint(source, node, opsets)
            if text is not None:
                unknown[text] = None
    if unknown:
        found = list(unknown)
        more = f", and {len(found) - 5} more" if len(found) > 5 else ""
        raise UnsupportedError("; ".join(found[:5]) + more)


def _bodies(source: ModelSource) -> Iterator[tuple[Iterable[NodeProto], dict[str, int]]]:
    yield source.graph.node, source.opsets
    for function in source.functions.values():
        what = f"function {function.name!r}"
        yield function.node, {**source.opsets, **_opsets(function.opset_import, what)}


def _all_nodes(nodes: Iterable[NodeProto], depth: int = 0) -> Iterator[NodeProto]:
    if depth > _DEEPEST:
        raise UserError(f"subgraphs are nested more than {_DEEPEST} deep")
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                if graph.node:
                    yield from _all_nodes(graph.node, depth + 1)


def _complaint(source: ModelSource, node: NodeProto, opsets: dict[str, int]) -> str | None:
    domain = normal_domain(node.domain)
    if (domain, node.op_type) in source.functions:
        return None
    name = f"operator {node.op_type!r} of domain {domain or 'ai.onnx'!r}"
    label = f"node {node.name!r}" if node.name else f"the node that makes {list(node.output)}"
    version = opsets.get(domain)
    if version is None:
        return f"{name} ({label}): the model does not say which opset of the domain it uses"
    if lookup(domain, node.op_type, version) or has_body(domain, node.op_type, version):
        return None
    return f"{name} ({label}, opset {version}) is not supported"


# ---------------------------------------------------------------------------- ONNX's own checks


def _check_with_onnx(source: ModelSource, path: Path | None) -> None:
    """ONNX's checker: attributes, arities, names, order. Cheap beside compilation."""
    try:
        if source.model.ByteSize() < _CHECKER_LIMIT:
            onnx.checker.check_model(_for_checker(source.model))
        elif path is not None:
            onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError as error:
        raise UserError(f"the model is malformed: {_first_lines(str(error))}") from None
    except (ValueError, RuntimeError) as error:
        raise UserError(f"the model cannot be checked: {_first_lines(str(error))}") from None


def _for_checker(model: ModelProto) -> ModelProto:
    """The model without its initialisers' data, which `tensors.to_array` checks."""
    light = ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    light.graph.name = model.graph.name or "main"
    light.graph.node.extend(model.graph.node)
    initial = [tensor.name for tensor in model.graph.initializer]
    initial += [tensor.values.name for tensor in model.graph.sparse_initializer]
    # Types of inputs and outputs are our business: we need less of them than the checker.
    inputs = [value.name for value in model.graph.input]
    for name in dict.fromkeys([*inputs, *initial]):
        light.graph.input.append(onnx.helper.make_tensor_value_info(name, 1, []))
    for value in model.graph.output:
        light.graph.output.append(onnx.helper.make_tensor_value_info(value.name, 1, []))
    return light


def _first_lines(text: str) -> str:
    return " ".join(text.split())[:400]
