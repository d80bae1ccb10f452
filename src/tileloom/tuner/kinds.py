"""Which set of rules a machine gets."""

from __future__ import annotations

from typing import Literal

from ..target import Target

#: TVM's, and two for products of bfloat16 and of bytes that TVM has no intrinsics for.
RuleKind = Literal[
    "llvm", "vnni", "avx512", "avx512bf16", "amx", "dotprod", "asimd", "cuda", "cuda-tensorcore"
]

#: What TVM takes the kinds for that are not its own.
IN_TVM: dict[RuleKind, RuleKind] = {"amx": "vnni", "avx512bf16": "vnni"}
_TENSOR_CORES = 75  # compute capability from which tensor cores are used


def rule_kind(target: Target) -> RuleKind:
    """The kind of a machine, by what it can do, finer than TVM's `GetRuleKindFromTarget`.

    >>> from tileloom.target import target
    >>> rule_kind(target("cuda -arch=sm_70")), rule_kind(target("cpu -mcpu=x86-64-v3"))
    ('cuda', 'llvm')
    """
    if target.sm:
        return "cuda-tensorcore" if target.sm >= _TENSOR_CORES else "cuda"
    if target.arch == "aarch64":
        return "dotprod" if target.has("dotprod") else "asimd"
    if target.has("amx-bf16") and target.has("amx-int8"):
        return "amx"
    if target.has("avx512bf16"):
        return "avx512bf16"
    if target.has("avx512vnni") or target.has("avxvnni"):
        return "vnni"
    if target.has("avx512f") and target.has("avx512bw"):
        return "avx512"
    return "llvm"
