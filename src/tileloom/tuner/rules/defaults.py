"""The rules that a kind of machine gets, in the order in which they are applied.

Kinds, order and parameters are those of TVM 0.27's MetaSchedule, whose steps of unrolling on GPUs
are finer than those of 0.20; "amx" and "avx512bf16" are not TVM's. TVM's second rule for tensor
cores, by fragments of 16 by 8 by 8, is not there: it needs intrinsics for registers laid out so.
"""

from __future__ import annotations

from ...schedule.library.intrinsics.packed import WORDS
from ..context import ScheduleRule
from ..kinds import RuleKind
from .add_rfactor import AddRFactor
from .apply_custom_rule import ApplyCustomRule
from .auto_bind import AutoBind
from .auto_inline import AutoInline
from .cross_thread_reduction import CrossThreadReduction
from .inline_constant_scalars import InlineConstantScalars
from .multi_level_tiling import MultiLevelTiling, ReuseType
from .multi_level_tiling_tensor_core import MultiLevelTilingTensorCore, wmma_group
from .multi_level_tiling_with_intrin import MultiLevelTilingWithIntrin
from .multi_level_tiling_with_packed_intrin import MultiLevelTilingWithPackedIntrin, Unit
from .parallelize_vectorize_unroll import ParallelizeVectorizeUnroll
from .random_compute_location import RandomComputeLocation

#: Per kind of CPU: the intrinsics that blocks are tiled for before others are tiled without.
_INTRINSICS: dict[RuleKind, tuple[str, ...]] = {
    **dict.fromkeys(("vnni", "avx512bf16", "amx"), ("dot_16x4_vnni",)),
    "avx512": ("dot_16x4_avx512",),
    "dotprod": ("dot_4x4_i8i8s32_sdot", "dot_4x4_u8u8u32_udot", "dot_4x4_u8u8i32_hdot"),
    "asimd": ("dot_4x4_i8i8s32_neon",),
}
#: Per kind of CPU: the units that products of packed factors are tiled for before that, and types.
_PACKED: dict[RuleKind, tuple[tuple[Unit, tuple[str, ...]], ...]] = {
    "avx512bf16": (("dots", ("bf16", "u8s8")),),
    "amx": (("amx", ("bf16", "u8s8", "s8s8", "u8u8", "s8u8")), ("dots", ("bf16", "u8s8"))),
}


def default_rules(kind: RuleKind) -> tuple[ScheduleRule, ...]:
    """The rules of a kind of machine.

    >>> [type(rule).__name__ for rule in default_rules("llvm")]
    ['ApplyCustomRule', 'InlineConstantScalars', 'AutoInline', 'AddRFactor', 'MultiLevelTiling',
     'ParallelizeVectorizeUnroll', 'RandomComputeLocation']
    """
    if kind in ("cuda", "cuda-tensorcore"):
        own, *others = _cuda()
        return (own, *((_wmma(),) if kind == "cuda-tensorcore" else ()), *others)
    if kind in ("dotprod", "asimd"):
        return _cpu(kind, jobs=8, innermost=32, vectors=32, steps=(0, 8, 32, 256))
    return _cpu(kind, jobs=16, innermost=64, vectors=64, steps=(0, 16, 64, 512))


def _cpu(
    kind: RuleKind, jobs: int, innermost: int, vectors: int, steps: tuple[int, ...]
) -> tuple[ScheduleRule, ...]:
    return (
        ApplyCustomRule(),
        InlineConstantScalars(),
        *_packed(kind, WORDS),  # before words are inlined where they are multiplied
        AutoInline(),
        AddRFactor(jobs, innermost),
        *_packed(kind),
        *(
            MultiLevelTilingWithIntrin(max_innermost_factor=innermost, intrin_name=name)
            for name in _INTRINSICS.get(kind, ())
        ),
        MultiLevelTiling(max_innermost_factor=innermost),
        ParallelizeVectorizeUnroll(jobs, vectors, steps),
        RandomComputeLocation(),
    )


def _packed(kind: RuleKind, suffix: str = "") -> tuple[ScheduleRule, ...]:
    return tuple(
        MultiLevelTilingWithPackedIntrin(unit=unit, kinds=tuple(name + suffix for name in types))
        for unit, types in _PACKED.get(kind, ())
    )


def _wmma() -> ScheduleRule:
    return MultiLevelTilingTensorCore(
        structure="SSSRRSRS",
        tile_binds=("blockIdx.y", "blockIdx.x", "threadIdx.y"),
        max_innermost_factor=4,
        vector_load_lens=(1, 2, 3, 4, 8, 16),
        reuse_read=ReuseType("must", (4,), "shared.dyn"),
        reuse_write=ReuseType("must", (2,), "shared.dyn"),
        intrin_groups=tuple(
            wmma_group(factor, total, trans_b)
            for factor, total in (("f16", "f32"), ("f16", "f16"), ("s8", "s32"))
            for trans_b in (False, True)
        ),
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
