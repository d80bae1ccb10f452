"""`tvm.script.ir`: the `I` namespace."""

from __future__ import annotations

from typing import Any

from .... import script
from ....script.ir import module_attrs
from .._names import missing
from ..ir.module import GlobalVar, as_module


def ir_module(mod: Any = None, **options: Any) -> Any:
    """Read a module from the source of a class whose functions are `T.prim_func`s."""
    if mod is not None:
        return as_module(script.ir.ir_module(mod))
    return lambda cls: as_module(script.ir.ir_module(cls))


def module_global_infos(infos: Any) -> None:
    """Global information of a module, of which tensor programs have none."""


__all__ = ["GlobalVar", "ir_module", "module_attrs", "module_global_infos"]
__getattr__ = missing(__name__)
