"""Python functions by name: `tvm.register_func` and `tvm.get_global_func`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import UserError
from ._names import missing
from .error import TVMError

_FUNCTIONS: dict[str, Callable[..., Any]] = {}


class NoFunctionError(UserError, ValueError):
    """No function of a name; a `ValueError`, as in TVM."""


def register_func(func_name: Any, f: Any = None, override: bool = False) -> Any:
    """Keep a Python function under a name; also as a decorator."""
    if callable(func_name):
        func_name, f = func_name.__name__, func_name

    def register(func: Callable[..., Any]) -> Callable[..., Any]:
        if func_name in _FUNCTIONS and not override:
            raise UserError(f"a function {func_name!r} is registered already", hint="override=True")
        _FUNCTIONS[func_name] = func
        return func

    return register if f is None else register(f)


register_global_func = register_func


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """A function that `register_func` has kept."""
    found = _FUNCTIONS.get(name)
    if found is None and not allow_missing:
        raise NoFunctionError(f"cannot find the global function {name!r}")
    return found


__all__ = ["TVMError", "get_global_func", "register_func", "register_global_func"]
__getattr__ = missing(__name__)
