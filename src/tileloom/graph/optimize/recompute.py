"""Whether to compute something again in each kernel that reads it, instead of storing it once.

The rule, in bytes of memory traffic. Stored, a result is written once and read by each reader, and
what it is made of is read once. Computed again, what it is made of is read by each reader that does
not read it anyway, and the work is done by each. Work counts as the bytes that move in its time;
a kernel that is not needed counts as the bytes that move while it would start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..nodes import Node, Tensor
from .work import work_of

#: Bytes that move while a vector unit does one addition per element: 10 GB/s against 40 G/s.
BYTES_PER_WORK = 0.25
#: The same where all fits into the second cache, which is several times as fast.
CACHED_BYTES_PER_WORK = 1.0
#: Bytes that move while a kernel starts.
BYTES_PER_KERNEL = 8192
#: What counts as cached, in bytes.
CACHE = 1 << 20
#: Not more nodes than this are copied.
MAX_COPIED = 8


@dataclass(frozen=True, slots=True)
class Reader:
    """A kernel that reads the result.

    Attributes:
        reads: what it reads besides.
        repeats: how often it reads each element of the result.
    """

    reads: frozenset[Tensor] = frozenset()
    repeats: float = 1.0


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether it pays, and what speaks for it.

    Attributes:
        bytes_saved: of memory traffic; negative if there is more.
        work_added: in additions.
        reason: the same in words.
    """

    pays: bool
    bytes_saved: int
    work_added: int
    reason: str

    def __bool__(self) -> bool:
        return self.pays


def recompute(nodes: Sequence[Node], readers: Sequence[Reader]) -> Decision:
    """Whether each reader should compute these nodes itself.

    Args:
        nodes: what makes the result, which is the first output of the last of them.
        readers: the kernels that read it.

    >>> from tileloom.graph import ops
    >>> from tileloom.graph.nodes import tensor_type
    >>> x = Tensor(tensor_type((1024, 1024), "float32"), "x")
    >>> twice = ops.mul(x, 2.0)
    >>> str(recompute([twice.node], [Reader(frozenset({x})), Reader()]).reason)
    'saves 12582912 bytes of traffic for 1048576 additions'
    >>> bool(recompute([ops.sum(x, 0).node], [Reader(), Reader()]))
    False
    """
    kinds = {node.op.kind for node in nodes}
    if not kinds <= {"elementwise", "injective"} or any(n.op.compute is None for n in nodes):
        return Decision(False, 0, 0, "only formulas are computed again")
    if len(nodes) > MAX_COPIED:
        return Decision(False, 0, 0, f"{len(nodes)} nodes are too many to copy")
    result = nodes[-1].outputs[0]
    sources = _sources(nodes)
    stored = (1 + len(readers)) * result.type.nbytes + _bytes(sources)
    again = sum(
        reader.repeats * _bytes([t for t in sources if t not in reader.reads]) for reader in readers
    )
    saved = int(stored - again)
    once = sum(map(work_of, nodes))
    added = int(once * (sum(reader.repeats for reader in readers) - 1))
    cached = stored <= CACHE
    price = added * (CACHED_BYTES_PER_WORK if cached else BYTES_PER_WORK) - BYTES_PER_KERNEL
    verb = "saves" if saved >= 0 else "costs"
    reason = f"{verb} {abs(saved)} bytes of traffic for {max(added, 0)} additions"
    return Decision(saved > price, saved, added, reason)


def _sources(nodes: Sequence[Node]) -> list[Tensor]:
    inside = set(nodes)
    found = {t: None for node in nodes for t in node.inputs if t.node not in inside}
    return [t for t in found if t.value is None or t.type.size > 1]


def _bytes(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.type.nbytes for tensor in tensors)
