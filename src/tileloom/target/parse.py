"""Targets from their text: the processors and GPUs that have names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..base.errors import UserError
from . import at_hand
from .description import FAST_MATH, Target, vector_bits

# What the levels of the x86-64 psABI guarantee, as far as code generation asks.
_V2 = ("cx16", "popcnt", "sse", "sse2", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_VNNI = (*_V4, "avx512vnni")
_BF16 = (*_VNNI, "avx512bf16")
_AMX = (*_BF16, "amx-bf16", "amx-int8", "amx-tile", "avx512fp16")
_KNOWN_CPUS: dict[str, tuple[str, ...]] = {
    "x86-64": ("sse", "sse2"),
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
    "haswell": _V3,
    "broadwell": _V3,
    "skylake": _V3,
    "alderlake": _V3,
    "znver1": _V3,
    "znver2": _V3,
    "znver3": _V3,
    "skylake-avx512": _V4,
    "cascadelake": _VNNI,
    "icelake-server": _VNNI,
    "rocketlake": _VNNI,
    "cooperlake": _BF16,
    "znver4": _BF16,
    "znver5": _BF16,
    "sapphirerapids": _AMX,
    "emeraldrapids": _AMX,
    "graniterapids": (*_AMX, "amx-fp16"),
}
_ARCH_NAMES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}


def target(spec: Any = "cpu") -> Target:
    """The target that a description means.

    Accepts a `Target`, `"cpu"` (or `"llvm"`, `"native"`, `"host"`), `"cpu -mcpu=znver4"`,
    `"cpu -mtriple=aarch64-linux-gnu -mattr=+neon"`, `"cuda"` (the GPU at hand, else sm_90),
    `"cuda -arch=sm_90a"`, `"cuda -arch=sm_80 -fast-math"`.

    Raises:
        UserError: for a description that means nothing.

    >>> target("cuda -arch=sm_80").sm
    80
    >>> target("llvm") is Target.host()
    True
    """
    if isinstance(spec, Target):
        return spec
    if not isinstance(spec, str) or not spec.strip():
        raise UserError(f"a target is a string or a Target, not {spec!r}")
    kind, *options = spec.split()
    values = dict(_option(spec, text) for text in options)
    if kind in ("cuda", "nvptx"):
        return _cuda(spec, values)
    if kind not in ("cpu", "llvm", "native", "host"):
        raise UserError(f"unknown target {kind!r}", hint='known targets are "cpu" and "cuda"')
    return _cpu(spec, values)


def _option(spec: str, text: str) -> tuple[str, str]:
    name, equals, value = text.lstrip("-").partition("=")
    if name == FAST_MATH and not equals:
        return name, "1"
    if not text.startswith("-") or not equals:
        raise UserError(
            f"cannot read {text!r} in target {spec!r}", hint='options look like "-mcpu=znver4"'
        )
    return name, value


def _take(values: dict[str, str], *names: str) -> str | None:
    found = [values.pop(name) for name in names if name in values]
    return found[0] if found else None


def _refuse_rest(spec: str, values: dict[str, str], known: str) -> None:
    if values:
        raise UserError(
            f"unknown option -{next(iter(values))} in target {spec!r}", hint=f"known are {known}"
        )


def _cpu(spec: str, values: dict[str, str]) -> Target:
    triple = _take(values, "mtriple", "triple")
    cpu = _take(values, "mcpu", "cpu")
    attributes = _take(values, "mattr", "features") or ""
    cores = _take(values, "num-cores", "cores")
    _refuse_rest(spec, values, "-mtriple, -mcpu, -mattr, -num-cores")
    host = Target.host()
    arch = _architecture(spec, triple) if triple else host.arch
    if cpu in (None, "native") and arch == host.arch and not attributes:
        result = host
    else:
        result = _named_cpu(arch, cpu, attributes)
    if cores is not None:
        if not cores.isdigit() or int(cores) < 1:
            raise UserError(f"-num-cores={cores} in target {spec!r} is not a positive number")
        result = result.with_cores(int(cores))
    return result


def _architecture(spec: str, triple: str) -> str:
    arch = _ARCH_NAMES.get(triple.split("-")[0].lower())
    if arch is None:
        raise UserError(
            f"unknown architecture in target {spec!r}", hint="known are x86_64 and aarch64"
        )
    return arch


def _named_cpu(arch: str, cpu: str | None, attributes: str) -> Target:
    host = Target.host()
    if cpu in (None, "native"):
        native = arch == host.arch
        cpu = "native" if native else "generic" if arch == "aarch64" else "x86-64"
        features = set(host.features if native else ())
    else:
        features = set()
    features |= set(("neon", "fp-armv8") if arch == "aarch64" else _KNOWN_CPUS.get(cpu or "", ()))
    given = list(filter(None, attributes.split(",")))
    absent = {text[1:] for text in given if text.startswith("-")}
    features |= {text.removeprefix("+") for text in given if not text.startswith("-")}
    features -= absent
    ordered = tuple(sorted(features))
    return replace(
        host,
        arch=arch,
        cpu=cpu or "generic",
        features=ordered,
        vector_bits=vector_bits(arch, ordered),
        absent=tuple(sorted(absent)),
        identity=host.identity if cpu == "native" else "",
    )


def _cuda(spec: str, values: dict[str, str]) -> Target:
    arch = _take(values, "arch", "mcpu", "sm") or at_hand.find_gpu() or "sm_90"
    fast = _take(values, FAST_MATH) or "0"
    if fast not in ("0", "1"):
        raise UserError(f"-{FAST_MATH}={fast} in target {spec!r} is neither 0 nor 1")
    _refuse_rest(spec, values, f"-arch, -{FAST_MATH}")
    arch = arch if arch.startswith("sm_") else f"sm_{arch}"
    model = arch[3:].rstrip("af")
    if not model.isdigit() or int(model) < 50:
        raise UserError(f"unknown GPU architecture in target {spec!r}", hint='try "sm_90"')
    number = int(model)
    shared = {70: 96, 75: 64, 80: 163, 86: 99, 87: 163, 89: 99}.get(number, 48)
    # V100, T4, A100, RTX A6000, Orin, RTX 4090, H100, B200
    processors = {70: 80, 75: 40, 80: 108, 86: 84, 87: 16, 89: 128, 90: 132, 100: 148}
    return Target(
        kind="cuda",
        arch=arch,
        cpu=arch,
        features=(FAST_MATH,) if fast == "1" else (),
        vector_bits=128,
        cores=1,
        max_threads=1024,
        shared_memory=(227 if number in (90, 100, 103) else shared) << 10,
        warp_size=32,
        processors=processors.get(number, 100),
    )
