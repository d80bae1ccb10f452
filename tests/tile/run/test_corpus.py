"""Kernels in Triton's language: what our passes make of them computes the same, step by step."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tile.oracle import needs_oracle, oracle_python
from tile.run.test_passes import STEPS
from tile.validation import check_pass
from tileloom.tile import parse, run_passes

KERNELS = Path(__file__).resolve().parent.parent / "corpus_kernels.txt"
ARGUMENTS = {
    name: words.split()
    for words, name in re.findall(r'@kernel\("([^"]*)"\)\ndef (\w+)', KERNELS.read_text())
}
# Its reshape may reorder elements, and then sums some of them.
DEPENDS_ON_ORDER = ("reshape_sum",)
ELEMENTS = 400_000


@cache
def texts() -> dict[str, str]:
    """The programs of the kernels, by their names."""
    command = [oracle_python() or "", str(KERNELS)]
    made = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    found: dict[str, str] = json.loads(made.stdout)
    return found


def arguments_of(words: list[str]) -> list[Any]:
    """Arguments of the types that a kernel's comment names: rows of 256 elements, 50 in use."""
    generator = np.random.default_rng(1)
    rows = 64 if words.count("n") > 2 else 256
    make: dict[str, Callable[[], Any]] = {
        "p": lambda: generator.random(ELEMENTS).astype(np.float32) - np.float32(0.5),
        "h": lambda: (generator.random(ELEMENTS) - 0.5).astype(np.float16),
        "i": lambda: generator.integers(0, 16, ELEMENTS).astype(np.int32),
        "n": lambda: rows,
        "m": lambda: 50,
    }
    return [make[word]() for word in words if word in make]


@pytest.mark.slow
@needs_oracle
@pytest.mark.parametrize("target", ["80", "90"])
@pytest.mark.parametrize("name", [name for name in ARGUMENTS if name not in DEPENDS_ON_ORDER])
def test_pipelines_of_kernels(name: str, target: str) -> None:
    before, module = parse(texts()[name]), parse(texts()[name])
    arguments = arguments_of(ARGUMENTS[name])
    for step in STEPS:
        run_passes(module, [step.format(target)])
        check_pass(before, module, arguments, rtol=2e-3, atol=2e-3)
