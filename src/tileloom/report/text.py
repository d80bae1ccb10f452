"""A trace as plain text."""

from __future__ import annotations

from collections import Counter

from .diff import Line, compare
from .trace import ProgramTrace, TracedKernel

_MARKS = {"same": "   ", "added": " + ", "gone": " - ", "skipped": "   ... "}
#: Refusals that are listed one by one; the rest is counted.
MOST_REFUSALS = 40


def to_text(trace: ProgramTrace, changes: bool = False) -> str:
    """What happened, in a page or two; with `changes` what each step did to the program."""
    parts = [f"{trace.name} for {trace.target}"]
    for number, stage in enumerate(trace.stages):
        about = f": {stage.about}" if stage.about else ""
        parts.append(f"\n{stage.name}{about} ({stage.seconds * 1e3:.1f} ms)\n  {stage.summary}")
        parts += [f"  | {line}" for line in stage.notes]
        if stage.name == "optimized":
            parts += _rules(trace)
        if changes and number:
            lines = compare(trace.stages[number - 1].lines, stage.lines)
            parts += [_marked(line) for line in lines]
    parts += _kernels(trace)
    parts += _refusals(trace.refusals)
    return "\n".join(parts)


def _marked(line: Line) -> str:
    return f"{_MARKS[line.kind]}{line.text}"


def _rules(trace: ProgramTrace) -> list[str]:
    fired: Counter[str] = sum((record.fired for record in trace.passes), Counter())
    kept: Counter[str] = sum((record.kept for record in trace.passes), Counter())
    lines = [f"  {count:5} x {rule}" for rule, count in fired.most_common()]
    lines += [f"  {count:5} x {rule} held back: its parts have other readers"
              for rule, count in kept.most_common()]  # fmt: skip
    return lines


def _kernels(trace: ProgramTrace) -> list[str]:
    if not trace.kernels:
        return []
    calls = sum(kernel.calls for kernel in trace.kernels)
    return [
        f"\nkernels: {len(trace.kernels)}, called {calls} times{moved(trace.nbytes)}",
        *(line for kernel in trace.kernels for line in _kernel(kernel)),
    ]


def moved(nbytes: int) -> str:
    """An amount of memory traffic, if there is any.

    >>> moved(12_345_678), moved(0)
    (', moving 12.3 MB', '')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("bytes", 1)):
        if nbytes >= size:
            return f", moving {nbytes / size:.3g} {unit}"
    return ""


def _kernel(kernel: TracedKernel) -> list[str]:
    times = f" x{kernel.calls}" if kernel.calls > 1 else ""
    where = " (on the host)" if kernel.host else ""
    lines = [f"  {kernel.name}{times}{where}{moved(kernel.nbytes)}"]
    if kernel.ops:
        lines.append(f"      {' '.join(kernel.ops)}")
    if kernel.writes:
        lines.append(f"      {', '.join(kernel.reads)} -> {', '.join(kernel.writes)}")
    return lines


def _refusals(refusals: list[str]) -> list[str]:
    if not refusals:
        return []
    counts = Counter(refusals)
    lines = [f"\nnot fused: {len(refusals)} pairs of kernels"]
    for text, count in list(counts.items())[:MOST_REFUSALS]:
        lines.append(f"  {text}{f'  x{count}' if count > 1 else ''}")
    if len(counts) > MOST_REFUSALS:
        lines.append(f"  ... and {len(counts) - MOST_REFUSALS} more kinds")
    return lines
