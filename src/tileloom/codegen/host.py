"""LLVM's own view of a target: processor name and feature string."""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm

from ..base.target import Target


@cache
def _host_description() -> tuple[str, str]:
    """LLVM's name and full feature list for this machine, absent features with a minus sign."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def llvm_cpu(target: Target) -> tuple[str, str]:
    """The processor name and feature string to give LLVM for `target`.

    The name alone says too little: clouds hide the model, and LLVM then guesses an older one. And
    even where it knows a 512-bit machine, it avoids its full registers unless told otherwise.

    >>> from tileloom.base.target import target
    >>> llvm_cpu(target("cpu -mtriple=aarch64-linux-gnu -mattr=+dotprod"))
    ('generic', '+dotprod,+fp-armv8,+neon')
    """
    if target.is_native:
        name, features = _host_description()
        listed = [features] if features else []
        added = set(target.features) - set(Target.host().features)
        listed += [f"+{feature}" for feature in sorted(added)]
    else:
        name = target.cpu
        listed = [f"+{feature}" for feature in target.features]
    listed += [f"-{feature}" for feature in target.absent]
    if target.arch == "x86_64" and target.vector_bits == 512:
        listed.append("-prefer-256-bit")
    return name, ",".join(listed)
