"""Attributes that are computed when they are first asked for."""

from __future__ import annotations

import sys

from .late import TYPE_CHECKING

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:
        """`functools.cached_property` of Python 3.12, which takes no lock.

        That of 3.11 holds one for all objects of a class while it computes: a process that is
        forked in the meantime would wait for it for ever. Two threads may compute the same.
        """

        def __init__(self, function) -> None:
            self.function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner, name) -> None:
            self.name = name

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self.name] = self.function(instance)
            return value


__all__ = ["cached_property"]
