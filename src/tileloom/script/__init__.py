"""TVMScript: tensor IR as text, out and in."""

from . import ir, tir
from .parse import from_source, parse
from .show import show

__all__ = ["from_source", "ir", "parse", "show", "tir"]
