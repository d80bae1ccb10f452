"""Tile IR: Triton's layouts, analyses and passes over an SSA form of our own."""

from . import dialects
from .ir.parser import parse
from .ir.show import show
from .ir.verify import verify
from .layouts import encodings
from .passes.registry import run_passes

__all__ = ["dialects", "encodings", "parse", "run_passes", "show", "verify"]
