"""From tensor expressions to tensor IR: one block for each output of an operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import tir
from ..base.errors import UserError
from ..expr import (
    SPATIAL,
    Expr,
    IterVar,
    ProducerLoad,
    Range,
    Reduce,
    Var,
    combined,
    const,
    rewrite,
    substitute,
)
from ..tir import (
    SERIAL,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    PrimFunc,
    Stmt,
    make_buffer,
    seq,
    stores,
    stores_at_once,
)
from .math import if_then_else
from .tensor import ComputeOp, PlaceholderOp, Tensor

Argument = Tensor | Var
Values = Mapping[Var, Expr]


def create_prim_func(
    args: Sequence[Argument],
    name: str = "main",
    attrs: Mapping[str, Any] | None = None,
    separate_init: bool = False,
) -> PrimFunc:
    """The function that computes tensors from tensors.

    Args:
        args: the parameters in order: placeholders, computed tensors to return, scalar variables.
            Whatever else is computed on the way is allocated.
        name: the function's "global_symbol".
        attrs: further attributes of the function.
        separate_init: start reductions in a block of its own, `<name>__reduce_init`, before the
            reduction loops, instead of by the init part of the reduction block.

    Raises:
        UserError: a placeholder that is needed is not among the parameters.

    >>> from .tensor import compute, placeholder
    >>> A = placeholder((4,), name="A")
    >>> f = create_prim_func([A, compute((4,), lambda i: A[i] + 1.0, name="B")])
    >>> [buffer.name for buffer in f.buffers], dict(f.attrs)
    (['A', 'B'], {'global_symbol': 'main', 'tir.noalias': True})
    """
    return _Builder(args, separate_init).build(name, attrs or {})


@dataclass(frozen=True, slots=True)
class _Nest:
    """The loops of an operation and the block variables that they drive."""

    loops: tuple[Var, ...]
    axes: tuple[IterVar, ...]  # of the operation
    block_vars: tuple[IterVar, ...]
    values: Values  # of the operation's variables in the block

    @staticmethod
    def over(axes: Sequence[IterVar]) -> _Nest:
        loops = tuple(Var(axis.var.name, axis.var.dtype) for axis in axes)
        block_vars: list[IterVar] = []
        values: dict[Var, Expr] = {}
        for axis in axes:
            # The domain of an inner axis may depend on an outer one.
            domain = Range(
                substitute(axis.domain.min, values), substitute(axis.domain.extent, values)
            )
            inner = Var(f"v_{axis.var.name}", axis.var.dtype)
            block_vars.append(IterVar(domain, inner, axis.iter_type))
            values[axis.var] = inner
        return _Nest(loops, tuple(axes), tuple(block_vars), values)

    def wrap(self, body: Stmt, begin: int = 0, end: int | None = None) -> Stmt:
        """`body` in the loops, or in those from `begin` to `end`."""
        pairs = list(zip(self.axes, self.loops, strict=True))
        known = {axis.var: loop for axis, loop in pairs}
        for axis, loop in reversed(pairs[begin:end]):
            low, extent = (substitute(e, known) for e in (axis.domain.min, axis.domain.extent))
            body = For(loop, low, extent, SERIAL, body)
        return body

    def realize(self, block: Block) -> BlockRealize:
        """The block run once in each iteration of the loops that its variables take."""
        if block.iter_vars:
            return BlockRealize(self.loops[: len(block.iter_vars)], const(True), block)
        # A block needs an iteration variable: it gets one over a single point.
        unit = IterVar(Range.from_extent(1), Var("vi"), SPATIAL)
        return BlockRealize((const(0),), const(True), block.replace(iter_vars=(unit,)))


class _Builder:
    def __init__(self, args: Sequence[Argument], separate_init: bool) -> None:
        self.args = tuple(args)
        self.separate_init = separate_init
        self.names: set[str] = set()
        self.block_names: set[str] = set()
        self.buffers: dict[Tensor, Buffer] = {}
        self.allocated: list[Buffer] = []

    def build(self, name: str, attrs: Mapping[str, Any]) -> PrimFunc:
        tensors = [arg for arg in self.args if isinstance(arg, Tensor)]
        if len({*tensors}) != len(tensors):
            raise UserError("create_prim_func: a tensor is named twice among the parameters")
        order = _topological(tensors)
        for tensor in tensors:
            self.buffers[tensor] = self._buffer(tensor)
        params = [
            arg if isinstance(arg, Var) else Var(f"var_{self.buffers[arg].name}", "handle")
            for arg in self.args
        ]
        pairs = zip(self.args, params, strict=True)
        buffer_map = {param: self.buffers[t] for t, param in pairs if isinstance(t, Tensor)}
        stages = [stage for op in order for stage in self._operation(op)]
        root = Block((), (), (), "root", seq(*stages), alloc_buffers=tuple(self.allocated))
        body = BlockRealize((), const(True), root)
        return PrimFunc(
            tuple(params),
            body,
            buffer_map,
            {"global_symbol": name, "tir.noalias": True, **attrs},
        )

    def _fresh(self, name: str, names: set[str]) -> str:
        candidate, count = name, 0
        while candidate in names:
            count += 1
            candidate = f"{name}_{count}"
        names.add(candidate)
        return candidate

    def _buffer(self, tensor: Tensor) -> Buffer:
        return make_buffer(tensor.shape, tensor.dtype, self._fresh(tensor.name, self.names))

    def _operation(self, op: PlaceholderOp | ComputeOp) -> list[Stmt]:
        if isinstance(op, PlaceholderOp):
            return []
        for tensor in op.outputs:
            if tensor not in self.buffers:
                self.buffers[tensor] = self._buffer(tensor)
                self.allocated.append(self.buffers[tensor])
        if isinstance(op.body[0], Reduce):
            return [self._reduction(op, op.body[0])]
        return [self._injective(op)]

    def _load(self, expr: Expr, values: Values) -> Expr:
        """`expr` with variables replaced and tensors read from their buffers."""

        def rule(node: Expr) -> Expr | None:
            if isinstance(node, ProducerLoad):
                return BufferLoad(self.buffers[node.producer], node.indices)
            if isinstance(node, Reduce):
                raise UserError(
                    "a reduction must stand at the top of a compute body",
                    hint="give the reduction a `compute` of its own",
                )
            return None

        return rewrite(substitute(expr, values), rule)

    def _block(
        self,
        op: ComputeOp,
        name: str,
        axes: Sequence[IterVar],
        body: Stmt,
        init: Stmt | None = None,
    ) -> Block:
        """The block, with what it reads and writes found out."""
        annotations = {key: value for key, value in op.attrs.items() if key != "tag"}
        block = Block(tuple(axes), (), (), name, body, init, annotations=annotations)
        reads, writes = tir.infer_block_access(block)
        return block.replace(reads=reads, writes=writes)

    def _injective(self, op: ComputeOp) -> Stmt:
        """A block for each output, all in one nest of loops."""
        outer = _Nest.over(op.axis)
        realizes = []
        for tensor, part in zip(op.outputs, op.body, strict=True):
            nest = replace(_Nest.over(op.axis), loops=outer.loops)
            buffer = self.buffers[tensor]
            at = tuple(axis.var for axis in nest.block_vars)
            body = BufferStore(buffer, self._load(part, nest.values), at)
            realizes.append(nest.realize(self._block(op, buffer.name, nest.block_vars, body)))
        return outer.wrap(seq(*realizes))

    def _reduction(self, op: ComputeOp, reduce: Reduce) -> Stmt:
        parts = [part for part in op.body if isinstance(part, Reduce)]
        if len(parts) != len(op.body) or any(p.combiner is not reduce.combiner for p in parts):
            raise UserError(f"the outputs of {op.name!r} are not parts of one reduction")
        count = len(op.axis)
        nest = _Nest.over((*op.axis, *reduce.axis))
        at = [axis.var for axis in nest.block_vars[:count]]
        buffers = self._components(op, parts, reduce)
        source = [self._guarded(reduce, k, nest.values) for k in range(len(buffers))]
        places = [at] * len(buffers)
        old = [BufferLoad(buffer, at) for buffer in buffers]
        body = stores_at_once(buffers, combined(reduce.combiner, old, source), places)
        name = self._fresh(op.name, self.block_names) if len(buffers) > 1 else buffers[0].name
        if not self.separate_init:
            init = self._start(reduce, buffers, nest.values, at)
            return nest.wrap(nest.realize(self._block(op, name, nest.block_vars, body, init)))
        outer = _Nest.over(op.axis)
        place = [axis.var for axis in outer.block_vars]
        start = self._start(reduce, buffers, outer.values, place)
        first = self._block(op, f"{name}__reduce_init", outer.block_vars, start)
        update = self._block(op, name, nest.block_vars, body)
        rows = seq(nest.realize(first), nest.wrap(nest.realize(update), count))
        return nest.wrap(rows, 0, count)

    def _start(
        self, reduce: Reduce, buffers: Sequence[Buffer], values: Values, at: Sequence[Expr]
    ) -> Stmt:
        """The stores that a reduction starts with."""
        start = [self._load(e, values) for e in reduce.init or reduce.combiner.identity]
        return stores(buffers, start, [at] * len(buffers))

    def _components(self, op: ComputeOp, parts: Sequence[Reduce], reduce: Reduce) -> list[Buffer]:
        """The buffer of each component; those that nobody asked for are allocated."""
        known = {part.value_index: self.buffers[op.outputs[k]] for k, part in enumerate(parts)}
        result = []
        for k, source in enumerate(reduce.source):
            if k not in known:
                known[k] = make_buffer(
                    op.outputs[0].shape, source.dtype, self._fresh(op.name, self.names)
                )
                self.allocated.append(known[k])
            result.append(known[k])
        return result

    def _guarded(self, reduce: Reduce, k: int, values: Values) -> Expr:
        """A component of the source; the identity where the condition does not hold."""
        value = self._load(reduce.source[k], values)
        condition = self._load(reduce.condition, values)
        return if_then_else(condition, value, reduce.combiner.identity[k])


def _topological(tensors: Sequence[Tensor]) -> list[PlaceholderOp | ComputeOp]:
    """The operations behind the tensors, producers first."""
    given = {tensor.op for tensor in tensors if isinstance(tensor.op, PlaceholderOp)}
    done: dict[PlaceholderOp | ComputeOp, None] = {}
    stack: list[tuple[Tensor, bool]] = [(tensor, False) for tensor in reversed(tensors)]
    while stack:
        tensor, ready = stack.pop()
        op = tensor.op
        if op in done:
            continue
        if isinstance(op, PlaceholderOp) and op not in given:
            raise UserError(
                f"the placeholder {tensor.name!r} is needed but not among the parameters"
            )
        if ready:
            done[op] = None
            continue
        stack.append((tensor, True))
        stack.extend((source, False) for source in reversed(op.input_tensors))
    return list(done)
