"""Handlers of ONNX operators, in families."""

from __future__ import annotations

from importlib import import_module

FAMILIES = (
    "elementwise",
    "activation",
    "conversion",
    "reduction",
    "rearrange",
    "select",
    "create",
    "matmul",
    "normalize",
    "conv",
    "pool",
    "resize",
    "quant",
    "rnn",
    "control",
    "sequence",
    "signal",
    "text",
    "training",
    "legacy",
    "refused",
)


def load_handlers() -> None:
    """Fill the registry."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")
