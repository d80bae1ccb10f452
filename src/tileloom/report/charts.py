"""Charts as inline SVG: points, steps and rules over two axes.

chart ::= Chart(x: PlotAxis, y: PlotAxis, layers)
layer ::= Dots | Steps | Level | Marks | Diagonal
Colours are those of the page: each layer has a CSS class, and `STYLE` says what classes look like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import TypeAlias

WIDTH, HEIGHT = 560, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 12, 10, 40

STYLE = """
.chart { width: 100%; height: auto; display: block; font: 11px system-ui, sans-serif; }
.chart text { fill: currentColor; opacity: .75; }
.chart .grid { stroke: currentColor; opacity: .12; }
.chart .frame { stroke: currentColor; opacity: .4; }
.chart .dots circle { fill: var(--dot); opacity: .55; }
.chart .steps { fill: none; stroke: var(--good); stroke-width: 2; stroke-linejoin: round; }
.chart .level { stroke: var(--before); stroke-width: 1.5; stroke-dasharray: 6 4; }
.chart .level-text { fill: var(--before); opacity: 1; }
.chart .marks path { stroke: var(--bad); stroke-width: 1.5; opacity: .8; }
.chart .diagonal { stroke: currentColor; opacity: .35; stroke-dasharray: 3 3; }
"""


@dataclass(frozen=True)
class PlotAxis:
    """A range of values.

    Attributes:
        low, high: its ends; above 0 where it is logarithmic.
        label: what it shows, with its unit.
        is_log: whether equal distances are equal ratios.
        is_whole: whether only whole numbers have ticks.
    """

    low: float
    high: float
    label: str
    is_log: bool = False
    is_whole: bool = False

    def place(self, value: float) -> float:
        """Where a value stands, from 0 to 1; those outside stand at the ends."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        at = (self._scaled(max(value, self.low)) - low) / (high - low) if high > low else 0.5
        return min(max(at, 0.0), 1.0)

    def _scaled(self, value: float) -> float:
        return log10(value) if self.is_log else value

    def ticks(self) -> list[float]:
        """Round values within the range, five or so.

        >>> PlotAxis(0, 10, "").ticks(), PlotAxis(0.9, 120, "", is_log=True).ticks()
        ([0, 2, 4, 6, 8, 10], [1, 10, 100])
        """
        if self.is_log:
            for factors in ((1,), (1, 3), (1, 2, 5)):
                found = self._decades(factors)
                if len(found) >= 3:
                    return found
        return self._steps()

    def _decades(self, factors: Sequence[int]) -> list[float]:
        powers = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
        values = (_rounded(factor * 10.0**power) for power in powers for factor in factors)
        found = [value for value in values if self.low <= value <= self.high]
        return found[:: ceil(len(found) / 6)] if len(found) > 6 else found

    def _steps(self) -> list[float]:
        rough = (self.high - self.low) / 6 or 1.0
        power = 10.0 ** floor(log10(rough))
        step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough * 0.999)
        step = max(1.0, step) if self.is_whole else step
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [_rounded(step * k) for k in range(first, last + 1)]


def _rounded(value: float) -> float:
    near = float(f"{value:.6g}")
    return int(near) if near == int(near) else near


@dataclass(frozen=True)
class Dots:
    """A dot for each point."""

    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Steps:
    """A line that changes its height at each point, and goes on to the right end.

    Attributes:
        notes: what each point says when it is pointed at.
    """

    points: Sequence[tuple[float, float]]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Level:
    """A horizontal line, with a word at its right end."""

    value: float
    text: str


@dataclass(frozen=True)
class Marks:
    """Short strokes at the lower edge."""

    places: Sequence[float]


@dataclass(frozen=True)
class Diagonal:
    """From one corner to the other: where both axes say the same."""


Layer: TypeAlias = Dots | Steps | Level | Marks | Diagonal


