"""The body of one vectorised loop, in vectors.

A value that is the same for all iterations stays a scalar. Under a condition that differs between
lanes, loads and stores are masked: a lane whose condition is false touches no memory. What cannot
be done so raises `CannotVectorize`, and the loop stays serial.
"""

from __future__ import annotations

from collections.abc import Callable

from ...expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mul,
    Or,
    Ramp,
    Select,
    Sub,
    Var,
    binary,
    broadcast_to,
    cast,
    conjunction,
    const,
    free_vars,
    has_load,
    match_lanes,
)
from ...expr.dot_ops import WORD
from ...expr.effects import CHECK_INDEX
from ...expr.ops import find_op
from ...tir import (
    SERIAL,
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
    under_names,
)
from ..analysis import lanes
from ..analysis.conditions import may_divide_by_zero, may_trap, negate
from ..common import IF_THEN_ELSE, LIKELY, branch, conjuncts, loaded_buffers, rebuild, unlikely_free
from .words import loaded_word, word_load

_ARITHMETIC: dict[type[Expr], Callable[[Expr, Expr], Expr]] = {
    Add: lanes.add,
    Sub: lanes.subtract,
    Mul: lanes.multiply,
    FloorDiv: lanes.floor_divide,
    FloorMod: lanes.floor_remainder,
}


class CannotVectorize(Exception):
    """A construct in the loop has no vector form; the message says which."""


