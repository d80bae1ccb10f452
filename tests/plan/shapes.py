"""Groups of many shapes, as programs of blocks and as NumPy functions: what planners are tested on.

    program = PROGRAMS["softmax_32x1024"]
    func = program.function()                      # op by op, each op one block
    inputs = program.inputs(rng)
    wanted = program.results(inputs)               # computed in float64

Each formula is written once, over a name space that is NumPy, or one that makes tensor
expressions. A program has a shape for which it is known, and a small one of the same kind.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileloom import te
from tileloom.compute import Tensor
from tileloom.expr import Expr
from tileloom.script import tir as T
from tileloom.tir import PrimFunc

Shape = tuple[Any, ...]
Formula = Callable[..., Any]


# ---------------------------------------------------------------------------- tensor expressions


class Value:
    """A tensor with NumPy's operators; every operation is a `te.compute` of its own."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @property
    def shape(self) -> Shape:
        return tuple(self.tensor.shape)

    def __add__(self, other: Any) -> Value:
        return _elementwise("add", lambda a, b: a + b, self, other)

    def __sub__(self, other: Any) -> Value:
        return _elementwise("sub", lambda a, b: a - b, self, other)

    def __mul__(self, other: Any) -> Value:
        return _elementwise("mul", lambda a, b: a * b, self, other)

    def __truediv__(self, other: Any) -> Value:
        return _elementwise("div", lambda a, b: a / b, self, other)

    __radd__ = __add__
    __rmul__ = __mul__


def _is_one(extent: Any) -> bool:
    return str(extent) == "1"


def _elementwise(name: str, formula: Formula, *operands: Any) -> Value:
    """With NumPy's broadcasting; numbers are written into the formula."""
    shapes = [v.shape for v in operands if isinstance(v, Value)]
    rank = max(map(len, shapes))
    wide = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = [next((n for n in dims if not _is_one(n)), 1) for dims in zip(*wide, strict=True)]

    def element(*index: Any) -> Expr:
        def of(value: Any) -> Any:
            if not isinstance(value, Value):
                return T.float32(value)
            own = index[rank - len(value.shape) :]
            return value.tensor(
                *(0 if _is_one(n) else i for n, i in zip(value.shape, own, strict=True))
            )

        made: Expr = formula(*map(of, operands))
        return made

    return Value(te.compute(tuple(result), element, name=name))


class Expressions:
    """The part of NumPy's name space that the formulas use, for `Value`s."""

    exp = staticmethod(lambda x: _elementwise("exp", T.exp, x))
    log = staticmethod(lambda x: _elementwise("log", T.log, x))
    sqrt = staticmethod(lambda x: _elementwise("sqrt", T.sqrt, x))
    tanh = staticmethod(lambda x: _elementwise("tanh", T.tanh, x))
    maximum = staticmethod(lambda a, b: _elementwise("maximum", T.max, a, b))

    @staticmethod
    def sum(x: Value, axis: Any, keepdims: bool = False) -> Value:
        return _reduced("sum", te.sum, x, axis, keepdims)

    @staticmethod
    def max(x: Value, axis: Any, keepdims: bool = False) -> Value:
        return _reduced("max", te.max, x, axis, keepdims)

    @staticmethod
    def mean(x: Value, axis: int, keepdims: bool = False) -> Value:
        count = T.cast(x.shape[axis], "float32")
        return _elementwise("mean", lambda a: a / count, Expressions.sum(x, axis, keepdims))

    @staticmethod
    def transpose(x: Value, axes: Sequence[int]) -> Value:
        def element(*index: Any) -> Expr:
            at = dict(zip(axes, index, strict=True))
            found: Expr = x.tensor(*(at[k] for k in range(len(axes))))
            return found

        return Value(te.compute(tuple(x.shape[a] for a in axes), element, name="transpose"))


def _reduced(name: str, reduce: Formula, x: Value, axis: Any, keepdims: bool) -> Value:
    axes = [axis] if isinstance(axis, int) else list(axis)
    over = {a: te.reduce_axis((0, x.shape[a]), name=f"r{a}") for a in axes}
    kept = [k for k in range(len(x.shape)) if k not in over]
    shape = [1 if k in over else n for k, n in enumerate(x.shape) if keepdims or k not in over]

    def element(*index: Any) -> Expr:
        own = [index[k] for k in kept] if keepdims else list(index)
        at = dict(zip(kept, own, strict=False)) | over
        made: Expr = reduce(
            x.tensor(*(at[k] for k in range(len(x.shape)))), axis=list(over.values())
        )
        return made

    return Value(te.compute(tuple(shape or [1]), element, name=name))


# ---------------------------------------------------------------------------- programs


