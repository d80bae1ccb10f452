"""`tvm.transform`: passes over modules, and how they are put in a row."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....base.errors import UserError
from ....tir import IRModule
from .._names import Scoped, missing
from .module import as_module


class PassInfo:
    """What a pass is called."""

    def __init__(self, opt_level: int, name: str, required: Sequence[str] | None = None) -> None:
        self.opt_level, self.name, self.required = opt_level, name, list(required or ())


class PassContext(Scoped):
    """Options of passes and what watches them.

    Our passes take none: a warning names those that are given, and they are only remembered.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[Any] | None = None,
        config: Mapping[str, Any] | None = None,
        trace_stack: Any = None,
        make_traceable: Any = None,
        num_evals: int = 0,
        tuning_api_database: Any = None,
    ) -> None:
        self.opt_level = opt_level
        self.required_pass = list(required_pass or ())
        self.disabled_pass = list(disabled_pass or ())
        self.instruments = list(instruments or ())
        self.config = dict(config or {})
        ignored = sorted(self.config) + (["instruments"] if self.instruments else [])
        if ignored:
            names = ", ".join(ignored)
            warnings.warn(f"options of PassContext without effect here: {names}", stacklevel=2)

    @staticmethod
    def current() -> PassContext:
        """The innermost context."""
        found: PassContext = PassContext._stack[-1] if PassContext._stack else PassContext()
        return found


class Pass:
    """A module to module function with a name."""

    def __init__(self, transform: Callable[[Any, PassContext], Any], info: PassInfo) -> None:
        self._transform, self.info = transform, info

    def __call__(self, mod: IRModule) -> Any:
        """The module after the pass."""
        if not isinstance(mod, IRModule):
            raise UserError(
                f"{self.info.name} is a pass over modules, got {type(mod).__name__}",
                hint='tvm.IRModule({"main": func}) makes a module of a function',
            )
        context = PassContext.current()
        if self.info.name in context.disabled_pass:
            return mod
        return self._transform(as_module(mod), context)

    def __repr__(self) -> str:
        return f"Pass({self.info.name})"


ModulePass = Pass


class Sequential(Pass):
    """Passes one after another."""

    def __init__(
        self,
        passes: Sequence[Callable[[Any], Any]] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> None:
        self.passes = list(passes or ())
        super().__init__(self._run, PassInfo(opt_level, name, required))

    def _run(self, mod: Any, _context: PassContext) -> Any:
        for step in self.passes:
            mod = step(mod)
        return mod


def make_pass(
    wrap: Callable[[Any], Callable[[Any, PassContext], Any]],
    function: Any,
    opt_level: int,
    name: str | None,
    required: Sequence[str] | None,
) -> Any:
    """A decorator's result: a pass for a function, a class of passes for a class."""

    def decorate(found: Any) -> Any:
        info = PassInfo(opt_level, name or found.__name__, required)
        if not isinstance(found, type):
            return Pass(wrap(found), info)

        def build(*args: Any, **kwargs: Any) -> Pass:
            inner = found(*args, **kwargs)
            method = getattr(inner, "transform_module", None) or inner.transform_function
            result = Pass(wrap(method), info)
            result.inst = inner  # type: ignore[attr-defined]
            return result

        return build

    return decorate if function is None else decorate(function)


def module_pass(
    pass_func: Any = None,
    opt_level: int = 0,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of `f(mod, ctx)`, or of a class with `transform_module(mod, ctx)`."""
    return make_pass(lambda f: f, pass_func, opt_level, name, required)


def PrintIR(header: str = "") -> Pass:
    """A pass that prints the module."""

    def show(mod: Any, _context: PassContext) -> Any:
        print(f"{header}\n{mod}")
        return mod

    return Pass(show, PassInfo(0, "PrintIR"))


__getattr__ = missing(__name__)
