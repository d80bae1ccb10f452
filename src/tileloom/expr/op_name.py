"""Names of operations."""

from __future__ import annotations


class OpName(str):
    """The registered name of an operation, which is also its `.name` as TVM's operations have it.

    >>> op_name("tir.exp") == "tir.exp", op_name("tir.exp").name
    (True, 'tir.exp')
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name as a plain string."""
        return str(self)

    def same_as(self, other: object) -> bool:
        """Whether both name one operation."""
        return self == other


_NAMES: dict[str, OpName] = {}


def op_name(text: str) -> OpName:
    """The name of an operation; one object for each text."""
    return _NAMES.get(text) or _NAMES.setdefault(text, OpName(text))