@dataclass(frozen=True)
class Chart:
    """Layers over two axes; what comes later is drawn on top.

    Attributes:
        title: for those who cannot see it.
    """

    x: PlotAxis
    y: PlotAxis
    layers: Sequence[Layer]
    title: str

    def svg(self) -> str:
        """The picture, to be put into a page that has `STYLE`."""
        inside = [*self._grid(), *(_DRAWN[type(layer)](self, layer) for layer in self.layers)]
        title = escape(self.title, quote=True)
        return (
            f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">'
            f"{''.join(inside)}</svg>"
        )

    def left(self, value: float) -> str:
        """Where a value stands from left to right."""
        return _number(_LEFT + self.x.place(value) * (WIDTH - _LEFT - _RIGHT))

    def top(self, value: float) -> str:
        """Where a value stands from top to bottom."""
        return _number(HEIGHT - _BOTTOM - self.y.place(value) * (HEIGHT - _TOP - _BOTTOM))

    def _grid(self) -> Iterable[str]:
        right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
        for value in self.y.ticks():
            y = self.top(value)
            yield f'<path class="grid" d="M{_LEFT} {y}H{right}"/>'
            yield f'<text x="{_LEFT - 6}" y="{y}" dy=".32em" text-anchor="end">{value:g}</text>'
        for value in self.x.ticks():
            x = self.left(value)
            yield f'<path class="grid" d="M{x} {_TOP}V{bottom}"/>'
            yield f'<text x="{x}" y="{bottom + 15}" text-anchor="middle">{value:g}</text>'
        yield f'<path class="frame" fill="none" d="M{_LEFT} {_TOP}V{bottom}H{right}"/>'
        across, down = (_LEFT + right) / 2, (_TOP + bottom) / 2
        yield (
            f'<text x="{across}" y="{HEIGHT - 8}" text-anchor="middle">'
            f"{escape(self.x.label)}</text>"
        )
        yield (
            f'<text transform="translate(13 {down}) rotate(-90)" text-anchor="middle">'
            f"{escape(self.y.label)}</text>"
        )

    def _dots(self, layer: Dots) -> str:
        found = (
            f'<circle cx="{self.left(x)}" cy="{self.top(y)}" r="2.2"/>' for x, y in layer.points
        )
        return f'<g class="dots">{"".join(found)}</g>'

    def _steps(self, layer: Steps) -> str:
        if not layer.points:
            return ""
        (x, y), *rest = layer.points
        path = [f"M{self.left(x)} {self.top(y)}"]
        path += [f"H{self.left(x)}V{self.top(y)}" for x, y in rest]
        notes = "".join(
            f'<circle cx="{self.left(x)}" cy="{self.top(y)}" r="3" fill="var(--good)">'
            f"<title>{escape(note)}</title></circle>"
            for (x, y), note in zip(layer.points, layer.notes, strict=False)
        )
        return f'<path class="steps" d="{"".join(path)}H{WIDTH - _RIGHT}"/>{notes}'

    def _level(self, layer: Level) -> str:
        y = self.top(layer.value)
        return (
            f'<path class="level" d="M{_LEFT} {y}H{WIDTH - _RIGHT}"/>'
            f'<text class="level-text" x="{WIDTH - _RIGHT - 4}" y="{y}" dy="-.4em" '
            f'text-anchor="end">{escape(layer.text)}</text>'
        )

    def _marks(self, layer: Marks) -> str:
        bottom = HEIGHT - _BOTTOM
        found = (f'<path d="M{self.left(x)} {bottom}v-7"/>' for x in layer.places)
        return f'<g class="marks">{"".join(found)}</g>'

    def _diagonal(self, _layer: Diagonal) -> str:
        right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
        return f'<path class="diagonal" d="M{_LEFT} {bottom}L{right} {_TOP}"/>'


_DRAWN: dict[type, Callable[..., str]] = {
    Dots: Chart._dots, Steps: Chart._steps, Level: Chart._level, Marks: Chart._marks,
    Diagonal: Chart._diagonal,
}  # fmt: skip


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