class Vectorizer:
    """Rewrites a statement for all lanes of `var` at once.

    `mask` is the condition of the code at hand where lanes differ in it; `any_lane` says that the
    code runs only where some lane's condition holds, so that scalar loads are safe.
    """

    def __init__(self, var: Var, ramp: Ramp) -> None:
        self.lanes = ramp.lanes
        self.index = ramp
        self.values: dict[Var, Expr] = {var: ramp}
        self.widened: dict[Buffer, Buffer] = {}
        self.widened_data: set[Var] = set()
        self.mask: Expr | None = None
        self.any_lane = True
        self.done: dict[Expr, Expr] = {}

    # ------------------------------------------------------------------ statements

    def visit(self, stmt: Stmt) -> Stmt:
        """The statement for all lanes."""
        method: Callable[[Stmt], Stmt] | None = getattr(self, f"visit_{type(stmt).__name__}", None)
        if method is None:
            raise CannotVectorize(type(stmt).__name__)
        return method(stmt)

    def scalar(self, expr: Expr) -> Expr:
        """An expression that has to be the same for all lanes."""
        result = self.expr(expr)
        if result is not expr and result.dtype.lanes != expr.dtype.lanes:
            raise CannotVectorize(f"{expr} differs between lanes")
        return result

    def visit_SeqStmt(self, stmt: SeqStmt) -> Stmt:
        return seq(*(self.visit(part) for part in stmt.seq))

    def visit_For(self, stmt: For) -> Stmt:
        if stmt.thread_binding is not None:
            raise CannotVectorize("a thread loop")
        low, extent = self.scalar(stmt.min), self.scalar(stmt.extent)
        return stmt.replace(
            min=low,
            extent=extent,
            kind=SERIAL if stmt.kind == "parallel" else stmt.kind,
            body=self.visit(stmt.body),
        )

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        value = self.expr(stmt.value)
        var = self._bind(stmt.var, value)
        return stmt.replace(var=var, value=value, body=self.visit(stmt.body))

    def _bind(self, var: Var, value: Expr) -> Var:
        if value.dtype is var.dtype:
            return var
        wide = Var(var.name, value.dtype)
        self.values[var] = wide
        self.done = {}
        return wide

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        return stmt.replace(value=self.scalar(stmt.value), body=self.visit(stmt.body))

    def visit_AssertStmt(self, stmt: AssertStmt) -> Stmt:
        if self.mask is not None:
            raise CannotVectorize("an assertion under a mask")
        return stmt.replace(condition=self.scalar(stmt.condition), body=self.visit(stmt.body))

    def visit_Evaluate(self, stmt: Evaluate) -> Stmt:
        if isinstance(stmt.value, IntImm):
            return stmt
        if isinstance(stmt.value, Call) and stmt.value.op == CHECK_INDEX:
            return stmt.replace(value=self._check_index(stmt.value))
        raise CannotVectorize(f"the effect of {stmt.value}")

    def _check_index(self, call: Call) -> Call:
        """A check of the indices of all lanes in which the code around it is wanted."""
        if len(call.args) > 3:
            raise CannotVectorize(f"{call} checks a vector already")
        index, extent, message = self.expr(call.args[0]), self.expr(call.args[1]), call.args[2]
        if self.mask is None and index.dtype.lanes == extent.dtype.lanes == 1:
            return Call(call.dtype, call.op, (index, extent, message))
        args = (broadcast_to(index, self.lanes), broadcast_to(extent, self.lanes), message)
        return Call(call.dtype, call.op, args if self.mask is None else (*args, self.mask))

    def visit_AllocateConst(self, stmt: AllocateConst) -> Stmt:
        return stmt.replace(body=self.visit(stmt.body))

    def visit_Allocate(self, stmt: Allocate) -> Stmt:
        """Every lane has memory of its own: element i of lane l is element i * lanes + l."""
        if stmt.dtype.lanes > 1 or len(stmt.extents) != 1:
            raise CannotVectorize("an allocation of vectors")
        extent = self.scalar(stmt.extents[0]) * const(self.lanes, stmt.extents[0].dtype)
        self.widened_data.add(stmt.buffer_var)
        condition = self.scalar(stmt.condition)
        body = self.visit(stmt.body)
        return stmt.replace(extents=(extent,), condition=condition, body=body)

    def visit_DeclBuffer(self, stmt: DeclBuffer) -> Stmt:
        return stmt.replace(buffer=self.buffer(stmt.buffer), body=self.visit(stmt.body))

    def buffer(self, buffer: Buffer) -> Buffer:
        """The buffer, wider if every lane has its own."""
        if buffer.data not in self.widened_data:
            return buffer
        wide = self.widened.get(buffer)
        if wide is None:
            extent = buffer.shape[0] * const(self.lanes, buffer.shape[0].dtype)
            wide = self.widened[buffer] = buffer.replace(shape=(extent,))
        return wide

    def element(self, buffer: Buffer, index: Expr) -> Expr:
        """The index of an access, into the lane's own part where it has one."""
        if buffer.data not in self.widened_data:
            return index
        kind = index.dtype.element
        own = Ramp(const(0, kind), const(1, kind), self.lanes)
        return lanes.add(lanes.multiply(index, const(self.lanes, kind)), own)

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        if len(stmt.indices) != 1 or stmt.predicate is not None or stmt.buffer.dtype.lanes > 1:
            raise CannotVectorize("a store of vectors")
        index = self.element(stmt.buffer, self.expr(stmt.indices[0]))
        value, buffer = self.expr(stmt.value), self.buffer(stmt.buffer)
        if index.dtype.lanes == 1:
            if value.dtype.lanes > 1 or self.mask is not None:
                raise CannotVectorize(f"all lanes store into {stmt.buffer.name}[{index}]")
            if stmt.buffer in loaded_buffers(stmt.value):
                raise CannotVectorize(f"accumulation into {stmt.buffer.name}[{index}]")
            return stmt.replace(buffer=buffer, value=value, indices=(index,))
        value = broadcast_to(value, self.lanes)
        return stmt.replace(buffer=buffer, value=value, indices=(index,), predicate=self.mask)

    def visit_While(self, stmt: While) -> Stmt:
        raise CannotVectorize("a while loop")

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        condition = self.expr(stmt.condition)
        if condition.dtype.lanes == 1:
            no = None if stmt.else_case is None else self.visit(stmt.else_case)
            return branch(condition, self.visit(stmt.then_case), no) or seq()
        parts, names = self._conditions(stmt.condition)
        body = self._under(parts, stmt.then_case)
        if stmt.else_case is not None:
            body = seq(body, self._under([negate(_together(parts))], stmt.else_case))
        return under_names(names, body)

    def _conditions(self, condition: Expr) -> tuple[list[Expr], list[tuple[Var, Expr]]]:
        """The conjuncts in vector form; each is evaluated only where those before it hold.

        A mask that reads memory gets a name, as the code under it may write there.
        """
        parts: list[Expr] = []
        names: list[tuple[Var, Expr]] = []
        outer = self.mask, self.any_lane
        for part in conjuncts(condition):
            value = self.expr(unlikely_free(part))
            if has_load(value):
                name = Var("mask", value.dtype)
                names.append((name, value))
                value = name
            parts.append(value)
            if value.dtype.lanes > 1:
                self._narrow(value, False)
        self._restore(outer)
        return parts, names

    def _under(self, conditions: list[Expr], stmt: Stmt) -> Stmt:
        """A statement for the lanes in which the conditions hold."""
        scalars = [part for part in conditions if part.dtype.lanes == 1]
        vectors = [part for part in conditions if part.dtype.lanes > 1]
        some = any_lane(vectors[0]) if len(vectors) == 1 and self.mask is None else None
        if some is not None:
            scalars.append(some)
        outer = self.mask, self.any_lane
        for part in vectors:
            self._narrow(part, some is not None)
        body = self.visit(stmt)
        self._restore(outer)
        return branch(conjunction(scalars), body) or seq()

    def _narrow(self, condition: Expr, any_lane: bool) -> None:
        condition = broadcast_to(condition, self.lanes)
        self.mask = condition if self.mask is None else And(self.mask, condition)
        self.any_lane = any_lane
        self.done = {}

    def _restore(self, outer: tuple[Expr | None, bool]) -> None:
        self.mask, self.any_lane = outer
        self.done = {}

    def masked(self, condition: Expr, expr: Expr) -> Expr:
        """An expression evaluated only for the lanes in which a condition holds."""
        outer, memo = (self.mask, self.any_lane), self.done
        self._narrow(condition, False)
        result = self.expr(expr)
        self._restore(outer)
        self.done = memo
        return result

    # ------------------------------------------------------------------ expressions

    def expr(self, expr: Expr) -> Expr:
        """The expression for all lanes: a scalar where they agree, else a vector."""
        if isinstance(expr, Var):
            return self.values.get(expr, expr)
        if expr.dtype.lanes > 1:
            raise CannotVectorize(f"{expr} is a vector already")
        known = self.done.get(expr)
        if known is None:
            known = self.done[expr] = self._expr(expr) if self._concerns(expr) else expr
        return known

    def _concerns(self, expr: Expr) -> bool:
        if not free_vars(expr).isdisjoint(self.values):
            return True
        if self.mask is not None and not self.any_lane and may_trap(expr):
            return True
        if not self.widened_data or not has_load(expr):
            return False
        return any(buffer.data in self.widened_data for buffer in loaded_buffers(expr))

    def _expr(self, expr: Expr) -> Expr:
        match expr:
            case BufferLoad():
                return self._load(expr)
            case And(a, b):
                return self._short_circuit(And, a, b)
            case Or(a, b):
                return self._short_circuit(Or, a, b)
            case BinaryOp():
                return self._binary(expr)
            case Cast(value=value):
                return self._cast(expr, self.expr(value))
            case Let(var, value, body):
                new = self.expr(value)
                wide = self._bind(var, new)
                return Let(wide, new, self.expr(body))
            case Call():
                return self._call(expr)
            case _:
                return rebuild(expr, tuple([self.expr(child) for child in expr.children]))

    def _binary(self, expr: BinaryOp) -> Expr:
        a, b = self.expr(expr.a), self.expr(expr.b)
        if self.mask is not None and may_divide_by_zero(expr):
            b = _divisor_of_all_lanes(expr, b)
        rule = _ARITHMETIC.get(type(expr))
        if rule is not None and a.dtype.element.is_int:
            return rule(a, b)
        if a.dtype.lanes == b.dtype.lanes == 1:
            return rebuild(expr, (a, b))
        return type(expr)(*match_lanes(a, b))

    def _cast(self, expr: Cast, value: Expr) -> Expr:
        return (
            cast(expr.dtype, value) if value.dtype.lanes == 1 else lanes.convert(value, expr.dtype)
        )

    def _short_circuit(self, op: type[And] | type[Or], a: Expr, b: Expr) -> Expr:
        first = self.expr(a)
        if first.dtype.lanes == 1:
            second = self.expr(b)
            if second.dtype.lanes > 1 and has_load(b):
                raise CannotVectorize(f"{b} is guarded by a scalar condition")
        else:
            second = self.masked(first if op is And else negate(first), b)
        if first.dtype.lanes == second.dtype.lanes == 1:
            return binary(op, first, second)
        return op(*match_lanes(first, second))

    def _load(self, expr: BufferLoad) -> Expr:
        if len(expr.indices) != 1 or expr.predicate is not None:
            raise CannotVectorize("a load of vectors")
        index = self.element(expr.buffer, self.expr(expr.indices[0]))
        buffer = self.buffer(expr.buffer)
        if index.dtype.lanes == 1:
            if self.mask is None or self.any_lane or _in_bounds(buffer, index):
                return BufferLoad(buffer, (index,))
            index = Broadcast(index, self.lanes)
        return BufferLoad(buffer, (index,), self.mask)

    def _call(self, expr: Call) -> Expr:
        if expr.op == IF_THEN_ELSE:
            return self._choose(*expr.args)
        if expr.op == WORD and (first := loaded_word(expr)) is not None:
            parts, index = len(expr.args), self.element(first.buffer, self.expr(first.indices[0]))
            if isinstance(index, Ramp) and index.stride is const(parts, index.base.dtype):
                return word_load(first.buffer, index.base, parts, self.lanes, self.mask)
        args = [self.expr(arg) for arg in expr.args]
        if expr.op == LIKELY:
            return args[0] if args[0].dtype.lanes > 1 else rebuild(expr, tuple(args))
        if all(arg.dtype.lanes == 1 for arg in args):
            return expr.with_children(args)
        op = find_op(expr.op)
        if op is None or not (op.pure and op.elementwise):
            raise CannotVectorize(f"a call of {expr.op}")
        wide = [broadcast_to(arg, self.lanes) for arg in args]
        return Call(expr.dtype.with_lanes(self.lanes), expr.op, wide)

    def _choose(self, condition: Expr, yes: Expr, no: Expr) -> Expr:
        test = self.expr(condition)
        if test.dtype.lanes == 1:
            a, b = match_lanes(self.expr(yes), self.expr(no))
            return Call(a.dtype, IF_THEN_ELSE, (test, a, b))
        a, b = self.masked(test, yes), self.masked(negate(test), no)
        return Select(test, broadcast_to(a, self.lanes), broadcast_to(b, self.lanes))


