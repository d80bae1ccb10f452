"""Whether a device can run the kernels of a function, and if not, why."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ...base.errors import UserError
from ...expr import IntImm, post_order
from ...target import Target
from ...target.limits import GPULimits
from ...tir import (
    Allocate,
    AttrStmt,
    BufferLoad,
    BufferStore,
    For,
    PrimFunc,
    Stmt,
    collect,
    pre_order,
    stmt_children,
    stmt_exprs,
)
from ..analysis.threads import is_virtual, scope_of, storage_rank, tag_of, thread_scope
from .merge_shared_memory import allocated_bytes, element_bytes


def verify_gpu_code(func: PrimFunc, limits: GPULimits | None = None) -> list[str]:
    """The reasons why a device with these limits cannot run the function; none if it can.

    Takes a function whose thread loops are unified, as loops or as attributes, before virtual
    threads are gone or after.
    """
    limits = limits or GPULimits()
    found = list(_kernels(func.body))
    reasons = [reason for kernel in found for reason in _Usage(kernel).reasons(limits)]
    if limits.max_kernels is not None and len(found) > limits.max_kernels:
        reasons.append(f"{len(found)} kernels, at most {limits.max_kernels}")
    return reasons


def check_launches(func: PrimFunc, target: Target) -> None:
    """Check that a target can launch the kernels of a lowered function.

    Raises:
        UserError: a kernel has more threads, blocks or memory than the target allows.
    """
    reasons = verify_gpu_code(func, GPULimits.of_hardware(target))
    if reasons:
        raise UserError(
            f"{func.name} cannot be launched on {target.arch}: {'; '.join(reasons)}",
            hint="split the loops that are bound to threads, or bind others",
        )


def _kernels(stmt: Stmt) -> Iterable[Stmt]:
    if _thread(stmt) is not None:
        yield stmt
        return
    for child in stmt_children(stmt):
        yield from _kernels(child)


def _thread(stmt: Stmt) -> tuple[str, int | None] | None:
    """The thread tag and number that a statement launches."""
    if isinstance(stmt, For):
        tag, extent = tag_of(stmt), stmt.extent
    else:
        scope = thread_scope(stmt)
        if scope is None:
            return None
        tag, extent = scope[0].thread_tag, scope[1]
    if not tag:
        return None
    return tag, extent.value if isinstance(extent, IntImm) else None


class _Usage:
    """What a kernel uses."""

    def __init__(self, kernel: Stmt) -> None:
        self.threads: dict[str, set[int | None]] = {}
        self.shared = self.local = self.vector = 0
        self.virtual = 1
        self.unknown: list[str] = []
        for node in pre_order(kernel):
            thread = _thread(node)
            if thread is not None and not is_virtual(thread[0]):
                self.threads.setdefault(thread[0], set()).add(thread[1])
            elif thread is not None:
                self.virtual = max(self.virtual, thread[1] or 1)
        for allocation in collect(kernel, Allocate):
            self._memory(allocation)
        self._vectors(kernel)

    def _memory(self, stmt: Allocate) -> None:
        size = allocated_bytes(stmt)
        if size is None:
            self.unknown.append(stmt.buffer_var.name)
        elif storage_rank(scope_of(stmt)) == 1:
            self.shared += size
        elif storage_rank(scope_of(stmt)) == 3:
            self.local += size

    def _vectors(self, kernel: Stmt) -> None:
        for node in pre_order(kernel):
            if isinstance(node, AttrStmt):
                continue
            for expr in stmt_exprs(node):
                for part in post_order(expr):
                    if isinstance(part, BufferLoad):
                        self.vector = max(self.vector, element_bytes(part.dtype))
            if isinstance(node, BufferStore):
                self.vector = max(self.vector, element_bytes(node.value.dtype))

    def reasons(self, limits: GPULimits) -> Iterable[str]:
        sizes: dict[str, int] = {}
        for tag, extents in self.threads.items():
            known = {extent for extent in extents if extent is not None}
            if limits.constant_threads and tag.startswith("threadIdx") and None in extents:
                yield f"the number of threads of {tag} is not constant"
            if len(known) > 1:
                yield f"{tag} has the extents {sorted(known)} in one kernel"
            sizes[tag] = max(known, default=1)
        threads = prod(n for tag, n in sizes.items() if tag.startswith("threadIdx"))
        checks = [
            ("threads in a block", threads, limits.max_threads_per_block),
            ("threads of threadIdx.x", sizes.get("threadIdx.x", 1), limits.max_thread_x),
            ("threads of threadIdx.y", sizes.get("threadIdx.y", 1), limits.max_thread_y),
            ("threads of threadIdx.z", sizes.get("threadIdx.z", 1), limits.max_thread_z),
            ("blocks of blockIdx.x", sizes.get("blockIdx.x", 1), limits.max_grid_x),
            ("blocks of blockIdx.y", sizes.get("blockIdx.y", 1), limits.max_grid_y),
            ("blocks of blockIdx.z", sizes.get("blockIdx.z", 1), limits.max_grid_z),
            ("bytes of shared memory", self.shared, limits.max_shared_memory_per_block),
            ("bytes of local memory", self.local, limits.max_local_memory_per_thread),
            ("bytes in a vector access", self.vector, limits.max_vector_bytes),
            ("virtual threads", self.virtual, limits.max_vthread),
        ]
        for what, used, most in checks:
            if used > most:
                yield f"{used} {what}, at most {most}"
        for name in self.unknown:
            yield f"the size of the memory {name!r} is not constant"
