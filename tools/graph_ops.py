"""Ops of other systems and what they are here: the page docs/graph-ops.md.

    python tools/graph_ops.py > docs/graph-ops.md

The names are those of MindSpore's graph-kernel expanders, and of PaddlePaddle's decompositions and
backward rules for CINN.
"""

from __future__ import annotations

from collections.abc import Mapping

from tileloom.graph import ops
from tileloom.graph.op import REGISTRY, Op

MINDSPORE: Mapping[str, str] = {
    "AdamWeightDecay": "adam_weight_decay", "AddN": "add_n", "ArgMaxWithValue": "argmax_with_value",
    "ArgMinWithValue": "argmin_with_value", "AssignAdd": "add", "BatchMatMul": "matmul",
    "BatchNorm": "batch_norm_training", "BatchNormGrad": "batch_norm_grad", "BiasAdd": "bias_add",
    "BiasAddGrad": "bias_add_grad", "ClipByNormNoDivSum": "clip_by_norm_no_div_sum",
    "Conv2D": "conv", "Dropout": "dropout", "DropoutGrad": "dropout_grad",
    "EqualCount": "equal_count", "Erfc": "erfc", "ExpandDims": "expand_dims", "FusedAdam": "adam",
    "FusedAdamWeightDecay": "adam_weight_decay", "FusedMulAdd": "fused_mul_add",
    "Gather": "gather", "GeLU": "gelu", "GeLUGrad": "gelu_grad", "GkDropout": "dropout",
    "Identity": "reshape", "LambApplyOptimizerAssign": "lamb_apply_optimizer",
    "LambApplyWeightAssign": "lamb_apply_weight", "LayerNorm": "layer_norm_with_stats",
    "LayerNormGrad": "layer_norm_grad", "LogSoftmax": "log_softmax",
    "LogSoftmaxGrad": "log_softmax_grad", "MatMul": "matmul", "MaximumGrad": "maximum_grad",
    "MinimumGrad": "minimum_grad", "OnesLike": "full_like", "ReLU": "relu", "ReduceMean": "mean",
    "ReluGrad": "relu_grad", "Reshape": "reshape", "RsqrtGrad": "rsqrt_grad",
    "Sigmoid": "sigmoid",
    "SigmoidCrossEntropyWithLogits": "sigmoid_cross_entropy_with_logits",
    "SigmoidCrossEntropyWithLogitsGrad": "sigmoid_cross_entropy_with_logits_grad",
    "SigmoidGrad": "sigmoid_grad", "SiLU": "silu", "SiLUGrad": "silu_grad",
    "Slice": "strided_slice", "Softmax": "softmax",
    "SoftmaxCrossEntropyWithLogits": "softmax_cross_entropy_with_logits",
    "SoftmaxGradExt": "softmax_grad_ext", "Softplus": "softplus", "SoftplusGrad": "softplus_grad",
    "Softsign": "softsign",
    "SparseSoftmaxCrossEntropyWithLogits": "sparse_softmax_cross_entropy_with_logits",
    "SqrtGrad": "sqrt_grad", "Square": "square", "SquareSumAll": "square_sum_all",
    "SquareSumV1": "square_sum", "SquaredDifference": "squared_difference", "Squeeze": "squeeze",
    "TanhGrad": "tanh_grad", "Tile": "tile",
    "adam_apply_one_with_decay": "adam_apply_one_with_decay",
    "clip_by_norm": "clip_by_norm", "dense": "addmm", "float_status": "float_status",
    "vmap_stack_assign": "stack", "vmap_unstack_assign": "unstack",
}  # fmt: skip

PADDLE: Mapping[str, str] = {
    "add_n": "add_n", "addmm": "addmm", "any": "any", "batch_norm": "batch_norm_training",
    "bce_loss": "bce_loss", "bmm": "matmul", "clip": "clip", "dropout": "dropout", "eye": "eye",
    "elu": "elu", "embedding": "gather", "flatten": "flatten", "full_like": "full_like",
    "gelu": "gelu", "hardswish": "hard_swish", "hardsigmoid": "hard_sigmoid",
    "heaviside": "heaviside", "huber_loss": "huber_loss", "group_norm": "group_norm",
    "index_sample": "take_along_axis", "index_select": "gather", "instance_norm": "instance_norm",
    "kldiv_loss": "kl_div", "layer_norm": "layer_norm_with_stats", "leaky_relu": "leaky_relu",
    "lerp": "lerp", "log_loss": "log_loss", "log_softmax": "log_softmax", "mean": "mean",
    "mean_all": "mean", "meshgrid": "broadcast_to", "numel": "constant", "one_hot": "one_hot",
    "p_norm": "p_norm", "pow": "pow", "reciprocal": "reciprocal", "relu": "relu",
    "relu6": "relu6", "rms_norm": "rms_norm",
    "sigmoid_cross_entropy_with_logits": "sigmoid_cross_entropy_with_logits", "silu": "silu",
    "swiglu": "swiglu", "swish": "silu", "softmax": "softmax", "softsign": "softsign",
    "square": "square", "squared_l2_norm": "square_sum", "squeeze": "squeeze", "stack": "stack",
    "top_k": "topk", "unbind": "unstack", "unsqueeze": "expand_dims", "unstack": "unstack",
}  # fmt: skip

