"""The ops of the graph: builders under array-API and ONNX names, registered as they load.

>>> from tileloom.graph.nodes import Tensor, tensor_type
>>> x = Tensor(tensor_type((2, 3), "float32"), "x")
>>> softmax(add(x, 1.0), axis=-1).type
float32[2, 3]
"""

from .activations import (
    celu,
    elu,
    gelu,
    hard_sigmoid,
    hard_swish,
    leaky_relu,
    mish,
    prelu,
    selu,
    shrink,
    silu,
    softplus,
    softsign,
    thresholded_relu,
)  # fmt: skip
from .attention import attention
from .binary import (
    add,
    atan2,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    div,
    equal,
    floor_divide,
    fmod,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    mod,
    mul,
    not_equal,
    pow,
    shift_left,
    shift_right,
    sub,
    trunc_div,
)  # fmt: skip
from .choose import cast, clip, where
from .constants import arange, constant, eye, full, full_like, iota, ones, zeros
from .conv import conv, conv_transpose
from .dynamic import fold
from .einsum import einsum
from .gather import gather, gather_elements, gather_nd, one_hot, take, take_along_axis
from .host import (
    argsort,
    cumprod,
    cumsum,
    det,
    inverse,
    scatter_elements,
    scatter_nd,
    sort,
    topk,
)  # fmt: skip
from .matmul import matmul
from .normalize import (
    batch_norm,
    group_norm,
    instance_norm,
    l1_norm,
    l2_norm,
    layer_norm,
    log_softmax,
    logsumexp,
    lrn,
    mean,
    rms_norm,
    softmax,
    std,
    sum_square,
    var,
)  # fmt: skip
from .pad import pad
from .pool import (
    avg_pool,
    global_avg_pool,
    global_lp_pool,
    global_max_pool,
    lp_pool,
    max_pool,
    max_pool_with_indices,
    sum_pool,
)  # fmt: skip
from .rearrange import (
    broadcast_arrays,
    depth_to_space,
    diagonal,
    expand_dims,
    flatten,
    flip,
    moveaxis,
    repeat,
    roll,
    space_to_depth,
    split,
    squeeze,
    stack,
    swapaxes,
    tile,
    tril,
    triu,
    unstack,
)  # fmt: skip
from .reduce import all, any, argmax, argmin, max, min, prod, sum
from .resize import resize
from .shape import broadcast_to, concat, reshape, strided_slice, transpose
from .unary import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    bitwise_invert,
    ceil,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    logical_not,
    neg,
    reciprocal,
    relu,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
    trunc,
)  # fmt: skip

__all__ = [
    "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "argsort", "asin",
    "asinh", "atan", "atan2", "atanh", "attention", "avg_pool", "batch_norm", "bitwise_and",
    "bitwise_invert", "bitwise_or", "bitwise_xor", "broadcast_arrays", "broadcast_to", "cast",
    "ceil", "celu", "clip", "concat", "constant", "conv", "conv_transpose", "cos", "cosh",
    "cumprod", "cumsum", "depth_to_space", "det", "diagonal", "div", "einsum", "elu", "equal",
    "erf", "exp", "exp2", "expand_dims", "expm1", "eye", "flatten", "flip", "floor",
    "floor_divide", "fmod", "fold", "full", "full_like", "gather", "gather_elements", "gather_nd",
    "gelu", "global_avg_pool", "global_lp_pool", "global_max_pool", "greater", "greater_equal",
    "group_norm", "hard_sigmoid", "hard_swish", "instance_norm", "inverse", "iota", "isfinite",
    "isinf", "isnan", "l1_norm", "l2_norm", "layer_norm", "leaky_relu", "less", "less_equal",
    "log", "log10", "log1p", "log2", "log_softmax", "logical_and", "logical_not", "logical_or",
    "logical_xor", "logsumexp", "lp_pool", "lrn", "matmul", "max", "max_pool",
    "max_pool_with_indices", "maximum", "mean", "min", "minimum", "mish", "mod", "moveaxis", "mul",
    "neg", "not_equal", "one_hot", "ones", "pad", "pow", "prelu", "prod", "reciprocal", "relu",
    "repeat", "reshape", "resize", "rms_norm", "roll", "round", "rsqrt", "scatter_elements",
    "scatter_nd", "selu", "shift_left", "shift_right", "shrink", "sigmoid", "sign", "silu", "sin",
    "sinh", "softmax", "softplus", "softsign", "sort", "space_to_depth", "split", "sqrt", "square",
    "squeeze", "stack", "std", "strided_slice", "sub", "sum", "sum_pool", "sum_square", "swapaxes",
    "take", "take_along_axis", "tan", "tanh", "thresholded_relu", "tile", "topk", "transpose",
    "tril", "triu", "trunc", "trunc_div", "unstack", "var", "where", "zeros",
]  # fmt: skip
