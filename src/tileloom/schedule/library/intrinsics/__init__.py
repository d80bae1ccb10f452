"""The tensor intrinsics that come with the project, made when they are asked for by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....tir import PrimFunc
from . import amx, cpu, gpu, mma, packed, wgmma

#: From names to what makes a description and an implementation.
DEFINITIONS: Mapping[str, Callable[[], tuple[PrimFunc, PrimFunc]]] = {
    **cpu.DEFINITIONS,
    **gpu.DEFINITIONS,
    **mma.DEFINITIONS,
    **wgmma.DEFINITIONS,
}


def find_definition(name: str) -> Callable[[], tuple[PrimFunc, PrimFunc]] | None:
    """What makes the intrinsic of a name, which may say its sizes; None if there is none."""
    return DEFINITIONS.get(name) or amx.definition(name) or packed.definition(name)
