"""Results written straight into the memory of the inputs that they replace.

An output of a graph may be the new value of an input: a parameter after a step of an optimiser, a
running mean. It is written where the input is, with no memory of its own and no copy, if all that
is read of the input is read before:

- by kernels that run before the one that makes the result;
- by that kernel, in nests of loops that end before the result's begin;
- by the statements that make the very element that is read, once for each element.

The kernel that reads and writes the memory has one parameter for it, so that nothing is promised
of two that would be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..expr import (
    Call,
    Expr,
    IntImm,
    Range,
    StringImm,
    Var,
    detect_iter_map,
    post_order,
    substitute,
)
from ..tir import (
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    IRModule,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
    seq,
    stmt_children,
    stmt_exprs,
)
from ..tir.walk import rewrite_stmt_exprs
from .nodes import Tensor
from .program import KernelCall, Program, Segment


def write_in_place(program: Program, replaced: Mapping[int, int]) -> frozenset[int]:
    """Change a program so that outputs are written into inputs where that is safe.

    Args:
        replaced: the input whose new value an output is, by their positions.

    Returns:
        the outputs that are; the others must be copied when everything has run.
    """
    done: set[int] = set()
    graph = program.graph
    for output, parameter in replaced.items():
        source, target = graph.outputs[output], graph.inputs[parameter]
        result = program.storage.get(source, source)
        if _may_replace(program, result, target) and _redirect(program, result, target):
            done.add(output)
    _drop_unused(program)
    return frozenset(done)


def _drop_unused(program: Program) -> None:
    """Leave out the kernels that others stand for now."""
    used = {call.kernel for segment in program.segments for call in segment.calls}
    used |= {segment.name for segment in program.segments}
    kept = {name: func for name, func in program.module.functions.items() if name in used}
    program.module = IRModule(kept, program.module.attrs)


# ---------------------------------------------------------------------------- segments


def _may_replace(program: Program, result: Tensor, target: Tensor) -> bool:
    """Whether the result is made by the program, fits, and the input is not an output as it was."""
    if result.node is None or result.value is not None or result.type.size != target.type.size:
        return False
    returned = {_home(program, tensor) for tensor in program.graph.outputs}
    return result.dtype == target.dtype and target not in returned


def _home(program: Program, tensor: Tensor) -> Tensor:
    return program.storage.get(tensor, tensor)


def _redirect(program: Program, result: Tensor, target: Tensor) -> bool:
    makers = [k for k, segment in enumerate(program.segments) if result in segment.writes]
    if len(makers) != 1 or program.segments[makers[0]].node is not None:
        return False
    for segment in program.segments[makers[0] + 1 :]:
        if target in {_home(program, tensor) for tensor in segment.reads}:
            return False
    if not _redirect_segment(program, program.segments[makers[0]], result, target):
        return False
    for tensor, home in list(program.storage.items()):
        if home is result:
            program.storage[tensor] = target
    program.storage[result] = target
    return True


def _redirect_segment(program: Program, segment: Segment, result: Tensor, target: Tensor) -> bool:
    """Let a segment write the result into the input's memory, if that is safe."""
    homes = [[_home(program, tensor) for tensor in call.tensors] for call in segment.calls]
    maker = next(k for k, tensors in enumerate(homes) if result in tensors)
    if any(target in tensors for tensors in homes[maker + 1 :]):
        return False
    if target in segment.reads:
        entry = _Entry.of(program, segment)
        if entry is None:
            return False
        if target in homes[maker]:
            merged = _merge_kernel(program, segment.calls[maker], homes[maker], result, target)
            if merged is None:
                return False
            name, kept = merged
            tensors = tuple(segment.calls[maker].tensors[k] for k in kept)
            segment.calls[maker] = KernelCall(name, tensors)
            entry.calls[maker] = (name, [entry.calls[maker][1][k] for k in kept])
        reads = len(segment.reads)
        entry.join(segment.reads.index(target), reads + segment.writes.index(result))
        segment.reads = tuple(tensor for tensor in segment.reads if tensor is not target)
        _put(program, segment.name, entry.function())
    segment.writes = tuple(target if tensor is result else tensor for tensor in segment.writes)
    return True


