"""Software pipelines drawn at random: what runs when, and how many versions are kept, by counting.

A pipeline runs statement `s` of iteration `k` at the time `k + stage of s`, and of one time in
their order. From this alone follows which annotations are right, and how many versions of a buffer
are alive at once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import UserError
from tileloom.expr import Call, Var, const, evaluate
from tileloom.lower.blocks.inject_software_pipeline import (
    _versioned,
    _Versions,
    inject_software_pipeline,
)
from tileloom.script import from_source, show
from tileloom.tir import (
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    collect,
    make_buffer,
    run,
)

#: Iterations of a loop that is long enough for every pipeline here to fill.
LONG = 12


@dataclass(frozen=True)
class Drawn:
    """Statement `j` makes buffer `j` of some of those before it; the last one makes the result.

    Attributes:
        reads: for each statement the buffers that it reads; none: the input.
    """

    reads: tuple[tuple[int, ...], ...]
    stages: tuple[int, ...]
    orders: tuple[int, ...]
    low: int
    size: int

    @property
    def last(self) -> int:
        return len(self.reads) - 1

    def text(self, extent: str, notes: str) -> str:
        lines = [
            f"for k in T.serial({self.low}, {self.low} + {extent}{notes}):",
            '    with T.block("body"):',
            "        T.reads()",
            "        T.writes()",
        ]
        lines += [f"        S{j} = T.alloc_buffer(({self.size},))" for j in range(self.last)]
        for j, read in enumerate(self.reads):
            terms = [f"S{r}[i]" for r in read] or ["A[k * 2 + i]"]
            target = f"S{j}[i]" if j < self.last else "B[k * 2 + i]"
            lines += [
                f"        for i in range({self.size}):",
                f"            {target} = {' + '.join(terms)} * {j + 2}.0",
            ]
        body = "\n".join("    " + line for line in lines)
        return f"""
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32):
{body}
"""

    # ------------------------------------------------------------------ what must come of it

    def moment(self, statement: int, iteration: int) -> tuple[int, int]:
        return iteration + self.stages[statement], self.orders[statement]

    def is_right(self) -> bool:
        """Whether every buffer is made before it is read."""
        return all(
            self.moment(j, 0) < self.moment(b, 0) for b, read in enumerate(self.reads) for j in read
        )

    def versions(self, buffer: int) -> int:
        """How many iterations' values of a buffer are in use at once."""
        users = [b for b, read in enumerate(self.reads) if buffer in read] + [buffer]
        spans = [
            (self.moment(buffer, k), max(self.moment(user, k) for user in users))
            for k in range(LONG)
        ]
        return max(sum(first <= at <= last for first, last in spans) for at, _ in spans)


def drawn(seed: int) -> Drawn:
    chance = random.Random(seed)
    count = chance.choice([2, 3, 3, 4])
    reads = [()] + [
        tuple(sorted(chance.sample(range(j), chance.randint(1, min(j, 2)))))
        for j in range(1, count)
    ]
    read = {r for some in reads for r in some}
    reads[-1] = tuple(sorted({*reads[-1], *(set(range(count - 1)) - read)}))  # all are read
    stages = sorted(chance.choices(range(4), k=count))
    if chance.random() < 0.2:
        chance.shuffle(stages)
    low = chance.choice([0, 0, 3])
    orders = chance.sample(range(count), count)
    return Drawn(tuple(reads), tuple(stages), tuple(orders), low, chance.choice([1, 2]))


def parsed(text: str) -> PrimFunc:
    func = from_source(text)
    assert isinstance(func, PrimFunc)
    return func


def result(func: PrimFunc, n: int) -> np.ndarray[Any, Any]:
    a, b = np.arange(1, 65, dtype="float32"), np.zeros(64, "float32")
    run(func, a, b, n)
    return b


@pytest.mark.parametrize("seed", range(40))
def test_pipelines(seed: int) -> None:
    case = drawn(seed)
    notes = (
        f', annotations={{"software_pipeline_stage": {list(case.stages)}, '
        f'"software_pipeline_order": {list(case.orders)}}}'
    )
    if not case.is_right():
        with pytest.raises(UserError, match="would overtake statement"):
            inject_software_pipeline(parsed(case.text("5", notes)))
        return
    depth = max(case.stages) - min(case.stages)
    for extent, sizes in (("n", (0, 1, 2, 3, 7)), (str(depth), (0,)), (str(depth + 2), (0,))):
        plain = parsed(case.text(extent, ""))
        made = inject_software_pipeline(parsed(case.text(extent, notes)))
        assert "software_pipeline" not in show(made)
        for n in sizes:
            np.testing.assert_array_equal(result(made, n), result(plain, n))
        (block,) = (b for b in collect(made.body, Block) if b.name_hint == "pipeline")
        for j, buffer in enumerate(block.alloc_buffers):
            kept = 1 if buffer.ndim == 1 else (buffer.static_shape or ())[0]
            assert kept == case.versions(j), (buffer, case)


