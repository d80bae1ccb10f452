"""`tileloom sample`: a small ONNX model to try the other commands on."""

from __future__ import annotations

import click

import tileloom

from .console import err


@click.command("sample")
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False))
def command(path: str) -> None:
    """Write a small ONNX model to try things on: images in, logits and features out."""
    tileloom.onnx.sample(path)
    err.print(f"wrote {path}")
