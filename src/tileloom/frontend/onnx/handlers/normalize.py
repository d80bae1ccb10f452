"""Softmax and normalisations; Dropout as inference sees it."""

from __future__ import annotations

from ....base.errors import ShapeError, UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.ops.common import normalize_axis
from ..call import Call
from ..elements import graph_dtype
from ..registry import handler
from ..values import Value
from .rearrange import as_matrix
from .reduction import lp_norm

_SOFTMAX = {"Softmax": ops.softmax, "LogSoftmax": ops.log_softmax}


@handler("Softmax", "LogSoftmax", "Hardmax")
def softmax_flat(call: Call) -> Tensor:
    """Before opset 13: of the input seen as a matrix, cut before `axis`."""
    x, axis = call.tensor(0), call.integer("axis", 1)
    return ops.reshape(_normalized(call.op, as_matrix(x, axis), 1), x.shape)


@handler("Softmax", "LogSoftmax", "Hardmax", since=13)
def softmax(call: Call) -> Tensor:
    return _normalized(call.op, call.tensor(0), call.integer("axis", -1))


def _normalized(op: str, x: Tensor, axis: int) -> Tensor:
    axis = normalize_axis(axis, x.ndim)
    if op != "Hardmax":
        return _SOFTMAX[op](x, axis)
    best = ops.argmax(x, axis, True)
    return ops.cast(ops.equal(ops.iota(x.shape, axis), best), x.dtype)


@handler("BatchNormalization", since=7)
def batch_normalization(call: Call) -> Tensor | tuple[Tensor, ...]:
    x, scale, bias, mean, var = (call.tensor(k) for k in range(5))
    eps = call.number("epsilon", 1e-5)
    if not call.flag("training_mode"):
        if call.version < 14 and any(call.wants(k) for k in range(1, 5)):
            call.unsupported("training of batch normalisation")
        return normalize_batch(x, scale, bias, mean, var, eps)
    # The running statistics move by what is not kept of them.
    moved = 1 - call.number("momentum", 0.9)
    return ops.batch_norm_training(x, scale, bias, mean, var, moved, eps, unbiased=False)[:3]


def normalize_batch(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, eps: float
) -> Tensor:
    """With the given statistics, whatever their types."""
    kind = x.dtype
    scale, bias = ops.cast(scale, kind), ops.cast(bias, kind)
    return ops.batch_norm(x, scale, bias, ops.cast(mean, kind), ops.cast(var, kind), eps)


@handler("InstanceNormalization")
def instance_normalization(call: Call) -> Tensor:
    return ops.instance_norm(
        call.tensor(0), call.tensor(1), call.tensor(2), call.number("epsilon", 1e-5)
    )


@handler("GroupNormalization", since=18)
def group_normalization(call: Call) -> Tensor:
    x, scale, bias = call.tensor(0), call.tensor(1), call.tensor(2)
    groups = call.integer("num_groups")
    if x.ndim < 3 or groups < 1 or x.shape[1] % groups:
        raise ShapeError(f"{groups} groups do not fit {x.type}")
    if call.version < 21:  # one scale for each group
        scale, bias = (ops.repeat(each, x.shape[1] // groups, 0) for each in (scale, bias))
    return ops.group_norm(x, groups, scale, bias, call.number("epsilon", 1e-5))


@handler("LayerNormalization")
def layer_normalization(call: Call) -> Tensor | tuple[Tensor, ...]:
    x, scale, bias = call.tensor(0), call.tensor(1), call.optional(2)
    axis, eps = _first_axis(call, x), call.number("epsilon", 1e-5)
    if not (call.wants(1) or call.wants(2)):
        return ops.layer_norm(x, scale, bias, axis, eps)
    stash = graph_dtype(call.integer("stash_type", 1))
    kind = stash if stash.bits > x.dtype.bits else x.dtype
    shift = None if bias is None else ops.cast(bias, kind)
    y, mean, var = ops.layer_norm_with_stats(
        ops.cast(x, kind), ops.cast(scale, kind), shift, axis, eps
    )
    spread = ops.rsqrt(ops.add(var, eps))
    return ops.cast(y, x.dtype), ops.cast(mean, stash), ops.cast(spread, stash)


@handler("RMSNormalization")
def rms_normalization(call: Call) -> Tensor:
    x = call.tensor(0)
    return ops.rms_norm(x, call.tensor(1), _first_axis(call, x), call.number("epsilon", 1e-5))


def _first_axis(call: Call, x: Tensor) -> int:
    return normalize_axis(call.integer("axis", -1), x.ndim)


@handler("LpNormalization")
def lp_normalization(call: Call) -> Tensor:
    x, axis = call.tensor(0), call.integer("axis", -1)
    norm = lp_norm(x, call.integer("p", 2), [axis])
    # 0 where the norm is 0.
    return ops.where(ops.equal(norm, 0), ops.mul(norm, 0.0), ops.div(x, norm))


@handler("MeanVarianceNormalization")
def mean_variance_normalization(call: Call) -> Tensor:
    x, axes = call.tensor(0), call.ints("axes", [0, 2, 3])
    centred = ops.sub(x, ops.mean(x, axes, True))
    deviation = ops.sqrt(ops.mean(ops.square(centred), axes, True))
    return ops.div(centred, ops.add(deviation, 1e-9))


@handler("LRN")
def lrn(call: Call) -> Tensor:
    alpha, beta = call.number("alpha", 1e-4), call.number("beta", 0.75)
    return ops.lrn(call.tensor(0), call.integer("size"), alpha, beta, call.number("bias", 1.0))


@handler("Dropout", since=7)
def dropout_inference(call: Call) -> tuple[Value, ...]:
    x = call.tensor(0)
    kind = "bool" if call.version >= 10 else x.dtype
    return x, ops.ones(x.shape, kind)


@handler("Dropout", since=12)
def dropout(call: Call) -> tuple[Value, ...]:
    x = call.tensor(0)
    ratio = float(call.scalar(1)) if call.has(1) else 0.5
    training = bool(call.scalar(2)) if call.has(2) else False
    if not 0 <= ratio < 1:
        raise UserError(f"a dropout ratio of {ratio}")
    if training and ratio > 0:
        call.unsupported("randomness (dropout in training mode)")
    return x, ops.ones(x.shape, "bool")