# ---------------------------------------------------------------------------- what is waited for


@dataclass
class Queue:
    """Groups of asynchronous copies in the order of their commits, by the iterations they copy."""

    copies: str
    committed: list[int]
    allowed: int = 0  # groups that may be under way
    uses: int = 0
    is_exact: bool = True

    def follow(self, stmt: Stmt, env: dict[Var, int]) -> None:
        """Run a program, and hold each use of a copy against what has been waited for."""
        match stmt:
            case SeqStmt():
                for part in stmt.seq:
                    self.follow(part, env)
            case BlockRealize():
                self.follow(stmt.block.body, env)
            case IfThenElse():
                if evaluate(stmt.condition, env):
                    self.follow(stmt.then_case, env)
            case For():
                low, extent = (int(evaluate(e, env)) for e in (stmt.min, stmt.extent))
                for k in range(low, low + extent):
                    self.follow(stmt.body, {**env, stmt.loop_var: k})
            case AttrStmt():
                if stmt.attr_key == "async_wait_inflight_count":
                    self.allowed = int(evaluate(stmt.value, env))
                self.follow(stmt.body, env)
            case BufferStore():
                self.store(stmt, env)

    def store(self, stmt: BufferStore, env: dict[Var, int]) -> None:
        if stmt.buffer.name == self.copies:
            self.committed.append(len(self.committed))  # one iteration after another
        if stmt.buffer.name != "B":
            return
        iteration = int(evaluate(stmt.indices[0], env)) // 2 - 3
        done = len(self.committed) - self.allowed
        assert self.committed.index(iteration) < done
        self.is_exact &= self.committed.index(iteration) == done - 1
        self.uses += 1


@pytest.mark.parametrize("orders", [[0, 1], [1, 0]])
@pytest.mark.parametrize("distance", [1, 3])
@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("lead", [0, 1, 2])
def test_waits(distance: int, orders: list[int], first: int, lead: int) -> None:
    """A use waits for its own copy, and for no later one where the pipeline fills.

    `lead`: so many stages before the copy, there is a statement that makes what it copies.
    """
    copy, use = first + lead, first + lead + distance
    if lead:
        case = Drawn(((), (0,), (1,)), (first, copy, use), (0, *(k + 1 for k in orders)), 3, 1)
    else:
        case = Drawn(((), (0,)), (copy, use), tuple(orders), 3, 1)
    notes = (
        f', annotations={{"software_pipeline_stage": {list(case.stages)}, '
        f'"software_pipeline_order": {list(case.orders)}, '
        f'"software_pipeline_async_stages": [{copy}]}}'
    )
    for extent in (1, lead + distance, lead + distance + 4):
        queue = Queue(f"S{case.last - 1}", [])
        queue.follow(inject_software_pipeline(parsed(case.text(str(extent), notes))).body, {})
        assert queue.uses == len(queue.committed) == extent
        assert queue.is_exact or extent < lead + distance


@pytest.mark.parametrize("shape", [(8,), (4, 6), (2, 3, 5)])
def test_pointers_are_moved_to_their_version(shape: tuple[int, ...]) -> None:
    """By as many elements as a version has, for each before it; others stay where they are."""
    buffer, other = make_buffer(shape, "float16", "B"), make_buffer(shape, "float16", "C")
    table, slot = {buffer: _versioned(buffer, 3)}, Var("slot")
    assert table[buffer].static_shape == (3, *shape)
    size = int(np.prod(shape))
    for data, moved in ((buffer.data, True), (other.data, False)):
        fill = Evaluate(Call("handle", "tir.mma_fill", (const(4), data, const(5))))
        made = _Versions(table, {buffer: slot}).visit(fill)
        assert isinstance(made, Evaluate) and isinstance(made.value, Call)
        _, pointer, index = made.value.args
        assert pointer is data
        for number in range(3):
            assert evaluate(index, {slot: number}) == 5 + number * size * moved
