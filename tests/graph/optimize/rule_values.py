"""Values on which rules are tried, and what it means to hold in a class."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tileloom.base import dtype
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.op import apply1
from tileloom.graph.optimize.pattern import Any_, Apply_, NumberPattern, Term
from tileloom.graph.run import run

Array = np.ndarray[Any, Any]
FLOATS = ["float32", "float64", "float16", "bfloat16"]
INTS = ["int32", "int8", "uint8", "int64"]
#: Functions that NumPy does not round correctly: the right side may differ by this many ulps.
ULPS = {"pow-two": 4, "pow-minus-one": 4, "pow-half": 4}
CONSTANTS = {
    "float": [2.0, -0.25, 3.0, -1.7, 0.0, -0.0, 1.0, 1e4],
    "int": [0, 1, -1, 2, 7, 127],
    "bool": [True, False],
}


def special(kind: str) -> Array:
    """Zeros, extremes, infinities, NaN."""
    t = dtype(kind).numpy
    if kind == "bool":
        return np.array([True, False])
    if not dtype(kind).is_float:
        info = np.iinfo(t)
        return np.array([0, 1, 2, 3, info.min, info.max, info.max // 2 + 1, info.min + 1], t)
    import ml_dtypes

    info = ml_dtypes.finfo(t)
    values = [0.0, 1.0, 0.5, 3.0, np.inf, float(info.max), float(info.tiny),
              float(info.smallest_subnormal), 1.0 + float(info.eps)]  # fmt: skip
    return np.array([*values, *(-v for v in values), np.nan]).astype(t)


def inputs_for(names: list[str], kind: str, seed: int = 0) -> dict[str, Array]:
    """Every combination of special values, and random ones of many magnitudes."""
    t, rng = dtype(kind).numpy, np.random.default_rng(seed)
    grid = list(itertools.product(special(kind), repeat=min(len(names), 3)))
    columns = [np.array(column) for column in zip(*grid, strict=True)] if names else []
    result = {}
    for k, name in enumerate(names):
        fixed = columns[k] if k < len(columns) else rng.permutation(columns[0])
        count = 3000
        if kind == "bool":
            more: Array = rng.integers(0, 2, count)
        elif dtype(kind).is_float:
            more = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 3, count)
        else:
            more = rng.integers(np.iinfo(t).min, np.iinfo(t).max, count, t, endpoint=True)
        result[name] = np.concatenate([fixed.astype(t), more.astype(t)])
    return result


def conditions_of(term: Term) -> set[str]:
    """The names of tensors in a term that must be bools whatever the others are."""
    if not isinstance(term, Apply_):
        return set()
    first = term.args[0]
    own = {first.name} if term.op == "where" and isinstance(first, Any_) else set()
    if term.op == "logical_not" and isinstance(first, Any_):
        own = {first.name}
    return own.union(*map(conditions_of, term.args))


def tensors_of(term: Term) -> list[str]:
    """The names of tensors in a term, sorted; constants begin with a small letter."""
    if isinstance(term, Apply_):
        return sorted({name for arg in term.args for name in tensors_of(arg)})
    return [term.name] if isinstance(term, Any_) else []


def build(term: Term, env: dict[str, Tensor], kind: str, zero: float = 0.0) -> Tensor:
    """The graph of a term; `zero` is the one that stands for zeros of either sign.

    Numbers are arrays, since NumPy has a pow of its own for single numbers.
    """
    if isinstance(term, Any_):
        return env[term.name]
    if isinstance(term, NumberPattern):
        value = zero if isinstance(term.value, int) and term.value == 0 else term.value
        number = term.value if isinstance(term.value, bool) else dtype(kind).numpy.type(value)
        size = max((t.shape for t in env.values()), default=())
        return apply1("constant", (), value=np.full(size, number))
    return apply1(term.op, [build(arg, env, kind, zero) for arg in term.args])


def steps(result: Tensor, inputs: dict[Tensor, Array]) -> list[Array]:
    """The inputs, then the values of all nodes on the way to a result; its own come last."""
    graph = Graph(list(inputs), [result])
    made = [node.outputs[0] for node in graph.nodes if node.op.name != "constant"]
    made = [t for t in made if t is not result]
    size = next(iter(inputs.values())).shape if inputs else ()
    found = run(Graph(list(inputs), [*made, result]), list(inputs.values()))
    return [np.broadcast_to(a, size) for a in (*inputs.values(), *found)]


def same_bits(a: Array, b: Array, ulps: int = 0) -> Any:
    """Where values are the same: NaN with NaN, zeros of one sign."""
    if a.dtype.kind in "biu":
        return a == b
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    both_nan = np.isnan(wide_a) & np.isnan(wide_b)
    equal = (wide_a == wide_b) & (np.signbit(wide_a) == np.signbit(wide_b))
    if ulps:
        with np.errstate(all="ignore"):
            gap = np.abs(wide_a - wide_b)
            near = gap <= ulps * np.maximum(np.abs(wide_b) * _eps(a), _least(a))
        # Near is for roundings only: an infinity is no rounding of a number.
        equal |= near & np.isfinite(wide_a) & np.isfinite(wide_b)
    return both_nan | equal


def _eps(a: Array) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(a.dtype).eps)


def _least(a: Array) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(a.dtype).smallest_subnormal)


def normal(values: list[Array], kind: str) -> Array:
    """Where all values are numbers in the normal range of a type, or 0."""
    import ml_dtypes

    info = ml_dtypes.finfo(dtype(kind).numpy)
    fine = np.ones(values[0].shape, bool)
    for value in values:
        if value.dtype.kind in "biu":
            continue
        size = np.abs(value.astype(np.float64))
        fine &= np.isfinite(size) & (size <= float(info.max))
        fine &= (size == 0) | (size >= float(info.tiny))
    return fine


def holds(
    safety: str, left: list[Array], right: list[Array], exact_left: list[Array], kind: str,
    inputs: int, ulps: int = 0,
) -> Any:  # fmt: skip
    """Where two computations agree as the class promises, or lie outside of its promise.

    Args:
        left, right: all steps of each, results last. For "reassociating" they are computed in
            float64 from the inputs of the narrower type, and so stand for real numbers.
        exact_left: those of the left side in float64, by which underflow is seen.
        inputs: how many of the steps are inputs.
    """
    a, b = left[-1], right[-1]
    if safety == "exact":
        return same_bits(a, b, ulps)
    if safety == "finite-only":
        inside = normal(left, kind) & normal(exact_left, kind)
        if kind == "float64":  # has no wider type that would show what underflows
            sizes = [np.abs(v) for v in left if v.dtype.kind == "f"]
            inside &= np.logical_and.reduce([(v == 0) | (v > 1e-150) for v in sizes])
        return ~inside | (a == b) | same_bits(a, b, ulps)
    inside = normal(left, kind) & normal(right, kind)
    # A zero that does not come from a zero may have underflowed.
    from_zero = np.logical_or.reduce([v == 0 for v in left[:inputs]])
    inside &= from_zero | np.logical_and.reduce([v != 0 for v in left[:-1]])
    scale = np.maximum.reduce([np.abs(v.astype(np.float64)) for v in (*left, *right)])
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= 1e-9 * np.abs(a) + 1e-13 * scale
    return ~inside | near


def tensor(kind: str, *shape: int, name: str = "x") -> Tensor:
    return Tensor(tensor_type(shape, kind), name)
