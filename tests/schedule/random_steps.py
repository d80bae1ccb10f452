"""Random steps on small programs: whatever is accepted must not change a result."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from schedule.random_intrinsics import intrinsic_of
from tileloom import Schedule, ScheduleError
from tileloom import compute as te
from tileloom.compute.math import call
from tileloom.schedule.analysis.additions import addition_of
from tileloom.tir import PrimFunc


def matmul() -> PrimFunc:
    a, b = te.placeholder((6, 5), name="A"), te.placeholder((5, 8), name="B")
    k = te.reduce_axis((0, 5), "k")
    c = te.compute((6, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((6, 8), lambda i, j: te.if_then_else(c[i, j] > 1.0, c[i, j], 0.5), name="D")
    return te.create_prim_func([a, b, d])


def convolution() -> PrimFunc:
    x, w = te.placeholder((3, 7, 6), name="X"), te.placeholder((4, 3, 3, 3), name="W")
    pad = te.compute(
        (3, 9, 8),
        lambda c, i, j: te.if_then_else(
            (i >= 1) & (i < 8) & (j >= 1) & (j < 7), x[c, i - 1, j - 1], 0.0
        ),
        name="P",
    )
    c, p, q = (te.reduce_axis((0, 3), name) for name in ("c", "p", "q"))
    y = te.compute(
        (4, 7, 6),
        lambda o, i, j: te.sum(pad[c, i + p, j + q] * w[o, c, p, q], axis=[c, p, q]),
        name="Y",
    )
    return te.create_prim_func([x, w, y])


def softmax() -> PrimFunc:
    x = te.placeholder((5, 8), name="X")
    k, m = te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 8), "m")
    top = te.compute((5,), lambda i: te.max(x[i, k], axis=k), name="T")
    e = te.compute((5, 8), lambda i, j: call("exp", x[i, j] - top[i]), name="E")
    s = te.compute((5,), lambda i: te.sum(e[i, m], axis=m), name="S")
    y = te.compute((5, 8), lambda i, j: e[i, j] / s[i], name="Y")
    return te.create_prim_func([x, y])


def layer_norm() -> PrimFunc:
    x, w = te.placeholder((4, 6), name="X"), te.placeholder((6,), name="W")
    k, m = te.reduce_axis((0, 6), "k"), te.reduce_axis((0, 6), "m")
    s = te.compute((4,), lambda i: te.sum(x[i, k], axis=k), name="S")
    d = te.compute((4, 6), lambda i, j: x[i, j] - s[i] / 6.0, name="D")
    v = te.compute((4,), lambda i: te.sum(d[i, m] * d[i, m], axis=m), name="V")
    y = te.compute((4, 6), lambda i, j: d[i, j] / call("sqrt", v[i] / 6.0 + 1e-5) * w[j], name="Y")
    return te.create_prim_func([x, w, y])


def transposed() -> PrimFunc:
    x = te.placeholder((4, 6, 2), name="X")
    t = te.compute((2, 6, 4), lambda i, j, k: x[k, j, i] * 2.0, name="T")
    y = te.compute((12, 4), lambda i, j: t[i // 6, i % 6, j] + 1.0, name="Y")
    return te.create_prim_func([x, y])


def gathered() -> PrimFunc:
    x, at = te.placeholder((9, 4), name="X"), te.placeholder((6,), "int32", "I")
    g = te.compute((6, 4), lambda i, j: x[at[i], j], name="G")
    y = te.compute((6, 4), lambda i, j: g[i, j] * 3.0, name="Y")
    return te.create_prim_func([x, at, y])


PROGRAMS: list[Callable[[], PrimFunc]] = [
    matmul, convolution, softmax, layer_norm, transposed, gathered,
]  # fmt: skip


class Walker:
    """Tries random steps on a schedule; counts what was accepted and what refused."""

    def __init__(self, sch: Schedule, seed: int) -> None:
        self.sch = sch
        self.rng = random.Random(seed)
        self.accepted: list[str] = []
        self.refused: list[str] = []

    def block(self) -> Any:
        """Any block but the root; those inside other blocks now and then."""
        block = self.rng.choice(self.sch.get_child_blocks(self.sch.get_block("root")))
        while self.rng.random() < 0.3:
            inside = self.sch.get_child_blocks(block)
            if not inside:
                break
            block = self.rng.choice(inside)
        return block

    def loop(self) -> Any:
        """Any loop around some block."""
        return self.rng.choice(self.loops())

    def loops(self) -> list[Any]:
        """The loops around some block; a block without loops is passed over as a refusal is."""
        found = self.sch.get_loops(self.block())
        if not found:
            raise IndexError("no loops")
        return list(found)

    def step(self) -> None:
        """One random step."""
        name = self.rng.choice(_DRAWN)
        try:
            _STEPS[name](self)
        except (ScheduleError, IndexError):
            self.refused.append(name)
        else:
            self.accepted.append(name)

    # ------------------------------------------------------------------ steps

    def split(self) -> None:
        factor = self.rng.choice([1, 2, 3, 4, 5])
        factors = self.rng.choice([[None, factor], [factor, None], [None, 2, factor]])
        self.sch.split(self.loop(), factors, self.rng.random() < 0.5)

    def fuse(self) -> None:
        loops = self.loops()
        start = self.rng.randrange(len(loops))
        self.sch.fuse(*loops[start : start + self.rng.choice([2, 3])])

    def reorder(self) -> None:
        loops = self.loops()
        self.sch.reorder(*self.rng.sample(loops, self.rng.randint(1, len(loops))))

    def compute_at(self) -> None:
        self.sch.compute_at(self.block(), self.loop(), self.rng.random() < 0.5)

    def reverse_compute_at(self) -> None:
        self.sch.reverse_compute_at(self.block(), self.loop(), self.rng.random() < 0.5)

    def compute_inline(self) -> None:
        self.sch.compute_inline(self.block())

    def reverse_compute_inline(self) -> None:
        self.sch.reverse_compute_inline(self.block())

    def cache_read(self) -> None:
        self.sch.cache_read(self.block(), self.rng.choice([0, 0, 1]), self.scope())

    def cache_write(self) -> None:
        self.sch.cache_write(self.block(), 0, self.scope())

    def scope(self) -> str:
        """Where a cache lives."""
        return self.rng.choice(["global", "local"])

    def reduction(self) -> Any:
        """A block with an init, if one of a few has one."""
        for _ in range(5):
            block = self.block()
            if self.sch.get(block).init is not None:
                break
        return block

    def decompose(self) -> None:
        block = self.reduction()
        self.sch.decompose_reduction(block, self.rng.choice(self.sch.get_loops(block)))

    def rfactor(self) -> None:
        loops = self.sch.get_loops(self.reduction())
        self.sch.rfactor(self.rng.choice(loops + loops[-2:]), self.rng.choice([0, 0, 1, -1]))

    def mark(self) -> None:
        method = self.rng.choice(["parallel", "vectorize", "unroll", "add_unit_loop"])
        getattr(self.sch, method)(self.loop())

    def merge(self) -> None:
        self.sch.merge(self.loop(), self.loop())

    def layout(self) -> None:
        block = self.block()
        stmt = self.sch.get(block)
        side, regions = self.rng.choice([("write", stmt.writes), ("read", stmt.reads)])
        if not regions:
            raise IndexError("no buffers")
        number = self.rng.randrange(len(regions))
        pad = self.rng.choice([None, 0.0, 0.0])
        index_map = self.index_map(regions[number].buffer.ndim)
        self.sch.transform_layout(block, (side, number), index_map, pad_value=pad)

    def block_layout(self) -> None:
        block = self.block()
        index_map = self.index_map(len(self.sch.get(block).iter_vars))
        self.sch.transform_block_layout(block, index_map)

    def index_map(self, rank: int) -> Callable[..., Any]:
        """Axes in another order, one split in two, or two made one."""
        if rank == 0:
            raise IndexError("no axes")
        axis, factor = self.rng.randrange(rank), self.rng.choice([2, 2, 3, 4])
        order = self.rng.sample(range(rank), rank)
        other = min(axis + 1, rank - 1)
        size = self.rng.choice([2, 4, 5, 8])
        return self.rng.choice(
            [
                lambda *i: tuple(i[k] for k in order),
                lambda *i: (*i[:axis], i[axis] // factor, i[axis] % factor, *i[axis + 1 :]),
                lambda *i: (*i[:axis], *i[axis + 1 :], i[axis] // factor, i[axis] % factor),
                lambda *i: (*i[:axis], i[axis] * size + i[other], *i[other + 1 :]),
            ]
        )

    def reindex(self) -> None:
        self.sch.reindex(
            self.block(), (self.rng.choice(["read", "write"]), self.rng.choice([0, 1]))
        )

    def blockize(self) -> None:
        self.sch.blockize(self.loop())

    def note(self) -> None:
        self.sch.storage_align(self.block(), 0, 0, self.rng.choice([4, 8]), 1)

    def blockize_several(self) -> None:
        blocks = self.sch.get_child_blocks(self.loop())
        self.sch.blockize(self.rng.sample(blocks, self.rng.randint(1, len(blocks))))

    def partition(self) -> None:
        self.sch.loop_partition(self.loop(), [self.rng.choice([1, 2, 3]), None])

    def index(self) -> None:
        self.sch.cache_index(self.block(), self.scope(), self.rng.choice([0, 1]))

    def reindex_cache(self) -> None:
        maps = [lambda *i: tuple(reversed(i)), lambda *i: i, lambda *i: i[:-1]]
        read = self.rng.random() < 0.5
        method = self.sch.reindex_cache_read if read else self.sch.reindex_cache_write
        method(self.block(), 0, self.scope(), self.rng.choice(maps))

    def reverse_cache(self) -> None:
        read = self.rng.random() < 0.5
        method = self.sch.reverse_cache_read if read else self.sch.reverse_cache_write
        method(self.block(), self.rng.choice([0, 0, 1, 2]), self.scope())

    def lift(self) -> None:
        self.sch.lift_loop(self.loop())

    def atomic(self) -> None:
        """Additions, which are the same atomically; what is stored would be added from then on."""
        block = self.block()
        if addition_of(self.sch.state, self.sch.get(block)) is None:
            raise IndexError("no addition")
        self.sch.annotate(block, "atomic", True)

    def copy_at(self) -> None:
        loop, block = self.loop(), self.block()
        method = self.sch.read_at if self.rng.random() < 0.5 else self.sch.write_at
        method(loop, block, 0, "shared")

    def pad(self) -> None:
        block = self.block()
        axes = self.sch.get(block).iter_vars
        self.sch.pad_einsum(block, [self.rng.choice([1, 2, 4]) for _ in axes])

    def pad_loops(self) -> None:
        block = self.block()
        self.sch.decompose_padding(block, self.rng.choice(self.sch.get_loops(block)))

    def roll(self) -> None:
        self.sch.rolling_buffer(self.block(), 0)

    def axes(self) -> None:
        block = self.block()
        order = list(range(len(self.sch.get(block).iter_vars)))
        self.rng.shuffle(order)
        self.sch.reorder_block_iter_var(block, order)

    def place(self) -> None:
        self.sch.set_scope(self.block(), 0, self.scope())

    def inplace(self) -> None:
        self.sch.cache_inplace(self.block(), self.rng.choice([0, 0, 1]), self.scope())

    def online(self) -> None:
        self.sch.reduce_online(self.block(), self.block())

    def separate(self) -> None:
        self.sch.set_axis_separator(self.block(), ("write", 0), [1])

    def tensorize(self) -> None:
        """An intrinsic made of what a block is, in place of it."""
        block = self.block() if self.rng.random() < 0.5 else self.sch.blockize(self.loop())
        name = intrinsic_of(self.sch.get(block))
        self.sch.tensorize(block, name)

    def nested(self) -> None:
        """A tile, and a block around it."""
        loop = self.loop()
        outer, inner = self.sch.split(loop, [None, self.rng.choice([2, 3, 4])])
        self.sch.blockize(inner if self.rng.random() < 0.7 else outer)

    def chain(self) -> None:
        """Consumers after each other under a loop of what they read."""
        block = self.block()
        loop = self.rng.choice(self.sch.get_loops(block))
        for _ in range(self.rng.randint(1, 3)):
            consumers = self.sch.get_consumers(block)
            block = self.rng.choice(consumers)
            self.sch.reverse_compute_at(block, loop, self.rng.random() < 0.5)

    def pipeline(self) -> None:
        """The blocks of a loop in stages, the first one ahead of the others."""
        loop = self.loop()
        count = len(self.sch.get_child_blocks(loop))
        if count < 2:
            raise IndexError("no stages")
        self.sch.annotate(loop, "software_pipeline_stage", [0] + [1] * (count - 1))
        self.sch.annotate(loop, "software_pipeline_order", list(range(count)))


_STEPS: dict[str, Callable[[Walker], None]] = {
    name: getattr(Walker, name)
    for name in (
        "split", "fuse", "reorder", "compute_at", "reverse_compute_at", "compute_inline",
        "reverse_compute_inline", "cache_read", "cache_write", "decompose", "rfactor", "mark",
        "merge", "layout", "block_layout", "reindex", "blockize", "note", "blockize_several",
        "partition", "index", "reindex_cache", "copy_at", "pad", "pad_loops", "roll", "axes",
        "place", "inplace", "online", "separate", "tensorize", "nested", "chain", "pipeline",
        "reverse_cache", "lift", "atomic",
    )
}  # fmt: skip

#: Steps that need others to have made room for them are tried more often.
_DRAWN = sorted(_STEPS) + 2 * [
    "compute_at", "reverse_compute_at", "reverse_compute_inline", "rfactor", "merge", "decompose",
    "split", "fuse", "reorder", "roll", "cache_read", "cache_write",
    "nested", "chain", "layout", "block_layout", "reverse_cache",
]  # fmt: skip
