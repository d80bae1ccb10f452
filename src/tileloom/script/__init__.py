"""TVMScript: tensor IR as text, out and in."""

from .show import show

__all__ = ["show"]
