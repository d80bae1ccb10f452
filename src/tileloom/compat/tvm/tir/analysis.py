"""`tvm.tir.analysis`: what can be asked of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from .... import tir
from ....base.errors import VerifyError
from ....expr import Expr, Var, free_vars
from ....lower.gpu import verify_gpu_code as complaints_of_gpu
from ....target.limits import GPULimits
from ....tir import Buffer, IRModule, PrimFunc, Stmt
from .._names import missing


class NotWellFormed(VerifyError, ValueError):
    """A program that is not well-formed; a `ValueError`, as in TVM."""


def verify_well_formed(obj: PrimFunc | IRModule, assert_mode: bool = True) -> bool:
    """Whether a function or module is well-formed.

    Raises:
        ValueError: it is not, and `assert_mode` is set.
    """
    try:
        tir.verify(obj)
    except VerifyError as error:
        if assert_mode:
            raise NotWellFormed(error.message, span=error.span, hint=error.hint) from None
        return False
    return True


def expr_deep_equal(lhs: Expr, rhs: Expr) -> bool:
    """Whether two expressions are one."""
    return lhs is rhs


def undefined_vars(node: Stmt | Expr, defs: Sequence[Var] | None = None) -> list[Var]:
    """The variables used but not defined inside, without those of `defs`."""
    if isinstance(node, Expr):
        found = sorted(free_vars(node), key=lambda var: var.serial)
    else:
        found = list(tir.undefined_vars(node))
    return [var for var in found if var not in set(defs or ())]


def get_block_access_region(
    block: tir.Block, buffer_var_map: Mapping[Var, Buffer]
) -> list[list[tir.BufferRegion]]:
    """The regions read and written, and (there are none) those accessed in unknown ways."""
    reads, writes = tir.infer_block_access(block, buffer_var_map.values())
    return [list(reads), list(writes), []]


def get_block_read_write_region(
    block: tir.Block, buffer_var_map: Mapping[Var, Buffer]
) -> list[list[tir.BufferRegion]]:
    """The regions read and written."""
    return get_block_access_region(block, buffer_var_map)[:2]


def detect_buffer_access_lca(func: PrimFunc) -> dict[Buffer, Any]:
    """For each buffer the innermost loop or block around all its accesses."""
    found = tir.detect_buffer_lca(func)
    return {
        buffer: place.block if isinstance(place, tir.BlockRealize) else place
        for buffer, place in found.items()
    }


def verify_gpu_code(func: PrimFunc, constraints: Mapping[str, int]) -> bool:
    """Whether a GPU with these limits can run the function."""
    known = {field.name for field in fields(GPULimits)}
    chosen: dict[str, Any] = {k: int(value) for k, value in constraints.items() if k in known}
    limits = GPULimits(**chosen)
    return not complaints_of_gpu(func, limits)


__getattr__ = missing(__name__)
