"""`tvm.meta_schedule.builder`: machine code of candidates."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from ....tir import IRModule
from .._names import missing
from ..driver import build as build_module
from ..runtime.module import Module
from ..target import Target
from ._children import ChildError, in_child
from .profiler import timed
from .utils import (
    NotOverriddenError,
    Overridable,
    cpu_count,
    get_global_func_with_default_on_worker,
)


class BuilderInput:
    """A module and the machine that it is for."""

    def __init__(self, mod: IRModule, target: Target, params: Any = None) -> None:
        self.mod, self.target, self.params = mod, target, params


class BuilderResult:
    """Where the machine code is, or why there is none."""

    def __init__(self, artifact_path: str | None, error_msg: str | None) -> None:
        self.artifact_path, self.error_msg = artifact_path, error_msg


class Builder(Overridable):
    """Builds modules."""

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """A result for each of the inputs."""
        raise NotOverriddenError.of("PyBuilder", "Build", "build")

    @staticmethod
    def create(kind: str = "local", *args: Any, **options: Any) -> Builder:
        """A builder by its name."""
        if kind != "local":
            raise ValueError(f"unknown builder {kind!r}, known is 'local'")
        return LocalBuilder(*args, **options)


class PyBuilder(Builder):
    """A builder of the user's: `build(build_inputs)`."""


def default_build(mod: IRModule, target: Target, _params: Any = None) -> Module:
    """`tvm.build`."""
    return build_module(mod, target)


def default_export(mod: Module) -> str:
    """The path of a file, in a folder of its own, that `tvm.runtime.load_module` reads."""
    path = os.path.join(tempfile.mkdtemp(), "tvm_tmp_mod.tar")
    mod.export_library(path)
    return path


class LocalBuilder(Builder):
    """Builds modules in processes beside this one.

    Args:
        max_workers: taken, and of no effect: one module is built after another.
        timeout_sec: that each may take.
        f_build: `f(mod, target, params)` gives machine code; `tvm.build` unless told.
        f_export: `f(code)` gives the path of a file with it.
        initializer: called in each process before anything else.

    Functions may be names of those that `tvm.register_func` knows.
    """

    def __init__(
        self,
        *,
        max_workers: int | None = None,
        timeout_sec: float = 30.0,
        f_build: Callable[..., Any] | str | None = None,
        f_export: Callable[..., Any] | str | None = None,
        initializer: Callable[[], None] | None = None,
    ) -> None:
        self.max_workers = max_workers or cpu_count(logical=True)
        self.timeout_sec, self.initializer = timeout_sec, initializer
        self.f_build, self.f_export = f_build, f_export
        if initializer is None:
            self._functions()

    @property
    def is_plain(self) -> bool:
        """Whether it has no functions of the user's."""
        own = (self.f_build, self.f_export, self.initializer)
        return type(self) is LocalBuilder and own == (None, None, None)

    def _functions(self) -> tuple[Any, Any]:
        find = get_global_func_with_default_on_worker
        return find(self.f_build, default_build), find(self.f_export, default_export)

    @timed("SendToBuilder")
    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """A result for each of the inputs."""
        return [self._built(given) for given in build_inputs]

    def _built(self, given: BuilderInput) -> BuilderResult:
        def call() -> str:
            if self.initializer is not None:
                self.initializer()
            build, export = self._functions()
            return str(export(build(given.mod, given.target, given.params)))

        try:
            return BuilderResult(in_child(call, self.timeout_sec, "LocalBuilder"), None)
        except ChildError as error:
            return BuilderResult(None, str(error))


__getattr__ = missing(__name__)
