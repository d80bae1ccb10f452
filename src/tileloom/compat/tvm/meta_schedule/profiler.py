"""`tvm.meta_schedule.Profiler`: how long parts of a tuning run take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .._names import Scoped, missing


class Profiler(Scoped):
    """Seconds by name, while it is entered.

    >>> with Profiler() as profiler:
    ...     with Profiler.timeit("step"):
    ...         pass
    >>> list(profiler.get())
    ['step', 'Total']
    """

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._start = 0.0

    def __enter__(self) -> Profiler:
        self._start = time.perf_counter()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._add("Total", time.perf_counter() - self._start)

    def get(self) -> dict[str, float]:
        """The seconds of each name, of all its parts together."""
        return dict(self._seconds)

    def table(self) -> str:
        """The seconds as a table."""
        total = self._seconds.get("Total", 0.0) or 1.0
        rows = sorted(self._seconds.items(), key=lambda row: -row[1])
        lines = [f"{'Name':<40} {'Time (min)':>12} {'Percentage':>12}"]
        for name, seconds in rows:
            lines.append(f"{name:<40} {seconds / 60:>12.4f} {100 * seconds / total:>11.2f}%")
        return "\n".join(lines)

    def _add(self, name: str, seconds: float) -> None:
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    @staticmethod
    @contextmanager
    def timeit(name: str) -> Iterator[None]:
        """Count what happens inside for the profiler that is entered, if any."""
        profiler, start = Profiler.current(), time.perf_counter()
        try:
            yield
        finally:
            if profiler is not None:
                profiler._add(name, time.perf_counter() - start)

    @staticmethod
    def current() -> Profiler | None:
        """The innermost profiler that is entered."""
        return Profiler._stack[-1] if Profiler._stack else None


def timed(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: `Profiler.timeit` around each call."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            with Profiler.timeit(name):
                return function(*args, **options)

        return call

    return decorate


__getattr__ = missing(__name__)
