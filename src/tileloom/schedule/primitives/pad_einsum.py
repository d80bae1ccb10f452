"""pad_einsum: a sum of products over larger domains, its operands padded with zeros."""

from __future__ import annotations

from collections.abc import Sequence

from ...expr import (
    LT,
    REDUCE,
    Add,
    Analyzer,
    And,
    Call,
    Cast,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Mod,
    Mul,
    Range,
    Sub,
    Var,
    binary,
    const,
    free_vars,
    has_load,
    post_order,
)
from ...expr.dot_ops import DOT_BF16, DOT_OFFSET, is_bare_dot
from ...expr.extents import limits_of_variables
from ...expr.nodes import Div
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    Stmt,
    make_buffer,
    parts_of,
    seq,
)
from ..analysis.blocks import check_trivial_binding
from ..analysis.cover import check_stage_pipeline
from ..analysis.tree import is_one, is_zero, loops_above, only_child_chain, scope_root
from ..errors import name_of, refuse
from ..instruction import BlockRef, primitive
from ..rewrite import index_vars, iter_vars, nest
from ..sref import StmtSRef
from ..state import ScheduleState
from ._buffers import ReplaceBuffer

_TRUE = const(True)


@primitive("PadEinsum")
def pad_einsum(state: ScheduleState, block: BlockRef, padding: Sequence[int]) -> None:
    """Round the domains of a sum of products up, and pad what it reads with zeros.

    Blocks `<buffer>_pad` before it copy the operands into larger buffers, and blocks after it copy
    the results back.

    Args:
        block: every buffer that is padded is accessed at iteration variables, or at places that
            depend on none that is padded.
        padding: for each iteration variable, what its domain becomes a multiple of.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((13, 8), name="A"); k = te.reduce_axis((0, 8), "k")
    >>> B = te.compute((13,), lambda i: te.sum(A[i, k], axis=k), name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> sch.pad_einsum("B", [16, 1])
    >>> [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
    ['A_pad', 'B', 'B_pad']
    """
    _Padder(state, block, [int(p) for p in padding]).run()


