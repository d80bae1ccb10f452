"""`tvm.meta_schedule.utils`: classes of users, and small helpers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from ....base.errors import UserError
from ....expr import FloatImm, IntImm
from ....schedule.random import Random
from ....tir import IRModule
from .._functions import get_global_func, register_func
from .._names import missing
from ..ir import structural_hash as _structural_hash

C = TypeVar("C", bound=type)
_MOST_SEED = (1 << 31) - 1


class NotOverriddenError(UserError, ValueError, NotImplementedError):
    """A method that a class of the user's had to define."""

    @staticmethod
    def of(cls: str, method: str, name: str) -> NotOverriddenError:
        """Which method of which class, by its names in C++ and in Python."""
        return NotOverriddenError(f"{cls}'s {method} method not implemented! {name} is not defined")


class Overridable:
    """What users derive from: shown as TVM shows its objects."""

    def _outer(self) -> Self:
        return self  # TVM wraps an object of the user's in one of its own

    def __str__(self) -> str:
        return f"meta_schedule.{type(self).__name__}({hex(id(self))})"


def derived_object(cls: C) -> C:
    """The decorator of classes that derive from `PyScheduleRule`, `PyRunner` and the like.

    In TVM it connects the class with one of C++; here there is nothing to connect.
    """
    if not issubclass(cls, Overridable):
        raise TypeError(f"{cls.__name__} derives from no class of meta_schedule")
    return cls


def cpu_count(logical: bool = True) -> int:
    """CPUs of this machine; with `logical=False` its cores."""
    threads = os.cpu_count() or 1
    if logical:
        return threads
    folder = Path("/sys/devices/system/cpu")
    lists = folder.glob("cpu[0-9]*/topology/thread_siblings_list")
    return len({path.read_text() for path in lists}) or threads


def get_global_func_with_default_on_worker(name: Any, default: Any) -> Any:
    """A function, the function of a name, or the default for None."""
    if name is None:
        return default
    return name if callable(name) else get_global_func(name)


def remove_build_dir(artifact_path: str) -> None:
    """Remove the folder of what was built."""
    folder = os.path.dirname(artifact_path)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


register_func("meta_schedule.remove_build_dir", remove_build_dir, override=True)


def structural_hash(mod: IRModule) -> str:
    """The structural hash as a text."""
    return str(_structural_hash(mod))


def shash2hex(mod: IRModule | None) -> str:
    """The structural hash in hexadecimal digits."""
    return f"0x{0 if mod is None else _structural_hash(mod):016x}"


def plain(value: Any) -> Any:
    """Data without nodes of ours: numbers, texts, lists and dictionaries."""
    if isinstance(value, (IntImm, FloatImm)):
        return value.value
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def random_of(seed: int | None) -> Random:
    """Where chance comes from; None and -1 take another seed each time."""
    return Random(-1 if seed in (None, -1) else max(1, int(seed or 1) % _MOST_SEED))


def fork_seed(seed: int | None, n: int) -> list[int]:
    """Seeds that come of one."""
    random = random_of(seed)
    return [random.fork_seed() for _ in range(n)]


def global_func(function: Callable[..., Any] | str | None) -> Callable[..., Any] | None:
    """A function, or that of a name."""
    return get_global_func(function) if isinstance(function, str) else function


def checked(values: Sequence[Any], kind: type, what: str) -> list[Any]:
    """The values as a list; each must be of a kind."""
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(f"{what} are objects of {kind.__name__}, not {type(value).__name__}")
    return list(values)


__getattr__ = missing(__name__)