@dataclass(frozen=True)
class Program:
    """A group.

    Attributes:
        formula: of a name space and the inputs; answers a result or a tuple of them.
        shape: of the first input.
        small: one of the same kind with few elements.
        others: the shapes of the other inputs, functions of that of the first.
    """

    name: str
    formula: Formula
    shape: tuple[int, ...]
    small: tuple[int, ...]
    others: tuple[Callable[[Shape], Shape], ...] = ()

    def shapes(self, shape: Shape | None = None) -> list[Shape]:
        """The shapes of all inputs, given the first one's, the full one by default."""
        first = self.shape if shape is None else shape
        return [first, *(other(first) for other in self.others)]

    def function(self, shape: Shape | None = None) -> PrimFunc:
        """The blocks of the group; extents may be variables."""
        inputs = [
            te.placeholder(extents, name=name)
            for extents, name in zip(self.shapes(shape), "XYZUVW", strict=False)
        ]
        made = self.formula(Expressions, *map(Value, inputs))
        results = made if isinstance(made, tuple) else (made,)
        func: PrimFunc = te.create_prim_func([*inputs, *(r.tensor for r in results)])
        return func

    def inputs(self, rng: np.random.Generator, shape: tuple[int, ...] | None = None) -> list[Any]:
        """Random inputs."""
        return [rng.standard_normal(s).astype("float32") for s in self.shapes(shape)]

    def results(self, inputs: Sequence[Any]) -> list[Any]:
        """What it computes, in float64, in the shapes of the function's last parameters."""
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing
            made = self.formula(np, *(value.astype("float64") for value in inputs))
        results = made if isinstance(made, tuple) else (made,)
        return [np.reshape(np.asarray(r), np.shape(r) or (1,)) for r in results]


def _reducing(axis: Any, name: str = "sum") -> Formula:
    return lambda xp, x: getattr(xp, name)(x, axis=axis)


def _keep_dim(axis: Any) -> Formula:
    """A reduction, and an elementwise block of the same rows."""
    return lambda xp, x, y: xp.sum(x, axis=axis, keepdims=True) + y


def _kept(axis: Any) -> Callable[[Shape], Shape]:
    axes = (axis,) if isinstance(axis, int) else axis
    return lambda shape: tuple(1 if k in axes else n for k, n in enumerate(shape))


def _spread(axis: Any) -> Formula:
    """A reduction that every element of its rows reads."""
    return lambda xp, x: x - xp.sum(x, axis=axis, keepdims=True) * 0.125


def _two_reductions(xp: Any, x: Any, y: Any) -> Any:
    z = x + y
    return xp.sum(z, axis=1), xp.max(z, axis=1)


def _three_reductions(xp: Any, x: Any, y: Any) -> Any:
    z = xp.exp(x) * y
    return xp.sum(z, axis=1), xp.max(x, axis=1), xp.sum(y, axis=1)


def _three_of_broadcast(xp: Any, x: Any, y: Any) -> Any:
    z = x * y
    return xp.sum(z, axis=1), xp.max(z, axis=1), xp.sum(xp.exp(x) - y, axis=1)


def _broadcast_reductions(xp: Any, x: Any, y: Any) -> Any:
    z = x * y
    return xp.sum(z, axis=1), xp.max(z, axis=1), z


def _rb_rb(xp: Any, x: Any) -> Any:
    """Reduce, broadcast, reduce, broadcast."""
    centred = x - xp.sum(x, axis=1, keepdims=True) * 0.01
    return centred * xp.sum(centred * centred, axis=1, keepdims=True)


def _layer_norm(xp: Any, x: Any, scale: Any, shift: Any) -> Any:
    centred = x - xp.mean(x, axis=1, keepdims=True)
    variance = xp.mean(centred * centred, axis=1, keepdims=True)
    return centred / xp.sqrt(variance + 1e-5) * scale + shift


def _softmax(xp: Any, x: Any) -> Any:
    power = xp.exp(x - xp.max(x, axis=1, keepdims=True))
    return power / xp.sum(power, axis=1, keepdims=True)


def _log_softmax(xp: Any, x: Any) -> Any:
    less = x - xp.max(x, axis=1, keepdims=True)
    return less - xp.log(xp.sum(xp.exp(less), axis=1, keepdims=True))


def _row(shape: Shape) -> Shape:
    return shape[-1:]


def _one_column(shape: Shape) -> Shape:
    return (*shape[:-1], 1)


def _same(shape: Shape) -> Shape:
    return shape


