"""Functions of neural networks that NumPy lacks; those of elements are in `functions`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import DTypeError
from ...graph import ops
from ...graph.nodes import Tensor
from .array import Array, ArrayLike, Axis, as_type, floats, lift
from .public import named, public
from .shapes import together

# ---------------------------------------------------------------------------- activations


@public
def gelu(x: ArrayLike, /, *, approximate: str = "none") -> Array:
    """x Phi(x), exactly ("none") or with tanh or a sigmoid for the error function."""
    return Array(ops.gelu(floats(x), approximate))


@public
def leaky_relu(x: ArrayLike, /, *, alpha: float = 0.01) -> Array:
    """x where it is not negative, else alpha x."""
    return Array(ops.leaky_relu(floats(x), alpha))


@public
def elu(x: ArrayLike, /, *, alpha: float = 1.0) -> Array:
    """x where it is positive, else alpha (exp(x) - 1)."""
    return Array(ops.elu(floats(x), alpha))


@public
def swiglu(x: ArrayLike, gate: ArrayLike | None = None, /, *, axis: int = -1) -> Array:
    """silu(x) gate; without a gate, of the two halves of x along an axis."""
    if gate is None:
        return Array(ops.swiglu(floats(x), axis=axis))
    both = _together_floats(x, gate)
    return Array(ops.swiglu(both[0], both[1]))


def _together_floats(*arrays: Any) -> list[Tensor]:
    return together([Array(floats(x)) for x in arrays])


# ---------------------------------------------------------------------------- normalisation


@public
def layer_norm(
    x: ArrayLike,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    /,
    *,
    axis: int = -1,
    eps: float = 1e-5,
) -> Array:
    """(x - mean) / sqrt(variance + eps) over the axes from `axis` on, scaled and shifted."""
    tensor = floats(x)
    factor, shift = (None if p is None else as_type(lift(p), tensor.dtype) for p in (scale, bias))
    return Array(ops.layer_norm(tensor, factor, shift, axis=axis, eps=eps))


@public
def rms_norm(
    x: ArrayLike, scale: ArrayLike | None = None, /, *, axis: int = -1, eps: float = 1e-5
) -> Array:
    """x / sqrt(mean(x²) + eps) over the axes from `axis` on, scaled."""
    tensor = floats(x)
    factor = None if scale is None else as_type(lift(scale), tensor.dtype)
    return Array(ops.rms_norm(tensor, factor, axis=axis, eps=eps))


@public
def logsumexp(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """log(sum(exp(x))) over axes, without overflow."""
    return Array(ops.logsumexp(floats(x), axis, keepdims))


@public
def conv(
    x: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike | None = None,
    /,
    *,
    strides: int | Sequence[int] = 1,
    pads: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """The correlation of [N, C, spatial...] with [O, C / groups, window...]."""
    image, kernel, *rest = together([x, weight] if bias is None else [x, weight, bias])
    shift = rest[0] if rest else None
    return Array(ops.conv(image, kernel, shift, strides, pads, dilations, groups))


def _pool(name: str, what: str) -> None:
    build = getattr(ops, name)

    @public
    @named(name, f"The {what} of each window of [N, C, spatial...]; strides are 1 unless told.")
    def pool(
        x: ArrayLike,
        kernel: int | Sequence[int],
        /,
        *,
        strides: int | Sequence[int] | None = None,
        pads: int | Sequence[int] = 0,
    ) -> Array:
        image = lift(x).tensor
        window = [kernel] * max(image.ndim - 2, 0) if isinstance(kernel, int) else list(kernel)
        return Array(build(image, window, strides=strides, pads=pads))


_pool("max_pool", "largest element")
_pool("avg_pool", "mean")


@public
def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    /,
    mask: ArrayLike | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Array:
    """softmax(q kᵀ scale + mask) v over [..., tokens, d]; the scale is 1 / sqrt(d) unless told."""
    queries, keys, values = together([q, k, v])
    extra = None if mask is None else lift(mask).tensor
    return Array(ops.attention(queries, keys, values, mask=extra, causal=causal, scale=scale))


@public
def group_norm(
    x: ArrayLike, scale: ArrayLike, bias: ArrayLike, /, groups: int, *, eps: float = 1e-5
) -> Array:
    """Normalised over groups of the channels (axis 1) and all positions, scaled and shifted."""
    image, factor, shift = _together_floats(x, scale, bias)
    return Array(ops.group_norm(image, groups, factor, shift, eps))


@public
def instance_norm(
    x: ArrayLike, scale: ArrayLike, bias: ArrayLike, /, *, eps: float = 1e-5
) -> Array:
    """`group_norm` with each channel on its own."""
    image, factor, shift = _together_floats(x, scale, bias)
    return Array(ops.instance_norm(image, factor, shift, eps))


@public
def batch_norm(
    x: ArrayLike,
    scale: ArrayLike,
    bias: ArrayLike,
    mean: ArrayLike,
    var: ArrayLike,
    /,
    *,
    eps: float = 1e-5,
) -> Array:
    """Each channel (axis 1) normalised with the given statistics, scaled and shifted."""
    image, factor, shift, centre, spread = _together_floats(x, scale, bias, mean, var)
    return Array(ops.batch_norm(image, factor, shift, centre, spread, eps))


@public
def dropout(x: ArrayLike, mask: ArrayLike, /, *, rate: float = 0.5) -> Array:
    """x / (1 - rate) where the mask holds, else 0."""
    return Array(ops.dropout(floats(x), lift(mask).tensor, rate))


# ---------------------------------------------------------------------------- losses


@public
def cross_entropy(
    x: ArrayLike,
    target: ArrayLike,
    weight: ArrayLike | None = None,
    /,
    *,
    reduction: str = "mean",
    ignored: int = -100,
    smoothing: float = 0.0,
) -> Array:
    """-log softmax(x) at the target classes; classes are along axis 1 (0 of a vector)."""
    logits, classes = floats(x), lift(target).tensor
    if not classes.dtype.is_int:
        raise DTypeError(f"cross_entropy: the targets must be integers, got {classes.type}")
    weights = None if weight is None else as_type(lift(weight), logits.dtype)
    return Array(ops.cross_entropy(logits, classes, weights, reduction, ignored, smoothing))


@public
def mse_loss(x: ArrayLike, target: ArrayLike, /, *, reduction: str = "mean") -> Array:
    """(x - target)²."""
    found, wanted = _together_floats(x, target)
    return Array(ops.mse_loss(found, wanted, reduction))


@public
def l1_loss(x: ArrayLike, target: ArrayLike, /, *, reduction: str = "mean") -> Array:
    """|x - target|."""
    found, wanted = _together_floats(x, target)
    return Array(ops.l1_loss(found, wanted, reduction))


@public
def huber_loss(
    x: ArrayLike, target: ArrayLike, /, *, delta: float = 1.0, reduction: str = "mean"
) -> Array:
    """d² / 2 for distances d below delta, else delta (d - delta / 2)."""
    found, wanted = _together_floats(x, target)
    return Array(ops.huber_loss(found, wanted, delta, reduction))


@public
def bce_loss(p: ArrayLike, target: ArrayLike, /, *, reduction: str = "mean") -> Array:
    """-(target log p + (1 - target) log(1 - p)), no logarithm below -100."""
    found, wanted = _together_floats(p, target)
    return Array(ops.bce_loss(found, wanted, reduction=reduction))


@public
def kl_div(
    x: ArrayLike, target: ArrayLike, /, *, log_target: bool = False, reduction: str = "mean"
) -> Array:
    """target (log target - x), where x is a logarithm, and maybe the target too."""
    found, wanted = _together_floats(x, target)
    return Array(ops.kl_div(found, wanted, log_target, reduction))
