"""Tensor IR as TVMScript text."""

from __future__ import annotations

from ..tir import IRModule, PrimFunc, Stmt


def show(node: Stmt | PrimFunc | IRModule) -> str:
    """The text of a statement, a function or a module."""
    return object.__repr__(node)
