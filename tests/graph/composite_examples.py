"""An example or more for each op of gradients, losses, training and small compositions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tileloom.graph import ops

Array = np.ndarray[Any, Any]
Case = tuple[Callable[..., Any], Sequence[Array]]
SHAPES = [(7,), (3, 1, 5), (2, 33), (0, 3)]


def normal(*shape: int, seed: int = 0, kind: str = "float32") -> Array:
    rng = np.random.default_rng(seed + sum(shape))
    return np.asarray(rng.standard_normal(shape)).astype(kind)


def positive(*shape: int, seed: int = 0, kind: str = "float32") -> Array:
    return np.asarray(np.abs(normal(*shape, seed=seed)) + 0.3).astype(kind)


def share(*shape: int, seed: int = 0, kind: str = "float32") -> Array:
    """Numbers between 0 and 1."""
    return np.asarray(1 / (1 + np.exp(-normal(*shape, seed=seed, kind="float64")))).astype(kind)


def classes(count: int, *shape: int) -> Array:
    return np.random.default_rng(count).integers(0, count, shape)


def several(build: Callable[..., Any], **attrs: Any) -> Callable[..., Any]:
    return lambda *tensors: list(build(*tensors, **attrs))


def elementwise(name: str, second: Callable[..., Array] = normal) -> list[Case]:
    """Two arrays of one shape, in float32, and once in float16."""
    build = getattr(ops, name)
    cases: list[Case] = [(build, [normal(*s), second(*s, seed=1)]) for s in SHAPES]
    return [*cases, (build, [normal(33, kind="float16"), second(33, seed=1, kind="float16")])]


GRADIENTS = [
    "exp_grad", "tanh_grad", "sigmoid_grad", "relu_grad", "reciprocal_grad", "abs_grad",
    "square_grad", "sin_grad", "cos_grad", "erf_grad", "floor_grad", "relu6_grad", "silu_grad",
    "mish_grad", "log_sigmoid_grad", "softsign_grad", "hard_swish_grad", "softplus_grad",
    "hard_sigmoid_grad", "elu_grad", "leaky_relu_grad",
]  # fmt: skip
PAIRS = [((7,), (7,)), ((3, 1, 5), (4, 1)), ((2, 33), (33,)), ((0, 3), (3,))]


def pair_gradient(name: str) -> list[Case]:
    build = several(getattr(ops, name))
    return [
        (build, [normal(*np.broadcast_shapes(a, b)), positive(*a), positive(*b, seed=1)])
        for a, b in PAIRS
    ]


def rows(build: Callable[..., Any], count: int, **attrs: Any) -> list[Case]:
    """Arrays of equal shape, softmax-like along the last axis."""
    rule = lambda *t: build(*t, **attrs)  # noqa: E731
    return [(rule, [share(*s, seed=k) for k in range(count)]) for s in [(7,), (3, 33), (2, 3, 1)]]


def losses(name: str) -> list[Case]:
    build = getattr(ops, name)
    return [
        (lambda a, b, r=reduction: build(a, b, reduction=r), [share(*s), share(*s, seed=1)])
        for reduction, s in (("mean", (3, 33)), ("sum", (7,)), ("none", (2, 5)), ("sum", (0, 3)))
    ]


def loss_gradients(name: str) -> list[Case]:
    build = getattr(ops, name)
    return [
        (
            lambda d, a, b, r=reduction: build(d, a, b, reduction=r),
            [dy, share(*s), share(*s, seed=1)],
        )
        for reduction, dy, s in (("mean", normal(), (3, 33)), ("none", normal(2, 5), (2, 5)))
    ]


STATE = [normal(3, 11, seed=1), normal(3, 11, seed=2), positive(3, 11), normal(3, 11, seed=3)]
NUMBERS = [np.asarray(v, "float32") for v in (0.9, 0.1, 0.99, 0.01, 1e-6)]
IMAGE, CHANNEL = normal(2, 6, 3, 5), positive(6)

EXAMPLES: dict[str, list[Case]] = {
    **{name: elementwise(name) for name in GRADIENTS},
    **{name: elementwise(name, positive) for name in ("sqrt_grad", "rsqrt_grad", "log_grad")},
    **{name: [(getattr(ops, name), [normal(*s)]) for s in SHAPES]
       for name in ("log_sigmoid", "relu6", "erfc", "float_status")},
    "gelu_grad": [(lambda d, x, f=form: ops.gelu_grad(d, x, f), [normal(33), normal(33, seed=1)])
                  for form in ("none", "tanh", "sigmoid")],
    "heaviside": [(ops.heaviside, [np.round(normal(3, 5)), normal(5)])],
    **{name: elementwise(name) for name in
       ("swiglu", "squared_difference", "hypot", "logaddexp", "copysign")},
    "signbit": [(ops.signbit, [normal(9)]), (ops.signbit, [normal(9).astype("int32")])],
    "swiglu_grad": [(several(ops.swiglu_grad), [normal(3, 5, seed=k) for k in range(3)])],
    "fused_mul_add": [(ops.fused_mul_add, [normal(3, 5), normal(5), normal(3, 1)])],
    "add_n": [(lambda *t: ops.add_n(t), [normal(3, 5, seed=k) for k in range(n)])
              for n in (1, 2, 4)],
    "lerp": [(ops.lerp, [normal(3, 5), normal(5), share(3, 1)])],
    "addmm": [(lambda x, a, b: ops.addmm(x, a, b, 2.0, 0.5),
               [normal(5), normal(3, 7), normal(7, 5)])],
    "reduce_as": [(lambda x, s=shape: ops.reduce_as(x, s), [normal(2, 3, 5)])
                  for shape in ((2, 3, 5), (3, 1), (5,), ())],
    **{f"{name}_grad": pair_gradient(f"{name}_grad") for name in
       ("add", "sub", "mul", "div", "pow", "maximum", "minimum")},
    "matmul_grad": [(several(ops.matmul_grad), [normal(*d), normal(*a), normal(*b)]) for d, a, b in
                    [((5, 3), (5, 7), (7, 3)), ((2, 5, 3), (2, 5, 7), (7, 3)), ((), (7,), (7,))]],
    "max_grad": [(lambda d, x, y, s=shared: ops.max_grad(d, x, y, 1, s),
                  [normal(3), np.round(normal(3, 9)), np.round(normal(3, 9)).max(1)])
                 for shared in (True, False)],
    "p_norm": [(lambda x, p=p: ops.p_norm(x, p, 1), [normal(3, 9)])
               for p in (0.0, 1.0, 2.0, 3.0, np.inf, -np.inf)],
    "clip_by_norm": [(lambda x: ops.clip_by_norm(x, 1.5, 1), [normal(3, 9)])],
    "clip_by_norm_no_div_sum": [(lambda x: ops.clip_by_norm_no_div_sum(x, 0.0, 1.0, 1.0),
                                 [np.maximum(normal(9), 0)])],
    "square_sum": [(lambda x: ops.square_sum(x, 1), [normal(3, 9)])],
    "square_sum_all": [(several(ops.square_sum_all), [normal(3, 9), normal(7)])],
    "equal_count": [(ops.equal_count, [np.round(normal(3, 9)), np.round(normal(3, 9, seed=1))])],
    **{name: [(lambda x, n=name, a=axis: list(getattr(ops, n)(x, a)), [normal(3, 9)])
              for axis in (0, 1)] for name in ("argmax_with_value", "argmin_with_value")},
    "softmax_grad": rows(ops.softmax_grad, 2),
    "softmax_grad_ext": rows(ops.softmax_grad_ext, 3),
    "log_softmax_grad": rows(ops.log_softmax_grad, 2),
    "layer_norm_grad": [(several(ops.layer_norm_grad), [
        normal(3, 33), normal(3, 33, seed=1), normal(3), positive(3), normal(33)])],
    "rms_norm_grad": [(several(ops.rms_norm_grad), [
        normal(3, 33), normal(3, 33, seed=1), normal(33)])],
    "batch_norm_grad": [(several(ops.batch_norm_grad, training=t), [
        IMAGE, IMAGE[::-1].copy(), CHANNEL, normal(6), CHANNEL]) for t in (True, False)],
    "group_norm_grad": [(lambda d, x, m, r, s: list(ops.group_norm_grad(d, x, m, r, 2, s)), [
        IMAGE, IMAGE[::-1].copy(), normal(2, 2), positive(2, 2), CHANNEL])],
    "layer_norm_with_stats": [(several(ops.layer_norm_with_stats), [
        normal(3, 33), normal(33), normal(33, seed=1)])],
    "batch_norm_training": [(several(ops.batch_norm_training), [IMAGE, *[CHANNEL] * 4])],
    **{name: [(lambda x, m, n=name: getattr(ops, n)(x, m, 0.25), [normal(3, 9), normal(3, 9) > 0])]
       for name in ("dropout", "dropout_grad")},
    "bias_add": [(ops.bias_add, [IMAGE, CHANNEL])],
    "bias_add_grad": [(ops.bias_add_grad, [IMAGE])],
    **{name: losses(name) for name in
       ("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss", "bce_loss", "kl_div")},
    **{name: loss_gradients(name) for name in
       ("mse_loss_grad", "l1_loss_grad", "huber_loss_grad", "smooth_l1_loss_grad",
        "bce_loss_grad", "kl_div_grad")},
    "log_loss": [(ops.log_loss, [share(3, 9), share(3, 9, seed=1)])],
    "log_loss_grad": [(ops.log_loss_grad, [normal(3, 9), share(3, 9), share(3, 9, seed=1)])],
    "sigmoid_cross_entropy_with_logits": [
        (ops.sigmoid_cross_entropy_with_logits, [normal(3, 9), share(3, 9)])],
    "sigmoid_cross_entropy_with_logits_grad": [
        (ops.sigmoid_cross_entropy_with_logits_grad, [normal(3, 9), normal(3, 9), share(3, 9)])],
    "nll_loss": [(several(ops.nll_loss), [normal(4, 9), classes(9, 4)]),
                 (several(ops.nll_loss, ignored=1),
                  [normal(4, 3, 5), classes(3, 4, 5), positive(3)])],
    "nll_loss_grad": [(ops.nll_loss_grad, [normal(), normal(4, 9), classes(9, 4), positive()])],
    "cross_entropy": [(ops.cross_entropy, [normal(4, 9), classes(9, 4)]),
                      (lambda *t: ops.cross_entropy(*t, reduction="none", smoothing=0.1),
                       [normal(2, 3, 5), classes(3, 2, 5), positive(3)])],
    "softmax_cross_entropy_with_logits": [
        (several(ops.softmax_cross_entropy_with_logits), [normal(4, 9), share(4, 9)])],
    "sparse_softmax_cross_entropy_with_logits": [
        (ops.sparse_softmax_cross_entropy_with_logits, [normal(4, 9), classes(9, 4)])],
    "sparse_softmax_cross_entropy_with_logits_grad": [
        (ops.sparse_softmax_cross_entropy_with_logits_grad,
         [normal(4), normal(4, 9), classes(9, 4)])],
    "adam": [(lambda *t, n=nesterov: list(ops.adam(*t, 0.9, 0.99, 0.1, nesterov=n)), STATE)
             for nesterov in (False, True)],
    "adam_weight_decay": [(lambda *t: list(ops.adam_weight_decay(*t, 0.1, decay=0.2)), STATE)],
    "adamw": [(lambda *t: list(ops.adamw(*t, 2.0, 0.1)), STATE)],
    "lamb": [(lambda *t: list(ops.lamb(*t, 2.0, 0.1)), STATE)],
    "adam_apply_one_with_decay": [
        (lambda p, m, v, g, *n: list(
            ops.adam_apply_one_with_decay(g, v, m, p, 0.1, *n[:4], 0.2, n[4])),
         [*STATE, *NUMBERS])],
    "lamb_apply_optimizer": [
        (lambda p, m, v, g, *n: list(ops.lamb_apply_optimizer(g, v, m, p, *n, 3.0, 1.0, 0.1)),
         [*STATE, *NUMBERS])],
    "lamb_apply_weight": [
        (lambda w, n, u, p: ops.lamb_apply_weight(w, n, 0.1, u, p),
         [positive(), positive(seed=1), normal(3, 9), normal(3, 9, seed=1)])],
    "momentum": [(lambda *t, n=n: list(ops.momentum(*t, 0.1, nesterov=n)), STATE[1:])
                 for n in (False, True)],
    "adagrad": [(lambda p, v, g: list(ops.adagrad(p, v, g, 0.1)), STATE[1:])],
    "topk_few": [(lambda t, g=largest: list(ops.topk(t, 3, 1, g)), [normal(4, 9)])
                 for largest in (True, False)],
}  # fmt: skip
