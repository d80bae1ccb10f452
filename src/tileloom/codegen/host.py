"""LLVM's own view of a target: processor name and feature string."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping
from functools import cache

import llvmlite.binding as llvm

from ..base.errors import UserError
from ..target import Target

_COMPLAINT = re.compile(r"'(\S+)' is not a recognized (processor|feature)")


@cache
def _host_description() -> tuple[str, str]:
    """LLVM's name and full feature list for this machine, absent features with a minus sign."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def llvm_cpu(target: Target) -> tuple[str, str]:
    """The processor name and feature string to give LLVM for `target`.

    The name alone says too little: clouds hide the model, and LLVM then guesses an older one. And
    even where it knows a 512-bit machine, it avoids its full registers unless told otherwise.

    >>> from tileloom.target import target
    >>> llvm_cpu(target("cpu -mtriple=aarch64-linux-gnu -mattr=+dotprod"))
    ('generic', '+dotprod,+fp-armv8,+neon')
    """
    return _NAMES[target.kind](target)


def _names_of_gpu(target: Target) -> tuple[str, str]:
    return target.arch, _ptx_version(target)


def _names_of_cpu(target: Target) -> tuple[str, str]:
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


_NAMES: Mapping[str, Callable[[Target], tuple[str, str]]] = {
    "cpu": _names_of_cpu,
    "cuda": _names_of_gpu,
}


def _ptx_version(target: Target) -> str:
    """The version of PTX that has all matrix instructions of a GPU.

    LLVM takes the oldest that knows the processor. 8.4 is that of CUDA 12.4, with products of
    8-bit floats; the older GPUs keep to what old drivers read.
    """
    if target.sm in (89, 90):
        return "+ptx84"
    return "+ptx65" if target.sm < 80 else ""


@cache
def check_names(target: Target) -> None:
    """Refuse a processor or a feature that LLVM does not know.

    LLVM has no way to ask: it writes a complaint to standard error and goes on, and may then end
    the process over code that its generic processor cannot run. So this reads what it writes.
    """
    if target.is_native and target.features == Target.host().features:
        return
    cpu, features = llvm_cpu(target)
    if target.arch == "x86_64":
        features += ",+64bit"
    said = _said_by(lambda: llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=cpu, features=features
    ))  # fmt: skip
    found = _COMPLAINT.search(said)
    if found is not None:
        name, kind = found.group(1).lstrip("+-"), found.group(2)
        raise UserError(f"LLVM knows no {kind} {name!r} of {target.arch}")


def _said_by(call: Callable[[], object]) -> str:
    """What a call writes to standard error, past Python."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            call()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        return file.read().decode(errors="replace")
