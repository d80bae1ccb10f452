"""The examples of docs/cuda.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import test_docs_examples
import tileloom
from gpu_suite import has_gpu

PAGE = Path(__file__).parents[3] / "docs" / "cuda.md"


def test_examples_run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_gpu():
        driver = request.getfixturevalue("gpu")
        build = tileloom.build

        def known(*given: Any, **options: Any) -> Any:
            made = build(*given, **options)
            driver.programs[made.ptx] = dict(made._plan.kernels)
            return made

        monkeypatch.setattr(tileloom, "build", known)
    code = compile(test_docs_examples.program(PAGE), PAGE.name, "exec")
    exec(code, {"__name__": PAGE.name})
