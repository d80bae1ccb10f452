"""`Target`: which machine code is made for, and the facts about it that planners ask for.

A host's features, cores and caches are read from /proc and /sys, so that a kernel can be found in
the disk cache without loading LLVM. LLVM's own name and feature list for the host are asked for
in `codegen.host`, when code is made.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from ..base.cached import cached_property
from . import machine

Kind = Literal["cpu", "cuda"]
#: Option of GPU targets: functions by instructions that approximate them (see `approximations`).
FAST_MATH = "fast-math"


@dataclass(frozen=True)
class Target:
    """A machine to compile for.

    `cpu` is LLVM's processor name, or "native" for the machine we run on. `features` are LLVM's
    feature names that are there, without a plus sign, and `absent` those taken away from what the
    processor would have. Sizes are in bytes.

    >>> from tileloom.target import target
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
        vector_bits=vector_bits(arch, features),
        cores=machine.usable_cores(),
        l1=l1,
        l2=l2,
        l3=l3,
        identity=machine.identity(),
    )


def vector_bits(arch: str, features: tuple[str, ...]) -> int:
    """The width of the vector registers that a processor with these features has."""
    if arch == "x86_64" and "avx512f" in features:
        return 512
    return 256 if arch == "x86_64" and "avx" in features else 128


def current_process_may_run(value: Target) -> bool:
    """Whether this process can run code made for `value`."""
    host = Target.host()
    if value.kind != "cpu" or value.arch != host.arch or os.name != "posix":
        return False
    return value.is_native or set(value.features) <= set(host.features)
