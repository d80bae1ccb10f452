"""`tvm.IRModule`: our module, with the methods by which TVM's is looked into and changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .... import tir
from ....base.record import RecordType
from ....tir import PrimFunc, register_structure


class GlobalVar(str):
    """The name of a function, which is also its `.name_hint`."""

    __slots__ = ()

    @property
    def name_hint(self) -> str:
        """The name as a plain string."""
        return str(self)


class _ModuleType(RecordType):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, tir.IRModule)


class IRModule(tir.IRModule, metaclass=_ModuleType):
    """Functions by name. Unlike ours it can be changed in place: `mod["main"] = func`.

    >>> mod = IRModule({"main": tir.PrimFunc((), tir.seq())})
    >>> [gv.name_hint for gv in mod.get_global_vars()], "main" in mod
    (['main'], True)
    """

    def __init__(
        self,
        functions: Mapping[Any, PrimFunc] | None = None,
        type_definitions: Any = None,
        attrs: Mapping[str, Any] | None = None,
        global_infos: Any = None,
    ) -> None:
        super().__init__({}, dict(attrs or {}))
        for name, func in (functions or {}).items():
            self[name] = func

    @staticmethod
    def from_expr(func: PrimFunc, functions: Mapping[Any, PrimFunc] | None = None) -> IRModule:
        """A module of one function, by its "global_symbol" or as "main"."""
        return IRModule({func.name: func, **(functions or {})})

    def __setitem__(self, name: Any, func: PrimFunc) -> None:
        new = {**self.functions, GlobalVar(name): func}
        object.__setattr__(self, "functions", new)

    def __delitem__(self, name: Any) -> None:
        left = {key: func for key, func in self.functions.items() if key != name}
        object.__setattr__(self, "functions", left)

    def __contains__(self, name: object) -> bool:
        return name in self.functions

    def __len__(self) -> int:
        return len(self.functions)

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def update(self, other: Any) -> None:
        """Take over the functions of another module."""
        for name, func in getattr(other, "functions", other).items():
            self[name] = func

    def update_func(self, var: Any, func: PrimFunc) -> None:
        """Put a function under a name."""
        self[var] = func

    def clone(self) -> IRModule:
        """A module of the same functions that is changed on its own."""
        return IRModule(self.functions, attrs=self.attrs)

    def functions_items(self) -> list[tuple[str, PrimFunc]]:
        """Names with functions, sorted."""
        return sorted(self.functions.items())

    def get_global_var(self, name: str) -> GlobalVar:
        """The name of a function that is there."""
        if name not in self.functions:
            raise ValueError(f"the module has no function {name!r}, only {list(self.functions)}")
        return GlobalVar(name)

    def get_global_vars(self) -> list[GlobalVar]:
        """The names of all functions."""
        return [GlobalVar(name) for name in self.functions]

    def with_attr(self, key: str, value: Any) -> IRModule:
        """The same module with an attribute."""
        return IRModule(self.functions, attrs={**self.attrs, key: value})

    def get_attr(self, key: str) -> Any:
        """An attribute, or None."""
        return self.attrs.get(key)

    def astext(self, *_args: Any, **_options: Any) -> str:
        """The TVMScript text."""
        return str(self)


register_structure(IRModule, ("functions", "use"), ("attrs", "use"))


def as_module(program: Any) -> IRModule:
    """A function or a module as TVM's kind of module."""
    if isinstance(program, PrimFunc):
        return IRModule.from_expr(program)
    return (
        program if type(program) is IRModule else IRModule(program.functions, None, program.attrs)
    )
