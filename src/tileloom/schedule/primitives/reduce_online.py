"""reduce_online: two reductions, of which the second needs the first's result, in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...expr import (
    REDUCE,
    Add,
    Call,
    Cast,
    Div,
    Expr,
    IntImm,
    Max,
    Mul,
    Select,
    Sub,
    Var,
    const,
    post_order,
    substitute,
)
from ...expr.combiners import Combine, moments, neutral, of_one, online_softmax
from ...expr.nodes import FloatImm
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    Stmt,
    infer_block_access,
    make_buffer,
    stores,
    stores_at_once,
    under_loops,
)
from ..analysis.blocks import check_reduction, check_trivial_binding, leaf_store
from ..analysis.cover import check_stage_pipeline
from ..analysis.tree import (
    child_blocks,
    is_zero,
    loops_above,
    only_child_chain,
    require_plain_loop,
    scope_root,
)
from ..errors import name_of, refuse
from ..instruction import BlockRef, primitive
from ..sref import StmtSRef
from ..state import ScheduleState
from ._rebuild import rebuilt
from ._reducers import Reduction, reduction_in_parts

#: Counts up to here are exact in float32.
_MOST = 1 << 24


@primitive("ReduceOnline")
def reduce_online(state: ScheduleState, block: BlockRef, later: BlockRef) -> BlockRef:
    """Reduce what two blocks reduce in one pass over the data.

    Two pairs are known: a maximum `m` and the sum of `exp(x - m)` (the pair is combined as in
    online softmax), and a sum and the sum of squares around the mean that it gives (combined by
    the formula of Chan, Golub and LeVeque). The first block then reduces a tuple; the second one
    stores its last component.

    Sums are added up in another order and with other roundings, as by `rfactor`. Values that are
    infinite or NaN give what two passes give: the second result is NaN if `m` is infinite or the
    sum is not finite. (Two passes give an infinite sum of squares where finite values have a sum
    that overflows; here it is NaN.)

    Args:
        block: the maximum, or the sum.
        later: the sum that needs it, with loops of the same extents.

    Returns:
        The first block, as it is then.

    >>> import tileloom
    >>> from tileloom import te
    >>> from tileloom.script import tir as T
    >>> A = te.placeholder((4, 8), name="A")
    >>> j, k = te.reduce_axis((0, 8), "j"), te.reduce_axis((0, 8), "k")
    >>> M = te.compute((4,), lambda i: te.max(A[i, j], axis=j), name="M")
    >>> S = te.compute((4,), lambda i: te.sum(T.exp(A[i, k] - M[i]), axis=k), name="S")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, M, S]))
    >>> both = sch.reduce_online("M", "S")
    >>> [region.buffer.name for region in sch.get(both).writes]
    ['M', 'S_carry']
    >>> len(sch.get_loops("M")), len(sch.get_loops("S"))
    (2, 1)
    """
    return _Online(state, block, later).run()


@dataclass(frozen=True)
class _Pair:
    """Which combination it is, what one element is, and where the first result is read."""

    combine: Combine
    value: Expr
    result: BufferLoad


class _Online:
    def __init__(self, state: ScheduleState, first: StmtSRef, second: StmtSRef) -> None:
        self.state = state
        self.first, self.second = first, second
        self.scope = scope_root(first)
        if scope_root(second) is not self.scope or first is second:
            raise refuse("the two blocks are not of one scope", at=[first, second])
        for sref in (first, second):
            self._check_plain(sref)
        check_stage_pipeline(state, self.scope)
        self._check_order()
        self.one = reduction_in_parts(first.block)
        self.two = reduction_in_parts(second.block)
        self.to_first = self._same_loops()
        self.pair = self._recognise()

    # ------------------------------------------------------------------ checks

    def _check_plain(self, sref: StmtSRef) -> None:
        if self.state.enable_check:
            check_reduction(self.state, sref)
        check_trivial_binding(self.state, sref)
        loops = loops_above(sref)
        for outer in loops:
            require_plain_loop(outer, "reduce_online")
            if not is_zero(outer.loop.min):
                raise refuse(f"{name_of(outer)} does not start at zero", at=[outer])
        if loops and not only_child_chain(loops[0], sref):
            raise refuse(f"the loops around {name_of(sref)} hold more than it", at=[sref])
        predicate = self.state.realize(sref).predicate
        if not isinstance(predicate, IntImm):
            raise refuse(f"{name_of(sref)} runs under a condition: {predicate}", at=[sref])

    def _check_order(self) -> None:
        blocks = [sref.block for sref in child_blocks(self.state, self.scope)]
        if blocks.index(self.first.block) > blocks.index(self.second.block):
            raise refuse(
                f"{name_of(self.second)} comes before {name_of(self.first)}",
                at=[self.first, self.second],
                hint="name the block whose result is needed first",
            )

    def _same_loops(self) -> dict[Var, Expr]:
        """The variables of the second block as those of the first."""
        one, two = self.first.block.iter_vars, self.second.block.iter_vars
        alike = len(one) == len(two) and all(
            a.iter_type == b.iter_type and a.domain.extent is b.domain.extent
            for a, b in zip(one, two, strict=True)
        )
        if not alike:
            raise refuse(
                f"{name_of(self.first)} and {name_of(self.second)} do not run over the same",
                at=[self.first, self.second],
                hint="transform_block_layout can give blocks the same variables",
            )
        return {b.var: a.var for a, b in zip(one, two, strict=True)}

    def _recognise(self) -> _Pair:
        pair = _softmax(self) or _variance(self)
        if pair is None:
            raise refuse(
                f"{name_of(self.second)} is neither a sum of exp(x - m), where m is the maximum of "
                f"x and what {name_of(self.first)} makes, nor a sum of squares around the mean",
                at=[self.first, self.second],
            )
        kinds = {store.buffer.dtype for store in (*self.one.stores, *self.two.stores)}
        if len(kinds) > 1 or not kinds.pop().is_float:
            raise refuse("the two reductions are not of one type of floats", at=[self.first])
        return pair

    def summand(self) -> Expr:
        """What the second block adds up, in terms of the first one's variables."""
        return substitute(self.two.new[0], self.to_first)

    def is_result(self, value: Expr) -> bool:
        """Whether an expression is what the first block makes, at its own place."""
        store = self.one.stores[0]
        return (
            isinstance(value, BufferLoad)
            and value.buffer is store.buffer
            and tuple(value.indices) == tuple(store.indices)
        )

    @property
    def count(self) -> int:
        """How many elements are reduced; 0 if that is not known."""
        total = 1
        for axis in self.first.block.iter_vars:
            if axis.iter_type == REDUCE:
                extent = axis.domain.extent
                total *= extent.value if isinstance(extent, IntImm) else 0
        return total

    # ------------------------------------------------------------------ the rewrite

    def run(self) -> StmtSRef:
        combine = self.pair.combine
        shape, kind = self.one.stores[0].buffer.shape, self.one.stores[0].buffer.dtype
        name, scope = self.second.block.name_hint, self.one.stores[0].buffer.scope
        parts = ("n", None, "carry") if combine is moments else (None, "carry")
        buffers = [
            self.one.stores[0].buffer if part is None
            else make_buffer(shape, kind, f"{name}_{part}", scope=scope)
            for part in parts
        ]  # fmt: skip
        both = self._both(buffers)
        last = self._last(buffers[-1])
        blocks = {self.first: both, self.second: last}
        nests = {self._top(sref): self._nested(sref, block) for sref, block in blocks.items()}
        body = rebuilt(self.scope.block.body, (), nests)
        fresh = tuple(b for b, part in zip(buffers, parts, strict=True) if part is not None)
        changed = self.scope.block.replace(
            alloc_buffers=(*self.scope.block.alloc_buffers, *fresh), body=body
        )
        old = {self.scope.block: changed, self.first.block: both, self.second.block: last}
        self.state.replace(self.scope, changed, old)
        return self.state.sref(both)

    def _top(self, sref: StmtSRef) -> Stmt:
        loops = loops_above(sref)
        return loops[0].loop if loops else self.state.realize(sref)

    def _both(self, buffers: Sequence[Buffer]) -> Block:
        combine, block = self.pair.combine, self.first.block
        places = [self.one.stores[0].indices] * len(buffers)
        old = [BufferLoad(b, p) for b, p in zip(buffers, places, strict=True)]
        new = of_one(combine, self.pair.value)
        start = neutral(combine, str(buffers[0].dtype))
        if combine is online_softmax:
            start[0] = self.one.start[0]  # a maximum may start anywhere
        bare = block.replace(
            reads=(),
            writes=(),
            body=stores_at_once(buffers, combine(old, new), places),
            init=stores(buffers, start, places),
        )
        reads, writes = infer_block_access(bare)
        own = set(buffers)
        return bare.replace(reads=tuple(r for r in reads if r.buffer not in own), writes=writes)

    def _last(self, carry: Buffer) -> Block:
        """The second result, of the tuple's last component and the first result."""
        block = self.second.block
        axes = tuple(axis for axis in block.iter_vars if axis.iter_type != REDUCE)
        back: dict[Var, Expr] = {
            a.var: b.var for a, b in zip(self.first.block.iter_vars, block.iter_vars, strict=True)
        }
        place = tuple(substitute(i, back) for i in self.one.stores[0].indices)
        whole, part = BufferLoad(self.one.stores[0].buffer, place), BufferLoad(carry, place)
        finite = Call("bool", "tir.isfinite", (whole,))
        value = Select(finite, part, const(float("nan"), carry.dtype))
        store = self.two.stores[0].replace(value=value)
        bare = Block(axes, (), (), block.name_hint, store, annotations=dict(block.annotations))
        reads, writes = infer_block_access(bare)
        return bare.replace(reads=reads, writes=writes)

    def _nested(self, sref: StmtSRef, block: Block) -> Stmt:
        """A block under those of the loops around another one that its variables stand for."""
        kept = {axis.var for axis in block.iter_vars}
        pairs = list(zip(sref.block.iter_vars, loops_above(sref), strict=True))
        loops = [outer.loop for axis, outer in pairs if axis.var in kept]
        realize = BlockRealize(tuple(loop.loop_var for loop in loops), const(True), block)
        return under_loops(loops, realize)


