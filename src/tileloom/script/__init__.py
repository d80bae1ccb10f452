"""TVMScript: tensor IR as text, out and in."""

from . import ir, tir
from .parse import from_source, parse
from .show import show
from .show_marked import show_marked

__all__ = ["from_source", "ir", "parse", "show", "show_marked", "tir"]
