"""The design spaces that TVM made of some programs: reading them, and comparing traces."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

SAMPLE = Path(__file__).resolve().parents[3] / "shared/data/tvm/design-spaces-sample.json.gz"
_DECISION = re.compile(r", decision=(\[[^]]*\]|-?\d+)(?=\)$)")
_VARIABLE = re.compile(r"\b[blv]\d+\b")


@cache
def workloads() -> dict[str, Any]:
    """The sample: workload, "script" and "targets", target, spaces; empty where it is not there."""
    if not SAMPLE.exists():
        return {}
    with gzip.open(SAMPLE, "rt") as file:
        found: dict[str, Any] = json.load(file)
    return found


def steps(lines: Sequence[str], but: Iterable[str] = ()) -> list[str]:
    """The steps of a trace without decisions, their variables numbered anew.

    Args:
        lines: Python text, as `Trace.as_python` gives it.
        but: regular expressions; steps that one of them is found in are left out.
    """
    left_out = [re.compile(pattern) for pattern in but]
    kept = [line for line in lines if not any(p.search(line) for p in left_out)]
    names: dict[str, str] = {}

    def renamed(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"{found[0][0]}{len(names)}")

    return [_VARIABLE.sub(renamed, _DECISION.sub("", line)) for line in kept]


def digest(lines: Sequence[str]) -> str:
    """What tells the steps of a trace from others."""
    return sha256("\n".join(steps(lines)).encode()).hexdigest()[:16]