class _Padder:
    def __init__(self, state: ScheduleState, block: StmtSRef, padding: Sequence[int]) -> None:
        self.state, self.sref = state, block
        self.block = block.block
        self.scope = scope_root(block)
        check_stage_pipeline(state, self.scope)
        axes = self.block.iter_vars
        if len(padding) != len(axes) or any(p <= 0 for p in padding):
            raise refuse(
                f"padding is {len(axes)} positive numbers for {name_of(block)}, got {padding}",
                at=[block],
                fast="The padding size for the block is invalid",
            )
        check_trivial_binding(state, block)
        self._check_alone()
        self.known = Analyzer()
        for axis in axes:
            self.known.bind_bounds(limits_of_variables(axis.domain.extent))
        self.extent = {axis.var: axis.domain.extent for axis in axes}
        self.padded: dict[Var, Expr] = {}
        for axis, multiple in zip(axes, padding, strict=True):
            old = axis.domain.extent
            new = self.known.simplify((old + (multiple - 1)) // multiple * multiple)
            if not self.known.can_prove_equal(new, old):
                self.padded[axis.var] = new
        self._check_einsum()

    # ------------------------------------------------------------------ checks

    def _not_einsum(self, why: str) -> Exception:
        return refuse(
            f"{name_of(self.sref)} is no sum of products that can be padded: {why}",
            at=[self.sref],
            fast="The block is not a computation of Einsum pattern",
        )

    def _check_alone(self) -> None:
        loops = loops_above(self.sref)
        if not loops or not only_child_chain(loops[0], self.sref):
            raise refuse(
                f"{name_of(self.sref)} is not the only thing in the loops around it",
                at=[self.sref],
            )
        realize = self.state.realize(self.sref)
        if not is_one(realize.predicate):
            raise refuse(f"{name_of(self.sref)} runs under a condition", at=[self.sref])
        for sref in loops:
            if not is_zero(sref.loop.min):
                raise refuse(f"{name_of(sref)} does not start at 0", at=[sref])

    def _check_einsum(self) -> None:
        seen: set[Buffer] = set()
        for region in (*self.block.reads, *self.block.writes):
            if region.buffer in seen:
                raise self._not_einsum(f"it accesses {region.buffer.name!r} in two ways")
            seen.add(region.buffer)
            for part in region.region:
                stays = self.padded.keys().isdisjoint(free_vars(part.min))
                plain = isinstance(part.min, Var) or stays or self._has_room(region)
                if not is_one(part.extent) or not plain:
                    raise self._not_einsum(
                        f"it accesses {region.buffer.name!r} at other places than its variables"
                    )
        for region in self.block.reads:
            if self._needs(region):
                self._check_inside(region)
        for region in self.block.writes:
            if self._needs(region):
                self._check_whole(region)
        if self.padded:
            self._check_values()

    def _has_room(self, region: BufferRegion) -> bool:
        """Whether a buffer is read inside its bounds in the larger domains as well.

        What is there may be anything, so none of those domains may be reduced.
        """
        used = {var for part in region.region for var in free_vars(part.min)}
        padded = [axis for axis in self.block.iter_vars if axis.var in used & self.padded.keys()]
        if not padded:
            return True
        if region in self.block.writes or any(axis.iter_type == REDUCE for axis in padded):
            return False
        larger = self.known.copy()
        for axis in self.block.iter_vars:
            extent = self.padded.get(axis.var, axis.domain.extent)
            larger.bind(axis.var, Range(axis.domain.min, extent))
        return all(
            larger.can_prove(And(part.min >= 0, part.min < size))
            for part, size in zip(region.region, region.buffer.shape, strict=True)
        )

    def _check_inside(self, region: BufferRegion) -> None:
        """The block may guard what it reads, the copy reads it in any case."""
        for part, size in zip(region.region, region.buffer.shape, strict=True):
            wanted = self.extent.get(part.min) if isinstance(part.min, Var) else None
            if wanted is not None and not self.known.can_prove(wanted <= size):
                raise self._not_einsum(f"{part.min} may be outside of {region.buffer.name!r}")

    def _check_whole(self, region: BufferRegion) -> None:
        """Copying results back must not touch more than the block has written."""
        for part, size in zip(region.region, region.buffer.shape, strict=True):
            wanted = self.extent.get(part.min) if isinstance(part.min, Var) else const(1)
            if wanted is None or not self.known.can_prove_equal(wanted, size):
                raise self._not_einsum(f"it writes {region.buffer.name!r} in part only")

    def _check_values(self) -> None:
        """Zeros in the padding must add nothing."""
        store, init = self.block.body, self.block.init
        if not isinstance(store, BufferStore) or not isinstance(init, (BufferStore, type(None))):
            raise self._not_einsum("its body is more than one store")
        self._check_indices([store] if init is None else [store, init])
        for axis in self.block.iter_vars:
            if axis.iter_type != REDUCE and axis.var in self.padded.keys() - set(store.indices):
                raise self._not_einsum(
                    f"{axis.var.name!r} does not place its results, so padding it would store "
                    "other values over them"
                )
        for node in post_order(store.value):
            if self._divides(node):
                raise self._not_einsum(f"{node} divides, and the padding is zero")
        reduced = {
            axis.var
            for axis in self.block.iter_vars
            if axis.iter_type == REDUCE and axis.var in self.padded
        }
        if not reduced:
            return
        value = store.value
        old = BufferLoad(store.buffer, store.indices)
        if not isinstance(value, Add) or old not in (value.a, value.b):
            raise self._not_einsum(f"{value} is no sum")
        term = value.b if value.a is old else value.a
        for var in reduced:
            if not _vanishes(term, var):
                raise self._not_einsum(f"{term} may not be zero where {var.name!r} is padding")

    def _divides(self, node: Expr) -> bool:
        """Whether a node divides whole numbers, by what may be zero where padding is."""
        if not isinstance(node, (Div, Mod, FloorDiv, FloorMod)) or node.dtype.is_float:
            return False
        if isinstance(node.b, IntImm) and node.b.value != 0:
            return False
        loads = has_load(node)
        return loads or not free_vars(node).isdisjoint(self.padded)

    def _check_indices(self, stores: Sequence[BufferStore]) -> None:
        """A variable of one value may be declared where 0 is accessed, until it is padded."""
        declared = {r.buffer: r.region for r in (*self.block.reads, *self.block.writes)}
        found: list[BufferStore | BufferLoad] = [*stores]
        for store in stores:
            found += [node for node in post_order(store.value) if isinstance(node, BufferLoad)]
        for access in found:
            for index, part in zip(access.indices, declared.get(access.buffer, ())):
                pads = not self.padded.keys().isdisjoint(free_vars(index) | free_vars(part.min))
                if pads and index is not part.min:
                    raise self._not_einsum(
                        f"it declares {access.buffer.name!r} at {part.min} and accesses it at "
                        f"{index}"
                    )

    # ------------------------------------------------------------------ building

    def _needs(self, region: BufferRegion) -> bool:
        return any(part.min in self.padded for part in region.region)

    def run(self) -> None:
        replace = ReplaceBuffer({})
        before = [self._pad(region, replace) for region in self.block.reads if self._needs(region)]
        after = [
            self._unpad(region, replace) for region in self.block.writes if self._needs(region)
        ]
        if not replace.buffers:
            return
        loops = loops_above(self.sref)
        changed = self._larger(replace.visit_Block(self.block))
        realize = self.state.realize(self.sref)
        stmt: Stmt = BlockRealize(realize.iter_values, realize.predicate, changed)
        pairs = zip(loops, self.block.iter_vars, strict=True)
        for sref, axis in reversed(list(pairs)):
            extent = self.padded.get(axis.var, sref.loop.extent)
            stmt = sref.loop.replace(extent=extent.astype(sref.loop.loop_var.dtype), body=stmt)
        scope = self.scope.block
        parts = parts_of(scope.body)
        body = []
        for part in parts:
            body += [*before, stmt, *after] if part is loops[0].loop else [part]
        new = scope.replace(
            body=seq(*body), alloc_buffers=(*scope.alloc_buffers, *replace.buffers.values())
        )
        self.state.replace(self.scope, new, {scope: new, self.block: changed})

    def _larger(self, block: Block) -> Block:
        axes = tuple(
            IterVar(
                Range(axis.domain.min, self.padded.get(axis.var, axis.domain.extent)),
                axis.var,
                axis.iter_type,
            )
            for axis in block.iter_vars
        )
        return block.replace(iter_vars=axes)

    def _padded_buffer(self, region: BufferRegion) -> Buffer:
        shape: list[Expr] = []
        for part, size in zip(region.region, region.buffer.shape, strict=True):
            at = part.min
            if isinstance(at, Var):
                shape.append(self.padded.get(at, size))
            else:
                shape.append(const(1, at.dtype) if is_zero(at) else size)
        buffer = region.buffer
        return make_buffer(shape, str(buffer.dtype), f"{buffer.name}_pad", scope=buffer.scope)

    def _pad(self, region: BufferRegion, replace: ReplaceBuffer) -> Stmt:
        """A block that copies an operand, zeros around it."""
        old, new = region.buffer, self._padded_buffer(region)
        replace.buffers[old] = new
        variables = index_vars("v", new.shape)
        inside = _TRUE
        for var, part in zip(variables, region.region, strict=True):
            if part.min in self.padded and isinstance(part.min, Var):
                here = binary(LT, var, self.extent[part.min].astype(var.dtype))
                inside = here if is_one(inside) else binary(And, inside, here)
        load: Expr = BufferLoad(old, variables)
        value = Call(load.dtype, "tir.if_then_else", (inside, load, const(0, load.dtype)))
        return _copy(variables, new.shape, old, new, value, new.name)

    def _unpad(self, region: BufferRegion, replace: ReplaceBuffer) -> Stmt:
        """A block that copies results back."""
        old, new = region.buffer, self._padded_buffer(region)
        replace.buffers[old] = new
        variables = index_vars("v", old.shape)
        return _copy(variables, old.shape, new, old, BufferLoad(new, variables), new.name)


def _copy(
    variables: Sequence[Var],
    shape: Sequence[Expr],
    source: Buffer,
    target: Buffer,
    value: Expr,
    name: str,
) -> For | Stmt:
    block = Block(
        iter_vars(variables, shape),
        (BufferRegion.point(source, variables),),
        (BufferRegion.point(target, variables),),
        name,
        BufferStore(target, value, tuple(variables)),
    )
    loops = index_vars("i", shape)
    return nest(list(zip(loops, shape, strict=True)), BlockRealize(tuple(loops), _TRUE, block))


def _vanishes(term: Expr, var: Var) -> bool:
    """Whether a term is exactly zero where a variable is in the padding.

    Every factor that is read must be padded: zero times infinity is no zero.
    """
    match term:
        case BufferLoad():
            return var in term.indices
        case IntImm() | FloatImm():
            return term.value == 0
        case Mul(a, b):
            left, right = _vanishes(a, var), _vanishes(b, var)
            return (left or right) and all(
                gone or not term.dtype.is_float or isinstance(side, (IntImm, FloatImm))
                for gone, side in ((left, a), (right, b))
            )
        case Add(a, b) | Sub(a, b):
            return _vanishes(a, var) and _vanishes(b, var)
        case Cast(_, value):
            return _vanishes(value, var)
        case Call(_, _, (_, a, b)) if is_bare_dot(term):
            left, right = _vanishes(a, var), _vanishes(b, var)
            if term.op in DOT_OFFSET.values():
                return right  # a word of zeros is no zero in offset binary
            return left and right if term.op == DOT_BF16 else left or right
        case Call(_, "tir.if_then_else", (condition, yes, no)):
            return not has_load(condition) and _vanishes(yes, var) and _vanishes(no, var)
    return False
