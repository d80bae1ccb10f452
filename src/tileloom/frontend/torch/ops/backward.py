"""Gradients that arrive whole: those of pooling."""

from __future__ import annotations
