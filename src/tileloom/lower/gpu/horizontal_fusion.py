"""The kernels of a function side by side in one launch, each in blocks of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ...base.errors import UserError
from ...expr import (
    LT,
    Expr,
    IntImm,
    IterVar,
    Max,
    Range,
    Var,
    binary,
    cast,
    conjunction,
    const,
)
from ...tir import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    collect,
)
from ..analysis.linear import constant_difference
from ..analysis.threads import (
    GRID_TAGS,
    REDUCE_SCOPE,
    THREAD_TAGS,
    KernelBody,
    kernel_of,
    scope_of,
    storage_rank,
)
from ..common import THREAD_EXTENT, Replacer
from .kernels import needs_whole_warps
from .part_overlaps import overlap

#: A function with this attribute is one launch.
HORIZONTAL_FUSE = "horizontal_fuse"
_BLOCK = GRID_TAGS[0]
_LANES = 32
_MOST = (1 << 31) - 1

Threads = Mapping[str, tuple[Var, Expr]]  # variables and extents by tag


def horizontal_fusion(func: PrimFunc) -> PrimFunc:
    """The kernels of a function with the attribute "horizontal_fuse" become one.

    The blocks along blockIdx.x of one kernel after those of another run what each did alone; of
    every other tag there are as many as the kernel needs that has most, and conditions keep those
    that a part has too many idle. Kernels of no block are left out. (SparseTIR, "horizontal
    fusion"; Li et al., "Automatic Horizontal Fusion for GPU Kernels", CGO 2022.)

    Needs: loops that are bound to threads as attributes, memory of a kernel inside it.
    Ensures: at most one launch, and no attribute "horizontal_fuse".

    Raises:
        UserError: something is not in a kernel over blockIdx.x; two parts certainly touch one
            element that one of them stores to; threads of a part work together in a way that does
            not allow for others beside them.
    """
    if HORIZONTAL_FUSE not in func.attrs:
        return func
    wanted = bool(func.attrs[HORIZONTAL_FUSE])
    func = func.without_attr(HORIZONTAL_FUSE)
    return func.replace(body=_fused(func.body, func.name)) if wanted else func


def _fused(body: Stmt, name: str) -> Stmt:
    around: list[Stmt] = []
    found = list(_kernels(body, around, name))
    parts = [kernel for kernel in found if not _is_empty(kernel)]
    for kernel in parts:
        if _BLOCK not in kernel.threads:
            raise _refused(name, f"a part has no loop bound to {_BLOCK}: {_line(kernel)}")
    if len(found) <= 1 and parts == found:
        return body
    _check_overlaps(parts, name)
    inner = _launch(parts, name) if parts else Evaluate(const(0))
    for stmt in reversed(around):
        inner = stmt.replace(body=inner)
    return inner


def _kernels(stmt: Stmt, around: list[Stmt], name: str) -> Iterator[KernelBody]:
    """The kernels of a body; what stands around any of them is noted."""
    kernel = kernel_of(stmt)
    match stmt:
        case _ if kernel is not None:
            yield kernel
        case SeqStmt():
            for part in stmt.seq:
                yield from _kernels(part, around, name)
        case Allocate() | DeclBuffer() | LetStmt():
            around.append(stmt)
            yield from _kernels(stmt.body, around, name)
        case Evaluate(value=IntImm()):
            pass
        case _:
            line = str(stmt).strip().splitlines()[0]
            raise _refused(name, f"this is no loop bound to {_BLOCK}: {line}")


def _is_empty(kernel: KernelBody) -> bool:
    return any(isinstance(n, IntImm) and n.value <= 0 for n in kernel.extents.values())


def _refused(name: str, why: str) -> UserError:
    return UserError(
        f"{name} is to be one launch (attribute {HORIZONTAL_FUSE!r}), but {why}",
        hint=f"bind the outermost loop of each part to {_BLOCK}",
    )


def _line(kernel: KernelBody) -> str:
    """What tells a kernel from others."""
    for store in collect(kernel.root, BufferStore):
        if storage_rank(store.buffer.scope) == 0:
            return str(store).strip()
    return str(kernel.root).strip().splitlines()[-1].strip()


def _check_overlaps(parts: Sequence[KernelBody], name: str) -> None:
    for k, first in enumerate(parts):
        for second in parts[k + 1 :]:
            buffer = overlap(first, second)
            if buffer is not None:
                raise UserError(
                    f"{name} is to be one launch (attribute {HORIZONTAL_FUSE!r}), but two parts "
                    f"touch one element of {buffer.name!r}, which at least one of them stores to: "
                    f"{_line(first)} and {_line(second)}",
                    hint='let them add to it atomically (annotation "atomic"), or leave several '
                    "launches",
                )


def _launch(parts: Sequence[KernelBody], name: str) -> Stmt:
    threads = _all_threads(parts)
    block, _ = threads[_BLOCK]
    starts: list[Expr] = [const(0, block.dtype)]
    for kernel in parts:
        starts.append(starts[-1] + _blocks(kernel, block))
    bodies = [
        _part(kernel, threads, start, name) for kernel, start in zip(parts, starts, strict=False)
    ]
    body = _chosen(bodies, starts[1:], block)
    threads = {**threads, _BLOCK: (block, starts[-1])}
    for tag in reversed((*reversed(GRID_TAGS), *THREAD_TAGS)):
        if tag in threads:
            var, extent = threads[tag]
            axis = IterVar(Range.from_extent(extent), var, 1, tag)
            body = AttrStmt(axis, THREAD_EXTENT, extent, body)
    return body


def _blocks(kernel: KernelBody, block: Var) -> Expr:
    """How many blocks along blockIdx.x a kernel has; a number that is not known may be negative."""
    extent = cast(block.dtype, kernel.extents[_BLOCK])
    if isinstance(extent, IntImm):
        return extent
    return binary(Max, extent, const(0, extent.dtype))


def _all_threads(parts: Sequence[KernelBody]) -> Threads:
    """For each tag a variable, and the largest extent."""
    found: dict[str, tuple[Var, Expr]] = {}
    for tag in {tag: None for kernel in parts for tag in kernel.threads}:
        pairs = [kernel.threads[tag] for kernel in parts if tag in kernel.threads]
        constant = all(isinstance(extent, IntImm) for _, extent in pairs)
        small = constant and sum(int(extent) for _, extent in pairs) <= _MOST  # type: ignore[call-overload]
        choose: Callable[..., Var] = min if small else max
        kind = choose((var for var, _ in pairs), key=lambda var: var.dtype.bits).dtype
        most = cast(kind, pairs[0][1])
        for _, extent in pairs[1:]:
            more = cast(kind, extent)
            most = most if constant_difference(most, more) == 0 else binary(Max, most, more)
        found[tag] = Var(tag.replace(".", "_"), kind), most
    return found


def _part(kernel: KernelBody, threads: Threads, start: Expr, name: str) -> Stmt:
    """What a kernel does, in a launch with others from a block on."""
    values: dict[Var, Expr] = {}
    limits: dict[str, Expr] = {}
    for tag, (var, most) in threads.items():
        own = kernel.threads.get(tag)
        if own is not None:
            at = var - start if tag == _BLOCK else var
            values[own[0]] = cast(own[0].dtype, at)
        extent = const(1, var.dtype) if own is None else cast(var.dtype, own[1])
        if tag != _BLOCK and constant_difference(extent, most) != 0:
            limits[tag] = binary(LT, var, extent)
    _check_threads(kernel, threads, limits, name)
    body = _Inside(values).visit(kernel.root)
    return IfThenElse(conjunction(limits.values()), body) if limits else body


def _check_threads(
    kernel: KernelBody, threads: Threads, limits: Mapping[str, Expr], name: str
) -> None:
    """Refuse threads that work together, but are others than those of the launch."""
    if not any(tag in THREAD_TAGS for tag in limits):
        return
    root = kernel.root
    what = None
    if any(node.attr_key == REDUCE_SCOPE for node in collect(root, AttrStmt)):
        what = "it reduces over threads"
    elif any(storage_rank(scope_of(node)) == 2 for node in collect(root, Allocate)):
        what = "it has memory that a warp shares"
    elif needs_whole_warps(root) and not _same_warps(kernel, threads):
        what = "its warps work together"
    if what is not None:
        sizes = {tag: extent for tag, extent in kernel.extents.items() if tag in THREAD_TAGS}
        have = ", ".join(f"{extent} of {tag}" for tag, extent in sizes.items()) or "1 thread"
        raise UserError(
            f"{name} is to be one launch (attribute {HORIZONTAL_FUSE!r}), but a part has fewer "
            f"threads than others ({have}), and {what}: {_line(kernel)}",
            hint="give all parts as many threads",
        )


def _same_warps(kernel: KernelBody, threads: Threads) -> bool:
    """Whether the threads of a part make the same warps as in a launch of its own."""
    own = launched = 1
    for tag in reversed(THREAD_TAGS):
        extent, most = kernel.extents.get(tag, const(1)), threads.get(tag, (None, const(1)))[1]
        if not isinstance(extent, IntImm) or not isinstance(most, IntImm):
            return False
        if extent.value > 1 and own != launched and (own % _LANES or launched % _LANES):
            return False
        own, launched = own * extent.value, launched * most.value
    return True


def _chosen(bodies: Sequence[Stmt], ends: Sequence[Expr], block: Var) -> Stmt:
    """The part of a block, found by halves."""
    if len(bodies) == 1:
        return bodies[0]
    half = len(bodies) // 2
    condition = binary(LT, block, ends[half - 1])
    left, right = _chosen(bodies[:half], ends[:half], block), bodies[half:]
    return IfThenElse(condition, left, _chosen(right, ends[half:], block))


class _Inside(Replacer):
    """The body of a kernel without its thread attributes, over other variables."""

    def __init__(self, values: Mapping[Var, Expr]) -> None:
        super().__init__(values, {})

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        if stmt.attr_key == THREAD_EXTENT:
            return self.visit(stmt.body)
        return super().visit_AttrStmt(stmt)
