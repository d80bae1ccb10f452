"""`tvm.runtime.Module`: compiled functions by name."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ....expr import IntImm
from ....script import parse
from ....target import target as parse_target
from .._names import missing
from .ndarray import Device, NDArray


class PackedFunc:
    """A compiled function: takes arrays, writes its results into those given for them."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self._function = name, function

    def __call__(self, *args: Any) -> Any:
        """Run it."""
        return self._function(*map(_plain, args))


def _plain(value: Any) -> Any:
    if isinstance(value, NDArray):
        return value._data
    return value.value if isinstance(value, IntImm) else value


class BenchmarkResult:
    """Seconds per run: `mean`, `median`, `min`, `max`, `std`, and all `results`."""

    def __init__(self, results: Sequence[float]) -> None:
        self.results = list(results)
        self.mean, self.median = statistics.mean(results), statistics.median(results)
        self.min, self.max = min(results), max(results)
        self.std = statistics.pstdev(results)

    def __repr__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        parts = (f"{name}={getattr(self, name) * 1e3:.4f} ms" for name in names)
        return f"BenchmarkResult({', '.join(parts)})"

    __str__ = __repr__


_TYPE_KEYS = {"cpu": "llvm", "cuda": "llvm"}


class DeviceModule:
    """The code of a module that runs on a GPU."""

    def __init__(self, source: Callable[[str], str], kind: str) -> None:
        self._source, self.type_key = source, kind

    def get_source(self, fmt: str = "") -> str:
        """PTX; LLVM IR as "ll"."""
        return self._source("llvm" if fmt == "ll" else "asm")

    inspect_source = get_source


class Module:
    """Compiled functions. `mod["main"](a, b)`; `mod(a, b)` runs "main" or the only one."""

    entry_name = "__tvm_main__"
    is_runnable = is_binary_serializable = True

    def __init__(
        self,
        kernels: Mapping[str, Callable[..., Any]],
        source: Callable[[str], str],
        kind: str = "cpu",
        saved: Mapping[str, Any] | None = None,
    ) -> None:
        self._saved = saved
        self._functions = {name: PackedFunc(name, kernel) for name, kernel in kernels.items()}
        self._source = source
        self.type_key = _TYPE_KEYS.get(kind, kind)
        #: As in TVM, code for a GPU is in a module of its own.
        self.imported_modules = [] if kind == "cpu" else [DeviceModule(source, kind)]

    @property
    def entry_func(self) -> PackedFunc:
        """The function that a call of the module runs."""
        if "main" in self._functions:
            return self._functions["main"]
        if len(self._functions) != 1:
            raise AttributeError(f"no entry among the functions {list(self._functions)}")
        return next(iter(self._functions.values()))

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunc:
        """A function by name."""
        if name == self.entry_name:
            return self.entry_func
        if name not in self._functions:
            raise AttributeError(f"the module has no function {name!r}, only {[*self._functions]}")
        return self._functions[name]

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether there is a function of that name."""
        return name in self._functions or name == self.entry_name

    def __getitem__(self, name: str) -> PackedFunc:
        return self.get_function(name)

    def __call__(self, *args: Any) -> Any:
        """Run the entry."""
        return self.entry_func(*args)

    def jit(self, *_args: Any, **_options: Any) -> Module:
        """The module: it is compiled and loaded already."""
        return self

    @property
    def mod(self) -> Module:
        """The module itself, which TVM's executables hold."""
        return self

    def get_source(self, fmt: str = "") -> str:
        """LLVM IR (`fmt` "" or "ll"), or assembly ("asm", "s")."""
        return self._source("asm" if fmt in ("asm", "s") else "llvm")

    inspect_source = get_source

    def export_library(self, file_name: str, *_args: Any, **_options: Any) -> None:
        """Write what `load_module` makes the functions of again: their text, and the target."""
        Path(file_name).write_text(json.dumps(self._saved))

    def time_evaluator(
        self,
        func_name: str,
        dev: Device,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:
        """A function that runs another `number` times, `repeat` times over, and says how long."""
        function = self.get_function(func_name)

        def evaluate(*args: Any) -> BenchmarkResult:
            plain = [_plain(arg) for arg in args]
            function._function(*plain)  # warm
            results = []
            for turn in range(repeat):
                if cooldown_interval_ms and turn and turn % repeats_to_cooldown == 0:
                    time.sleep(cooldown_interval_ms / 1e3)
                results.append(_seconds(function._function, plain, number, min_repeat_ms / 1e3))
            return BenchmarkResult(results)

        return evaluate


def load_module(path: str, fmt: str = "") -> Module:
    """The functions that `Module.export_library` has written, built for the target once more."""
    saved = json.loads(Path(path).read_text())
    target = parse_target(saved["target"])
    driver = import_module("tileloom.compat.tvm.driver")  # it stands on this module
    built: Module = driver.build(parse(saved["script"]), target, device=saved["device"])
    return built


def _seconds(function: Callable[..., Any], args: Sequence[Any], number: int, least: float) -> float:
    """Seconds of a run, over so many runs that they take long enough."""
    while True:
        start = time.perf_counter()
        for _ in range(number):
            function(*args)
        spent = time.perf_counter() - start
        if spent >= least:
            return spent / number
        number = max(number + 1, int(number * least / max(spent, 1e-9) * 1.2))


__getattr__ = missing(__name__)
