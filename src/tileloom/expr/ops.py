"""The registry of operations that a `Call` can name, with what every room may ask about them.

Evaluation functions take NumPy scalars or arrays of the operands' type and return the result type;
they are the reference meaning, not the fast one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..base.errors import UserError
from ..base.late import TYPE_CHECKING, package
from ..base.record import Record
from .atomic_ops import ATOMIC_VALUES
from .dot_ops import DOT_MEANINGS, ROUND_BF16, WORD, round_bf16, word
from .effects import PREFETCH
from .tile_ops import TILE_CALLS
from .warp_ops import WARP_ARGUMENTS

if TYPE_CHECKING:
    import fractions
    from typing import Any

    import numpy as np

    Evaluate = Callable[..., Any]
else:
    fractions, np = package("fractions"), package("numpy")


class Op(Record):
    """What is known of an operation.

    Attributes:
        name: as in `Call.op`.
        arity: number of arguments; None for any number.
        pure: no side effect and the same result for the same arguments: may be moved, merged, or
            dropped.
        elementwise: a call on vectors applies it lane by lane.
        predicate: the result is bool.
        evaluate: the reference meaning, or None where the operation has none on plain values.
    """

    name: str
    arity: int | None = 1
    pure: bool = True
    elementwise: bool = True
    predicate: bool = False
    evaluate: Evaluate | None = None


_OPS: dict[str, Op] = {}


def register_op(op: Op) -> Op:
    """Enter an operation; a name can be entered once."""
    if _OPS.setdefault(op.name, op) is not op:
        raise UserError(f"the operation {op.name!r} is registered already")
    return op


def find_op(name: str) -> Op | None:
    """The operation of that name, or None. What is unknown must be taken for impure.

    >>> find_op("tir.exp").pure, find_op("tir.call_extern").pure, find_op("no.such")
    (True, False, None)
    """
    return _OPS.get(name)


def get_op(name: str) -> Op:
    """The operation of that name.

    Raises:
        UserError: when there is none.
    """
    found = _OPS.get(name)
    if found is None:
        raise UserError(f"unknown operation {name!r}")
    return found


def is_pure_op(name: str) -> bool:
    """Whether calls of that name are known to have no side effect."""
    found = _OPS.get(name)
    return found is not None and found.pure


def op_names() -> tuple[str, ...]:
    """The names of all operations, sorted."""
    return tuple(sorted(_OPS))


# ---------------------------------------------------------------------------- meanings


def _numpy(name: str) -> Evaluate:
    """A function of NumPy, which is looked up when it is called: to name one loads nothing."""
    return lambda *args: getattr(np, name)(*args)


def _lanewise(function: Callable[..., Any]) -> Evaluate:
    """A function of Python scalars, applied to arrays element by element."""

    def evaluate(*args: Any) -> Any:
        arrays = np.broadcast_arrays(*args)
        kind = arrays[0].dtype
        flat = [function(*(x.item() for x in row)) for row in zip(*(a.ravel() for a in arrays))]
        return np.array(flat, dtype=kind).reshape(arrays[0].shape)[()]

    return evaluate


def _in_float64(function: Evaluate) -> Evaluate:
    """Computed in double precision and rounded once."""

    def evaluate(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            result = function(*(np.asarray(a).astype(np.float64) for a in args))
            return result.astype(np.asarray(args[0]).dtype)[()]

    return evaluate


def _quiet(function: Evaluate) -> Evaluate:
    def evaluate(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args)

    return evaluate


def _fused_multiply_add(a: float, b: float, c: float) -> float:
    """a * b + c, rounded once to double."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = fractions.Fraction(a) * fractions.Fraction(b) + fractions.Fraction(c)
    if exact == 0:
        return a * b + c  # the sign of zero
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf  # a fraction too large for `copysign`


_complement = _lanewise(math.erfc)


def _gated(x: Any, limit: float, tail: Evaluate) -> Any:
    """`x` times a probability, which of `-|x|` is `tail(|x|)` and beyond the limit 0."""
    size = np.minimum(np.abs(x), limit)
    below = size * tail(size)
    return np.where(x < 0, -below, x - below)


def _silu(x: Any) -> Any:
    return _gated(x, 760.0, lambda a: np.exp(-a) / (1 + np.exp(-a)))


def _gelu(x: Any) -> Any:
    return _gated(x, 40.0, lambda a: 0.5 * _complement(a * math.sqrt(0.5)))


