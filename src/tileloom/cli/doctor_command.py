"""`tileloom doctor`: what this machine and installation have."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec

import click
import numpy as np

import tileloom

from ..base import Target
from ..base.settings import Settings, settings
from ..driver import runnable
from ..runtime import object_cache, parallel
from .console import out, table

_NEEDED = ("numpy", "ml_dtypes", "llvmlite", "click", "rich")
_EXTRAS = {
    "onnx": "onnx", "onnxruntime": "dev", "torch": "torch", "scipy": "sparse", "islpy": "poly",
    "xgboost": "tune", "cuda.bindings": "cuda",
}  # fmt: skip


@click.command("doctor")
def command() -> None:
    """Describe the machine, the target, threads, the cache, versions; try a small kernel."""
    rows = table("", ["", ""], left=2)
    rows.show_header = False
    for name, text in facts():
        rows.add_row(name, text)
    out.print(rows)
    problem = try_kernel()
    if problem:
        out.print(f"[red]a small kernel does not work:[/] {problem}")
        raise SystemExit(1)
    out.print("[green]a small kernel works[/]")


def facts() -> Iterator[tuple[str, str]]:
    """Name and text of everything that matters."""
    target = runnable("cpu")
    yield "tileloom", f"{tileloom.__version__} in {os.path.dirname(tileloom.__file__)}"
    yield "python", f"{platform.python_version()} at {sys.executable}"
    yield "system", f"{platform.system()} {platform.release()} {platform.machine()}"
    yield "target", f"{target}, {target.vector_bits}-bit vectors, {_llvm()}"
    yield "features", " ".join(target.features)
    yield "caches", f"L1 {target.l1 >> 10} KiB, L2 {target.l2 >> 10} KiB, L3 {target.l3 >> 10} KiB"
    yield "threads", parallel.describe()
    yield "cache", _cache()
    yield "settings", ", ".join(_changed_settings()) or "all at their defaults"
    for name in _NEEDED:
        yield name, _version(name) or "[red]missing[/]"
    for name, extra in _EXTRAS.items():
        yield name, _version(name) or f"not installed (pip install 'tileloom[{extra}]')"
    if _version("torch"):
        yield "torch.compile", _torch_backend()


def _torch_backend() -> str:
    """Whether PyTorch finds the backend, seen without importing PyTorch."""
    if not metadata.entry_points(group="torch_dynamo_backends", name="tileloom"):
        return "knows no backend 'tileloom': this is a checkout, not an installed package"
    return "knows the backend 'tileloom'; tileloom.frontend.torch.report() says what it compiled"


def _llvm() -> str:
    from ..codegen import host, jit

    cpu, _ = host.llvm_cpu(Target.host())
    return f"LLVM {jit.llvm_version()} calls it {cpu}"


def _cache() -> str:
    if not settings().cache:
        return "switched off by TILELOOM_CACHE"
    files, size = object_cache().size()
    return f"{settings().cache_dir}: {files} files, {size / 2**20:.1f} MiB"


def _changed_settings() -> Iterator[str]:
    default = Settings()
    for name in default.__dataclass_fields__:
        value = getattr(settings(), name)
        if value != getattr(default, name):
            yield f"{name} = {value}"


def _version(name: str) -> str:
    try:
        if find_spec(name) is None:
            return ""
        return metadata.version(name.replace(".", "-"))
    except (ModuleNotFoundError, metadata.PackageNotFoundError):
        return ""


def try_kernel() -> str:
    """What goes wrong when a kernel is compiled and run; nothing if it works."""
    x = np.linspace(-2, 2, 1001, dtype=np.float32)
    try:
        found = tileloom.tanh(x)
    except (tileloom.UserError, tileloom.InternalError, OSError, ImportError) as error:
        return str(error)
    return "" if np.allclose(found, np.tanh(x), atol=1e-6) else "tanh is wrong"