def _put(program: Program, name: str, func: PrimFunc) -> None:
    program.module = IRModule({**program.module.functions, name: func}, program.module.attrs)


@dataclass
class _Entry:
    """The native function of a segment, taken apart: calls of kernels with pointers."""

    func: PrimFunc
    params: list[Var]
    calls: list[tuple[str, list[Expr]]]

    @classmethod
    def of(cls, program: Program, segment: Segment) -> _Entry | None:
        """None if the function is more than calls of the segment's kernels."""
        func = program.module.functions[segment.name]
        parts = func.body.seq if isinstance(func.body, SeqStmt) else (func.body,)
        calls = []
        for part, call in zip(parts, segment.calls, strict=False):
            found = part.value if isinstance(part, Evaluate) else None
            if not isinstance(found, Call) or found.op != "tir.call_extern":
                return None
            name, *pointers = found.args
            if not isinstance(name, StringImm) or len(pointers) != len(call.tensors):
                return None
            calls.append((name.value, pointers))
        return cls(func, list(func.params), calls) if len(parts) == len(segment.calls) else None

    def join(self, gone: int, kept: int) -> None:
        """Let one parameter stand for another one as well."""
        old, new = (self.func.buffer_map[self.params[k]].data for k in (gone, kept))
        values: dict[Var, Expr] = {old: new}
        for k, (name, pointers) in enumerate(self.calls):
            self.calls[k] = name, [substitute(pointer, values) for pointer in pointers]
        del self.params[gone]

    def function(self) -> PrimFunc:
        """The function put together again."""
        calls = [
            Evaluate(Call("int32", "tir.call_extern", [StringImm(name), *pointers]))
            for name, pointers in self.calls
        ]
        buffers = {param: self.func.buffer_map[param] for param in self.params}
        return self.func.replace(params=tuple(self.params), body=seq(*calls), buffer_map=buffers)


# ---------------------------------------------------------------------------- kernels


def _merge_kernel(
    program: Program, call: KernelCall, homes: Sequence[Tensor], result: Tensor, target: Tensor
) -> tuple[str, list[int]] | None:
    """A kernel that reads the input through the result's parameter: its name, what it is passed."""
    func = program.module.functions[call.kernel]
    if homes.count(target) != 1 or homes.count(result) != 1:
        return None
    gone, kept = homes.index(target), homes.index(result)
    source, sink = (func.buffer_map[func.params[k]] for k in (gone, kept))
    if not is_safe(func, source, sink):
        return None
    stem = call.kernel.partition("_in_place")[0]
    name = f"{stem}_in_place{len(program.module.functions)}"
    places = [k for k in range(len(func.params)) if k != gone]
    params = tuple(func.params[k] for k in places)
    body = _replace_buffer(func.body, source, sink)
    attrs = {key: value for key, value in func.attrs.items() if key != "global_symbol"}
    if "global_symbol" in func.attrs:
        attrs["global_symbol"] = name
    buffers = {param: func.buffer_map[param] for param in params}
    merged = func.replace(params=params, body=body, buffer_map=buffers, attrs=attrs)
    _put(program, name, merged)
    return name, places


def _replace_buffer(body: Stmt, old: Buffer, new: Buffer) -> Stmt:
    def rule(expr: Expr) -> Expr | None:
        if isinstance(expr, BufferLoad) and expr.buffer is old:
            return BufferLoad(new, expr.indices, expr.predicate)
        return None

    return rewrite_stmt_exprs(body, rule)


@dataclass(frozen=True)
class _Site:
    """A statement of a kernel with the loops around it, outermost first."""

    stmt: Stmt
    order: int
    loops: tuple[For, ...]
    guarded: bool

    def is_after(self, other: _Site) -> bool:
        """Whether the other has run to its end before this begins, whatever the iteration."""
        share = self.loops and other.loops and self.loops[0] is other.loops[0]
        return other.order < self.order and not share


