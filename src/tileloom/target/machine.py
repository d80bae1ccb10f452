"""What the operating system says about the machine: features, cores, caches, quotas.

Everything is read from /proc and /sys and falls back to modest guesses where those are missing.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache

from ..base.late import TYPE_CHECKING, package

if TYPE_CHECKING:
    import ctypes
else:
    ctypes = package("ctypes")

# Linux's names for features where they differ from LLVM's by more than "_" or a bare copy.
_X86_NAMES = {
    "pni": "sse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "abm": "lzcnt",
    "bmi1": "bmi",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "avx512_vbmi2": "avx512vbmi2",
    "avx512_vnni": "avx512vnni",
    "avx512_bitalg": "avx512bitalg",
    "avx512_vpopcntdq": "avx512vpopcntdq",
    "avx512_vp2intersect": "avx512vp2intersect",
    "avx_vnni": "avxvnni",
    "avx_vnni_int8": "avxvnniint8",
    "avx_vnni_int16": "avxvnniint16",
    "avx_ifma": "avxifma",
    "avx_ne_convert": "avxneconvert",
    "amx_tile": "amx-tile",
    "amx_int8": "amx-int8",
    "amx_bf16": "amx-bf16",
    "amx_fp16": "amx-fp16",
    "pclmulqdq": "pclmul",
    "sha_ni": "sha",
}
_X86_SAME = frozenset(
    {"sse", "sse2", "ssse3", "sse4a", "avx", "avx2", "fma", "f16c", "bmi2", "popcnt", "movbe"}
    | {"cx16", "aes", "vaes", "vpclmulqdq", "gfni", "adx"}
    | {"avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl", "avx512ifma", "avx512vbmi"}
)
_ARM_NAMES = {
    "asimd": "neon",
    "fp": "fp-armv8",
    "asimdhp": "fullfp16",
    "asimddp": "dotprod",
    "atomics": "lse",
    "i8mm": "i8mm",
    "bf16": "bf16",
    "sve": "sve",
    "sve2": "sve2",
    "asimdfhm": "fp16fml",
    "aes": "aes",
    "crc32": "crc",
}

#: arch_prctl(ARCH_REQ_XCOMP_PERM, the component of the state that tiles are in), on x86-64
_REQUEST_TILES = (158, 0x1023, 18)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def architecture() -> str:
    """The processor's architecture as LLVM spells it: "x86_64" or "aarch64"."""
    name = os.uname().machine.lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


@cache
def _processor() -> dict[str, str]:
    """The first processor's block in /proc/cpuinfo."""
    block = _read("/proc/cpuinfo").split("\n\n")[0]
    pairs = (line.partition(":") for line in block.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


@cache
def features() -> tuple[str, ...]:
    """The features that the operating system lets programs use, in LLVM's spelling, sorted."""
    if architecture() == "aarch64":
        flags = _processor().get("Features", "").split()
        return tuple(sorted({"neon", *(_ARM_NAMES[flag] for flag in flags if flag in _ARM_NAMES)}))
    flags = _processor().get("flags", "sse sse2").split()
    names = {_X86_NAMES.get(flag, flag) for flag in flags if flag in _X86_SAME | _X86_NAMES.keys()}
    if "amx-tile" in names and not may_use_tiles():
        names = {name for name in names if not name.startswith("amx-")}
    return tuple(sorted(names))


@cache
def may_use_tiles() -> bool:
    """Whether Linux lets this process use AMX's tile registers: it has to be asked, once.

    The answer holds for all threads, and for processes forked from this one.
    """
    try:
        return bool(ctypes.CDLL(None).syscall(*_REQUEST_TILES) == 0)
    except (OSError, AttributeError):
        return False


@cache
def identity() -> str:
    """A digest of everything that tells this kind of processor from another."""
    about = _processor()
    wanted = "vendor_id,cpu family,model,stepping,flags,CPU implementer,CPU part,Features"
    text = "\n".join(about.get(name, "") for name in wanted.split(","))
    return hashlib.sha256(f"{architecture()}\n{text}".encode()).hexdigest()[:16]


def usable_cores() -> int:
    """Cores that this process may keep busy: its affinity, cut down to the cgroup's CPU quota."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        cores = os.cpu_count() or 1
    return max(1, min(cores, cpu_quota() or cores))


@cache
def cpu_quota(root: str = "/sys/fs/cgroup", membership: str = "/proc/self/cgroup") -> int | None:
    """Whole cores that the control group of this process may use, if it is limited.

    Every group from ours up to the root can set a limit. Part of a core counts as one more.
    """
    limits = []
    for line in _read(membership).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            bases = [root, f"{root}/unified"]
        elif "cpu" in controllers.split(","):
            bases = [f"{root}/{controllers}", f"{root}/cpu"]
        else:
            continue
        for base in bases:
            group = f"{base}/{path.strip('/')}".rstrip("/")
            while len(group) >= len(base):
                limits.append(_group_quota(group))
                group = group.rpartition("/")[0]
    found = [limit for limit in limits if limit is not None]
    return max(1, -int(-min(found) // 1)) if found else None


def _group_quota(group: str) -> float | None:
    """Cores allowed by one control group's files, version 2 or 1."""
    quota, _, period = _read(f"{group}/cpu.max").strip().partition(" ")
    if not period:
        quota = _read(f"{group}/cpu.cfs_quota_us").strip()
        period = _read(f"{group}/cpu.cfs_period_us").strip()
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None  # "max", -1 or no file: not limited here
    return int(quota) / int(period)


@cache
def cache_sizes() -> tuple[int, int, int]:
    """Bytes of first-level data, second-level and third-level cache as one core sees them."""
    sizes = {1: 32 << 10, 2: 1 << 20, 3: 0}
    for index in range(8):
        folder = f"/sys/devices/system/cpu/cpu0/cache/index{index}"
        kind, level = _read(f"{folder}/type").strip(), _read(f"{folder}/level").strip()
        size = _read(f"{folder}/size").strip()
        if kind in ("Data", "Unified") and size.endswith("K") and level in ("1", "2", "3"):
            sizes[int(level)] = int(size[:-1]) << 10
    return sizes[1], sizes[2], sizes[3] or max(sizes[2], 8 << 20)