# ---------------------------------------------------------------------------- what is known


def _softmax(found: _Online) -> _Pair | None:
    """A maximum of x, and a sum of exp(x - m)."""
    if not (_combines_by(found.one, Max) and _combines_by(found.two, Add)):
        return None
    match found.summand():
        case Call(op="tir.exp", args=(Sub(value, BufferLoad() as result),)):
            if found.is_result(result) and value is found.one.new[0]:
                return _Pair(online_softmax, value, result)
    return None


def _variance(found: _Online) -> _Pair | None:
    """A sum of x, and a sum of squares of x - s / n."""
    if not (_combines_by(found.one, Add) and _combines_by(found.two, Add)):
        return None
    if not 0 < found.count < _MOST:
        return None
    match found.summand():
        case Mul(Sub(a, b) as left, right) if left is right:
            pairs = ((a, b), (b, a))
        case _:
            return None
    for value, mean in pairs:
        result = _sum_of_mean(found, mean)
        if result is not None and value is found.one.new[0]:
            return _Pair(moments, value, result)
    return None


def _combines_by(reduction: Reduction, op: type[Expr]) -> bool:
    if len(reduction.stores) != 1:
        return False
    store = reduction.stores[0]
    old = BufferLoad(store.buffer, store.indices)
    (value,) = reduction.combine([old], [old])
    return isinstance(value, op)