def _gelu_tanh(x: Any) -> Any:
    def tail(a: Any) -> Any:
        decay = np.exp(-2 * math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))
        return decay / (1 + decay)

    return _gated(x, 25.0, tail)


def _bits(a: Any) -> int:
    return int(np.asarray(a).dtype.itemsize * 8)


def _popcount(a: Any) -> Any:
    width = _bits(a)
    return _lanewise(lambda v: (v & ((1 << width) - 1)).bit_count())(a)


def _count_leading_zeros(a: Any) -> Any:
    width = _bits(a)
    return _lanewise(lambda v: width - (v & ((1 << width) - 1)).bit_length())(a)


def _absolute(a: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.abs(a)


# ---------------------------------------------------------------------------- the table

# What NumPy calls by another name.
_ALIASES = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atan2": "arctan2", "atanh": "arctanh", "fabs": "abs", "pow": "power", "shift_left":
    "left_shift", "shift_right": "right_shift",
    # Half to even, as NumPy, ONNX and the default rounding mode of C do.
    "nearbyint": "rint", "round": "rint",
}  # fmt: skip


def _register(
    names: str, wrap: Callable[[Evaluate], Evaluate], arity: int = 1, **is_: bool
) -> None:
    for name in names.split():
        meaning = wrap(_numpy(_ALIASES.get(name, name)))
        register_op(Op(f"tir.{name}", arity, evaluate=meaning, **is_))


def _as_it_is(function: Evaluate) -> Evaluate:
    return function


_register("cbrt exp exp2 log log2 log10 log1p expm1 sqrt", _in_float64)
_register("sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh", _in_float64)
_register("fabs floor ceil trunc round nearbyint rint", _quiet)
_register("isnan isinf isfinite", _as_it_is, predicate=True)
_register("pow atan2 hypot", _in_float64, 2)
_register("fmod", _quiet, 2)
_register("copysign nextafter shift_left shift_right", _as_it_is, 2)
_register("bitwise_and bitwise_or bitwise_xor", _as_it_is, 2)
_register("bitwise_not", _as_it_is)
for _name, _function in {
    "exp10": lambda x: np.power(10.0, x),
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "silu": _silu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "erf": _lanewise(math.erf),
    "erfc": _complement,
}.items():
    register_op(Op(f"tir.{_name}", evaluate=_in_float64(_function)))
register_op(Op("tir.ldexp", 2, evaluate=lambda a, b: np.ldexp(a, np.asarray(b).astype(np.int32))))
register_op(Op("tir.abs", evaluate=_absolute))
register_op(Op("tir.popcount", evaluate=_popcount))
register_op(Op("tir.clz", evaluate=_count_leading_zeros))
register_op(Op("tir.fma", 3, evaluate=_in_float64(_lanewise(_fused_multiply_add))))
register_op(Op("tir.likely", evaluate=lambda a: a))
# A promise of the program: it is taken for true, and nothing happens if it is not.
register_op(Op("tir.assume", pure=False, elementwise=False, evaluate=lambda a: 0))
# The branch not taken is not evaluated, so evaluators and code generation treat it on their own.
register_op(Op("tir.if_then_else", 3, evaluate=lambda c, a, b: a if c else b))
register_op(Op("tir.reinterpret"))
# How many times 128 bits a scalable vector has: the machine says, and it does not change.
register_op(Op("tir.vscale", 0, elementwise=False))
register_op(Op("tir.call_extern", None, pure=False, elementwise=False))
register_op(Op("tir.call_pure_extern", None, elementwise=False))
for _name in ATOMIC_VALUES:
    register_op(Op(_name, None, pure=False, elementwise=False))
# A hint: what it names is not read, and may lie outside of the buffer.
register_op(Op(PREFETCH, 4, pure=False, elementwise=False))
#: Orders what a thread does before and after: for its block, the device, or everyone.
register_op(Op("tir.memory_fence", pure=False, elementwise=False))
# They differ from thread to thread and wait for others: nothing may be moved, merged or dropped.
for _name, _count in WARP_ARGUMENTS.items():
    register_op(Op(_name, _count, pure=False, elementwise=False))
for _name, _meaning in DOT_MEANINGS.items():
    register_op(Op(_name, 3, evaluate=_meaning))
register_op(Op(ROUND_BF16, evaluate=round_bf16))
register_op(Op(WORD, None, evaluate=word))
# They change registers that the program does not name otherwise.
for _name, _arity in TILE_CALLS.items():
    register_op(Op(_name, _arity, pure=False, elementwise=False))
