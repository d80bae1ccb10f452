"""What an AKG graph means, in NumPy and apart from our own operators.

Elementwise operators compute in the type of their operands, as the file says; sums and products
are accumulated in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Attrs = Mapping[str, Any]

_erf = np.vectorize(__import__("math").erf, otypes=[np.float64])

UNARY: dict[str, Callable[[Array], Any]] = {
    "Abs": np.abs, "ACos": np.arccos, "Acosh": np.arccosh, "Asin": np.arcsin, "Ceil": np.ceil,
    "Asinh": np.arcsinh, "Atan": np.arctan, "Cos": np.cos, "Erf": _erf, "Exp": np.exp,
    "Expm1": np.expm1, "Floor": np.floor, "IsFinite": np.isfinite, "IsInf": np.isinf,
    "IsNan": np.isnan, "Log": np.log, "LogicalNot": np.logical_not, "Neg": np.negative,
    "Reciprocal": np.reciprocal, "Round": np.round, "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Sign": np.sign, "Sin": np.sin, "Sqrt": np.sqrt, "Square": np.square, "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0), "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip
BINARY: dict[str, Callable[[Array, Array], Any]] = {
    "Add": np.add, "Atan2": np.arctan2, "Div": np.divide, "Equal": np.equal,
    "FloorDiv": np.floor_divide, "FloorMod": np.mod, "Greater": np.greater,
    "GreaterEqual": np.greater_equal, "Less": np.less, "LessEqual": np.less_equal,
    "LogicalAnd": np.logical_and, "LogicalOr": np.logical_or, "Maximum": np.maximum,
    "Minimum": np.minimum, "Mod": np.fmod, "Mul": np.multiply, "NotEqual": np.not_equal,
    "Pow": np.power, "RealDiv": np.divide, "Sub": np.subtract, "TensorAdd": np.add,
}  # fmt: skip
REDUCE: dict[str, Callable[..., Any]] = {
    "ReduceAll": np.all, "ReduceAny": np.any, "ReduceMax": np.max, "ReduceMin": np.min,
    "ReduceMean": np.mean, "ReduceProd": np.prod, "ReduceSum": np.sum,
}  # fmt: skip


def run(graph: Mapping[str, Any], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The tensors that the file names as outputs, and those that it gives new values."""
    values: dict[str, Array] = dict(feeds)
    changed: list[str] = []
    wanted = {desc["tensor_name"] for desc in graph["output_desc"]}
    last = {
        part["tensor_name"]: k
        for k, op in enumerate(graph["op_desc"])
        for part in (*(t for item in op["input_desc"] for t in item), *op["output_desc"])
    }
    for k, op in enumerate(graph["op_desc"]):
        operands = [[_operand(desc, values) for desc in item] for item in op["input_desc"]]
        attrs = {attr["name"]: attr["value"] for attr in op["attr"] or []}
        output = op["output_desc"][0]
        with np.errstate(all="ignore"):
            result = _evaluate(op["name"], operands, attrs, op["output_desc"])
        if op["name"] in ("Assign", "InplaceAssign"):
            target = op["input_desc"][0][0]["tensor_name"]
            values[target] = operands[1][0]
            changed.append(target)
            wanted.add(target)
        if not isinstance(result, list):
            result = [result]
        for desc, value in zip(op["output_desc"], result, strict=True):
            kind = np.dtype(desc["data_type"])
            values[desc["tensor_name"]] = (
                np.asarray(value).astype(kind, copy=False).reshape(desc["shape"])
            )
        del operands, result, output
        for name in [n for n, at in last.items() if at == k and n not in wanted]:
            values.pop(name, None)
    return {name: values[name] for name in wanted if name in values}


def _operand(desc: Mapping[str, Any], values: Mapping[str, Array]) -> Array:
    if desc.get("value") is not None:
        return np.full(desc["shape"], desc["value"], desc["data_type"])
    return values[desc["tensor_name"]]