def is_safe(func: PrimFunc, source: Buffer, sink: Buffer) -> bool:
    """Whether a kernel computes the same when `sink` is where `source` is.

    >>> from ..tir import make_buffer
    >>> a, b, i = make_buffer((8,), name="a"), make_buffer((8,), name="b"), Var("i")
    >>> def doubled(place):
    ...     store = BufferStore(b, BufferLoad(a, [place]) * 2.0, [i])
    ...     return PrimFunc((), For(i, IntImm("int32", 0), IntImm("int32", 8), "serial", store))
    >>> is_safe(doubled(i), a, b), is_safe(doubled(7 - i), a, b)
    (True, False)
    """
    if source.dtype != sink.dtype or not (
        _same(source.shape, sink.shape) and _same(source.strides, sink.strides)
    ):
        return False
    sites = list(_sites(func.body, (), False, iter(range(1 << 62))))
    if any(isinstance(site.stmt, (Block, While)) for site in sites):
        return False
    if any(_is_opaque(site.stmt, (source, sink)) for site in sites):
        return False
    stores = [s for s in sites if isinstance(s.stmt, BufferStore) and s.stmt.buffer is sink]
    if any(isinstance(s.stmt, BufferStore) and s.stmt.buffer is source for s in sites):
        return False
    readers = [site for site in sites if next(_loads(site.stmt, source), None) is not None]
    early = [site for site in readers if all(store.is_after(site) for store in stores)]
    if len(early) == len(readers):
        return True
    return _writes_once(stores, sink) and all(
        any(_same_element(site, store, source) for store in stores)
        for site in readers
        if site not in early
    )


def _sites(
    stmt: Stmt, loops: tuple[For, ...], guarded: bool, order: Iterator[int]
) -> Iterator[_Site]:
    yield _Site(stmt, next(order), loops, guarded)
    if isinstance(stmt, For):
        loops = (*loops, stmt)
    guarded = guarded or isinstance(stmt, IfThenElse)
    for child in stmt_children(stmt):
        yield from _sites(child, loops, guarded, order)


def _loads(stmt: Stmt, buffer: Buffer) -> Iterator[BufferLoad]:
    for expr in stmt_exprs(stmt):
        for part in post_order(expr):
            if isinstance(part, BufferLoad) and part.buffer is buffer:
                yield part


def _is_opaque(stmt: Stmt, buffers: Sequence[Buffer]) -> bool:
    """Whether a statement uses the address of a buffer, or a part of it at once."""
    addresses = {buffer.data for buffer in buffers}
    for expr in stmt_exprs(stmt):
        for part in post_order(expr):
            if part in addresses or (isinstance(part, Call) and part.op == "tir.address_of"):
                return True
            if isinstance(part, BufferLoad) and part.buffer in buffers and part.dtype.is_vector:
                return True
    if isinstance(stmt, BufferStore) and stmt.buffer in buffers:
        return stmt.value.dtype.is_vector
    node: Any = getattr(stmt, "node", None)
    buffer: Any = getattr(stmt, "buffer_var", None)
    return node in addresses or buffer in addresses


def _same_element(site: _Site, store: _Site, source: Buffer) -> bool:
    """Whether all that is read at a site is the element that is then stored."""
    if (
        not _same(site.loops, store.loops)
        or site.order > store.order
        or not isinstance(store.stmt, BufferStore)
    ):
        return False
    return all(_same(load.indices, store.stmt.indices) for load in _loads(site.stmt, source))


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether these are the same objects (expressions that are equal are the same object)."""
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _writes_once(stores: Sequence[_Site], sink: Buffer) -> bool:
    """Whether no element is stored twice."""
    size = 1
    for extent in sink.shape:
        if not isinstance(extent, IntImm):
            return False
        size *= extent.value
    counts = [_iterations(store.loops) for store in stores]
    if None not in counts and sum(count or 0 for count in counts) == size:
        # Every element is stored, so there is no iteration left to store one again.
        return not any(store.guarded for store in stores)
    if len(stores) != 1 or not isinstance(stores[0].stmt, BufferStore):
        return False
    domains = {loop.loop_var: Range(loop.min, loop.extent) for loop in stores[0].loops}
    return bool(detect_iter_map(stores[0].stmt.indices, domains, check_level="bijective"))


def _iterations(loops: Sequence[For]) -> int | None:
    total = 1
    for loop in loops:
        if not isinstance(loop.extent, IntImm):
            return None
        total *= loop.extent.value
    return total
