"""`tvm.target.Target`: TVM's descriptions of targets, and ours for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ....target import Target as Machine
from ....target import target as parse_target
from .._names import Scoped, missing

_CPU = ("llvm", "c", "cpu", "native", "host")
_GPU_TAGS = {
    "nvidia/geforce-rtx-2080-ti": "sm_75", "nvidia/geforce-rtx-3070": "sm_86",
    "nvidia/geforce-rtx-3080": "sm_86", "nvidia/geforce-rtx-3090": "sm_86",
    "nvidia/geforce-rtx-4090": "sm_89", "nvidia/nvidia-a100": "sm_80",
    "nvidia/nvidia-h100": "sm_90a", "nvidia/nvidia-t4": "sm_75", "nvidia/nvidia-v100": "sm_70",
    "nvidia/tesla-v100": "sm_70", "nvidia/tesla-t4": "sm_75",
}  # fmt: skip
#: What TVM supposes of every GPU, and our name for what a target may say instead.
_LIMITS = {
    "max_threads_per_block": (1024, "max_threads"),
    "max_shared_memory_per_block": (49152, "shared_memory"),
    "thread_warp_size": (32, "warp_size"),
}
_C5_CORES = {
    "large": 1, "xlarge": 2, "2xlarge": 4, "4xlarge": 8, "9xlarge": 18, "12xlarge": 24,
    "18xlarge": 36, "24xlarge": 48,
}  # fmt: skip


def _c5(size: str) -> dict[str, Any]:
    """A machine of Amazon's C5 family: the sizes of 12 and 24 are of a later processor."""
    mcpu = "cascadelake" if size in ("12xlarge", "24xlarge") else "skylake-avx512"
    return {"kind": "llvm", "mcpu": mcpu, "num-cores": _C5_CORES[size]}


_TAGS: dict[str, dict[str, Any]] = {
    **{tag: {"kind": "cuda", "arch": arch} for tag, arch in _GPU_TAGS.items()},
    **{f"aws/cpu/c5.{size}": _c5(size) for size in _C5_CORES},
}


@dataclass(frozen=True)
class TargetKind:
    """What sort of target."""

    name: str

    def __str__(self) -> str:
        return self.name


class Target(Scoped):
    """A target of TVM: `Target("llvm -num-cores 4")`, `Target({"kind": "cuda", "arch": "sm_80"})`.

    >>> t = Target("llvm -mcpu=skylake-avx512 -num-cores 4")
    >>> t.kind.name, t.attrs["num-cores"], t.mcpu, t.tileloom.cores
    ('llvm', 4, 'skylake-avx512', 4)
    """

    kind: TargetKind
    attrs: dict[str, Any]
    host: Target | None

    def __init__(self, target: Any, host: Any = None) -> None:
        if isinstance(target, Target):
            kind, self.attrs = target.kind.name, dict(target.attrs)
            host = target.host if host is None else host
        else:
            config = dict(target) if isinstance(target, Mapping) else _read(str(target))
            if config.get("tag") in _TAGS and "kind" not in config:
                config = dict(_TAGS[config["tag"]])
            host = config.pop("host", host)
            config.pop("keys", None)
            kind = str(config.pop("kind"))
            self.attrs = {key: value for key, value in config.items() if key != "tag"}
        self.kind = TargetKind("llvm" if kind in _CPU[2:] else kind)
        self.host = None if host is None else Target(host)
        if self.kind.name == "cuda":
            self.attrs.setdefault("arch", "sm_90")
            self.attrs.setdefault("max_num_threads", 1024)
            for name, (usual, _) in _LIMITS.items():
                self.attrs.setdefault(name, usual)

    @property
    def keys(self) -> list[str]:
        """What schedules are chosen by."""
        return ["cuda", "gpu"] if self.kind.name == "cuda" else ["cpu"]

    @property
    def tileloom(self) -> Machine:
        """Our description of the target."""
        words = ["cpu" if self.kind.name in _CPU else self.kind.name]
        known = ("arch",) if words == ["cuda"] else ("mcpu", "mtriple", "mattr", "num-cores")
        for name in known:
            value = self.attrs.get(name)
            if value not in (None, ""):
                text = ",".join(value) if isinstance(value, (list, tuple)) else str(value)
                words.append(f"-{name}={text}")
        return replace(parse_target(" ".join(words)), **self._own_limits())

    def _own_limits(self) -> dict[str, Any]:
        """Those that are not what every GPU has: the architecture tells more than TVM's numbers."""
        if self.kind.name != "cuda":
            return {}
        said = {ours: int(self.attrs[name]) for name, (_, ours) in _LIMITS.items()}
        return {ours: said[ours] for usual, ours in _LIMITS.values() if said[ours] != usual}

    def __getattr__(self, name: str) -> Any:
        attrs = self.__dict__.get("attrs", {})
        found = attrs.get(name, attrs.get(name.replace("_", "-")))
        if found is None and name not in _OPTIONAL:
            raise AttributeError(f"the target {self} has no attribute {name!r}")
        return found

    def get_target_device_type(self) -> int:
        """DLPack's number for the device."""
        return 1 if self.kind.name in _CPU else 2

    def export(self) -> dict[str, Any]:
        """The target as plain data."""
        return {"kind": self.kind.name, "keys": self.keys, "tag": "", **self.attrs}

    def with_host(self, host: Any) -> Target:
        """The same target with a host."""
        return Target(self, host)

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The target of the innermost `with`."""
        if not Target._stack and not allow_none:
            raise ValueError("no target is set: with tvm.target.Target(...):")
        return Target._stack[-1] if Target._stack else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self.export() == other.export()

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        options = (f"-{name}={_text(value)}" for name, value in self.attrs.items())
        return " ".join([self.kind.name, f"-keys={','.join(self.keys)}", *options])

    def __repr__(self) -> str:
        return f'Target("{self}")'


_OPTIONAL = {
    "mcpu", "mtriple", "mattr", "arch", "model", "libs", "device_name", "max_num_threads",
    "thread_warp_size", "max_shared_memory_per_block", "max_threads_per_block", "num_cores",
}  # fmt: skip


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _read(text: str) -> dict[str, Any]:
    """`"llvm -mcpu=x -num-cores 4"` as data."""
    first, *words = text.split() or [""]
    if not first:
        raise ValueError("a target needs a name, such as 'llvm'")
    if "/" in first:
        if first not in _TAGS:
            raise ValueError(f"unknown target tag {first!r}, known are {', '.join(_TAGS)}")
        return {"tag": first}
    config: dict[str, Any] = {"kind": first}
    while words:
        name, equals, value = words.pop(0).lstrip("-").partition("=")
        if not equals:
            more = bool(words) and not words[0].startswith("-")
            value = words.pop(0) if more else "1"
        config[name] = int(value) if value.isdigit() else value
        if name in ("mattr", "keys", "libs"):
            config[name] = value.split(",")
    return config


def llvm(*options: str) -> Target:
    """A CPU."""
    return Target(" ".join(["llvm", *options]))


def cuda(model: str = "unknown", arch: str | None = None, **options: Any) -> Target:
    """An NVIDIA GPU."""
    return Target({"kind": "cuda", "arch": arch or "sm_90", **options})


def as_tileloom(target: Any) -> Any:
    """Our target for what a script passes: None is the current one, or the CPU."""
    chosen = target if target is not None else Target.current()
    if chosen is None:
        return Machine.host()
    if isinstance(chosen, Machine):
        return chosen
    return Target(chosen).tileloom


__getattr__ = missing(__name__)
