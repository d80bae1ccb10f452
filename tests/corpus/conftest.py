"""Real models: needs `pip install torch timm transformers onnxscript` besides the extra `dev`.

timm imports torchvision, whose package index build does not load its operators beside a torch for
the CPU; what timm and transformers need of them is their declaration alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is marked `corpus`."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.corpus)


@pytest.fixture(scope="session")
def torchvision_operators() -> Any:
    """Declare torchvision's operators, if its own library does not."""
    torch = pytest.importorskip("torch")
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library  # the declaration lives as long as this object
