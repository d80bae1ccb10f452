"""What a run of the harness says: the machine, a table in Markdown, everything in JSON."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from .harness import Cell, Row

PACKAGES = ("numpy", "llvmlite", "torch", "onnxruntime", "jax", "openvino", "scipy")


def machine() -> dict[str, Any]:
    """The machine and the versions that a table must be read with."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": os.environ.get("OMP_NUM_THREADS", ""),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def markdown(rows: Sequence[Row], subject: str = "tileloom") -> str:
    """The table: per cell the median in ms and its ratio to the row's best; then speed ratios.

    The columns `subject : peer` say how many times as fast the subject is, by medians and (in
    brackets) by minima.
    """
    peers = _peer_order(rows)
    against = [peer for peer in peers if peer != subject] if subject in peers else []
    header = ["workload", *peers, *(f"{subject} : {peer}" for peer in against), "foreign"]
    lines = [_line(header), _line(["---"] * len(header))]
    for row in rows:
        best = min((c.median for c in row.cells.values() if c.samples), default=math.nan)
        cells = [_cell(row.cells.get(peer), best) for peer in peers]
        speeds = [_speed(row.cells.get(subject), row.cells.get(peer)) for peer in against]
        lines.append(_line([row.workload.name, *cells, *speeds, f"{row.foreign:.2f}"]))
    return "\n".join([*lines, *_notes(rows)]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _peer_order(rows: Sequence[Row]) -> list[str]:
    """Peers that took part at least once, in the order of the workloads."""
    seen: dict[str, bool] = {}
    for row in rows:
        for name, cell in row.cells.items():
            seen[name] = seen.get(name, False) or cell.status != "skipped"
    return [name for name, took_part in seen.items() if took_part]


def _cell(cell: Cell | None, best: float) -> str:
    if cell is None or cell.status == "skipped":
        return ""
    if cell.status != "ok":
        return cell.status
    text = f"{cell.median * 1e3:.3g} ({cell.median / best:.2f})"
    return f"**{text}**" if cell.median == best else text


def _speed(subject: Cell | None, peer: Cell | None) -> str:
    if subject is None or peer is None or not subject.samples or not peer.samples:
        return ""
    return f"{peer.median / subject.median:.2f} ({peer.minimum / subject.minimum:.2f})"


def _notes(rows: Sequence[Row]) -> list[str]:
    """Who was left out and why, each reason once."""
    skipped: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        for cell in row.cells.values():
            if cell.status != "ok":
                key = (cell.peer, cell.status, cell.note)
                skipped.setdefault(key, []).append(row.workload.name)
    notes = []
    for (peer, status, note), names in skipped.items():
        where = "everywhere" if len(names) == len(rows) else ", ".join(names)
        notes.append(f"* {peer} {status} ({where}): {note}")
    return ["", *notes] if notes else []


def describe(facts: dict[str, Any]) -> str:
    """The machine in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['threads'] or 'default'} threads, "
        f"{facts['memory_gib']} GiB, {facts['system']}, Python {facts['python']}, {versions}; "
        f"{facts['date']}"
    )


def to_json(rows: Sequence[Row], facts: dict[str, Any]) -> str:
    """The machine and all samples."""
    table = [
        {
            "workload": row.workload.name,
            "flops": row.workload.flops,
            "moved": row.workload.moved,
            "foreign": _number(row.foreign),
            "cells": {name: _cell_record(cell) for name, cell in row.cells.items()},
        }
        for row in rows
    ]
    return json.dumps({"machine": facts, "rows": table}, indent=1) + "\n"


def _cell_record(cell: Cell) -> dict[str, Any]:
    return {
        "status": cell.status,
        "note": cell.note,
        "error": _number(cell.error),
        "median": _number(cell.median),
        "minimum": _number(cell.minimum),
        "samples": cell.samples,
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
