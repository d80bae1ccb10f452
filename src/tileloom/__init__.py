"""Tileloom: a tensor compiler in Python."""

__version__ = "0.1.0"
