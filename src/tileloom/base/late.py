"""Loading late: the parts of a room, and packages that only some programs need.

Reading and printing a script takes a few milliseconds; NumPy and the simplifier, which scripts
seldom ask for, would take many times that to load.
"""

from __future__ import annotations

import sys
from types import ModuleType

# To type checkers it is `typing.TYPE_CHECKING`. Modules that every script needs take it from here
# and import `typing` for type checkers alone: to load it takes as long as all of tensor IR.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any


def load(name: str) -> Any:
    """A module by its full name, as `importlib.import_module` gives it.

    >>> load("os.path").basename("a/b")
    'b'
    """
    __import__(name)
    return sys.modules[name]


class _Room(ModuleType):
    _homes: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        home = self._homes.get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if not home:
            return load(f"{self.__name__}.{name}")
        value = getattr(load(home if "." in home else f"{self.__name__}.{home}"), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Python enters a submodule here when it has loaded it, but `evaluate` of the submodule
        # `evaluate` is what the room offers under that name.
        if isinstance(value, ModuleType) and self._homes.get(name) == name:
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._homes})


def room(package: str, **parts: str) -> None:
    """Load public names of a package when they are first used.

    Args:
        package: its `__name__`.
        parts: for each submodule, the names that it is the home of, with blanks between them;
            none for a submodule that is a public name itself. A name with a dot is a module's full
            name: a room above, which is opened when something of it is asked for.
    """
    module = sys.modules[package]
    homes = dict.fromkeys([part for part in parts if not parts[part]], "")
    homes.update({name: home for home, names in parts.items() for name in names.split()})
    module.__dict__["_homes"] = homes
    module.__class__ = _Room


class _Package(ModuleType):
    def __getattr__(self, name: str) -> Any:
        value = getattr(load(self.__name__), name)
        self.__dict__[name] = value
        return value


def package(name: str) -> Any:
    """A package that is imported when something of it is first used.

    >>> package("string").digits
    '0123456789'
    """
    return sys.modules.get(name) or _Package(name)
