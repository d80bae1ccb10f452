"""Numbers as people read them."""

from __future__ import annotations

from math import isfinite

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def time_unit(seconds: float) -> tuple[float, str]:
    """The seconds of the unit in which a time is written, and its name.

    >>> time_unit(0.0025), time_unit(0.0)
    ((0.001, 'ms'), (1e-09, 'ns'))
    """
    return next((unit for unit in _TIMES if seconds >= unit[0]), _TIMES[-1])


def time_text(seconds: float) -> str:
    """A time with three digits and its unit.

    >>> time_text(0.0025), time_text(3.14159e-6), time_text(123.456), time_text(float("inf"))
    ('2.50 ms', '3.14 µs', '123 s', '-')
    """
    if not isfinite(seconds):
        return "-"
    size, name = time_unit(seconds)
    return f"{short(seconds / size)} {name}"


def short(value: float) -> str:
    """A number with three digits, all of those before the point.

    >>> [short(x) for x in (0.01234, 1.5, 12.345, 99.97, 1234.5, 0.0)]
    ['0.0123', '1.50', '12.3', '100', '1234', '0']
    """
    if value == 0 or not isfinite(value):
        return f"{value:g}"
    power = int(f"{value:.2e}".partition("e")[2])  # after rounding
    return f"{value:.{max(0, 2 - power)}f}"


def ratio_text(ratio: float) -> str:
    """How many times as fast.

    >>> ratio_text(1.234), ratio_text(12.34), ratio_text(float("nan"))
    ('1.23x', '12.3x', '-')
    """
    return f"{ratio:.2f}x" if ratio < 10 else f"{ratio:.1f}x" if isfinite(ratio) else "-"


def rate_text(count: float, seconds: float) -> str:
    """Things a second, in thousands of millions: GFLOP/s, GB/s.

    >>> rate_text(2e9, 0.5), rate_text(0, 1.0), rate_text(1, float("inf"))
    ('4.00', '-', '-')
    """
    return short(count / seconds / 1e9) if count and 0 < seconds < float("inf") else "-"
