"""What passes on thread programs share: tags, storage scopes, and who has memory in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from ...expr import Call, CommReducer, Expr, IterVar, StringImm, Var, combined, free_vars, is_pure
from ...tir import (
    THREAD_BINDING,
    Allocate,
    AttrStmt,
    Buffer,
    Evaluate,
    For,
    Stmt,
    stmt_children,
    stores_at_once,
)
from ..common import THREAD_KEYS, loaded_buffers

SYNC = "tir.tvm_storage_sync"
ALLREDUCE, REDUCE_SCOPE = "tir.tvm_thread_allreduce", "reduce_scope"
THREAD_TAGS = ("threadIdx.z", "threadIdx.y", "threadIdx.x")  # outermost first, as in a warp
GRID_TAGS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")


def storage_rank(scope: str) -> int:
    """How far memory of a scope reaches: 0 the device, 1 a block, 2 a warp, 3 a thread.

    >>> [storage_rank(s) for s in ("global", "shared.dyn", "warp", "local", "wmma.accumulator")]
    [0, 1, 2, 3, 3]
    """
    head = scope.split(".")[0]
    return {"": 0, "global": 0, "shared": 1, "warp": 2}.get(head, 3)


def shared_over(scope: str, tag: str) -> bool:
    """Whether the threads of a tag have memory of a scope in common.

    >>> shared_over("shared", "threadIdx.x"), shared_over("shared", "blockIdx.x")
    (True, False)
    """
    rank = storage_rank(scope)
    if tag.startswith("blockIdx"):
        return rank == 0
    return rank <= 1 or (rank == 2 and tag == "threadIdx.x")


def is_uniform(expr: Expr, divergent: Set[Var]) -> bool:
    """Whether all threads of a block find the same value.

    `divergent` are the variables that they may have different values of.
    """
    if not free_vars(expr).isdisjoint(divergent) or not is_pure(expr):
        return False  # an atomic call gives every thread something else
    return all(storage_rank(b.scope) == 0 for b in loaded_buffers(expr))


def is_thread_loop(stmt: Stmt) -> bool:
    """Whether the statement is a loop bound to threads of the device (not a virtual thread)."""
    return isinstance(stmt, For) and stmt.kind == THREAD_BINDING and not is_virtual(tag_of(stmt))


def tag_of(loop: For) -> str:
    """The thread tag of a loop; empty for a loop that is not bound."""
    return "" if loop.thread_binding is None else loop.thread_binding.thread_tag


def is_virtual(tag: str) -> bool:
    """Whether a tag is that of a virtual thread: iterations that one thread interleaves."""
    return tag.startswith("vthread") or tag == "cthread"


def thread_scope(stmt: Stmt) -> tuple[IterVar, Expr] | None:
    """The thread variable and extent of an attribute that launches threads, virtual ones too."""
    if isinstance(stmt, AttrStmt) and stmt.attr_key in THREAD_KEYS:
        return stmt.node, stmt.value
    return None


def scope_of(stmt: Allocate) -> str:
    """The storage scope of an allocation."""
    return pointer_scope(stmt.buffer_var)


def pointer_scope(pointer: Var) -> str:
    """The storage scope that a pointer points into."""
    return "global" if pointer.pointee is None else pointer.pointee[1]


def is_global(pointer: Var) -> bool:
    """Whether it points into global memory, as far as it says."""
    return storage_rank(pointer_scope(pointer)) == 0


def sync(scope: str) -> Stmt:
    """A barrier of the threads that share memory of a scope."""
    return Evaluate(Call("int32", SYNC, (StringImm(scope),)))


def is_sync(stmt: Stmt) -> bool:
    """Whether the statement is a barrier of a block; one of a warp only is none."""
    if not isinstance(stmt, Evaluate) or not isinstance(stmt.value, Call) or stmt.value.op != SYNC:
        return False
    (scope, *_) = stmt.value.args
    return not (isinstance(scope, StringImm) and scope.value == "warp")


def combine_into(
    combiner: CommReducer, targets: Sequence[Buffer], at: Expr, others: Sequence[Expr]
) -> Stmt:
    """`targets[at] = combine(targets[at], others)`, all components at once."""
    values = combined(combiner, [target[at] for target in targets], others)
    return stores_at_once(targets, values, [(at,)] * len(values), "next")


@dataclass(frozen=True, slots=True)
class KernelBody:
    """The code that one launch runs: `root` is its outermost thread attribute.

    `extents` maps thread tags to how many there are, in the order in which they are met.
    """

    root: AttrStmt
    body: Stmt
    threads: Mapping[str, tuple[Var, Expr]]

    @property
    def extents(self) -> dict[str, Expr]:
        """The number of threads of each tag."""
        return {tag: extent for tag, (_, extent) in self.threads.items()}


def kernels(stmt: Stmt) -> Iterator[KernelBody]:
    """The launches in a function's body, once its thread loops are attributes."""
    from_here = kernel_of(stmt)
    if from_here is not None:
        yield from_here
        return
    for child in stmt_children(stmt):
        yield from kernels(child)


def kernel_of(stmt: Stmt) -> KernelBody | None:
    """The launch that begins with a statement; None if none does."""
    if not isinstance(stmt, AttrStmt) or stmt.attr_key != "thread_extent":
        return None
    threads: dict[str, tuple[Var, Expr]] = {}
    _note_threads(stmt, threads)
    return KernelBody(stmt, stmt.body, threads)


def _note_threads(stmt: Stmt, threads: dict[str, tuple[Var, Expr]]) -> None:
    if isinstance(stmt, AttrStmt) and stmt.attr_key == "thread_extent":
        threads.setdefault(stmt.node.thread_tag, (stmt.node.var, stmt.value))
    for child in stmt_children(stmt):
        _note_threads(child, threads)
