"""Sparse buffers and iterations of a script, under the names that it gives them."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING
from ..tir import SparseIteration
from .sparse import IterationState, SparseBufferNote, SpIterNote
from .syntax import ast

if TYPE_CHECKING:
    from .parser import StatementParser


def declare_sparse_buffer(
    parser: StatementParser, node: ast.stmt, name: str, note: SparseBufferNote
) -> None:
    """Enter a sparse buffer under its name."""
    buffer = note.make(name)
    parser.define(name, buffer)
    parser.buffers.append(buffer)
    if note.param is None:
        parser.own_memory(buffer)
    else:
        parser.of_parameter(node, note.param, buffer)


def parse_iteration(parser: StatementParser, node: ast.With, note: SpIterNote) -> None:
    """Parse the suite of a sparse iteration."""
    state = IterationState(note)
    with parser.evaluate.at(node.items[0].context_expr):
        variables = state.variables(_names(parser, node))
    parser.owners.append(state)
    body = parser.suite(node.body, {part.var.name: part.var for part in variables})
    parser.owners.pop()
    parser.has_block = True
    extra, span = state.annotations, parser.span(node)
    parser.emit(SparseIteration(variables, note.name, body, state.init, extra, span=span))


def _names(parser: StatementParser, node: ast.With) -> list[str]:
    target = node.items[0].optional_vars
    if len(node.items) > 1 or target is None:
        parser.error(node, "write `with T.sp_iter(...) as [i, j]:`")
    targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    for item in targets:
        if not isinstance(item, ast.Name):
            parser.error(item, "the variable of an axis must be a name")
    return [item.id for item in targets if isinstance(item, ast.Name)]
