"""Ops made of other ops: written once, as an expansion."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from ...base import DType, dtype
from ...base.errors import DTypeError
from ..nodes import Graph, Tensor, TensorType
from ..op import Array, Attrs, apply
from ..run import run
from .choose import cast
from .common import (
    Operand,
    P,
    R,
    Types,
    builder,
    define,
    double,
    normalize_axes,
    normalize_axis,
    operands,
)

Results = Tensor | Sequence[Tensor]
Expansion = Callable[..., Results]

#: Parameters of these annotations are operands of an op that `composite` makes.
_OPERANDS = ("Tensor", "Tensor | None", "Operand")
_CONVERT: dict[str, Callable[[Any], Any]] = {"bool": bool, "int": int, "float": float}


def composite(
    reference: Callable[..., Any] | None = None, like: Sequence[int] = ()
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make of an expansion an op of its name, and the builder of this op; see `define_composite`.

    What is annotated as a tensor or an operand is one; the other parameters are attributes, which
    get the type of their annotation, which is read as text. None is keyword-only. An `axis` is one
    of the operand with the most dimensions.
    """

    def decorate(expansion: Callable[P, R]) -> Callable[P, R]:
        rule: Any = expansion
        name, kinds = expansion.__name__, dict(rule.__annotations__)
        is_one = kinds.pop("return") == "Tensor"
        names = [key for key, kind in kinds.items() if kind in _OPERANDS]
        attributes = [(key, kind) for key, kind in kinds.items() if kind not in _OPERANDS]
        defaults = dict(zip(reversed(kinds), reversed(rule.__defaults__ or ())))

        def expand(*tensors: Tensor, **attrs: Any) -> Any:
            return rule(**dict(zip(names, tensors)), **attrs)

        define_composite(name, expand, reference, like)

        @wraps(expansion)
        def build_node(*args: P.args, **kwargs: P.kwargs) -> Any:
            given = {**dict(zip(kinds, args)), **kwargs}
            values = {**defaults, **given}
            if len(given) != len(args) + len(kwargs) or values.keys() != kinds.keys():
                inspect.signature(rule).bind(*args, **kwargs)  # says what is wrong
            tensors = [values[key] for key in names]
            _check_order(names, tensors)
            attrs = {key: _attribute(key, kind, values[key], tensors) for key, kind in attributes}
            results = build_all(name, *tensors, **attrs)
            return results[0] if is_one else results

        return builder(build_node)

    return decorate


def _check_order(names: Sequence[str], given: Sequence[Operand | None]) -> None:
    """Refuse an operand behind one that is left out: nodes know operands by their places."""
    missing = None
    for name, value in zip(names, given, strict=True):
        if value is None:
            missing = name
        elif missing is not None:
            raise DTypeError(f"a {name} needs a {missing}")


def _attribute(name: str, kind: str, value: Any, tensors: Sequence[Operand | None]) -> Any:
    if name == "axis":
        rank = max(tensor.ndim for tensor in tensors if isinstance(tensor, Tensor))
        return normalize_axis(value, rank) if kind == "int" else normalize_axes(value, rank)
    return _CONVERT[kind](value) if kind in _CONVERT else value


def define_composite(
    name: str,
    expansion: Expansion,
    reference: Callable[..., Any] | None = None,
    like: Sequence[int] = (),
) -> None:
    """Register an op that is defined by other ops.

    Args:
        name: the op's name.
        expansion: `f(*tensors, **attrs)`, a tensor or several. Float tensors narrower than 32 bits
            arrive as float32, and results are cast back.
        reference: `f(*arrays, **attrs)`, an array or several; floats arrive as float64. Without
            it the reference is the expansion, in float64.
        like: for each result the operand whose type it has if it is a float; the first operand
            of a float type if nothing is said.
    """

    def expand(tensors: Sequence[Tensor], attrs: Attrs) -> list[Tensor]:
        kinds = [tensor.dtype for tensor in tensors]
        if not any(map(_is_narrow, kinds)):
            return _several(expansion(*tensors, **attrs))
        wide = [cast(t, "float32") if _is_narrow(t.dtype) else t for t in tensors]
        results = _several(expansion(*wide, **attrs))
        return [
            cast(result, _result_kind(kinds, like, k)) if result.dtype.is_float else result
            for k, result in enumerate(results)
        ]

    def infer(types: Types, attrs: Attrs) -> list[TensorType]:
        return [tensor.type for tensor in expand([Tensor(type_) for type_ in types], attrs)]

    def evaluate(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Any]:
        wide = [double(array) for array in arrays]
        if reference is None:
            return _interpreted(expansion, wide, attrs)
        results = reference(*wide, **attrs)
        return list(results) if isinstance(results, (list, tuple)) else [results]

    define(name, "opaque", infer, evaluate, expand=expand)


def _interpreted(expansion: Expansion, arrays: Sequence[Array], attrs: Attrs) -> list[Array]:
    inputs = [Tensor(TensorType(array.shape, dtype(array.dtype))) for array in arrays]
    return run(Graph(inputs, _several(expansion(*inputs, **attrs))), arrays)


def _several(results: Results) -> list[Tensor]:
    return [results] if isinstance(results, Tensor) else list(results)


def _is_narrow(kind: DType) -> bool:
    return kind.is_float and kind.bits < 32


def _result_kind(kinds: Sequence[DType], like: Sequence[int], k: int) -> DType:
    if k < len(like):
        return kinds[like[k]]
    return next(kind for kind in kinds if kind.is_float)


def build(name: str, *tensors: Operand | None, **attrs: Any) -> Tensor:
    """A node of a composite op; operands that are None are left out from the end."""
    return build_all(name, *tensors, **attrs)[0]


def build_all(name: str, *tensors: Operand | None, **attrs: Any) -> tuple[Tensor, ...]:
    """All outputs of a node of a composite op; see `build`."""
    given = list(tensors)
    while given and given[-1] is None:
        given.pop()
    return apply(name, operands(*given), **attrs)  # type: ignore[arg-type]
