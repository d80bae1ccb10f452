"""Programs for random walks: graphs drawn at random, and some that no formula gives."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from schedule.common import parse
from schedule.random_steps import PROGRAMS
from tileloom import te
from tileloom.expr import const
from tileloom.tir import PrimFunc

#: Updates in place, reductions that start anywhere, several results at once, wide indices.
TEXTS = [
    """
@T.prim_func
def main(A: T.Buffer((6, 5), "float32"), B: T.Buffer((6, 5), "float32")):
    for i, j in T.grid(6, 5):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(6, 5):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1.0
""",
    """
@T.prim_func
def main(
    A: T.Buffer((4, 6), "float32"), B: T.Buffer((6, 3), "float32"), C: T.Buffer((4, 3), "float32")
):
    for i, j, k in T.grid(4, 3, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(4, 3):
        with T.block("R"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(C[vi, vj] - 3.0, T.float32(0))
""",
    """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((6, 3), "float32"),
         C: T.Buffer((4, 3), "float32")):
    for i, j, k in T.grid(4, 3, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""",
    """
@T.prim_func
def main(A: T.Buffer((5, 8), "float32"), B: T.Buffer((5,), "float32"),
         C: T.Buffer((5,), "float32"), D: T.Buffer((5, 8), "float32")):
    for i, k in T.grid(5, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = B[vi]
            C[vi] = C[vi] + A[vi, vk]
    M = T.alloc_buffer((5,))
    for i, k in T.grid(5, 8):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.float32(2)
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, j in T.grid(5, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj] * M[vi] - C[vi]
""",
    """
@T.prim_func
def main(A: T.Buffer((4, 10), "float32"), P: T.Buffer((4,), "int32"), M: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 10):
        with T.block("P"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                P[vi] = -1
                M[vi] = T.min_value("float32")
            keep: T.bool = M[vi] > A[vi, vk] or (M[vi] == A[vi, vk] and P[vi] < vk)
            place: T.int32 = T.Select(keep, P[vi], vk)
            most: T.float32 = T.Select(keep, M[vi], A[vi, vk])
            P[vi] = place
            M[vi] = most
""",
    """
@T.prim_func
def main(A: T.Buffer((T.int64(6), T.int64(8)), "float32"),
         C: T.Buffer((T.int64(6), T.int64(8)), "float32")):
    S = T.alloc_buffer((T.int64(6),))
    for i, k in T.grid(T.int64(6), T.int64(8)):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(1)
            S[vi] = S[vi] + A[vi, vk]
    for i, j in T.grid(T.int64(6), T.int64(8)):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] - S[vi]
""",
    """
@T.prim_func
def main(A: T.Buffer((4, 9), "float32"), C: T.Buffer((4,), "float32"),
         D: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 9):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
                D[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
            D[vi] = D[vi] + A[vi, vk] * A[vi, vk]
""",
    """
@T.prim_func
def main(A: T.Buffer((6, 3), "float32"), R: T.Buffer((6,), "int32"), Q: T.Buffer((6, 3), "int32"),
         B: T.Buffer((4, 5), "float32"), C: T.Buffer((4, 5), "float32")):
    for i, j, k in T.grid(6, 3, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SRS", [i, j, k])
            C[R[vi], vk] = C[R[vi], vk] + A[vi, vj] * B[Q[vi, vj], vk]
""",
    """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), P: T.Buffer((7,), "int32"), Q: T.Buffer((6,), "int32"),
         B: T.Buffer((4, 5), "float32"), C: T.Buffer((6, 5), "float32")):
    for i, k in T.grid(6, 5):
        with T.block("Z"):
            vi, vk = T.axis.remap("SS", [i, k])
            C[vi, vk] = T.float32(0)
    for i in range(6):
        with T.block("row"):
            vi = T.axis.spatial(6, i)
            for j, k in T.grid(P[vi + 1] - P[vi], 5):
                with T.block("sum"):
                    vj = T.axis.reduce(4, j)
                    vk = T.axis.spatial(5, k)
                    C[vi, vk] = C[vi, vk] + A[P[vi] + vj] * B[Q[P[vi] + vj], vk]
""",
]

Tensor = Any


class Graph:
    """A graph of formulas over small tensors, chains, diamonds and several results alike."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sizes = rng.sample([2, 3, 4, 5, 6, 8, 1, 7], 3)
        self.wide = rng.random() < 0.2
        self.made: list[Tensor] = []
        self.used: set[Tensor] = set()

    def func(self) -> PrimFunc:
        """The function of all tensors that no other one uses."""
        inputs = [
            te.placeholder(self.shape(), name=name) for name in "AB"[: self.rng.choice([1, 2])]
        ]
        self.made += inputs
        for k in range(self.rng.randint(2, 5)):
            a = self.pick()
            self.used.add(a)
            self.made.append(self.rng.choice(_FORMULAS)(self, a, f"T{k}"))
        results = [t for t in self.made if t not in self.used and t not in inputs]
        return te.create_prim_func([*inputs, *results])

    def shape(self) -> list[Any]:
        rank = self.rng.choice([1, 2, 2, 2, 3])
        return [self.size(self.rng.choice(self.sizes)) for _ in range(rank)]

    def size(self, number: int) -> Any:
        return const(number, "int64") if self.wide else number

    def pick(self) -> Tensor:
        """A tensor, rather one made lately."""
        return self.rng.choice(self.made + self.made[-2:])

    def numbers(self, a: Tensor) -> list[int]:
        return [int(size) for size in a.shape]

    def axis(self, size: int) -> Any:
        return te.reduce_axis((self.size(0), self.size(size)), "k")


def _unary(g: Graph, a: Tensor, name: str) -> Tensor:
    form: Any = g.rng.choice([lambda x: x * 2.0, lambda x: x + 1.0])
    return te.compute(a.shape, lambda *i: form(a(*i)), name=name)


def _binary(g: Graph, a: Tensor, name: str) -> Tensor:
    """With any other tensor, of which the indices wrap around."""
    b = g.pick()
    g.used.add(b)
    sizes = g.numbers(b)
    same = [int(x) for x in a.shape[-len(sizes) :]] == sizes

    def form(*i: Any) -> Any:
        tail = i[len(i) - len(sizes) :]
        if same and len(tail) == len(sizes):
            return a(*i) - b(*tail)
        return a(*i) - b(*(i[k % len(i)] % size for k, size in enumerate(sizes)))

    return te.compute(a.shape, form, name=name)


def _broadcast(g: Graph, a: Tensor, name: str) -> Tensor:
    size = g.rng.choice(g.sizes)
    if len(a.shape) > 2:
        return _unary(g, a, name)
    front = g.rng.random() < 0.5
    shape = [g.size(size), *a.shape] if front else [*a.shape, g.size(size)]
    return te.compute(shape, lambda *i: a(*(i[1:] if front else i[:-1])) + 1.0, name=name)


def _reduced(g: Graph, a: Tensor, name: str) -> Tensor:
    """Over one axis, or over all but one."""
    if len(a.shape) < 2:
        return _window(g, a, name)
    sizes = g.numbers(a)
    kept = g.rng.sample(range(len(sizes)), g.rng.randint(1, len(sizes) - 1))
    axes = {d: g.axis(size) for d, size in enumerate(sizes) if d not in kept}
    reducer = g.rng.choice([te.sum, te.sum, te.max, te.min])

    def form(*i: Any) -> Any:
        at = dict(zip(kept, i, strict=True))
        value = a(*(axes[d] if d in axes else at[d] for d in range(len(sizes))))
        return reducer(value, axis=list(axes.values()))

    return te.compute([a.shape[d] for d in kept], form, name=name)


def _window(g: Graph, a: Tensor, name: str) -> Tensor:
    """Sums over a window of the first axis, perhaps every second one."""
    size = g.numbers(a)[0]
    width = min(g.rng.choice([1, 2, 3]), size)
    step = g.rng.choice([1, 1, 2])
    k = g.axis(width)
    shape = [g.size((size - width) // step + 1), *a.shape[1:]]
    return te.compute(shape, lambda i, *r: te.sum(a(i * step + k, *r), axis=k), name=name)


def _product(g: Graph, a: Tensor, name: str) -> Tensor:
    """A product with a tensor that has a common size, else with itself transposed."""
    if len(a.shape) != 2:
        return _reduced(g, a, name)
    m = g.numbers(a)[1]
    others = [t for t in g.made if len(t.shape) == 2 and g.numbers(t)[0] == m]
    k = g.axis(m)
    if not others:
        return te.compute(
            [a.shape[0], a.shape[0]], lambda i, j: te.sum(a(i, k) * a(j, k), axis=k), name=name
        )
    b = g.rng.choice(others)
    g.used.add(b)
    return te.compute(
        [a.shape[0], b.shape[1]], lambda i, j: te.sum(a(i, k) * b(k, j), axis=k), name=name
    )


def _moved(g: Graph, a: Tensor, name: str) -> Tensor:
    """Transposed, reversed, every second one, flattened, shifted, or padded."""
    sizes = g.numbers(a)
    n = sizes[0]
    kind = g.rng.choice(["transpose", "reverse", "half", "flat", "shift", "pad"])
    if kind == "transpose" and len(sizes) > 1:
        return te.compute(list(reversed(a.shape)), lambda *i: a(*reversed(i)), name=name)
    if kind == "half":
        shape = [g.size((n + 1) // 2), *a.shape[1:]]
        return te.compute(shape, lambda i, *r: a(i * 2, *r) + 1.0, name=name)
    if kind == "flat" and len(sizes) == 2:
        total, m = sizes[0] * sizes[1], sizes[1]
        return te.compute([g.size(total)], lambda i: a(i // m, i % m) * 2.0, name=name)
    if kind == "shift":
        return te.compute(a.shape, lambda i, *r: a((i + 1) % n, *r) + 1.0, name=name)
    if kind == "pad":
        return te.compute(
            [g.size(n + 2), *a.shape[1:]],
            lambda i, *r: te.if_then_else((i >= 1) & (i < n + 1), a(i - 1, *r), 0.5),
            name=name,
        )
    return te.compute(a.shape, lambda i, *r: a(n - 1 - i, *r) + 1.0, name=name)


_FORMULAS: list[Callable[[Graph, Tensor, str], Tensor]] = [
    _unary, _binary, _binary, _broadcast, _reduced, _reduced, _reduced, _product, _moved, _moved,
]  # fmt: skip


def program(rng: random.Random) -> Any:
    """A program to walk from."""
    choice = rng.random()
    if choice < 0.15:
        return rng.choice(PROGRAMS)()
    if choice < 0.35:
        return parse(rng.choice(TEXTS))
    return Graph(rng).func()
