"""What loads, stores and calls need of the emitter of expressions, which uses them."""

from __future__ import annotations

from typing import Protocol

import llvmlite.ir as ir

from ..expr import Expr, Var
from ..tir import Buffer


class Emitter(Protocol):
    """A place in an LLVM function, and the values known there."""

    builder: ir.IRBuilder
    mask: ir.Value | None

    def value(self, expr: Expr) -> ir.Value:
        """The value in the expression's own type."""

    def index(self, expr: Expr) -> ir.Value:
        """A scalar integer as `i64`."""

    def lookup(self, var: Var) -> ir.Value:
        """The value bound to a variable."""

    def alignment(self, buffer: Buffer, first: Expr) -> int:
        """The bytes of which the address of a vector's first element is known to be a multiple."""

    def streamed(self, buffer: Buffer) -> int:
        """The bytes that vectors stored past the caches are aligned to; 0 where none are."""

    def check_call(self, number: ir.Value) -> None:
        """End the function if what it called failed, for the reason with this number."""

    def compute_capability(self) -> int:
        """Of the GPU that code is made for, 80 for sm_80; 0 on a CPU."""

    def where(self, condition: Expr, yes: Expr, no: Expr) -> ir.Value:
        """One of two values, each evaluated only where it is wanted."""
