"""A trace as one HTML file that needs nothing else: no scripts, no fonts, no network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from .diff import compare
from .text import moved
from .trace import ProgramTrace, TracedKernel

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem;
       padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 1.8rem 0 .4rem; }
pre { font: 12px/1.4 ui-monospace, monospace; overflow-x: auto; padding: .6rem; margin: .3rem 0;
      background: #8881; border-radius: 4px; }
pre span { display: block; min-height: 1.4em; }
summary { cursor: pointer; padding: .15rem 0; } details { margin: .1rem 0 .1rem .4rem; }
table { border-collapse: collapse; font-size: 13px; }
td, th { padding: .1rem .8rem .1rem 0; text-align: left; vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
.added { background: #2a52; } .gone { background: #c332; text-decoration: line-through; }
.skipped { opacity: .55; font-style: italic; } .dim { opacity: .65; }
code { font-family: ui-monospace, monospace; font-size: 12px; }
"""


def to_html(trace: ProgramTrace, kernel_stages: Sequence[str] = ("tir",)) -> str:
    """The page.

    Args:
        kernel_stages: the stages at which each kernel is shown, of `trace.KERNEL_STAGES`.
    """
    title = escape(f"{trace.name} for {trace.target}")
    parts = [_stages(trace), _rules(trace), _kernels(trace, kernel_stages), _refusals(trace)]
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n{body}\n</body></html>\n"
    )


def _folded(title: str, inside: str, is_open: bool = False) -> str:
    mark = " open" if is_open else ""
    return f"<details{mark}><summary>{title}</summary>{inside}</details>"


def _listing(lines: Iterable[str]) -> str:
    return f"<pre>{escape(chr(10).join(lines))}</pre>"


def _stages(trace: ProgramTrace) -> str:
    parts = ["<h2>Stages</h2>"]
    for number, stage in enumerate(trace.stages):
        head = (
            f"<b>{escape(stage.name)}</b> {escape(stage.about)} "
            f'<span class="dim">{escape(stage.summary)}; {stage.seconds * 1e3:.1f} ms</span>'
        )
        inside = _folded("listing", _listing(stage.lines))
        if number:
            before = trace.stages[number - 1]
            title = f"changes since {escape(before.name)}"
            inside = _folded(title, _changes(before.lines, stage.lines), True) + inside
        if stage.notes:
            inside = _listing(stage.notes) + inside
        parts.append(_folded(head, inside))
    return "\n".join(parts)


def _changes(old: Sequence[str], new: Sequence[str]) -> str:
    lines = compare(old, new)
    if all(line.kind in ("same", "skipped") for line in lines):
        return '<p class="dim">none</p>'
    spans = (f'<span class="{line.kind}">{escape(line.text)}</span>' for line in lines)
    return f"<pre>{''.join(spans)}</pre>"


def _rules(trace: ProgramTrace) -> str:
    if not trace.passes:
        return ""
    rows = []
    for record in trace.passes:
        for rule, count in record.fired.most_common():
            rows.append((rule, str(count), ""))
        for rule, count in record.kept.most_common():
            rows.append((rule, str(count), "held back: its parts have other readers"))
        rows.append((record.name, f"{record.before} → {record.after}",
                     f"nodes in {record.seconds * 1e3:.1f} ms"))  # fmt: skip
    return "<h2>Rules that fired</h2>" + _table(("rule", "times", ""), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    titles = "".join(f"<th>{escape(text)}</th>" for text in head)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{titles}</tr>{lines}</table>"


def _kernels(trace: ProgramTrace, stages: Sequence[str]) -> str:
    if not trace.kernels:
        return ""
    calls = sum(kernel.calls for kernel in trace.kernels)
    title = f"<h2>Kernels: {len(trace.kernels)}, called {calls} times{moved(trace.nbytes)}</h2>"
    return title + "\n".join(_kernel(trace, kernel, stages) for kernel in trace.kernels)


def _kernel(trace: ProgramTrace, kernel: TracedKernel, stages: Sequence[str]) -> str:
    times = f" ×{kernel.calls}" if kernel.calls > 1 else ""
    where = "on the host; " if kernel.host else ""
    ops = escape(" ".join(kernel.ops)) + moved(kernel.nbytes)
    head = f'<code>{escape(kernel.name)}</code>{times} <span class="dim">{where}{ops}</span>'
    inside = [f"<p><code>{escape(', '.join(kernel.reads))} → {escape(', '.join(kernel.writes))}"
              "</code></p>"]  # fmt: skip
    if not kernel.host:
        for stage in stages:
            text = trace.kernel_text(kernel.name, stage)
            inside.append(_folded(escape(stage), _listing(text.splitlines())))
    return _folded(head, "".join(inside))


def _refusals(trace: ProgramTrace) -> str:
    if not trace.refusals:
        return ""
    rows = [(str(count), text) for text, count in Counter(trace.refusals).items()]
    title = f"<h2>Not fused: {len(trace.refusals)} pairs of kernels</h2>"
    return title + _folded("reasons", _table(("times", "reason"), rows), True)
