"""reverse_cache_read, reverse_cache_write: caches indexed by a block's iteration variables."""

from __future__ import annotations

from collections.abc import Sequence

from ...expr import Expr, IndexMap, Var, const, free_vars_of
from ...tir import BufferRegion
from ..errors import name_of, refuse
from ..instruction import BlockRef, ReadIndex, WriteIndex, primitive
from ..sref import StmtSRef
from ..state import ScheduleState
from ._reindex_cache import reindex_cache
from ._write_back import WriteBack, check_runs, write_back_of


@primitive("ReverseCacheRead", skip_empty=["dim_order"])
def reverse_cache_read(
    state: ScheduleState,
    block: BlockRef,
    read_buffer_index: ReadIndex,
    storage_scope: str,
    dim_order: Sequence[int] | None = None,
) -> BlockRef:
    """Gather what a block reads into a buffer indexed by its iteration variables; answer the copy.

    The copy has the block's annotations (SparseTIR).

    Args:
        read_buffer_index: which of the buffers that the block reads; it reads one element of it.
        storage_scope: of the new buffer.
        dim_order: which iteration variables index the new buffer, outermost first, by number. By
            default those that the access uses, in their order.

    >>> import tileloom
    >>> from tileloom import te
    >>> A, I = te.placeholder((9, 4), name="A"), te.placeholder((6,), "int32", "I")
    >>> B = te.compute((6, 4), lambda i, j: A[I[i], j] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, I, B]))
    >>> copy = sch.reverse_cache_read("B", "A", "shared", dim_order=[1, 0])
    >>> print(sch.get(copy).body)
    A_shared[v_j, v_i] = A[I[v_i], v_j]
    """
    region = block.block.reads[read_buffer_index]
    index_map = _of_variables(block, region, dim_order)
    back = WriteBack(annotations=block.block.annotations)
    return reindex_cache(state, block, region, storage_scope, index_map, is_read=True, back=back)


@primitive("ReverseCacheWrite", skip_empty=["dim_order"])
def reverse_cache_write(
    state: ScheduleState,
    block: BlockRef,
    write_buffer_index: WriteIndex,
    storage_scope: str,
    dim_order: Sequence[int] | None = None,
) -> BlockRef:
    """Let a block write a buffer indexed by its iteration variables, and write that back; answer
    the block that does.

    A block that adds to what is there makes its sum in the new buffer, and that is added then. With
    the annotation "atomic" on the block, the new buffer is added atomically, whatever the block
    does; the annotation goes over to the block that writes back (SparseTIR).

    Args:
        write_buffer_index: which of the buffers that the block writes; it writes one element of it.
        storage_scope: of the new buffer.
        dim_order: as for `reverse_cache_read`.

    >>> import tileloom
    >>> from tileloom.script import tir as T
    >>> @T.prim_func
    ... def sums(A: T.Buffer((8, 4)), rows: T.Buffer((8,), "int32"), B: T.Buffer((20,))):
    ...     for i, j in T.grid(8, 4):
    ...         with T.block("sum"):
    ...             vi, vj = T.axis.remap("SR", [i, j])
    ...             B[rows[vi]] = B[rows[vi]] + A[vi, vj]
    >>> sch = tileloom.Schedule(sums)
    >>> sch.annotate("sum", "atomic", True)
    >>> back = sch.reverse_cache_write("sum", 0, "local")
    >>> print(sch.get(back).body, sch.get(sch.get_block("sum")).body, sep=chr(10))
    T.atomic_add(T.address_of(B[rows[vi]]), B_local[vi])
    B_local[vi] = B_local[vi] + A[vi, vj]
    """
    region = block.block.writes[write_buffer_index]
    index_map = _of_variables(block, region, dim_order)
    back = write_back_of(state, block, region.buffer)
    check_runs(state, block, back)
    return reindex_cache(state, block, region, storage_scope, index_map, is_read=False, back=back)


def _of_variables(
    block: StmtSRef, region: BufferRegion, dim_order: Sequence[int] | None
) -> IndexMap:
    """The map from a block's iteration variables to those that index a cache."""
    axes = block.block.iter_vars
    used = free_vars_of(part.min for part in region.region)
    own = [Var(axis.var.name, axis.var.dtype) for axis in axes]
    order = [int(k) for k in dim_order or ()]
    if not order:
        order = [k for k, axis in enumerate(axes) if axis.var in used]
    elif sorted(set(order)) != sorted(order) or not all(0 <= k < len(axes) for k in order):
        raise refuse(
            f"{order} are no numbers of iteration variables of {name_of(block)}, each once",
            at=[block],
            hint=f"it has {len(axes)}",
        )
    finals: list[Expr] = [own[k] for k in order]
    return IndexMap(own, finals or [const(0)])
