"""Default rules: which, in which order, with which parameters."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tileloom.tune.kinds import RuleKind
from tileloom.tune.rules.defaults import default_rules

ON_CPUS = ["ApplyCustomRule", "InlineConstantScalars", "AutoInline", "AddRFactor",
           "MultiLevelTiling", "ParallelizeVectorizeUnroll", "RandomComputeLocation"]  # fmt: skip
ON_GPUS = ["ApplyCustomRule", "MultiLevelTiling", "InlineConstantScalars", "AutoInline",
           "CrossThreadReduction", "ParallelizeVectorizeUnroll", "AutoBind"]  # fmt: skip


@pytest.mark.parametrize("kind", get_args(RuleKind))
def test_order(kind: RuleKind) -> None:
    names = [type(rule).__name__ for rule in default_rules(kind)]
    assert names == (ON_GPUS if kind.startswith("cuda") else ON_CPUS)


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
