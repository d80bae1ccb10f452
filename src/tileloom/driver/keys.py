"""What compiled code depends on, as text: the keys under which it is kept."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from ..graph.nodes import Graph
from ..graph.symbols import is_symbolic
from ..runtime import package_stamp
from ..runtime.cache import cache_key
from ..runtime.executable import Array
from ..runtime.serialized import digest


@cache
def stamp() -> str:
    """A string that changes when Tileloom or LLVM does, found without loading either."""
    own = _stamps_below(os.path.dirname(os.path.dirname(__file__)))
    return cache_key(package_stamp("llvmlite"), *sorted(own))


def _stamps_below(folder: str) -> list[str]:
    """Path, size and time of every source file; of the archive, where they are in one."""
    if not os.path.isdir(folder):
        while not os.path.exists(folder):
            folder = os.path.dirname(folder)
        about = os.stat(folder)
        return [f"{folder}:{about.st_size}:{about.st_mtime_ns}"]
    parts = []
    folders = [folder]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
                elif entry.name.endswith(".py"):
                    about = entry.stat()
                    parts.append(f"{entry.path}:{about.st_size}:{about.st_mtime_ns}")
    return parts


def constants_of(graph: Graph) -> list[Array]:
    """The arrays that are part of a graph."""
    found = (node.outputs[0].value for node in graph.nodes if node.op.name == "constant")
    return [array for array in found if array is not None]


def graph_key(graph: Graph, digests: Mapping[int, str]) -> str:
    """Text that is equal for graphs that compute the same in the same way.

    Args:
        digests: those of the graph's constants, by the identity of the array. Several constants
            may be equal.
    """
    numbers = {tensor: k for k, tensor in enumerate(graph.inputs)}
    lines = [f"{graph.name} {[(t.name, t.type) for t in graph.inputs]}"]
    for node in graph.nodes:
        value = node.outputs[0].value
        attrs = digests[id(value)] if value is not None else _plain(node.attrs)
        wiring = [numbers[tensor] for tensor in node.inputs]
        for tensor in node.outputs:
            numbers[tensor] = len(numbers)
        lines.append(f"{node.op.name} {wiring} {attrs} {[t.type for t in node.outputs]}")
    lines.append(str([numbers[tensor] for tensor in graph.outputs]))
    return "\n".join(lines)


def _plain(value: Any) -> str:
    """An attribute as text that says all of it."""
    if isinstance(value, Mapping):
        return str(sorted((name, _plain(part)) for name, part in value.items()))
    if isinstance(value, (list, tuple)):
        return str([type(value).__name__, *map(_plain, value)])
    if isinstance(value, (np.ndarray, np.generic)):
        return digest(np.asarray(value))
    if value is None or isinstance(value, (bool, int, float, str)) or is_symbolic(value):
        return f"{type(value).__name__} {value!r}"
    return f"{type(value).__name__} {uuid.uuid4()}"  # unknown: like nothing that was seen before
