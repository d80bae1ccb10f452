"""Default rules: which, in which order, with which parameters."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tileloom.schedule.tensor_intrin import TensorIntrin
from tileloom.tuner.kinds import RuleKind
from tileloom.tuner.rules.defaults import default_rules
from tileloom.tuner.rules.multi_level_tiling_with_intrin import MultiLevelTilingWithIntrin
from tileloom.tuner.rules.multi_level_tiling_with_packed_intrin import (
    MultiLevelTilingWithPackedIntrin,
)

ON_CPUS = ["ApplyCustomRule", "InlineConstantScalars", "AutoInline", "AddRFactor",
           "MultiLevelTiling", "ParallelizeVectorizeUnroll", "RandomComputeLocation"]  # fmt: skip
ON_GPUS = ["ApplyCustomRule", "MultiLevelTiling", "InlineConstantScalars", "AutoInline",
           "CrossThreadReduction", "ParallelizeVectorizeUnroll", "AutoBind"]  # fmt: skip


INTRINSICS = {
    **{kind: ["dot_16x4_vnni"] for kind in ("vnni", "avx512bf16", "amx")},
    "avx512": ["dot_16x4_avx512"],
    "dotprod": ["dot_4x4_i8i8s32_sdot", "dot_4x4_u8u8u32_udot", "dot_4x4_u8u8i32_hdot"],
    "asimd": ["dot_4x4_i8i8s32_neon"],
}


PACKED = {"avx512bf16": ["dots"] * 2, "amx": ["amx", "dots"] * 2}


@pytest.mark.parametrize("kind", get_args(RuleKind))
def test_order(kind: RuleKind) -> None:
    rules = default_rules(kind)
    special = [rule for rule in rules if isinstance(rule, MultiLevelTilingWithIntrin)]
    packed = [rule for rule in rules if isinstance(rule, MultiLevelTilingWithPackedIntrin)]
    names = [type(rule).__name__ for rule in rules if rule not in (*special, *packed)]
    if kind == "cuda-tensorcore":
        assert names.pop(1) == "MultiLevelTilingTensorCore"
    assert names == (ON_GPUS if kind.startswith("cuda") else ON_CPUS)
    assert [rule.intrin_name for rule in special] == INTRINSICS.get(kind, [])
    assert [rule.unit for rule in packed] == PACKED.get(kind, [])
    # Before the rule that tiles without an intrinsic.
    others = packed[len(packed) // 2 :]  # the first half is for words, before they are inlined
    places = [rules.index(rule) for rule in (*others, *special)]
    assert places == [4 + len(others) + k for k in range(len(places))]


@pytest.mark.parametrize("kind", INTRINSICS)
def test_intrinsics_are_known(kind: str) -> None:
    for name in INTRINSICS[kind]:
        assert TensorIntrin.get(name) is not None


def named(kind: RuleKind, name: str) -> Any:
    (rule,) = [rule for rule in default_rules(kind) if type(rule).__name__ == name]
    return rule


def test_processors_of_phones_get_less_of_everything() -> None:
    for kind in ("asimd", "dotprod"):
        assert named(kind, "AddRFactor").max_jobs_per_core == 8
        assert named(kind, "MultiLevelTiling").max_innermost_factor == 32
        assert named(kind, "ParallelizeVectorizeUnroll").unroll_max_steps == (0, 8, 32, 256)


def test_gpus_inline_freely() -> None:
    rule = named("cuda", "AutoInline")
    assert rule.into_producer
    assert not rule.disallow_op
    assert named("llvm", "AutoInline").disallow_op == ("tir.exp",)
