"""Every registered op, alone in a graph, compiled: the same as its reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from graph.composite_examples import EXAMPLES
from graph.ops.checks import close
from sampling import sampled
from tileloom.base import dtype
from tileloom.driver import compile_graph
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, TensorType
from tileloom.graph.op import REGISTRY, apply1
from tileloom.graph.run import run

Array = np.ndarray[Any, Any]
BFLOAT16 = ml_dtypes.bfloat16
Case = tuple[Callable[..., Any], Sequence[Array]]


def random(*shape: int, kind: Any = "float32", low: float = -3, high: float = 3) -> Any:
    rng = np.random.default_rng(sum(shape) + 7 * len(shape))
    if np.dtype(kind) == bool:
        return np.asarray(rng.random(shape) < 0.5)
    if np.dtype(kind).kind == "u":
        low = max(low, 0)
    return np.asarray(rng.uniform(low, high, shape) * 1.0).astype(kind)


def ints(*shape: int, low: int = 0, high: int = 5, kind: str = "int64") -> Array:
    return np.random.default_rng(high + len(shape)).integers(low, high, shape).astype(kind)


SHAPES = [(), (1,), (7,), (0, 3), (3, 1, 5), (2, 33)]
FLOATS = ["float16", BFLOAT16, "float32", "float64"]
INTS = ["int8", "uint8", "int32", "int64", "uint64"]
POSITIVE = {"reciprocal", "rsqrt", "sqrt", "log", "log2", "log10", "log1p"}
INSIDE = {"asin", "acos", "atanh"}
NEAR = {
    **dict.fromkeys(POSITIVE, (0.1, 3)),
    **dict.fromkeys(INSIDE, (-0.9, 0.9)),
    "acosh": (1.1, 4),
}
ANY_NUMBER = {"neg", "abs", "sign", "square", "relu", "floor", "ceil", "trunc", "round", "isnan",
              "isinf", "isfinite"}  # fmt: skip
FLOAT_UNARY = [
    "reciprocal", "rsqrt", "erf", "sigmoid", "exp", "exp2", "expm1", "log", "log2", "log10",
    "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
    "acosh", "atanh", "cbrt", *sorted(ANY_NUMBER),
]  # fmt: skip
ACTIVATIONS = ["gelu", "silu", "softplus", "softsign", "elu", "celu", "selu", "leaky_relu",
               "hard_sigmoid", "hard_swish", "mish"]  # fmt: skip
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
ARITHMETIC = ["add", "sub", "mul", "minimum", "maximum", *COMPARISONS]
FLOAT_BINARY = ["div", "mod", "fmod", "floor_divide", "pow", "atan2"]
INT_BINARY = ["trunc_div", "floor_divide", "mod", "fmod"]
LOGIC = ["logical_and", "logical_or", "logical_xor"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor"]
SHIFTS = ["shift_left", "shift_right"]
PAIRS = [((5,), (5,)), ((), (4,)), ((3, 1, 5), (4, 1)), ((0, 3), (3,)), ((2, 33), (1, 33))]
REDUCTIONS = ["sum", "prod", "max", "min"]
AXES: list[tuple[tuple[int, ...], Any]] = [
    ((7,), None), ((1,), 0), ((3, 5), 0), ((3, 5), 1), ((2, 3, 17), (0, 2)), ((2, 3, 17), 1),
    ((4, 33), -1), ((2, 1, 3), 1), ((3, 0), 0),
]  # fmt: skip


def spread(kinds: Sequence[Any], shapes: Sequence[Any]) -> list[tuple[Any, Any]]:
    """All shapes in the main type, the last one in the others: each makes a kernel."""
    main = "float32" if "float32" in kinds else kinds[0]
    return [(k, s) for k in kinds for s in (shapes if k == main else shapes[-1:])]


def unary(
    name: str, kinds: Sequence[Any], shapes: Sequence[tuple[int, ...]] = SHAPES
) -> list[Case]:
    low, high = NEAR.get(name, (-3, 3))
    build = getattr(ops, name)
    return [
        (build, [random(*shape, kind=kind, low=low, high=high)])
        for kind, shape in spread(kinds, shapes)
    ]


def binary(name: str, kinds: Sequence[Any], low: float = -3, high: float = 3) -> list[Case]:
    build = getattr(ops, name)
    return [
        (build, [random(*s, kind=kind, low=low, high=high) for s in shapes])
        for kind, shapes in spread(kinds, PAIRS)
    ]


def no_zeros(cases: list[Case]) -> list[Case]:
    return [(build, [x, np.where(y == 0, 2, y).astype(y.dtype)]) for build, (x, y) in cases]


def reductions(name: str, kinds: Sequence[Any]) -> list[Case]:
    build = getattr(ops, name)
    return [
        (lambda t, a=axis, k=keep: build(t, a, k), [random(*shape, kind=kind)])
        for kind, (keep, (shape, axis)) in spread(kinds, list(enumerate(AXES)))
        if 0 not in shape or name not in ("max", "min")
    ]


def with_attrs(name: str, *arrays: Array, **attrs: Any) -> Case:
    return (lambda *tensors: getattr(ops, name)(*tensors, **attrs), arrays)


IMAGE = random(2, 4, 9, 7)
SIGNAL, VOLUME = random(2, 4, 11), random(1, 2, 5, 4, 6)
CASES: dict[str, list[Case]] = {
    **{name: unary(name, FLOATS) for name in FLOAT_UNARY},
    **{name: unary(name, FLOATS, [(7,), (2, 33)]) for name in ACTIVATIONS},
    **{name: binary(name, ["float16", "float32", "float64"]) for name in ARITHMETIC},
    "logical_not": unary("logical_not", [bool]),
    "bitwise_invert": unary("bitwise_invert", [bool, *INTS]),
    "div": no_zeros(binary("div", FLOATS)),
    **{name: no_zeros(binary(name, ["float32", "float64", "int32"])) for name in FLOAT_BINARY[1:4]},
    "pow": binary("pow", ["float32", "float64"], 0.1, 3),
    "atan2": binary("atan2", ["float32", "float64"]),
    "trunc_div": no_zeros(binary("trunc_div", INTS, -100, 100)),
    **{name: binary(name, [bool]) for name in LOGIC},
    **{name: binary(name, [bool, *INTS], -100, 100) for name in BITS},
    **{name: binary(name, INTS, 0, 7) for name in SHIFTS},
    "where": [
        (ops.where, [random(*c, kind=bool), random(*a, kind=k), random(*b, kind=k)])
        for c, a, b in [((4,), (4,), (4,)), ((3, 1), (5,), ()), ((), (2, 3), (3,)), ((0,), (), ())]
        for k in ("float32", "int8", bool)
    ],
    "cast": [
        (lambda t, k=target: ops.cast(t, k), [random(33, kind=source, low=0, high=100)])
        for source in (bool, "int8", "uint8", "int64", "float16", BFLOAT16, "float32", "float64")
        for target in ("bool", "int8", "uint8", "int64", "float16", "bfloat16", "float64")
    ],
    "prelu": [(ops.prelu, [random(3, 5), random(5)]), (ops.prelu, [random(2, 3, 4), random(3, 1)])],
    "reshape": [with_attrs("reshape", random(*a), shape=b) for a, b in
                [((6,), (2, 3)), ((2, 3, 4), (4, 6)), ((1,), ()), ((0, 3), (3, 0))]],
    "transpose": [with_attrs("transpose", random(*s, kind=k), perm=p) for k in ("float32", "int8")
                  for s, p in [((3, 5), None), ((2, 3, 4), (2, 0, 1)), ((33, 17), (1, 0)),
                               ((1, 5), (1, 0)), ((0, 2), (1, 0)), ((2, 3, 4, 5), (0, 2, 1, 3))]],
    "broadcast_to": [with_attrs("broadcast_to", random(*a), shape=b) for a, b in
                     [((), (3,)), ((3, 1), (2, 3, 5)), ((1,), (0,)), ((4,), (4,))]],
    "slice": [(lambda t, s=steps: ops.strided_slice(t, *s), [random(9, 11)]) for steps in
              [([1, 2], [8, 10], None, None), ([0, 10], [9, -12], None, [1, -1]),
               ([3], [3], None, None), ([-2], [100], [1], [3]), ([8, 0], [0, 11], None, [-2, 3])]],
    "concat": [(lambda *t, a=axis: ops.concat(t, a), [random(*s) for s in shapes]) for axis, *shapes  # type: ignore[misc]
               in [(0, (3,), (5,)), (1, (2, 3), (2, 0), (2, 4)), (-1, (1, 1), (1, 33))]],
    "constant": [(lambda t: ops.add(t, ops.constant(random(5, 3))), [random(5, 3)]),
                 (lambda t: [t, ops.constant(np.float64(2)), ops.constant([1, 2])], [random(2)])],
    "extent": [(lambda t: ops.mul(t, apply1("extent", (), value=7, dtype=dtype("float32"))),
                [random(3, 4)])],
    "iota": [(lambda t, a=axis: ops.add(t, ops.iota((3, 4), a, "float32")), [random(3, 4)])
             for axis in (0, 1)],
    "matmul": [(lambda a, b, x=ta, y=tb: ops.matmul(a, b, x, y), [random(*s, kind=k),
                                                                  random(*t, kind=k)])
               for k in ("float32", "float64", "float16", "int32") for s, t, ta, tb in [
                   ((5, 7), (7, 3), False, False), ((7, 5), (7, 3), True, False),
                   ((5, 7), (3, 7), False, True), ((1, 1), (1, 1), False, False),
                   ((2, 33, 17), (17, 29), False, False), ((3, 1, 4, 5), (2, 5, 6), False, False),
                   ((7,), (7,), False, False), ((4, 0), (0, 3), False, False)]],
    **{f"reduce_{name}": reductions(name, ["float32", "float64", "int32", "float16"])
       for name in REDUCTIONS},
    **{f"reduce_{name}": reductions(name, [bool]) for name in ("any", "all")},
    **{name: [(lambda t, n=name, a=axis, k=keep: getattr(ops, n)(t, a, k), [ints(*s, kind=kind)])
              for kind in ("float32", "int64") for keep, (s, axis) in
              enumerate([((7,), 0), ((3, 5), 1), ((3, 5), 0), ((2, 3, 17), -1), ((4, 3), None)])]
       for name in ("argmax", "argmin")},
    "pad": [with_attrs("pad", random(5, 6), pads=p, mode=m) for p, m in
            [([(1, 2), (0, 3)], "constant"), ([(1, 2), (3, 0)], "reflect"),
             ([(-1, 2), (0, -2)], "constant"), ([(2, 1), (1, 1)], "edge")]],
    **{name: [with_attrs(name, IMAGE, kernel=(3, 2), **a) for a in
              ({}, {"strides": 2, "pads": 1}, {"strides": 2, "ceil_mode": True})]
       for name in ("max_pool", "sum_pool", "max_pool_with_indices", "avg_pool", "lp_pool")},
    **{name: [with_attrs(name, random(*s, kind=k), axis=a) for k in ("float32", "float16")
              for s, a in [((7,), None), ((3, 33), -1), ((2, 5, 3), (0, 1)), ((4, 1), 1)]]
       for name in ("mean", "var", "std", "logsumexp")},
    **{name: [with_attrs(name, random(*s, kind=k), axis=a) for k in FLOATS
              for s, a in [((7,), 0), ((3, 33), -1), ((5, 2, 3), 0), ((4, 1), 1), ((3, 0), 1)]]
       for name in ("softmax", "log_softmax")},
    "layer_norm": [(ops.layer_norm, [random(*s), random(s[-1]), random(s[-1])])
                   for s in [(7,), (3, 33), (2, 3, 1)]],
    "rms_norm": [(ops.rms_norm, [random(*s), random(s[-1])]) for s in [(7,), (3, 33), (2, 3, 1)]],
    "batch_norm": [(lambda x, s: ops.batch_norm(x, s, s, s, ops.exp(s)), [IMAGE, random(4)])],
    "group_norm": [(lambda x, s: ops.group_norm(x, 2, s, s), [IMAGE, random(4)])],
    "lrn": [with_attrs("lrn", IMAGE, size=3)],
    "attention": [with_attrs("attention", *(random(2, 3, 9, 8) for _ in "qkv"), causal=c)
                  for c in (False, True)],
    "conv": [with_attrs("conv", x, w, **a) for x, w, a in [
        (IMAGE, random(6, 4, 3, 3), {}), (IMAGE, random(6, 4, 3, 2), {"strides": 2, "pads": 1}),
        (IMAGE, random(6, 2, 1, 1), {"groups": 2}), (IMAGE, random(4, 1, 3, 3), {"groups": 4}),
        (SIGNAL, random(3, 4, 3), {"dilations": 2}), (VOLUME, random(3, 2, 2, 2, 2), {"pads": 1})]],
    "conv_transpose": [with_attrs("conv_transpose", x, w, strides=2) for x, w in
                       [(IMAGE, random(4, 3, 3, 3)), (SIGNAL, random(4, 2, 2))]],
    "einsum": [(lambda a, b: ops.einsum("bij,bkj->bik", a, b), [random(2, 3, 4), random(2, 5, 4)]),
               (lambda a: ops.einsum("iij->j", a), [random(3, 3, 5)])],
    "gather": [(lambda d, i, a=axis: ops.gather(d, i, a), [random(5, 9), ints(*s, low=-5)])
               for axis, s in [(0, (7,)), (1, (2, 3)), (0, ()), (1, (0,))]],
    "gather_elements": [(lambda d, i: ops.gather_elements(d, i, 1), [random(3, 5),
                                                                     ints(3, 4, low=-5)])],
    "gather_nd": [(ops.gather_nd, [random(5, 6, 2), ints(4, 2)])],
    **{name: [with_attrs(name, random(4, 9), axis=a) for a in (0, 1)]
       for name in ("cumsum", "cumprod", "sort", "argsort")},
    "bincount": [(lambda x: ops.bincount(x, 7), [ints(33, low=-2)])],
    "topk": [(lambda t: list(ops.topk(t, 20)), [random(2, 100)])],
    "scatter_elements": [(lambda d, i, u: ops.scatter_elements(d, i, u, 1, "add"),
                          [random(3, 5), ints(3, 4), random(3, 4)])],
    "scatter_nd": [(ops.scatter_nd, [random(6, 3), ints(2, 1), random(2, 3)])],
    "det": [(ops.det, [random(2, 3, 3, kind="float64")])],
    "inverse": [(ops.inverse, [random(2, 3, 3, kind="float64")])],
    "resize": [(lambda t, m=mode: ops.resize(t, (2, 4, 13, 5), m), [IMAGE])
               for mode in ("nearest", "linear", "cubic")],
    **EXAMPLES,
}  # fmt: skip
#: The shapes of their results depend on values: no graph holds them.
DYNAMIC = {"nonzero", "unique", "compress", "non_max_suppression"}
#: Made for a machine by `pack_weights`: tests/graph/test_pack.py and test_conv_words.py.
OF_MACHINES = {"packed_matmul", "packed_conv", "pack_panels", "pack_words"}


def one_graph(cases: Sequence[Case]) -> tuple[Graph, list[Array]]:
    """The cases side by side in one graph, which is compiled once."""
    inputs: list[Tensor] = []
    arrays: list[Array] = []
    outputs: list[Tensor] = []
    for build, given in cases:
        own = [Tensor(TensorType(a.shape, dtype(a.dtype)), f"x{len(inputs) + k}")
               for k, a in enumerate(given)]  # fmt: skip
        made = build(*own)
        inputs += own
        arrays += given
        outputs += made if isinstance(made, (list, tuple)) else [made]
    return Graph(inputs, outputs), arrays


@pytest.mark.parametrize("name", sampled(sorted(REGISTRY.keys() - DYNAMIC - OF_MACHINES), 2))
def test_op(name: Any) -> None:
    graph, arrays = one_graph(CASES[name])
    assert any(node.op.name == name for node in graph.nodes)
    wanted = run(graph, arrays)
    found = compile_graph(graph)(*arrays)
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        loose = {"float32": 5e-5, "float16": 8e-3, "bfloat16": 6e-2, "float64": 1e-11}
        close(np.asarray(a), b, loose.get(dtype(b.dtype)), f"{name}, output {k}: {b.shape}")
