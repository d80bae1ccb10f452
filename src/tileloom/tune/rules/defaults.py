"""The rules that a kind of machine gets, in the order in which they are applied.

Kinds, order and parameters are those of TVM 0.27's MetaSchedule, whose steps of unrolling on GPUs
are finer than those of 0.20.
"""

from __future__ import annotations

from ..context import ScheduleRule
from ..kinds import RuleKind
from .add_rfactor import AddRFactor
from .apply_custom_rule import ApplyCustomRule
from .auto_bind import AutoBind
from .auto_inline import AutoInline
from .cross_thread_reduction import CrossThreadReduction
from .inline_constant_scalars import InlineConstantScalars
from .multi_level_tiling import MultiLevelTiling, ReuseType
from .parallelize_vectorize_unroll import ParallelizeVectorizeUnroll
from .random_compute_location import RandomComputeLocation


def default_rules(kind: RuleKind) -> tuple[ScheduleRule, ...]:
    """The rules of a kind of machine.

    >>> [type(rule).__name__ for rule in default_rules("llvm")]
    ['ApplyCustomRule', 'InlineConstantScalars', 'AutoInline', 'AddRFactor', 'MultiLevelTiling',
     'ParallelizeVectorizeUnroll', 'RandomComputeLocation']
    """
    if kind in ("cuda", "cuda-tensorcore"):
        return _cuda()
    return _arm() if kind in ("dotprod", "asimd") else _llvm()


def _llvm() -> tuple[ScheduleRule, ...]:
    return (
        ApplyCustomRule(),
        InlineConstantScalars(),
        AutoInline(),
        AddRFactor(),
        MultiLevelTiling(),
        ParallelizeVectorizeUnroll(),
        RandomComputeLocation(),
    )


def _arm() -> tuple[ScheduleRule, ...]:
    return (
        ApplyCustomRule(),
        InlineConstantScalars(),
        AutoInline(),
        AddRFactor(max_jobs_per_core=8, max_innermost_factor=32),
        MultiLevelTiling(max_innermost_factor=32),
        ParallelizeVectorizeUnroll(
            max_jobs_per_core=8, max_vectorize_extent=32, unroll_max_steps=(0, 8, 32, 256)
        ),
        RandomComputeLocation(),
    )


def _cuda() -> tuple[ScheduleRule, ...]:
    return (
        ApplyCustomRule(),
        MultiLevelTiling(
            structure="SSSRRSRS",
            tile_binds=("blockIdx.x", "vthread.x", "threadIdx.x"),
            vector_load_lens=(1, 2, 3, 4, 8, 16),
            reuse_read=ReuseType("must", (4,), "shared"),
            reuse_write=ReuseType("must", (3,), "local"),
        ),
        InlineConstantScalars(),
        AutoInline(
            into_producer=True,
            disallow_if_then_else=False,
            require_injective=False,
            require_ordered=False,
            disallow_op=(),
        ),
        CrossThreadReduction(),
        ParallelizeVectorizeUnroll(
            max_jobs_per_core=-1,
            max_vectorize_extent=-1,
            unroll_max_steps=(0, 16, 32, 64, 128, 256, 512, 1024),
        ),
        AutoBind(),
    )
