"""Which set of rules a machine gets."""

from __future__ import annotations

from typing import Literal

from ..target import Target

RuleKind = Literal["llvm", "vnni", "avx512", "dotprod", "asimd", "cuda", "cuda-tensorcore"]

_TENSOR_CORES = 75  # compute capability from which tensor cores are used


def rule_kind(target: Target) -> RuleKind:
    """The kind of a machine, by what it can do; as TVM's `GetRuleKindFromTarget` tells them apart.

    >>> from tileloom.target import target
    >>> rule_kind(target("cuda -arch=sm_70")), rule_kind(target("cpu -mcpu=x86-64-v3"))
    ('cuda', 'llvm')
    """
    if target.sm:
        return "cuda-tensorcore" if target.sm >= _TENSOR_CORES else "cuda"
    if target.arch == "aarch64":
        return "dotprod" if target.has("dotprod") else "asimd"
    if target.has("avx512vnni") or target.has("avxvnni"):
        return "vnni"
    if target.has("avx512f") and target.has("avx512bw"):
        return "avx512"
    return "llvm"