#: Gradients of movements are movements; what is not said there is in the op that does the work.
PADDLE_BACKWARD: Mapping[str, str] = {
    "abs": "abs_grad", "erf": "erf_grad", "exp": "exp_grad", "floor": "floor_grad",
    "log": "log_grad", "rsqrt": "rsqrt_grad", "sin": "sin_grad", "cos": "cos_grad",
    "tanh": "tanh_grad", "matmul": "matmul_grad", "add": "add_grad", "divide": "div_grad",
    "subtract": "sub_grad", "multiply": "mul_grad", "elementwise_pow": "pow_grad",
    "maximum": "maximum_grad", "minimum": "minimum_grad", "reduce_as": "broadcast_to",
    "sum": "reduce_sum_grad", "reshape": "reshape", "roll": "roll", "transpose": "transpose",
    "max": "max_grad", "squeeze": "reshape", "unsqueeze": "reshape", "bce_loss": "bce_loss_grad",
    "gelu": "gelu_grad", "hardsigmoid": "hard_sigmoid_grad", "hardswish": "hard_swish_grad",
    "leaky_relu": "leaky_relu_grad", "mean": "reduce_sum_grad", "pow": "pow_grad",
    "relu": "relu_grad", "sigmoid": "sigmoid_grad", "silu": "silu_grad",
    "softmax": "softmax_grad", "sqrt": "sqrt_grad", "swiglu": "swiglu_grad",
    "layer_norm": "layer_norm_grad", "group_norm": "group_norm_grad",
    "batch_norm": "batch_norm_grad", "concat": "strided_slice", "stack": "unstack",
    "slice": "pad", "dropout": "dropout_grad", "huber_loss": "huber_loss_grad",
    "kldiv_loss": "kl_div_grad", "log_loss": "log_loss_grad", "log_softmax": "log_softmax_grad",
    "elu": "elu_grad", "relu6": "relu6_grad", "softsign": "softsign_grad",
    "square": "square_grad", "reciprocal": "reciprocal_grad", "rms_norm": "rms_norm_grad",
    "sigmoid_cross_entropy_with_logits": "sigmoid_cross_entropy_with_logits_grad",
    "cumsum": "cumsum", "reduce_sum_to_shape": "reduce_as",
}  # fmt: skip

LEFT_OUT: Mapping[str, str] = {
    "StandardNormal": "graphs are pure functions: there is no randomness",
    "CAbs, CAdd, CDiv, CMul, CSub, CRealDiv": "there are no complex types",
    "lu, solve_triangular": "these are left to the libraries that do linear algebra well",
    "arange, tril_indices and others of fixed results": "constants, made while a graph is read",
}

_HEAD = """# Ops of other systems

Generated by `python tools/graph_ops.py`; do not edit.

What the ops that MindSpore's graph kernel expands, and those that PaddlePaddle decomposes for CINN,
are in `tileloom.graph.ops`. A *composite* op is one node of the graph until `expand` replaces it by
the ops that its rule is written in; it is defined in one place, with float32 for narrower floats
inside. A *builder* makes other ops at once. Gradients take the gradient by the result first.

For each op: `composite`, or what a planner may do with it; `host` if it runs on the host.
"""


def describe(name: str) -> str:
    """The kind and the first line of the documentation of an op."""
    op = REGISTRY.get(name) or REGISTRY.get(f"reduce_{name}")
    kind = "builder" if op is None else _kind(op)
    about = (getattr(ops, name).__doc__ or "").strip().partition("\n")[0].replace("|", "\\|")
    return f"`{name}` | {kind} | {about}"


def _kind(op: Op) -> str:
    if op.expand is not None:
        return "composite"
    return "host" if op.compute is None else op.kind


def page() -> str:
    """The page as Markdown."""
    parts = [_HEAD]
    for title, names in (
        ("Expanders of MindSpore", MINDSPORE),
        ("Decompositions of PaddlePaddle", PADDLE),
        ("Backward rules of PaddlePaddle", PADDLE_BACKWARD),
    ):
        parts.append(f"## {title}\n\n| there | here | kind | what it computes |")
        parts[-1] += "\n|---|---|---|---|\n"
        parts[-1] += "\n".join(f"| {a} | {describe(names[a])} |" for a in sorted(names)) + "\n"
    rows = "\n".join(f"| {name} | {why} |" for name, why in LEFT_OUT.items())
    parts.append(f"## Left out\n\n| there | why |\n|---|---|\n{rows}\n")
    every = sorted(name for name in ops.__all__ if name in REGISTRY and REGISTRY[name].expand)
    used = {*MINDSPORE.values(), *PADDLE.values(), *PADDLE_BACKWARD.values()}
    rest = "\n".join(f"| {describe(name)} |" for name in every if name not in used)
    parts.append(
        f"## Further composite ops\n\n| op | kind | what it computes |\n|---|---|---|\n{rest}\n"
    )
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
