"""What the installed onnx package knows of operators: their functions in terms of simpler ones."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import FunctionProto, NodeProto, TypeProto, defs


def schema_of(domain: str, name: str, version: int) -> defs.OpSchema | None:
    """The schema of an operator at a version of its domain, if onnx knows it."""
    try:
        return defs.get_schema(name, version, domain)
    except (defs.SchemaError, ValueError):
        return None


def has_body(domain: str, name: str, version: int) -> bool:
    """Whether ONNX defines the operator by others, so that it needs no handler."""
    schema = schema_of(domain, name, version)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def body_of(
    node: NodeProto, domain: str, version: int, types: Sequence[TypeProto]
) -> FunctionProto | None:
    """The function that ONNX defines the node's operator by, for these input types."""
    schema = schema_of(domain, node.op_type, version)
    if schema is None:
        return None
    if schema.has_function:
        text = _versioned_body(schema, version)
    elif schema.has_context_dependent_function:
        text = _built_body(schema, node, version, types)
    else:
        return None
    if not text:
        return None
    function = FunctionProto()
    function.ParseFromString(text)
    known = {attribute.name for attribute in function.attribute_proto}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.name and name not in known:
            function.attribute_proto.append(attribute.default_value)
    return function


def _versioned_body(schema: defs.OpSchema, version: int) -> bytes:
    versions = [v for v in schema.function_opset_versions if v <= version]
    if not versions:
        body: FunctionProto = schema.function_body
        return bytes(body.SerializeToString())
    return bytes(schema.get_function_with_opset_version(max(versions)))


def _built_body(
    schema: defs.OpSchema, node: NodeProto, version: int, types: Sequence[TypeProto]
) -> bytes:
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    return bytes(
        schema.get_context_dependent_function_with_opset_version(
            max(versions, default=version),
            node.SerializeToString(),
            [type_.SerializeToString() for type_ in types],
        )
    )


def tensor_type(elem_type: int, shape: Sequence[int]) -> TypeProto:
    """A TypeProto of a tensor."""
    return onnx.helper.make_tensor_type_proto(elem_type, list(shape))
