"""Where `Schedule` gets the methods of primitives; `methods.pyi` says what they take and give."""

from __future__ import annotations


class PrimitiveMethods:
    """A base of `Schedule`; the registration of primitives adds the methods themselves."""
