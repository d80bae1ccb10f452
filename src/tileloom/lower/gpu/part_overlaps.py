"""Whether two kernels certainly touch one element of memory that one of them stores to."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from ...expr import Expr, IntImm, Var
from ...tir import Buffer
from ...tir.atomics import written_pointers
from ..analysis.pointers import loaded_pointers
from ..analysis.thread_places import Array, values_of
from ..analysis.threads import KernelBody, is_global
from .eliminate_common_loads import exposed_pointers
from .grid_parts import Around, DeviceAccess, places

_INSTANCES = 1 << 14  # of an access that are looked at


def overlap(first: KernelBody, second: KernelBody) -> Buffer | None:
    """A buffer of which both certainly touch one element, at least one of them by a store.

    Accesses whose indices or conditions depend on data are not known, and nothing is said of them;
    of one that is made very often only some instances are looked at.
    """
    made, stored = written_pointers(first.root), written_pointers(second.root)
    shared = made & (stored | loaded_pointers(second.root)) | stored & loaded_pointers(first.root)
    if shared:
        shared -= exposed_pointers(first.root) | exposed_pointers(second.root)
    for data in sorted(filter(is_global, shared), key=lambda var: var.serial):
        before, after = _KnownAccesses(first, data), _KnownAccesses(second, data)
        for one, other in ((before, after), (after, before)):
            for access, elements in one.accesses:
                if access.is_store and other.has(access.buffer, elements):
                    return access.buffer
    return None


class _KnownAccesses:
    """The elements of some memory that a kernel is known to touch."""

    def __init__(self, kernel: KernelBody, data: Var) -> None:
        extents = {var: (0, extent) for var, extent in kernel.threads.values()}
        self.accesses = [
            (access, elements)
            for access in places(kernel.root, {data}, Around())
            for elements in [_elements(access, extents)]
            if elements is not None
        ]

    def has(self, buffer: Buffer, elements: Array) -> bool:
        """Whether some of these are touched, as elements of one type."""
        return any(
            access.buffer.dtype is buffer.dtype and np.intersect1d(elements, own).size > 0
            for access, own in self.accesses
        )


def _elements(access: DeviceAccess, threads: Mapping[Var, tuple[int, Expr]]) -> Array | None:
    """Elements that an access certainly touches, counted from the pointer; None: not known."""
    index = _flat(access)
    runs = dict(threads)
    for var, run in access.around.loops.items():
        if run is None or not isinstance(run.min, IntImm):
            return None
        runs[var] = run.min.value, run.extent
    sizes = _few(runs)
    if index is None or sizes is None or access.predicated:
        return None
    env: dict[Expr, Array] = {}
    for axis, (var, (low, _)) in enumerate(runs.items()):
        shape = [-1 if k == axis else 1 for k in range(len(runs))]
        env[var] = np.arange(low, low + sizes[axis]).reshape(shape)
    where = values_of(index, env)
    mask = np.ones(sizes, bool)
    for condition, holds in access.around.conditions:
        known = values_of(condition, env)
        if known is None:
            return None
        mask &= known.astype(bool) == holds
    if where is None:
        return None
    return np.unique(np.broadcast_to(where, sizes)[mask])


def _flat(access: DeviceAccess) -> Expr | None:
    """The index of an element from the pointer on, where rows lie one behind the other."""
    buffer = access.buffer
    offset = buffer.elem_offset
    plain = offset is None or (isinstance(offset, IntImm) and offset.value == 0)
    if buffer.strides or not plain or not access.indices:
        return None
    index = access.indices[0]
    for inner, size in zip(access.indices[1:], buffer.shape[1:], strict=True):
        index = index * size.astype(index.dtype) + inner.astype(index.dtype)
    return index if index.dtype.lanes == 1 else None


def _few(runs: Mapping[Var, tuple[int, Expr]]) -> list[int] | None:
    """How many values of each variable to look at, the first ones."""
    if not all(isinstance(extent, IntImm) for _, extent in runs.values()):
        return None
    sizes = [int(extent) for _, extent in runs.values()]  # type: ignore[call-overload]
    while prod(sizes) > _INSTANCES:
        largest = sizes.index(max(sizes))
        sizes[largest] = -(-sizes[largest] // 2)
    return sizes
