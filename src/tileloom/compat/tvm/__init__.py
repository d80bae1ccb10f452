"""TVM v0.20's names for Tileloom: `from tileloom.compat import tvm`.

Scripts written for TVM run unchanged: either say `import tileloom.compat.tvm as tvm`, or call
`tileloom.compat.tvm.install()` once, after which `import tvm`, `from tvm.script import tir as T`,
`from tvm.tir.schedule.testing import verify_trace_roundtrip` and so on find these modules; or run
`python -m tileloom.compat.tvm script.py`. Nothing is computed here: names are mapped. What is not
provided says so when it is asked for.

>>> from tileloom.compat import tvm
>>> x = tvm.tir.Var("x", "int32")
>>> tvm.arith.Analyzer().simplify((x * 4 + 3) // 4)
x
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from ...base.errors import UserError
from . import (
    _functions,
    arith,
    driver,
    error,
    ir,
    rpc,
    runtime,
    script,
    sparse,
    target,
    te,
    testing,
    tir,
    topi,
)
from ._functions import get_global_func, register_func, register_global_func
from ._names import missing
from .driver import build, compile, lower
from .error import TVMError
from .ir import IRModule, transform
from .runtime import DataType, Module, NDArray, cpu, cuda, device, ndarray
from .runtime import ndarray as nd
from .target import Target

__version__ = "0.20.0"
gpu = cuda
opencl, vulkan, metal, rocm = nd.opencl, nd.vulkan, nd.metal, nd.rocm

# Where TVM keeps things in files that we do not have, or have elsewhere.
_ALIASES: dict[str, ModuleType] = {
    "nd": ndarray,
    "transform": transform,
    "ir.base": ir,
    "ir.expr": ir,
    "ir.function": ir,
    "ir.op": ir,
    "ir.type": ir,
    "runtime.packed_func": runtime.module,
    "script.tir": script.tir,
    "script.parser": script,
    "target.target": target,
    "te.operation": te,
    "te.tensor": te,
    "ir.container": ir,
    "tir.generic": tir.op,
    "tir.analysis.analysis": tir.analysis,
    "tir.transform.transform": tir.transform,
    "driver.build_module": driver,
    "testing.utils": testing,
    "_ffi": _functions,
    "_ffi.base": error,
}


def _modules() -> dict[str, ModuleType]:
    """Every module by its name below this one."""
    prefix = f"{__name__}."
    for late in (
        "tir.schedule.testing",
        "tir.schedule.analysis",
        "tir.schedule.transform",
        "arith.bound",
        "meta_schedule.testing.custom_builder_runner",
        "meta_schedule.testing.dummy_object",
        "meta_schedule.testing.local_rpc",
        "meta_schedule.testing.space_generation",
        "meta_schedule.testing.te_workload",
    ):
        import_module(f".{late}", __name__)
    own = {
        name.removeprefix(prefix): module
        for name, module in sys.modules.items()
        if name.startswith(prefix)
    }
    return {**own, **_ALIASES}


def _enter_aliases() -> None:
    """Make `import tileloom.compat.tvm.nd` and the like find the modules they mean."""
    for name, module in _ALIASES.items():
        sys.modules[f"{__name__}.{name}"] = module


def install(name: str = "tvm") -> None:
    """Let `import tvm` mean this module, and likewise all modules below.

    Raises:
        UserError: TVM itself has been imported.
    """
    this = sys.modules[__name__]
    if sys.modules.get(name, this) is not this:
        raise UserError(
            f"another module {name!r} has been imported already",
            hint="call tileloom.compat.tvm.install() before anything imports tvm",
        )
    sys.modules[name] = this
    for below, module in _modules().items():
        if not below.rpartition(".")[2].startswith("__"):
            sys.modules[f"{name}.{below}"] = module


def uninstall(name: str = "tvm") -> None:
    """Undo `install`."""
    if sys.modules.get(name) is sys.modules[__name__]:
        for known in [k for k in sys.modules if k == name or k.startswith(f"{name}.")]:
            del sys.modules[known]


_enter_aliases()
__all__ = [
    "DataType", "IRModule", "Module", "NDArray", "TVMError", "Target", "arith", "build", "compile",
    "cpu", "cuda", "device", "driver", "error", "get_global_func", "gpu", "install", "ir", "lower",
    "nd", "register_func", "register_global_func", "rpc", "runtime", "script", "sparse", "target",
    "te", "testing", "tir", "topi", "transform", "uninstall",
]  # fmt: skip
__getattr__ = missing(__name__)
