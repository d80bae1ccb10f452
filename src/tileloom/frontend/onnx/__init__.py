"""ONNX models in: read, imported for given shapes into a graph, compiled, run.

source      a file, bytes or a message, looked over             (tensors, schema, elements)
importer    nodes -> graph ops, by handlers                     (registry, call, handlers/)
fold        values of constant expressions
session     `Model`: specialisation by shapes and values        (feeds, executor)
sample_model  a small model to try things on
backend     the interface that ONNX's conformance tests use     (coverage)
"""

from .backend import Backend, BackendRep, prepare, run_model, run_node, supports_device
from .feeds import ValueInfo
from .sample_model import sample
from .session import Model, load

__all__ = [
    "Backend",
    "BackendRep",
    "Model",
    "ValueInfo",
    "load",
    "prepare",
    "run_model",
    "run_node",
    "sample",
    "supports_device",
]
