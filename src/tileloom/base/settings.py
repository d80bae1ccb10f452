"""Settings: one frozen object, read once from `TILELOOM_*` environment variables.

Each field names its variable, its default and its meaning in one place; `table()` prints them
for the documentation and for `tileloom doctor`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from .errors import UserError

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"", "0", "false", "no", "off"})
_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?$", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_size(text: str) -> int:
    """A number of bytes.

    >>> parse_size("2GiB"), parse_size("512k"), parse_size("10")
    (2147483648, 524288, 10)
    """
    match = _SIZE.match(text.strip())
    if match is None:
        raise ValueError("a size such as 512M or 2GiB")
    return int(float(match.group(1)) * _UNITS[match.group(2).lower()])


def _parse_switch(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in _TRUE | _FALSE:
        raise ValueError("a switch: 0 or 1")
    return lowered in _TRUE


def _parse_count(text: str) -> int:
    if not text.strip().isdigit():
        raise ValueError("a number that is not negative")
    return int(text)


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _parse_threading(text: str) -> str:
    if text not in ("auto", "omp", "pool", "serial"):
        raise ValueError("one of auto, omp, pool, serial")
    return text


def _parse_text(text: str) -> str:
    return text.strip()


def _parse_path(text: str) -> Path | None:
    try:
        return Path(text).expanduser() if text else None
    except RuntimeError:
        raise ValueError("a folder; '~' stands for none, as this user has no home") from None


def file_stamp(path: Path | None) -> str:
    """Text that changes when a file does; empty for no file."""
    if path is None:
        return ""
    try:
        about = path.stat()
    except OSError:
        return str(path)
    return f"{path} {about.st_size} {about.st_mtime_ns}"


def _default_cache() -> Path | None:
    """Where the user keeps such things; None for a user without a home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tileloom"
    except RuntimeError:
        return None


def _setting(variable: str, parse: Callable[[str], Any], default: Any, meaning: str) -> Any:
    metadata = {"variable": variable, "parse": parse, "meaning": meaning}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. Build one with `Settings()` for the defaults or `from_environment()`.

    >>> Settings.from_environment({"TILELOOM_NUM_THREADS": "3"}).num_threads
    3
    """

    cache_dir: Path | None = _setting(  # noqa: RUF009
        "TILELOOM_CACHE_DIR", _parse_path, _default_cache, "folder of compiled kernels"
    )
    cache: bool = _setting(
        "TILELOOM_CACHE", _parse_switch, True, "keep compiled kernels on disk between runs"
    )
    cache_size: int = _setting(
        "TILELOOM_CACHE_SIZE", parse_size, 2 << 30, "size limit of that folder, oldest go first"
    )
    num_threads: int = _setting(
        "TILELOOM_NUM_THREADS", _parse_count, 0, "threads of parallel loops; 0: as many as may run"
    )
    threading: str = _setting(
        "TILELOOM_THREADING", _parse_threading, "auto", "parallel loops by: auto, omp, pool, serial"
    )
    pool_size: int = _setting(
        "TILELOOM_POOL_SIZE", parse_size, 4 << 30, "most freed result memory kept for reuse"
    )
    verify: bool = _setting("TILELOOM_VERIFY", _parse_switch, False, "check the IR after each pass")
    check: bool = _setting(
        "TILELOOM_CHECK", _parse_switch, False, "CPU kernels check the indices of loads and stores"
    )
    optimize: tuple[str, ...] = _setting(
        "TILELOOM_OPTIMIZE",
        _parse_names,
        (),
        "rules of the graph optimiser: exact, finite-only or reassociating; +NAME, -NAME, none",
    )
    traces: Path | None = _setting(  # noqa: RUF009
        "TILELOOM_TRACES",
        _parse_path,
        None,
        "file of traces that kernels are made by, instead of the planner's own",
    )
    records: str = _setting(
        "TILELOOM_RECORDS",
        _parse_text,
        "",
        "place of what was tuned, which kernels are made by: a file or a URL, or none; records.db "
        "in the folder of compiled kernels unless told",
    )
    print_ir: tuple[str, ...] = _setting(
        "TILELOOM_PRINT_IR",
        _parse_names,
        (),
        "stages to print: graph, groups, tir, loops, flat, llvm, asm",
    )
    dump_dir: Path | None = _setting(  # noqa: RUF009
        "TILELOOM_DUMP_DIR", _parse_path, None, "folder that receives every stage of each kernel"
    )
    full_traceback: bool = _setting(
        "TILELOOM_FULL_TRACEBACK", _parse_switch, False, "show internal frames in errors"
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """The settings that environment variables give; the rest are defaults.

        Raises:
            UserError: for a variable that cannot be read, naming it.
        """
        environment = os.environ if environment is None else environment
        values = {}
        for item in fields(cls):
            text = environment.get(item.metadata["variable"])
            if text is not None and not (item.name == "cache_dir" and not text):
                values[item.name] = _read(item, text)
        return cls(**values)


def _read(item: Field[Any], text: str) -> Any:
    try:
        return item.metadata["parse"](text)
    except ValueError as error:
        variable = item.metadata["variable"]
        raise UserError(
            f"{variable}={text!r} cannot be read", hint=f"{variable} takes {error}"
        ) from None


_current: list[Settings] = []  # the innermost override is last


def settings() -> Settings:
    """The settings in force."""
    if not _current:
        _current.append(Settings.from_environment())
    return _current[-1]


@contextmanager
def override(**changes: Any) -> Iterator[Settings]:
    """Other settings for the length of a `with` block, in all threads.

    >>> with override(num_threads=1) as inner:
    ...     settings().num_threads, inner is settings()
    (1, True)
    """
    changed = replace(settings(), **changes)
    _current.append(changed)
    try:
        yield changed
    finally:
        # Two threads may leave in another order than they entered.
        for place in range(len(_current) - 1, -1, -1):
            if _current[place] is changed:
                del _current[place]
                break
