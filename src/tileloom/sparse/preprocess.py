"""What needs to be done once for a structure, apart from what is done for each call.

Format decomposition copies values into new formats, and coordinates are looked up where an
iteration needs them. Both are annotated `preprocess`. `extract_preprocess` gives the function that
does this alone, `remove_preprocess` the one that does the rest; they take the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..base.errors import UnsupportedError
from ..expr import IntImm, Var
from ..tir import (
    Block,
    Buffer,
    BufferStore,
    PrimFunc,
    SparseIteration,
    Stmt,
    buffer_accesses,
    first_line,
    pre_order,
    seq,
    stmt_children,
)
from .functions import Program, map_functions, root_parts, with_root

PREPROCESS = "preprocess"


def remove_preprocess(mod: Program) -> Program:
    """The program without the statements that are annotated `preprocess`.

    Buffers of its own that these write, and that the rest reads, become parameters
    `<buffer>_ptr` after the others, in program order. Works at every level.

    Args:
        mod: a function, or a module of functions.

    >>> from tileloom.script import tir as T
    >>> @T.prim_func
    ... def main(x: T.handle, y: T.handle):
    ...     T.func_attr({"sparse_tir_level": 2})
    ...     I = T.dense_fixed(8)
    ...     X = T.match_sparse_buffer(x, [I], "float32")
    ...     Y = T.match_sparse_buffer(y, [I], "float32")
    ...     Twice = T.alloc_sparse_buffer([I], "float32")
    ...     with T.sp_iter([I], "S", "twice") as [i]:
    ...         T.sp_iter_attr({"preprocess": True})
    ...         Twice[i] = X[i] * 2.0
    ...     with T.sp_iter([I], "S", "more") as [i]:
    ...         Y[i] = Twice[i] + 1.0
    >>> once, each = extract_preprocess(main), remove_preprocess(main)
    >>> [param.name for param in each.params], once.buffers[2].name
    (['x', 'y', 'Twice_ptr'], 'Twice')
    >>> once.body.block.body.name, each.body.block.body.name
    ('twice', 'more')
    """
    return map_functions(mod, lambda func: _split(func, False))


def extract_preprocess(mod: Program) -> Program:
    """The program with none but the statements that are annotated `preprocess`.

    Its parameters are those of `remove_preprocess`: what it writes is what that reads.

    Args:
        mod: a function, or a module of functions.
    """
    return map_functions(mod, lambda func: _split(func, True))


def RemovePreprocess() -> Callable[[Any], Any]:
    """`remove_preprocess` as a pass, as TVM names it."""
    return remove_preprocess


def ExtractPreprocess() -> Callable[[Any], Any]:
    """`extract_preprocess` as a pass, as TVM names it."""
    return extract_preprocess


def _split(func: PrimFunc, keep_preprocess: bool) -> PrimFunc:
    stmts, allocated = root_parts(func)
    marked = [is_preprocess(stmt) for stmt in stmts]
    early = [stmt for stmt, first in zip(stmts, marked, strict=True) if first]
    late = [stmt for stmt, first in zip(stmts, marked, strict=True) if not first]
    if not early and not keep_preprocess:
        return func
    _refuse_late_inputs(func, stmts, marked)
    shared = _shared(early, late, allocated)
    kept = early if keep_preprocess else late
    used = _accessed(kept)
    own = tuple(buffer for buffer in allocated if buffer in used and buffer not in shared)
    names = {param.name for param in func.params}
    params = [_pointer(buffer, names) for buffer in shared]
    return with_root(func, seq(*kept), own).replace(
        params=(*func.params, *params),
        buffer_map={**func.buffer_map, **dict(zip(params, shared, strict=True))},
    )


def is_preprocess(stmt: Stmt) -> bool:
    """Whether the outermost blocks or iterations of a statement are annotated `preprocess`.

    Raises:
        UnsupportedError: some of them are, and others are not.
    """
    found = {_is_marked(part) for part in _outermost(stmt)}
    if len(found) > 1:
        raise UnsupportedError(
            f"blocks that are annotated preprocess share loops with others: {first_line(stmt)}",
            hint="give them loops of their own (loop_partition), or annotate all or none",
        )
    return found == {True}


def _outermost(stmt: Stmt) -> Iterator[Block | SparseIteration]:
    if isinstance(stmt, Block | SparseIteration):
        yield stmt
        return
    for child in stmt_children(stmt):
        yield from _outermost(child)


def _is_marked(part: Block | SparseIteration) -> bool:
    value = part.annotations.get(PREPROCESS, False)
    return bool(value.value if isinstance(value, IntImm) else value)


def _shared(early: list[Stmt], late: list[Stmt], allocated: tuple[Buffer, ...]) -> list[Buffer]:
    """The buffers of the program's own that `early` writes and `late` uses, in program order."""
    used = _accessed(late)
    return [buffer for buffer in _written(early) if buffer in used and buffer in allocated]


def _refuse_late_inputs(func: PrimFunc, stmts: Sequence[Stmt], marked: Sequence[bool]) -> None:
    """Refuse what is to be done once, but uses what is computed before it in each call."""
    computed: dict[Buffer, None] = {}
    for stmt, first in zip(stmts, marked, strict=True):
        if not first:
            computed |= _written([stmt])
            continue
        for buffer in _accessed([stmt]):
            if buffer in computed:
                raise UnsupportedError(
                    f"a preprocess statement of {func.name!r} uses {buffer.name!r}, which a "
                    f"statement before it writes in each call: {first_line(stmt)}",
                    hint="annotate that statement preprocess too",
                )


def _accessed(stmts: Iterable[Stmt]) -> dict[Buffer, None]:
    """The buffers that are read or written, by whatever name, in program order."""
    found: dict[Buffer, None] = {}
    for stmt in stmts:
        names = _aliases(stmt)
        found |= {_source(buffer, names): None for buffer, _ in buffer_accesses(stmt)}
    return found


def _written(stmts: Iterable[Stmt]) -> dict[Buffer, None]:
    """The buffers that are stored to, by whatever name, in program order."""
    found: dict[Buffer, None] = {}
    for stmt in stmts:
        names = _aliases(stmt)
        stored = [node.buffer for node in pre_order(stmt) if isinstance(node, BufferStore)]
        found |= {_source(buffer, names): None for buffer in stored}
    return found


def _aliases(stmt: Stmt) -> dict[Buffer, Buffer]:
    """For each buffer that is another name for a region, the buffer of the region."""
    blocks = [node for node in pre_order(stmt) if isinstance(node, Block)]
    return {match.buffer: match.source.buffer for block in blocks for match in block.match_buffers}


def _source(buffer: Buffer, aliases: Mapping[Buffer, Buffer]) -> Buffer:
    while buffer in aliases:
        buffer = aliases[buffer]
    return buffer


def _pointer(buffer: Buffer, names: set[str]) -> Var:
    name = f"{buffer.name}_ptr"
    while name in names:
        name += "_"
    names.add(name)
    return Var(name, "handle")