_CASES = [
    # Reductions alone, along every pattern of axes.
    Program("last_reduce_1", _reducing(2), (128, 64, 32), (6, 5, 33)),
    Program("last_reduce_2", _reducing(0), (1024,), (77,)),
    Program("last_reduce_3", _reducing(1), (512, 256), (7, 50)),
    Program("last_reduce_max", _reducing(1, "max"), (512, 256), (5, 21)),
    Program("first_reduce", _reducing(0), (2048, 4096), (21, 37)),
    Program("outer_reduce_1", _reducing((0, 1)), (10, 10, 10), (10, 10, 10)),
    Program("outer_reduce_2", _reducing((1, 2, 3)), (64, 32, 16, 8, 4), (3, 4, 5, 2, 4)),
    Program("shuffled_reduce_1", _reducing((0, 2, 3)), (32, 32, 32, 32), (3, 4, 5, 7)),
    Program("shuffled_reduce_2", _reducing((0, 2, 3)), (32, 64, 56, 56), (2, 5, 9, 9)),
    Program("all_reduce", _reducing((0, 1)), (512, 512), (17, 19)),
    # Elementwise blocks.
    Program("elementwise_1", lambda xp, x: xp.exp(x) + 1.0, (128, 128), (7, 19)),
    Program("elementwise_2", lambda xp, x, y: (x + y) * xp.tanh(x), (128, 128), (3, 64), (_same,)),
    Program("elementwise_3", lambda xp, x: (x + 1.0, xp.exp(x)), (128, 128), (5, 33)),
    Program(
        "elementwise_4", lambda xp, x, y: xp.maximum(x * y + x, y), (128, 128), (1, 1), (_same,)
    ),
    Program("broadcast_1", lambda xp, x, y: x + y, (128, 128), (9, 17), (_row,)),
    Program("broadcast_2", lambda xp, x, y: xp.exp(y) * x, (128, 128), (9, 17), (_one_column,)),
    Program("broadcast_3", lambda xp, x, y: x * y + y, (16, 64, 28, 28), (2, 3, 4, 5),
            (_kept((0, 2, 3)),)),
    # Reductions that keep their axes, and formulas of rows.
    Program("keep_dim_1", _keep_dim((0, 2, 3)), (16, 64, 112, 112), (2, 5, 6, 7),
            (_kept((0, 2, 3)),)),
    Program("keep_dim_2", _keep_dim((2, 3)), (16, 64, 112, 112), (2, 5, 6, 7), (_kept((2, 3)),)),
    Program("keep_dim_3", _keep_dim(2), (16, 64, 2048), (2, 3, 70), (_kept(2),)),
    Program("keep_dim_4", _keep_dim(1), (16, 64, 2048), (2, 9, 35), (_kept(1),)),
    Program("keep_dim_5", _keep_dim((1, 3)), (16, 64, 16, 1024), (2, 3, 4, 20), (_kept((1, 3)),)),
    # Elementwise blocks and several reductions.
    Program("elementwise_double_reduce", _two_reductions, (128, 128), (5, 37), (_same,)),
    Program("elementwise_triple_reduce", _three_reductions, (128, 128), (5, 37), (_same,)),
    Program("broadcast_double_reduce", _broadcast_reductions, (128, 128), (5, 37), (_row,)),
    Program("broadcast_triple_reduce", _three_of_broadcast, (128, 128), (6, 20), (_row,)),
    # What reductions give is read by every element.
    Program("reduce_broadcast_1", _spread(2), (16, 64, 1024), (2, 3, 40)),
    Program("reduce_broadcast_2", _spread((0, 2, 3)), (16, 64, 56, 56), (2, 4, 5, 6)),
    Program("reduce_broadcast_3", _spread(1), (16, 64, 1024), (2, 9, 33)),
    Program("reduce_broadcast_4", _spread((1, 3)), (16, 32, 16, 64), (2, 3, 4, 10)),
    Program("reduce_broadcast_reduce_broadcast", _rb_rb, (128, 128), (4, 45)),
    Program("reduce_broadcast_elementwise",
            lambda xp, x, y: xp.tanh(x - xp.sum(x, axis=1, keepdims=True)) * y,
            (128, 128), (4, 45), (_same,)),
    Program("layer_norm", _layer_norm, (32, 1024), (3, 70), (_row, _row)),
    Program("softmax", _softmax, (32, 1024), (3, 70)),
    Program("log_softmax", _log_softmax, (32, 1024), (3, 70)),
    # Transposes.
    Program("transpose", lambda xp, x: xp.transpose(x, (1, 0)), (512, 1024), (37, 50)),
    Program("transpose_formula", lambda xp, x, y: xp.exp(xp.transpose(x, (1, 0))) + y,
            (256, 256), (33, 18), (lambda s: (s[1], s[0]),)),
    Program("channels_last", lambda xp, x: xp.transpose(x, (0, 2, 3, 1)), (8, 64, 28, 28),
            (2, 33, 2, 18)),
]  # fmt: skip

#: All programs by name.
PROGRAMS: dict[str, Program] = {program.name: program for program in _CASES}

#: Extents that are odd, prime, one, or none, for programs of two axes.
ODD_SHAPES: tuple[tuple[int, int], ...] = (
    (1, 1), (1, 7), (7, 1), (3, 17), (31, 31), (2, 127), (257, 3), (5, 64), (0, 5), (5, 0),
    (1, 1031),
)  # fmt: skip

#: Programs of two axes.
OF_ROWS: tuple[str, ...] = tuple(
    name for name, program in PROGRAMS.items() if len(program.shape) == 2
)
