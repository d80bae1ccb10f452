"""Small AKG graphs, as files would hold them, and checking them against the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tileloom.akg import load

from . import corpus

Desc = dict[str, Any]


def tensor(name: str, shape: Sequence[int], kind: str = "float32", **more: Any) -> Desc:
    """A tensor's description; `value=` makes it a literal."""
    return {
        "tensor_name": name, "name": name, "shape": list(shape), "data_type": kind,
        "format": "DefaultFormat", **more,
    }  # fmt: skip


def op(name: str, inputs: Sequence[Any], outputs: Sequence[Desc], **attrs: Any) -> Desc:
    """An operator; an input that is a list stands for several under one name."""
    attr = [{"name": key, "data_type": "any", "value": value} for key, value in attrs.items()]
    items = [item if isinstance(item, list) else [item] for item in inputs]
    return {"name": name, "attr": attr or None, "input_desc": items, "output_desc": list(outputs)}


def graph(
    ops: Sequence[Desc], inputs: Sequence[Desc], outputs: Sequence[Desc], name: str = "Fused_test"
) -> Desc:
    """A composite."""
    return {
        "composite": True, "op": name, "op_desc": list(ops), "platform": "AKG", "process": "cuda",
        "input_desc": [[desc] for desc in inputs] or None, "output_desc": list(outputs),
    }  # fmt: skip


def single(name: str, inputs: Sequence[Any], output: Desc, **attrs: Any) -> Desc:
    """A composite of one operator; literals are no inputs of it."""
    flat = [desc for item in inputs for desc in (item if isinstance(item, list) else [item])]
    named = {desc["tensor_name"]: desc for desc in flat if "value" not in desc}
    return graph([op(name, inputs, [output], **attrs)], list(named.values()), [output])


def values(description: Desc, *arrays: Any) -> list[Any]:
    """What a description computes, by the references of its ops."""
    names = [desc["tensor_name"] for (desc,) in description["input_desc"]]
    feeds = dict(zip(names, arrays, strict=True))
    return list(load(description, target="reference").run(None, feeds))


def check(description: Desc, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Compile, run, compare with the reference; the results and the changed inputs by name."""
    model = load(description)
    given = {name: np.array(value) for name, value in feeds.items()}
    results = dict(zip([info.name for info in model.outputs], model.run(None, given), strict=True))
    results |= {info.name: given[info.name] for info in model.inputs if info.written}
    assert corpus.excess(description, feeds, results) <= 1
    return results
