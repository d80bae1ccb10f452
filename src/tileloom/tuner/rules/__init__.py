"""Schedule rules: ideas of how a block can be scheduled, one a file."""

from __future__ import annotations
