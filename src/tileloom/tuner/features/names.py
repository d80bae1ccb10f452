"""The columns of the feature matrix."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

_OPERATIONS = ("mad", "addsub", "mul", "divmod", "cmp", "mathfunc", "otherfunc")
_POSITIONS = (
    "kPosNone",
    "kPosInnerSpatial",
    "kPosMiddleSpatial",
    "kPosOuterSpatial",
    "kPosInnerReduce",
    "kPosMiddleReduce",
    "kPosOuterReduce",
    "kPosMixed",
)
_THREADS = (
    *(f"blockIdx_{axis}_len" for axis in "xyz"),
    *(f"threadIdx_{axis}_len" for axis in "xyz"),
    "vthread_len",
)
_SLOT = (
    *(f"acc_type.{kind}" for kind in ("kRead", "kWrite", "kReadWrite")),
    "bytes",
    "unique_bytes",
    "lines",
    "unique_lines",
    *(
        f"reuse_type.{kind}"
        for kind in ("kLoopMultipleRead", "kSerialMultipleReadWrite", "kNoReuse")
    ),
    "reuse_dis_iter",
    "reuse_dis_bytes",
    "reuse_ct",
    "bytes_d_reuse_ct",
    "unique_bytes_d_reuse_ct",
    "lines_d_reuse_ct",
    "unique_lines_d_reuse_ct",
    "stride",
)
_ALLOCATION = ("alloc_size", "alloc_prod", "alloc_outer_prod", "alloc_inner_prod")
_NEST = ("outer_prod", "num_loops", "auto_unroll_max_step")
WORKLOADS = (
    "softmax",
    "max_or_min",
    "add",
    "batch_matmul",
    "matmul",
    "depthwiseconv2d",
    "conv2d_winograd",
    "conv2d",
)

SLOT_SIZE = len(_SLOT)


@cache
def feature_names(
    buffers_per_store: int = 5, samples: int = 10, workload: bool = False
) -> tuple[str, ...]:
    """What each column is.

    >>> names = feature_names()
    >>> len(names), names[0], names[57], names[-1]
    (164, 'float_mad', 'B0.acc_type.kRead', 'auto_unroll_max_step')
    """
    return (
        *(f"{kind}_{operation}" for kind in ("float", "int") for operation in _OPERATIONS),
        "bool_op",
        "select_op",
        *(name for kind in ("vec", "unroll", "parallel") for name in _kind_of_loop(kind)),
        "is_gpu",
        *_THREADS,
        *(f"B{slot}.{name}" for slot in range(buffers_per_store) for name in _SLOT),
        *(f"arith_intensity_curve_{sample}" for sample in range(samples)),
        *_ALLOCATION,
        *_NEST,
        *(f"is_{name}" for name in WORKLOADS if workload),
    )


def _kind_of_loop(kind: str) -> Sequence[str]:
    return (
        *(f"{kind}_{number}" for number in ("num", "prod", "len")),
        *(f"{kind}_type.{position}" for position in _POSITIONS),
    )


FEATURE_NAMES = feature_names()
