"""How much a program computes, for comparing its time with what a machine can do."""

from __future__ import annotations

from math import prod

from ..expr import IntImm
from ..tir import BlockRealize, BufferStore, For, PrimFunc, Stmt, stmt_children
from .features.counts import summary


def count_operations(func: PrimFunc) -> int:
    """Arithmetic operations of one call, as TVM's estimate of FLOP counts them.

    Each operation of a stored value counts as often as the loops around it run, if it is of the
    kind of what is stored (floating point or integer). What an index or a condition takes does not
    count, and neither does what a reduction starts from. A fused multiply-add is two.

    Args:
        func: a program without a schedule, of static shapes; loops of other extents count once.

    >>> from tileloom.script import from_source
    >>> func = from_source('''
    ... @T.prim_func
    ... def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    ...     for i, k in T.grid(4, 8):
    ...         with T.block("sum"):
    ...             vi, vk = T.axis.remap("SR", [i, k])
    ...             with T.init():
    ...                 B[vi] = 0.0
    ...             B[vi] = B[vi] + A[vi, vk] * 2.0
    ... ''')
    >>> count_operations(func)
    64
    """
    total = 0
    waiting: list[tuple[Stmt, int]] = [(func.body, 1)]
    while waiting:
        stmt, times = waiting.pop()
        if isinstance(stmt, BufferStore):
            total += times * _own(stmt)
        elif isinstance(stmt, BlockRealize):
            waiting.append((stmt.block.body, times))
        else:
            times *= _extent(stmt) if isinstance(stmt, For) else 1
            waiting += [(child, times) for child in stmt_children(stmt)]
    return total


def _extent(loop: For) -> int:
    return loop.extent.value if isinstance(loop.extent, IntImm) else 1


_FLOATS, _INTEGERS = slice(0, 7), slice(7, 14)  # of the counts of an expression


def _own(store: BufferStore) -> int:
    kind = _FLOATS if store.value.dtype.code == "float" else _INTEGERS
    return sum(summary(store.value).counts[kind])


def count_bytes(func: PrimFunc) -> int:
    """Bytes of all arguments together: what a call reads or writes at least.

    Args:
        func: of static shapes; extents that are not known count as 1.
    """
    total = 0
    for buffer in func.buffer_map.values():
        extents = [e.value if isinstance(e, IntImm) else 1 for e in buffer.shape]
        total += prod(extents) * buffer.dtype.bytes
    return total