def _evaluate(name: str, items: list[list[Array]], attrs: Attrs, outputs: Any) -> Any:
    x: Any = items[0][0] if items else None
    shape = outputs[0]["shape"]
    if name in UNARY:
        return UNARY[name](x)
    if name in BINARY:
        return BINARY[name](x, items[1][0])
    if name in REDUCE:
        return _reduce(REDUCE[name], x, attrs)
    if name in PLAIN:
        return PLAIN[name](x, attrs, shape)
    return OTHERS[name](items, attrs, outputs)


def _reduce(function: Any, x: Any, attrs: Attrs) -> Any:
    axis = attrs.get("axis")
    axes = tuple([axis] if isinstance(axis, int) else axis or range(x.ndim))
    more = {"dtype": np.float64} if function in (np.sum, np.prod, np.mean) else {}
    return function(x, axis=axes, keepdims=bool(attrs.get("keep_dims")), **more)


PLAIN: dict[str, Callable[[Any, Attrs, Any], Any]] = {
    "Cast": lambda x, a, shape: x,
    "Reshape": lambda x, a, shape: x.reshape(shape),
    "ExpandDims": lambda x, a, shape: np.expand_dims(x, a["axis"]),
    "BroadcastTo": lambda x, a, shape: np.broadcast_to(x, shape),
    "Transpose": lambda x, a, shape: np.transpose(x, a["perm"]),
    "Tile": lambda x, a, shape: np.tile(x, a["multiples"]),
    "PadAkg": lambda x, a, shape: np.pad(
        x, list(zip(a["head"], a["tail"])), constant_values=a["pad_val"]
    ),
    "UnPadAkg": lambda x, a, shape: x[tuple(slice(n - t) for n, t in zip(x.shape, a["tail"]))],
    "Slice": lambda x, a, shape: x[tuple(slice(b, b + n) for b, n in zip(a["begin"], a["size"]))],
    "CumSum": lambda x, a, shape: np.cumsum(x, a["axis"]),
    "ElemAny": lambda x, a, shape: np.any(x),
}


def _matmul(items: list[list[Array]], attrs: Attrs, outputs: Any) -> Any:
    a, b = (item[0].astype(np.float64) for item in items[:2])
    a = np.swapaxes(a, -1, -2) if attrs.get("transpose_a") else a
    b = np.swapaxes(b, -1, -2) if attrs.get("transpose_b") else b
    result = a @ b
    if len(items) > 2:  # the product is rounded before the bias is added
        result = result.astype(outputs[0]["data_type"]) + items[2][0]
    return result


def _conv(items: list[list[Array]], attrs: Attrs, outputs: Any) -> Any:
    """NHWC and OHWI: one matrix product for each place of the filter."""
    x, weight = (item[0].astype(np.float64) for item in items)
    left, right, top, bottom = attrs.get("pad_list", [0] * 4)
    x = np.pad(x, [(0, 0), (top, bottom), (left, right), (0, 0)])
    strides, dilations = attrs["stride"][-2:], attrs["dilation"][-2:]
    _, high, wide, _ = outputs[0]["shape"]
    total = np.zeros(outputs[0]["shape"])
    for i in range(weight.shape[1]):
        for j in range(weight.shape[2]):
            rows, columns = i * dilations[0], j * dilations[1]
            part = x[
                :, rows : rows + high * strides[0] : strides[0],
                columns : columns + wide * strides[1] : strides[1],
            ][:, :high, :wide]  # fmt: skip
            flat = part.reshape(-1, part.shape[-1]) @ np.ascontiguousarray(weight[:, i, j].T)
            total += flat.reshape(total.shape)
    return total


def _one_hot(items: list[list[Array]], attrs: Attrs, outputs: Any) -> Any:
    indices, axis = items[0][0], attrs["axis"]
    on, off = (items[k][0].reshape(()) for k in (1, 2))
    moved = np.where(np.arange(attrs["depth"]) == indices[..., None], on, off)
    return np.moveaxis(moved, -1, axis)


def _gather(items: list[list[Array]], attrs: Attrs, outputs: Any) -> Any:
    data, indices = items[0][0], items[1][0]
    axis = attrs["axis"] % data.ndim
    result = np.take(data, indices, axis, mode="clip")
    good = (indices >= 0) & (indices < data.shape[axis])
    return np.where(good.reshape(good.shape + (1,) * (data.ndim - axis - 1)), result, 0)


