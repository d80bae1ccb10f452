"""The sample of AKG's own graphs: reading it, inputs for a graph, and judging results."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from . import reference

Array = np.ndarray[Any, Any]
Graph = Mapping[str, Any]

SAMPLE = Path(__file__).resolve().parents[4] / "shared" / "data" / "akg-graphs-sample.jsonl.gz"
TOLERANCES = {"float16": 1e-3, "float32": 1e-5, "float64": 1e-12}
#: Graphs with more bytes of tensors at a time than this are tried with smaller shapes.
MOST_BYTES = 1_500_000_000


@cache
def graphs() -> list[Graph]:
    """The graphs of the sample; none where it is not there."""
    if not SAMPLE.exists():
        return []
    with gzip.open(SAMPLE, "rt") as lines:
        return [json.loads(line)["graph"] for line in lines]


def tensors(graph: Graph) -> Any:
    """Every description of a tensor in a graph."""
    found = [desc for item in graph["input_desc"] or [] for desc in item] + graph["output_desc"]
    for op in graph["op_desc"]:
        found += [desc for item in op["input_desc"] for desc in item] + op["output_desc"]
    return found


def nbytes(graph: Graph) -> Any:
    """The bytes of a graph's inputs and outputs, and of the largest tensor inside."""
    outside = [desc for item in graph["input_desc"] or [] for desc in item] + graph["output_desc"]
    return sum(map(_bytes, outside)) + max(map(_bytes, tensors(graph)))


def _bytes(desc: Mapping[str, Any]) -> Any:
    return int(np.prod(desc["shape"], dtype=np.int64)) * np.dtype(desc["data_type"]).itemsize


def scaled(graph: Graph) -> Graph:
    """The graph with its most frequent large extent divided until the data fits."""
    while nbytes(graph) > MOST_BYTES:
        largest = max(tensors(graph), key=_bytes)["shape"]
        old = max(largest)
        new = next(n for n in range(old // 4, old) if old % n == 0)
        text = json.dumps(graph)
        graph = json.loads(text, object_hook=lambda d, a=old, b=new: _with(d, a, b))  # type: ignore[misc]
    return graph


def _with(desc: dict[str, Any], old: int, new: int) -> dict[str, Any]:
    for key in ("shape", "value"):
        if isinstance(desc.get(key), list):
            desc[key] = [new if item == old else item for item in desc[key]]
    return desc


def feeds(graph: Graph, seed: int = 0, style: str = "normal") -> dict[str, Array]:
    """Arrays for the inputs: normal, positive, or with NaN, infinities and zeros among them."""
    rng = np.random.default_rng(seed)
    result = {}
    for (desc,) in graph["input_desc"] or []:
        shape, kind = desc["shape"], np.dtype(desc["data_type"])
        if kind.kind == "b":
            array = rng.integers(0, 2, shape).astype(kind)
        elif kind.kind == "i":
            array = rng.integers(0, 3, shape).astype(kind)
        elif style == "positive":
            array = rng.random(shape, np.float32) + np.float32(0.5)
        else:
            array = rng.standard_normal(shape, np.float32)
        array = np.asarray(array).astype(kind, copy=False)
        if style == "special" and kind.kind == "f" and array.size:
            flat = array.reshape(-1)
            specials = rng.permutation([np.nan, np.inf, -np.inf, 0.0, -0.0, 300.0])
            places = rng.integers(0, flat.size, len(specials))
            flat[places] = specials
        result[desc["tensor_name"]] = array
    return result


def sensible(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """Inputs in the domain of the graph's operators: normal, or else positive."""
    given = feeds(graph, seed)
    results = reference.run(graph, given).values()
    if all(np.isfinite(v).all() for v in results if v.dtype.kind == "f"):
        return given
    return feeds(graph, seed, "positive")


def reduction_length(graph: Graph) -> int:
    """How many elements the longest reduction or product of a graph adds up."""
    longest = 1
    for op in graph["op_desc"]:
        first = op["input_desc"][0][0]["shape"] if op["input_desc"] else []
        size, made = np.prod(first), np.prod(op["output_desc"][0]["shape"])
        if op["name"].startswith("Reduce"):
            longest = max(longest, int(size // max(made, 1)))
        elif op["name"] in ("MatMul", "BatchMatMul"):
            other = np.prod(op["input_desc"][1][0]["shape"])
            longest = max(longest, round(float(size * other / max(made, 1)) ** 0.5))
        elif op["name"] == "Conv2D":
            longest = max(longest, int(np.prod(op["input_desc"][1][0]["shape"][1:])))
    return longest


def excess(graph: Graph, given: Mapping[str, Array], ours: Mapping[str, Array]) -> float:
    """The largest error of all results in parts of what is allowed: at most 1 is right.

    Where the graph makes much of a rounding (it divides by a difference, say), what is allowed is
    what NumPy itself is off by from float64.
    """
    theirs = reference.run(graph, given)
    worst = max(ratio(graph, ours[name], theirs[name]) for name in theirs)
    if worst <= 1:
        return worst
    exact = reference.run(_in_double(graph), {name: _double(a) for name, a in given.items()})
    return max(ratio(graph, ours[name], theirs[name], exact[name]) for name in theirs)


def ratio(graph: Graph, ours: Array, theirs: Array, exact: Array | None = None) -> float:
    """The largest error of one result in parts of what is allowed."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf")
    if ours.dtype.kind != "f":
        return float("inf") if np.any(ours != theirs) else 0.0
    narrow = any(desc["data_type"] == "float16" for desc in tensors(graph))
    tolerance = TOLERANCES["float16" if narrow else ours.dtype.name]
    finite = np.isfinite(theirs)
    same = np.array_equal(ours[~finite], theirs[~finite], equal_nan=True)
    if not (same and np.isfinite(ours[finite]).all()):
        return float("inf")
    scale = float(np.max(np.abs(theirs), where=finite, initial=0.0))
    floor = tolerance * min(scale, 1.0) * reduction_length(graph) ** 0.5
    floor = max(floor, float(np.finfo(ours.dtype).smallest_subnormal))
    worst = 0.0
    a, b, good = ours.reshape(-1), theirs.reshape(-1), finite.reshape(-1)
    for k in range(0, a.size, 1 << 22):
        part = slice(k, k + (1 << 22))
        x, y = a[part].astype(np.float64), b[part].astype(np.float64)
        allowed = floor + tolerance * np.abs(y)
        with np.errstate(invalid="ignore"):
            if exact is not None:
                allowed = allowed + 4 * np.abs(exact.reshape(-1)[part] - y)
            gap = np.where(good[part] & (x != y), np.abs(x - y) / allowed, 0.0)
        worst = max(worst, float(np.max(gap, initial=0.0)))
    return worst


def _double(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _in_double(graph: Graph) -> Graph:
    """The graph with float64 for every float."""
    text = json.dumps(graph).replace('"float32"', '"float64"').replace('"float16"', '"float64"')
    found: Graph = json.loads(text)
    return found
