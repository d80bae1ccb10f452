"""A tuning history as one HTML file that needs nothing else: no scripts, no fonts, no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from math import isfinite
from statistics import quantiles

from .charts import STYLE as CHART_STYLE
from .charts import Chart, Diagonal, Dots, Layer, Level, Marks, PlotAxis, Steps
from .tuning import KINDS, TaskHistory, TuningHistory
from .tuning_style import STYLE
from .units import rate_text, ratio_text, time_text, time_unit

#: Kernels whose charts are shown unfolded: those that take most of the time.
MOST_OPEN = 3
_MOST_BARS = 8  # kernels with bars
_STEEP = 5.0  # times as fast, from which on a chart has a logarithmic scale
_SLOWEST = 8.0  # times as slow as the best, and what is slower stands at the edge of its chart


def tuning_html(history: TuningHistory) -> str:
    """The page."""
    title = escape(f"Tuning of {history.name}")
    order = history.by_share()
    parts = [
        f'<h1>{title}</h1><p class="dim">{_about(history)}</p>',
        _tiles(history),
        _overview(history),
        f"<h2>Kernels</h2>{_table(history, order)}",
        "<h2>Each kernel</h2>",
        *(_kernel(k, task, k < MOST_OPEN) for k, task in enumerate(order)),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}{CHART_STYLE}</style></head>\n<body>{chr(10).join(parts)}\n</body></html>\n"
    )


# ---------------------------------------------------------------------------- the whole program


def _about(history: TuningHistory) -> str:
    first, last = history.period
    parts = [f"for <code>{escape(history.target)}</code>{_machine(history)}"]
    if history.place:
        parts.append(f"from the records in <code>{escape(history.place)}</code>")
    if isfinite(first):
        parts.append(f"measured {_moment(first)} to {_moment(last)}")
    return ", ".join(parts)


def _machine(history: TuningHistory) -> str:
    target = history.tasks[0].task.context.target if history.tasks else None
    if target is None or target.processors:
        return ""
    return f" ({target.arch}, {target.cores} cores, {target.vector_bits}-bit vectors)"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


def _tiles(history: TuningHistory) -> str:
    trials, failed = history.trials, history.failed
    better = sum(1 for task in history.tasks if task.speedup > 1)
    share = f"{failed} of them failed ({failed / trials:.0%})" if failed else "none failed"
    times = f"{time_text(history.default_seconds)} → {time_text(history.seconds)}"
    tiles = [
        (ratio_text(history.speedup), "as fast as the planner's kernels"),
        (times, "all calls of all kernels below"),
        (f"{better} of {len(history.tasks)}", "kernels are faster than the planner's"),
        (f"{trials}", f"candidates measured, {share}"),
    ]
    inside = "".join(f'<div class="tile"><b>{b}</b><span>{text}</span></div>' for b, text in tiles)
    return f'<div class="tiles">{inside}</div>'


def _overview(history: TuningHistory) -> str:
    points = history.sums()
    if not history.ran:
        return ""
    size, unit = time_unit(points[0][1])
    values = [(float(k), seconds / size) for k, seconds in points]
    low, high = values[-1][1], values[0][1]
    is_log = high > _STEEP * low > 0
    margin = (high - low) * 0.12
    ends = (low / 1.2, high * 1.3) if is_log else (max(0.0, low - margin), high + margin)
    chart = Chart(
        PlotAxis(0, history.trials, "candidates measured", is_whole=True),
        PlotAxis(*ends, f"time of all calls, {unit}", is_log),
        [Level(high, "planner"), Steps(values)],
        "time of all kernels over candidates measured",
    )
    note = (
        "Each kernel counts with the least time that the search had measured until then. What was "
        "chosen at the end was measured once more, in turns with the planner's kernel: the numbers "
        "above and in the table are of that."
    )
    return _pair(
        f'<h2>Time of all calls together</h2>{chart.svg()}<p class="note">{note}</p>',
        f"<h2>Kernels before and after</h2>{_bars(history)}",
    )


def _bars(history: TuningHistory) -> str:
    """The kernels that take most of the time, each with two bars."""
    shown = [task for task in history.by_share() if task.share][:_MOST_BARS]
    longest = max((task.share for task in shown), default=1.0)
    rows = []
    for task in shown:
        after = task.weight * task.seconds
        bars = "".join(
            f'<i class="{kind}" style="width:{max(100 * seconds / longest, 0.3):.1f}%"></i>'
            for kind, seconds in (("before", task.share), ("after", after))
        )
        name = escape(task.name)
        rows.append(
            f'<div class="name" title="{name}"><code>{name}</code></div><div>{bars}</div>'
            f'<div class="n">{time_text(task.share)}<br>{time_text(after)}</div>'
        )
    left = len(history.tasks) - len(shown)
    more = f" {left} more take less." if left else ""
    note = 'planner</span> above, <span class="faster">tuned</span> below.'
    return (
        f'<div class="bars">{"".join(rows)}</div><p class="note">All calls of each kernel in one '
        f'run of the program: <span class="before-text">{note}{more}</p>'
    )


_COLUMNS = (
    ("Kernel", ""),
    ("Calls", "in one run of the program"),
    ("Share", "of the time of all kernels as the planner makes them"),
    ("Planner", "one call of what the planner makes"),
    ("Tuned", "one call of what was chosen"),
    ("Speedup", ""),
    ("GFLOP/s", "of what was chosen"),
    ("GB/s", "of what was chosen, each argument counted once"),
    ("Trials", "candidates measured"),
    ("Failed", ""),
)


def _table(history: TuningHistory, order: Sequence[TaskHistory]) -> str:
    heads = "".join(f'<th title="{about}">{name}</th>' for name, about in _COLUMNS)
    total = history.default_seconds if history.ran else 1.0
    rows = "".join(_row(k, task, task.share / total) for k, task in enumerate(order))
    return f'<div class="wide"><table><tr>{heads}</tr>{rows}</table></div>'


def _row(number: int, task: TaskHistory, share: float) -> str:
    name = escape(task.name)
    speedup = ratio_text(task.speedup) if isfinite(task.default_seconds) else "-"
    marked = f'<span class="faster">{speedup}</span>' if task.speedup > 1 else speedup
    cells = [
        f"{task.weight:g}",
        f'<span class="bar" style="width:{share * 4:.2f}em"></span> {share:.0%}',
        time_text(task.default_seconds),
        time_text(task.seconds),
        marked,
        rate_text(task.operations, task.seconds),
        rate_text(task.argument_bytes, task.seconds),
        f"{len(task.records)}",
        f"{task.failures.total()}",
    ]
    link = f'<td class="name" title="{name}"><a href="#k{number}"><code>{name}</code></a></td>'
    return f"<tr>{link}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


# ---------------------------------------------------------------------------- one kernel


def _kernel(number: int, task: TaskHistory, is_open: bool) -> str:
    times = f"{time_text(task.default_seconds)} → {time_text(task.seconds)}"
    head = (
        f"<b><code>{escape(task.name)}</code></b> "
        f'<span class="dim">{times}, {ratio_text(task.speedup)}, {len(task.records)} trials</span>'
    )
    inside = [_figures(task), _failures(task), _schedules(task)]
    mark = " open" if is_open else ""
    return (
        f'<details class="kernel"{mark}><summary>{head}</summary>'
        f'<div id="k{number}">{"".join(inside)}</div></details>'
    )


def _pair(left: str, right: str) -> str:
    return f'<div class="pair"><div>{left}</div><div>{right}</div></div>'


def _figures(task: TaskHistory) -> str:
    if not task.records:
        return '<p class="note">Nothing was measured of it.</p>'
    return _pair(
        f"<h4>Time of candidates, in the order of measuring</h4>{_times(task)}",
        f"<h4>Predicted against measured speed</h4>{_predicted(task)}",
    )


def _times(task: TaskHistory) -> str:
    ran = [(k, r.latency) for k, r in enumerate(task.records, 1) if not r.failed]
    if not ran:
        return '<p class="note">No candidate ran.</p>'
    steps = task.improvements()
    least = steps[-1][1]
    slowest = quantiles([s for _, s in ran], n=50)[-1] if len(ran) > 1 else least
    default = task.first_default_seconds
    known = [default] if isfinite(default) else []
    high = max(min(slowest, least * _SLOWEST), least * 1.5, *known) * 1.1
    size, unit = time_unit(least)
    y = PlotAxis(
        min(least, *known, least) * 0.85 / size, high / size, f"one call, {unit}", is_log=True
    )
    layers: list[Layer] = [
        Dots([(k, min(s, high) / size) for k, s in ran]),
        Marks([k for k, r in enumerate(task.records, 1) if r.failed]),
        *(Level(seconds / size, "planner") for seconds in known),
        Steps(
            [(k, s / size) for k, s in steps],
            [f"candidate {k}: {time_text(seconds)}" for k, seconds in steps],
        ),
    ]
    x = PlotAxis(0, max(len(task.records), 2), "candidates measured", is_whole=True)
    beyond = sum(1 for _, s in ran if s > high)
    said = [f"{beyond} slower ones stand at the upper edge."] if beyond else []
    if task.failures:
        said.append("Strokes at the lower edge are candidates that failed.")
    chart = Chart(x, y, layers, f"time of candidates of {task.name}").svg()
    return f'{chart}<p class="note">{" ".join(said)}</p>'


def _predicted(task: TaskHistory) -> str:
    pairs = task.predictions()
    if not pairs:
        return '<p class="note">The cost model had seen too few candidates to predict any.</p>'
    high = max(1.0, *(score for score, _ in pairs)) * 1.03
    chart = Chart(
        PlotAxis(0, high, "predicted, as a part of the fastest"),
        PlotAxis(0, high, "measured, as a part of the fastest"),
        [Diagonal(), Dots([(max(0.0, score), speed) for score, speed in pairs])],
        f"predicted against measured speed of candidates of {task.name}",
    )
    rank = task.correlation
    said = f"rank correlation {rank:.2f}" if isfinite(rank) else "too few for a rank correlation"
    return (
        f'{chart.svg()}<p class="note">{len(pairs)} candidates, {said} (Spearman). Predictions are '
        "from before each was measured, against the fastest that was known then.</p>"
    )


def _failures(task: TaskHistory) -> str:
    if not task.failures:
        return ""
    counts = ", ".join(f"{task.failures[kind]} {kind}" for kind in KINDS if task.failures[kind])
    rows = "".join(
        f'<tr><td>{kind}</td><td>{count}</td><td class="words"><code>{escape(text)}</code></td>'
        "</tr>"
        for kind, text, count in task.complaints()
    )
    head = '<tr><th>Kind</th><th>Times</th><th class="words">Such as</th></tr>'
    return f'<h4>Failed: {counts}</h4><div class="wide"><table>{head}{rows}</table></div>'


def _schedules(task: TaskHistory) -> str:
    sides: list[tuple[str, object]] = []
    if task.default is not None:
        sides.append(("Planner", task.default))
    if task.best is not None and not task.keeps_default:
        sides.append(("Tuned", task.best.trace))
    if not sides:
        return ""
    said = ""
    if task.keeps_default:
        said = '<p class="note">The planner\'s own schedule stays: nothing was clearly faster.</p>'
    elif task.chosen is None and task.best is not None:
        said = '<p class="note">Nothing was chosen yet: this is the fastest of the search.</p>'
    steps = [(name, task.steps(trace)) for name, trace in sides]  # type: ignore[arg-type]
    scripts = [(name, task.script(trace)) for name, trace in sides]  # type: ignore[arg-type]
    return (
        f"{said}<details><summary>Schedule: the steps taken</summary>{_listings(steps)}</details>"
        f"<details><summary>Program: what they make</summary>{_listings(scripts)}</details>"
    )


def _listings(listings: Iterable[tuple[str, str]]) -> str:
    cells = "".join(
        f"<div><h4>{name}</h4><pre>{escape(text)}</pre></div>" for name, text in listings
    )
    return f'<div class="pair">{cells}</div>'
