"""What kernels for GPUs share: groups of threads, and the types that these compute in.

A group, a warp or a part of one, works on an item: a row of a sparse matrix, or one of its
elements. Of its threads `across` have columns next to each other, and `down` times as many share
what is summed there; their sums meet by shuffles. Groups for which there is no item do what the
last one does, and store nothing, so that all threads of a warp come to its shuffles.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..text import KernelText

#: Threads of a block.
THREADS = 128
#: Bytes that a thread loads at once.
VECTOR = 16


class ThreadGroup(NamedTuple):
    """How the threads of a group divide its work.

    Attributes:
        lanes: columns next to each other that a thread has, a power of two.
        across: threads with columns of their own, a power of two.
        down: threads that have the same columns, a power of two.
        tiles: how often a thread has such columns.
    """

    lanes: int
    across: int
    down: int = 1
    tiles: int = 1

    @property
    def threads(self) -> int:
        """The threads of the group, 32 at most."""
        return self.across * self.down

    @property
    def width(self) -> int:
        """The columns of the group."""
        return self.lanes * self.across * self.tiles


@contextmanager
def launch(t: KernelText, group: ThreadGroup, items: str, parts: int = 1) -> Iterator[None]:
    """What each thread of a launch does: for its `item`, which others have too unless `is_own`.

    Its place in the group is `lane` and `part`. Each item has so many groups, along `by`.
    """
    each = THREADS // group.threads
    blocks = f"({items} + T.int64({each - 1})) // T.int64({each})"
    with (
        t.inside(f"for bx in T.thread_binding({blocks}, 'blockIdx.x'):"),
        t.inside(f"for by in T.thread_binding({parts}, 'blockIdx.y'):"),
        t.inside(f"for t in T.thread_binding({THREADS}, 'threadIdx.x'):"),
    ):
        place = f"T.Cast('int64', bx) * T.int64({each}) + T.Cast('int64', t // {group.threads})"
        t(f"own: T.int64 = {place}", f"item: T.int64 = T.min(own, {items} - T.int64(1))")
        t(
            f"lane: T.int32 = t % {group.across}",
            f"part: T.int32 = t // {group.across} % {group.down}",
        )
        yield


def fold(t: KernelText, array: str, count: int, both: str, low: int, high: int) -> None:
    """Make of elements of a thread's array what they and those of other threads are together.

    Args:
        count: of the elements.
        both: how two become one.
        low, high: threads whose numbers differ in the bits from `low` to below `high` meet.
    """
    step = low
    while step < high:
        for e in range(count):
            own = f"{array}[{e}]"
            other = f"T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), {own}, {step}, 32, 32)"
            t(f"{own} = {both.format(own, other)}")
        step *= 2


def local(t: KernelText, name: str, size: int, kind: str) -> None:
    """Memory of a thread's own."""
    t(f"{name}_ = T.allocate([{size}], '{kind}', 'local')")
    t(f"{name} = T.Buffer(({size},), '{kind}', data={name}_, scope='local')")


def converted(value: str, kind: str, wanted: str, lanes: int = 1) -> str:
    """A value of one type in another one."""
    return value if kind == wanted else f"T.Cast('{vector_of(wanted, lanes)}', {value})"


def vector_of(kind: str, lanes: int) -> str:
    """The type of a vector, or of a number.

    >>> vector_of("float32", 4), vector_of("int64", 1)
    ('float32x4', 'int64')
    """
    return kind if lanes == 1 else f"{kind}x{lanes}"


def wide(kind: str) -> str:
    """The type in which values of a type are computed; shuffles move elements of it.

    >>> wide("float16"), wide("int8"), wide("float64")
    ('float32', 'int32', 'float64')
    """
    if kind in ("float16", "bfloat16"):
        return "float32"
    return {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}.get(
        kind, kind
    )


def power_from(count: int) -> int:
    """The least power of two that is no less.

    >>> [power_from(count) for count in (0, 1, 3, 4, 5)]
    [1, 1, 4, 4, 8]
    """
    return 1 << max(0, count - 1).bit_length()
