"""The door to ONNX where its package is missing."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import tileloom


class Missing:
    """A finder that says of the frontend that another module is missing."""

    def __init__(self, name: str | None) -> None:
        self.name = name

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> None:
        if name == "tileloom.frontend.onnx":
            raise ModuleNotFoundError(f"No module named {self.name!r}", name=self.name)


@pytest.mark.parametrize(
    ("name", "said"),
    [("onnx", True), ("onnx.helper", True), ("google.protobuf", True), ("numpy", False),
     ("tileloom.frontend", False), (None, False)],
)  # fmt: skip
def test_which_package_is_named(
    name: str | None, said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [m for m in sys.modules if m.startswith("tileloom.frontend.onnx")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [Missing(name), *sys.meta_path])
    path = Path(tileloom.__file__).with_name("onnx.py")
    with pytest.raises(ModuleNotFoundError) as caught:
        runpy.run_path(str(path), run_name="tileloom.onnx")
    assert ("needs the package 'onnx'" in str(caught.value)) is said
    assert caught.value.name == name
