"""Random programs for lowering, each made by a source of choices."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from lower.programs import TRUE, axis, ceil_div, conjunction, function, nest, points
from tileloom.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    REDUCE,
    Add,
    And,
    Call,
    Expr,
    Max,
    Min,
    Mul,
    Or,
    Select,
    Sub,
    Var,
    binary,
    const,
    logical_not,
)
from tileloom.tir import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Stmt,
    While,
    make_buffer,
    seq,
)

KINDS = ("serial", "parallel", "vectorized", "unrolled")
SIZE = 13  # elements of the inputs


@dataclass
class Maker:
    """Builds one program out of random choices; every store has its own output element."""

    random: Random
    index_type: str = "int32"
    inputs: list[Buffer] = field(default_factory=list)
    outputs: list[Buffer] = field(default_factory=list)

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def function(self) -> PrimFunc:
        self.inputs = [make_buffer((SIZE,), "int32", "X"), make_buffer((3, 4), "int32", "Y")]
        body = self.block([], 4)
        return function(body, *self.inputs, *self.outputs, root=False)

    # ------------------------------------------------------------------ statements

    def block(self, loops: list[tuple[Var, int]], depth: int) -> Stmt:
        return seq(*(self.stmt(loops, depth) for _ in range(self.number(1, 2))))

    def stmt(self, loops: list[tuple[Var, int]], depth: int) -> Any:
        if depth == 0:
            return self.store(loops)
        kinds = ["for", "if", "let", "store", "local", "attr", "while", "sum"]
        kind = self.random.choices(kinds, [6, 4, 1, 1, 1, 1, 1, 1])[0]
        return getattr(self, f"make_{kind}")(loops, depth)

    def make_store(self, loops: list[tuple[Var, int]], depth: int) -> Stmt:
        return self.store(loops)

    def make_for(self, loops: list[tuple[Var, int]], depth: int) -> Stmt:
        var = Var(f"i{len(loops)}", self.index_type)
        extent, low = self.pick(0, 1, 2, 3, 4, 5, 7, 8), self.pick(0, 0, 0, 2, -3)
        body = self.block([*loops, (var, low + extent)], depth - 1)
        kind = self.pick(*KINDS)
        notes = {"pragma_auto_unroll_max_step": 6} if self.number(0, 9) == 0 else {}
        kind_type = self.index_type
        return For(
            var, const(low, kind_type), const(extent, kind_type), kind, body, annotations=notes
        )

    def make_if(self, loops: list[tuple[Var, int]], depth: int) -> Stmt:
        condition = self.condition(loops)
        if self.number(0, 1):
            condition = Call("bool", "tir.likely", (condition,))
        other = self.block(loops, depth - 1) if self.number(0, 1) else None
        return IfThenElse(condition, self.block(loops, depth - 1), other)

    def make_let(self, loops: list[tuple[Var, int]], depth: int) -> Stmt:
        var = Var("t")
        value = self.value(loops, 2)
        body = self.store(loops, var)
        return LetStmt(var, value, seq(body, self.block(loops, depth - 1)))

    def make_attr(self, loops: list[tuple[Var, int]], depth: int) -> Stmt:
        return AttrStmt(Var("n"), "note", const(1), self.block(loops, depth - 1))

    def make_local(self, loops: list[tuple[Var, int]], depth: int) -> Stmt:
        """Memory written by one loop and read by the next."""
        n, kind = self.number(1, 5), self.pick("serial", "vectorized", "unrolled")
        local = make_buffer((n, 2), "int32", "local", scope="local")
        i, j = Var("p"), Var("q")
        fill = seq(
            *(BufferStore(local, self.value([*loops, (i, n)], 2), (i, const(k))) for k in (0, 1))
        )
        use = BufferLoad(local, (j, const(self.number(0, 1))))
        body = seq(nest(fill, (i, n, kind)), nest(self.store([*loops, (j, n)], use), (j, n)))
        return _allocate(local, body)

    def make_sum(self, loops: list[tuple[Var, int]], depth: int) -> Stmt:
        """Accumulation into one place by a loop of any kind but parallel."""
        cell = make_buffer((1,), "int32", "sum", scope="local")
        k, n = Var("k"), self.number(0, 5)
        at = (const(0),)
        add = BufferStore(cell, BufferLoad(cell, at) + self.value([*loops, (k, n)], 2), at)
        loop = nest(add, (k, n, self.pick("serial", "vectorized", "unrolled")))
        use = self.store(loops, BufferLoad(cell, at))
        return _allocate(cell, seq(BufferStore(cell, const(1), at), loop, use))

    def make_while(self, loops: list[tuple[Var, int]], depth: int) -> Stmt:
        cell = make_buffer((1,), "int32", "count", scope="local")
        at = (const(0),)
        now = BufferLoad(cell, at)
        loop = While(now < self.number(0, 3), BufferStore(cell, now + 1, at))
        use = self.store(loops, now)
        return _allocate(cell, seq(BufferStore(cell, const(0), at), loop, use))

    def store(self, loops: list[tuple[Var, int]], extra: Expr | None = None) -> Stmt:
        """A store into a new output, one element for each iteration of the loops around."""
        order: Any = self.random.sample(loops, len(loops))
        shape = [max(end, 1) + 3 for _, end in order] or [1]
        buffer = make_buffer(shape, "int32", f"O{len(self.outputs)}")
        self.outputs.append(buffer)
        value = self.value(loops, 3)
        if extra is not None:
            value = binary(Add, value, extra)
        offset: Any = const(3, self.index_type)
        return BufferStore(buffer, value, tuple(var + offset for var, _ in order) or (const(0),))

    # ------------------------------------------------------------------ expressions

    def index(self, loops: list[tuple[Var, int]]) -> Expr:
        """A sum of loop variables, of the index type."""
        total: Expr = const(self.number(-4, 9), self.index_type)
        for var, _ in loops:
            total = total + var * const(self.pick(0, 1, 1, 2, 4, 7, -1), self.index_type)
        kind = self.pick("plain", "plain", "div", "mod", "divmod")
        if "div" in kind:
            total = total // const(self.pick(1, 2, 4, 5), self.index_type)
        if "mod" in kind:
            total = total % const(self.pick(1, 2, 4, 5), self.index_type)
        return total

    def load(self, loops: list[tuple[Var, int]]) -> Expr:
        kind, at = self.number(0, 2), self.index(loops)
        if kind == 0:
            return BufferLoad(self.inputs[0], (at % const(SIZE, self.index_type),))
        if kind == 1:
            other = self.index(loops)
            return BufferLoad(
                self.inputs[1],
                (at % const(3, self.index_type), other % const(4, self.index_type)),
            )
        # Only in bounds under its condition, as padding is.
        inside = binary(And, at >= const(0, at.dtype), at < const(SIZE, at.dtype))
        value = BufferLoad(self.inputs[0], (at,))
        return Call("int32", "tir.if_then_else", (inside, value, const(self.number(-2, 2))))

    def value(self, loops: list[tuple[Var, int]], depth: int) -> Expr:
        if depth == 0:
            which = self.number(0, 2)
            if which == 0 or not loops:
                return const(self.number(-3, 3))
            return self.load(loops) if which == 1 else self.index(loops).astype("int32")
        which = self.number(0, 4)
        if which == 0:
            return self.load(loops)
        a, b = self.value(loops, depth - 1), self.value(loops, depth - 1)
        if which == 1:
            return Select(self.condition(loops), a, b)
        if which == 2:
            return Call("int32", "tir.if_then_else", (self.condition(loops), a, b))
        return binary(self.pick(Add, Sub, Min, Max, Mul) if depth < 3 else Add, a, b)

    def condition(self, loops: list[tuple[Var, int]]) -> Expr:
        op = self.pick(EQ, NE, LT, LE, GT, GE)
        which = self.number(0, 6)
        if which == 0:
            return binary(op, self.load(loops), const(self.number(-50, 50)))
        if which == 6:
            return self.guarded(loops, op)
        if which == 1:
            return binary(self.pick(And, Or), self.condition(loops), self.condition(loops))
        if which == 2:
            return logical_not(self.condition(loops))
        return binary(op, self.index(loops), self.index(loops))

    def guarded(self, loops: list[tuple[Var, int]], op: Any) -> Expr:
        """A comparison with an element that is there only where what comes before it holds."""
        at = self.index(loops)
        inside = binary(And, at >= const(0, at.dtype), at < const(SIZE, at.dtype))
        taken = binary(op, BufferLoad(self.inputs[0], (at,)), const(self.number(-50, 50)))
        later = binary(And, taken, self.condition(loops))
        return binary(And, inside, self.pick(taken, later))


def _allocate(buffer: Buffer, body: Stmt) -> Stmt:
    return Allocate(buffer.data, buffer.dtype, buffer.shape, TRUE, DeclBuffer(buffer, body))


def loop_program(random: Random) -> PrimFunc:
    """A program at the loops stage."""
    return Maker(random, random.choice(["int32", "int32", "int64"])).function()


def stencil_program(random: Random) -> PrimFunc:
    """C[i, j] = sum of B over a window, B computed for each tile of C, all tiles imperfect."""

    def pick(*choices: Any) -> Any:
        return random.choice(choices)

    n, m, r = random.randint(1, 11), random.randint(1, 11), random.randint(1, 3)
    ti, tj = pick(1, 2, 3, 4, 8), pick(1, 2, 4, 5)
    A = make_buffer((n + r - 1, m), "int32", "A")
    B = make_buffer((n + r - 1, m), "int32", "B")
    C = make_buffer((n, m), "int32", "C")
    io, jo = Var("io"), Var("jo")

    v0, v1, x0, x1 = axis(n + r - 1, "v0"), axis(m, "v1"), Var("x0"), Var("x1")
    at = (v0.var, v1.var)
    block = Block(
        (v0, v1), points((A, at)), points((B, at)), "make", BufferStore(B, A[at] * 2 + v0.var, at)
    )
    places: tuple[Any, ...] = (io * ti + x0, jo * tj + x1)
    guard = conjunction(places[0] < n + r - 1, places[1] < m)
    make = nest(
        BlockRealize(places, guard, block),
        (x0, ti + r - 1, pick("serial", "unrolled")),
        (x1, tj, pick("serial", "vectorized")),
    )

    vi, vj, vk = axis(n, "vi"), axis(m, "vj"), axis(r, "vk", REDUCE)
    at = (vi.var, vj.var)
    block = Block(
        (vi, vj, vk),
        points((B, (vi.var + vk.var, vj.var))),
        points((C, at)),
        "sum",
        BufferStore(C, C[at] + B[vi.var + vk.var, vj.var], at),
        BufferStore(C, const(5), at),
    )
    ii, jj, k = Var("ii"), Var("jj"), Var("k")
    places = (io * ti + ii, jo * tj + jj, k)
    guard = conjunction(places[0] < n, places[1] < m)
    loops = random.sample([(ii, ti, "serial"), (jj, tj, "vectorized"), (k, r, "serial")], 3)
    total = nest(BlockRealize(places, guard, block), *loops)
    body = nest(
        seq(make, total),
        (io, ceil_div(n, ti), pick("serial", "parallel")),
        (jo, ceil_div(m, tj), pick("serial", "parallel", "unrolled")),
    )
    return function(body, A, C, alloc=(B,))
