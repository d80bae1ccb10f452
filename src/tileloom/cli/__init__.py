"""The command line: `tileloom run`, `compile`, `bench`, `opt`, `lit`, `trace`, `doctor`, `demo`.

app         the group, and how errors are shown
models      ONNX files and the arrays they are fed           (run, compile, bench)
programs    the NumPy-style programs that come with Tileloom (demo, bench)
timing      peers side by side                               (run, bench, demo)
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """What the console script `tileloom` calls."""
    from .app import cli  # click and rich only when they are wanted

    cli()
