"""`tileloom doctor`: what this machine and installation have."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np
from rich.markup import escape

import tileloom

from ..base.settings import Settings, settings
from ..driver import runnable
from ..runtime import cuda, object_cache, parallel
from ..target import Target
from .console import out, table

_NEEDED = ("numpy", "ml_dtypes", "llvmlite", "click", "rich")
_EXTRAS = {
    "onnx": "onnx", "onnxruntime": "dev", "torch": "torch", "scipy": "sparse", "islpy": "poly",
    "xgboost": "tune", "psycopg": "postgres", "cuda.bindings": "cuda", "filecheck": "lit",
}  # fmt: skip


@click.command("doctor")
def command() -> None:
    """Describe the machine, the target, threads, the cache, versions; try a small kernel."""
    rows = table("", ["", ""], left=2)
    rows.show_header = False
    for name, text in facts():
        rows.add_row(name, text)
    out.print(rows)
    _tell("a small kernel", try_kernel())
    for number in range(cuda.device_count()):
        _tell(f"a small kernel on cuda:{number}", try_on_gpu(number))


def _tell(what: str, problem: str) -> None:
    if problem:
        out.print(f"[red]{what} does not work:[/] {escape(problem)}")
        raise SystemExit(1)
    out.print(f"[green]{what} works[/]")


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
    yield from _gpus()
    yield "ptxas", _ptxas() or "not found (only tests use it)"
    yield "settings", ", ".join(_changed_settings()) or "all at their defaults"
    for name in _NEEDED:
        yield name, _version(name) or "[red]missing[/]"
    for name, extra in _EXTRAS.items():
        yield name, _version(name) or escape(f"not installed (pip install 'tileloom[{extra}]')")
    if _version("torch"):
        yield "torch.compile", _torch_backend()


def _torch_backend() -> str:
    """Whether PyTorch finds the backend, seen without importing PyTorch."""
    if not metadata.entry_points(group="torch_dynamo_backends", name="tileloom"):
        return "knows no backend 'tileloom': this is a checkout, not an installed package"
    return "knows the backend 'tileloom'; tileloom.frontend.torch.report() says what it compiled"


def _gpus() -> Iterator[tuple[str, str]]:
    """The CUDA driver and the devices that it finds."""
    try:
        cuda.device()
    except cuda.CudaError as error:
        yield "cuda", escape(error.message)
        return
    version = ".".join(map(str, cuda.driver_version()))
    yield "cuda", f"the driver is that of CUDA {version}"
    for number in range(cuda.device_count()):
        gpu = cuda.device(number)
        yield (
            str(gpu),
            (
                f"{escape(gpu.name)}, {gpu.arch}, {gpu.multiprocessors} multiprocessors, "
                f"{gpu.memory / 2**30:.1f} GiB, {gpu.shared_memory >> 10} KiB shared memory a block"
            ),
        )


def _ptxas() -> str:
    """Where the assembler is: the toolkit's, or that of NVIDIA's wheel."""
    found = os.environ.get("PTXAS") or shutil.which("ptxas")
    wheel = find_spec("nvidia")
    for folder in (wheel.submodule_search_locations or ()) if wheel else ():
        for path in sorted(Path(folder).glob("**/bin/ptxas")):
            found = found or str(path)
    return escape(found or "")


def _llvm() -> str:
    from ..codegen import host, jit

    cpu, _ = host.llvm_cpu(Target.host())
    return f"LLVM {jit.llvm_version()} calls it {cpu}"


def _cache() -> str:
    if not settings().cache:
        return "switched off by TILELOOM_CACHE"
    if settings().cache_dir is None:
        return "none: this user has no home folder, and TILELOOM_CACHE_DIR names none"
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
        found = tileloom.numpy.tanh(x)
    except (tileloom.UserError, tileloom.InternalError, OSError, ImportError) as error:
        return str(error)
    return "" if np.allclose(found, np.tanh(x), atol=1e-6) else "tanh is wrong"


def try_on_gpu(number: int) -> str:
    """What goes wrong when a kernel is launched on a GPU; nothing if it works."""
    a = tileloom.te.placeholder((1024,), name="A")
    b = tileloom.te.compute((1024,), lambda i: a[i] * 2.0 + 1.0, name="B")
    sch = tileloom.Schedule(tileloom.te.create_prim_func([a, b]))
    block, thread = sch.split(sch.get_loops("B")[0], [None, 128])
    sch.bind(block, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    host = np.arange(1024, dtype="float32")
    try:
        kernel = tileloom.build(sch.mod["main"], "cuda", device=f"cuda:{number}")
        given, result = cuda.asarray(host, number), cuda.zeros(1024, device=number)
        kernel(given, result)
        found = result.numpy()
    except (tileloom.UserError, tileloom.InternalError, OSError) as error:
        return str(error)
    return "" if np.array_equal(found, host * 2 + 1) else "it computes something else"