def _gather_nd(items: list[list[Array]], attrs: Attrs, outputs: Any) -> Any:
    data, indices = items[0][0], items[1][0]
    result = np.zeros(outputs[0]["shape"], data.dtype)
    for place in np.ndindex(*indices.shape[:-1]):
        at = tuple(indices[place])
        if all(0 <= i < n for i, n in zip(at, data.shape)):
            result[place] = data[at]
    return result


def _scatter_add(items: list[list[Array]], attrs: Attrs, outputs: Any) -> Any:
    data, indices, updates = (item[0] for item in items)
    indices = indices if indices.ndim > 1 else indices[:, None]
    result = data.astype(np.float64)
    for place in np.ndindex(*indices.shape[:-1]):
        at = tuple(indices[place])
        if all(0 <= i < n for i, n in zip(at, data.shape)):
            result[at] += updates[place]
    return result


def _segment_sum(items: list[list[Array]], attrs: Attrs, outputs: Any) -> Any:
    data, ids = items[0][0], items[1][0]
    result = np.zeros((attrs["num_segments"], *data.shape[ids.ndim :]))
    for place in np.ndindex(*ids.shape):
        if 0 <= ids[place] < len(result):
            result[ids[place]] += data[place]
    return result


def _entries(items: list[list[Array]]) -> list[tuple[int, int, int]]:
    starts, columns = items[0][0], items[1][0]
    return [
        (row, int(columns[k]), k)
        for row in range(len(starts) - 1)
        for k in range(starts[row], starts[row + 1])
    ]


def _csr_scale(divide: bool) -> Any:
    def evaluate(items: list[list[Array]], attrs: Attrs, outputs: Any) -> Any:
        values, dense = items[2][0], np.broadcast_to(items[3][0], attrs["dense_shape"])
        result = np.zeros(values.shape)
        for row, column, k in _entries(items):
            other = dense[row, column]
            result[k] = values[k] / other if divide else values[k] * other
        return result

    return evaluate


def _csr_gather(items: list[list[Array]], attrs: Attrs, outputs: Any) -> Any:
    return np.stack([items[2][0][row, column] for row, column, _ in _entries(items)])


def _csr_reduce(items: list[list[Array]], attrs: Attrs, outputs: Any) -> Any:
    values = items[2][0]
    result = np.zeros((attrs["dense_shape"][0], *values.shape[1:]))
    for row, _, k in _entries(items):
        result[row] += values[k]
    return result


def _csr_product(items: list[list[Array]], attrs: Attrs, outputs: Any) -> Any:
    values, dense = items[2][0], items[3][0]
    result = np.zeros((attrs["dense_shape"][0], *dense.shape[1:]))
    for row, column, k in _entries(items):
        result[row] += values[k] * dense[column].astype(np.float64)
    return result


OTHERS: dict[str, Callable[[list[list[Array]], Attrs, Any], Any]] = {
    "AddN": lambda items, a, o: sum(items[0][1:], items[0][0]),
    "Assign": lambda items, a, o: items[1][0],
    "Concat": lambda items, a, o: np.concatenate(items[0], a["axis"]),
    "Conv2D": _conv,
    "CSRDiv": _csr_scale(True),
    "CSRGather": _csr_gather,
    "CSRMM": _csr_product,
    "CSRMV": _csr_product,
    "CSRMul": _csr_scale(False),
    "CSRReduceSum": _csr_reduce,
    "Gather": _gather,
    "GatherNd": _gather_nd,
    "InplaceAssign": lambda items, a, o: items[2][0],
    "MatMul": _matmul,
    "BatchMatMul": _matmul,
    "OneHot": _one_hot,
    "Select": lambda items, a, o: np.where(items[0][0], items[1][0], items[2][0]),
    "Split": lambda items, a, o: np.split(items[0][0], len(o), a["axis"]),
    "TensorScatterAdd": _scatter_add,
    "UnsortedSegmentSum": _segment_sum,
}
