"""reindex_cache_read, reindex_cache_write: caches with a layout of the user's."""

from __future__ import annotations

from typing import Any

from ...expr import IndexMap
from ..index_maps import INDEX_MAP, as_index_map
from ..instruction import BlockRef, ReadIndex, WriteIndex, primitive
from ..state import ScheduleState
from ._reindex_cache import reindex_cache


def _front_read(
    state: ScheduleState,
    block: BlockRef,
    read_buffer_index: ReadIndex,
    storage_scope: str,
    index_map: Any,
) -> dict[str, Any]:
    return {"index_map": as_index_map(index_map, len(block.block.iter_vars))}


def _front_write(
    state: ScheduleState,
    block: BlockRef,
    write_buffer_index: WriteIndex,
    storage_scope: str,
    index_map: Any,
) -> dict[str, Any]:
    return {"index_map": as_index_map(index_map, len(block.block.iter_vars))}


@primitive("ReindexCacheRead", front=_front_read, codecs={"index_map": INDEX_MAP})
def reindex_cache_read(
    state: ScheduleState,
    block: BlockRef,
    read_buffer_index: ReadIndex,
    storage_scope: str,
    index_map: IndexMap,
) -> BlockRef:
    """Copy what a block reads into a buffer with a layout of its own; answer the copy.

    Args:
        read_buffer_index: which of the buffers that the block reads; it reads one element of it.
        storage_scope: of the new buffer.
        index_map: the indices into the new buffer, as a function of the block's iteration
            variables. It must use just those that the access uses.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((8, 4), name="A")
    >>> B = te.compute((4, 8), lambda i, j: A[j, i] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> copy = sch.reindex_cache_read("B", 0, "shared", lambda i, j: (i, j // 4, j % 4))
    >>> print(sch.get(copy).body)
    A_shared[v_i, v_j // 4, v_j % 4] = A[v_j, v_i]
    """
    region = block.block.reads[read_buffer_index]
    return reindex_cache(state, block, region, storage_scope, index_map, is_read=True)


@primitive("ReindexCacheWrite", front=_front_write, codecs={"index_map": INDEX_MAP})
def reindex_cache_write(
    state: ScheduleState,
    block: BlockRef,
    write_buffer_index: WriteIndex,
    storage_scope: str,
    index_map: IndexMap,
) -> BlockRef:
    """Let a block write a buffer with a layout of its own, and copy that back; answer the copy.

    Args:
        write_buffer_index: which of the buffers that the block writes; it writes one element of it.
        storage_scope: of the new buffer.
        index_map: the indices into the new buffer, as for `reindex_cache_read`.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((8,), name="A")
    >>> B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> copy = sch.reindex_cache_write("B", 0, "local", lambda i: (i // 4, i % 4))
    >>> print(sch.get(copy).body)
    B[v_i] = B_local[v_i // 4, v_i % 4]
    """
    region = block.block.writes[write_buffer_index]
    return reindex_cache(state, block, region, storage_scope, index_map, is_read=False)