def _sum_of_mean(found: _Online, mean: Expr) -> BufferLoad | None:
    """The sum in `sum / n`, or in what a block makes of it that says so."""
    if isinstance(mean, BufferLoad) and not found.is_result(mean):
        mean = _stored_value(found, mean)
    match mean:
        case Div(BufferLoad() as total, n):
            factor = 1 / (_number(n) or 1)
        case Mul(BufferLoad() as total, n) | Mul(n, BufferLoad() as total):
            factor = _number(n) or 0
        case _:
            return None
    exact = 1 / found.count
    if found.is_result(total) and abs(factor - exact) <= 1e-6 * exact:
        return total
    return None


def _stored_value(found: _Online, load: BufferLoad) -> Expr:
    """What a block stores at the place of a load, if it is an expression of its indices."""
    for sref in child_blocks(found.state, found.scope):
        store = leaf_store(sref.block)
        if store is None or store.buffer is not load.buffer or sref.block.init is not None:
            continue
        at: Mapping[Var, Expr] = {
            index: value
            for index, value in zip(store.indices, load.indices, strict=True)
            if isinstance(index, Var)
        }
        used = {node for node in post_order(store.value) if isinstance(node, Var)}
        if used <= at.keys():
            return substitute(store.value, at)
    return load


def _number(value: Expr) -> float | None:
    match value:
        case IntImm() | FloatImm():
            return float(value.value)
        case Cast():
            return _number(value.children[0])
    return None