def _divisor_of_all_lanes(expr: BinaryOp, divisor: Expr) -> Expr:
    """What lanes divide by that are masked, too: if that is zero, none of the others divides."""
    if divisor.dtype.lanes > 1 or has_load(expr):
        raise CannotVectorize(f"{expr} under a mask")
    return Select(EQ(divisor, const(0, divisor.dtype)), const(1, divisor.dtype), divisor)


def _together(parts: list[Expr]) -> Expr:
    result = parts[0]
    for part in parts[1:]:
        result = And(*match_lanes(result, part))
    return result


def any_lane(condition: Expr) -> Expr | None:
    """A scalar condition that says whether some lane's holds, for a ramp against a scalar."""
    if not isinstance(condition, LT | LE | GT | GE):
        return None
    a, b = lanes.base_and_stride(condition.a), lanes.base_and_stride(condition.b)
    if a is None or b is None:
        return None
    steps = a[1], b[1]
    if not isinstance(steps[0], IntImm) or not isinstance(steps[1], IntImm):
        return None
    # Lanes move a - b by a constant: the extreme lane is the first or the last one.
    step = steps[0].value - steps[1].value
    falling = isinstance(condition, LT | LE)
    lane = 0 if (step >= 0) == falling else condition.dtype.lanes - 1
    ends = [
        binary(Add, base, const(stride.value * lane, base.dtype))
        for base, stride in ((a[0], steps[0]), (b[0], steps[1]))
    ]
    return binary(type(condition), *ends)


def _in_bounds(buffer: Buffer, index: Expr) -> bool:
    extent = buffer.shape[0]
    if not isinstance(index, IntImm) or not isinstance(extent, IntImm):
        return False
    return 0 <= index.value < extent.value
