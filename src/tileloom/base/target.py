"""Targets: which machine code is made for, and the facts about it that planners ask for.

A host's features, cores and caches are read from /proc and /sys, so that a kernel can be found in
the disk cache without loading LLVM. LLVM's own name and feature list for the host are asked for
in `codegen.host`, when code is made.
"""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from . import machine
from .cached import cached_property
from .errors import UserError

Kind = Literal["cpu", "cuda"]
#: Option of GPU targets: functions by instructions that approximate them (`base.gpu_math`).
FAST_MATH = "fast-math"


@dataclass(frozen=True)
class Target:
    """A machine to compile for.

    `cpu` is LLVM's processor name, or "native" for the machine we run on. `features` are LLVM's
    feature names that are there, without a plus sign, and `absent` those taken away from what the
    processor would have. Sizes are in bytes.

    >>> t = target("cpu -mcpu=x86-64-v3")
    >>> t.kind, t.vector_bits, t.has("fma"), t.lanes(32)
    ('cpu', 256, True, 8)
    """

    kind: Kind
    arch: str  # "x86_64", "aarch64", or "sm_90" and the like
    cpu: str = "native"
    features: tuple[str, ...] = ()
    vector_bits: int = 128
    cores: int = 1  # that may run at once: affinity and quota are honoured
    l1: int = 32 << 10
    l2: int = 1 << 20
    l3: int = 8 << 20
    absent: tuple[str, ...] = ()
    identity: str = ""  # tells two "native" machines apart
    max_threads: int = 0  # CUDA: per block
    shared_memory: int = 0  # CUDA: bytes per block
    warp_size: int = 0
    processors: int = 0  # CUDA: streaming multiprocessors of a usual GPU of the architecture

    @staticmethod
    def host() -> Target:
        """The CPU that we run on."""
        return _host()

    def has(self, feature: str) -> bool:
        """Whether an LLVM feature (`"avx512f"`, `"amx-int8"`, `"neon"`) is there."""
        return feature in self._feature_set

    def lanes(self, bits: int) -> int:
        """Elements of `bits` bits in a vector register; at least one."""
        return max(1, self.vector_bits // max(1, bits))

    def with_cores(self, cores: int) -> Target:
        """The same machine with another number of cores."""
        return replace(self, cores=cores)

    @property
    def is_asynchronous(self) -> bool:
        """Whether kernels run while the host goes on, which would have to wait for their values."""
        return self.kind == "cuda"

    @property
    def is_native(self) -> bool:
        """Whether code for this target is tuned for, and runs on, the machine we are on."""
        return self.kind == "cpu" and self.cpu == "native"

    @property
    def triple(self) -> str:
        """LLVM's target triple."""
        if self.kind == "cuda":
            return "nvptx64-nvidia-cuda"
        return f"{self.arch}-unknown-linux-gnu"

    @property
    def sm(self) -> int:
        """CUDA: the compute capability, 90 for Hopper; 0 on a CPU."""
        digits = "".join(filter(str.isdigit, self.arch))
        return int(digits) if self.kind == "cuda" else 0

    @cached_property
    def _feature_set(self) -> frozenset[str]:
        return frozenset(self.features)

    @cached_property
    def key(self) -> str:
        """A short string that differs whenever machine code may differ.

        Cores and caches are not part of it: they steer the planners, which leave their mark in
        the program itself.
        """
        features = ",".join((*self.features, "-", *self.absent))
        text = "\n".join((self.kind, self.arch, self.cpu, features, self.identity))
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"{self.kind}-{self.arch}-{self.cpu}-{self.vector_bits}-{digest}"

    def __str__(self) -> str:
        if self.kind == "cuda":
            return f"cuda -arch={self.arch}" + (f" -{FAST_MATH}" if self.has(FAST_MATH) else "")
        return "cpu" if self.is_native else f"cpu -mtriple={self.triple} -mcpu={self.cpu}"


@cache
def _host() -> Target:
    arch = machine.architecture()
    features = machine.features()
    l1, l2, l3 = machine.cache_sizes()
    return Target(
        kind="cpu",
        arch=arch,
        features=features,
        vector_bits=_vector_bits(arch, features),
        cores=machine.usable_cores(),
        l1=l1,
        l2=l2,
        l3=l3,
        identity=machine.identity(),
    )


def _vector_bits(arch: str, features: tuple[str, ...]) -> int:
    if arch == "x86_64" and "avx512f" in features:
        return 512
    return 256 if arch == "x86_64" and "avx" in features else 128


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
        vector_bits=_vector_bits(arch, ordered),
        absent=tuple(sorted(absent)),
        identity=host.identity if cpu == "native" else "",
    )


def _native_gpu() -> str | None:
    """The architecture of the GPU at hand, which the runtime knows: the package's root asks it."""
    found: str | None = sys.modules[__name__.partition(".")[0]]._native_gpu()
    return found


def _cuda(spec: str, values: dict[str, str]) -> Target:
    arch = _take(values, "arch", "mcpu", "sm") or _native_gpu() or "sm_90"
    fast = _take(values, FAST_MATH) or "0"
    if fast not in ("0", "1"):
        raise UserError(f"-{FAST_MATH}={fast} in target {spec!r} is neither 0 nor 1")
    _refuse_rest(spec, values, f"-arch, -{FAST_MATH}")
    arch = arch if arch.startswith("sm_") else f"sm_{arch}"
    digits = arch[3:].rstrip("af")
    if not digits.isdigit() or int(digits) < 50:
        raise UserError(f"unknown GPU architecture in target {spec!r}", hint='try "sm_90"')
    number = int(digits)
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


def current_process_may_run(value: Target) -> bool:
    """Whether this process can run code made for `value`."""
    host = Target.host()
    if value.kind != "cpu" or value.arch != host.arch or os.name != "posix":
        return False
    return value.is_native or set(value.features) <= set(host.features)
