"""histogram_kernel: how often each number occurs, on a GPU.

Every block counts in shared memory of its own, with atomic additions that few threads contend for,
and adds what it found to the result at the end. Bins that do not fit there are counted in global
memory at once.
"""

from __future__ import annotations

from ....base import dtype
from ....base.errors import UnsupportedError
from ....expr import const
from ....tir import PrimFunc
from ._text import blocks_of, kernel, under

_THREADS = 256
_BLOCKS = 512  # that keep a GPU busy
_EACH = 8  # elements of a thread, at least
_SHARED = 48 << 10  # bytes


def histogram_kernel(
    count: int, bins: int, kind: str = "int32", total: str = "int32", weighted: bool = False
) -> PrimFunc:
    """`H[k]` is how many elements of X are `k`; of `weighted` ones, the sum of their weights.

    The parameters are X, the weights W if there are any, and H. What is no number of a bin counts
    nowhere. Sums of floats are added in any order.

    Args:
        count: elements of X, at least one.
        bins: elements of H, at least one.
        kind: the integer type of X.
        total: the type of H and W.

    Raises:
        UnsupportedError: there is nothing to count, or X has no integers.

    >>> import numpy as np, tileloom
    >>> run = tileloom.build(histogram_kernel(6, 4), "cuda", device="emulator")
    >>> h = np.zeros(4, "int32")
    >>> run(np.array([1, 3, 3, 0, 3, 7], "int32"), h)
    >>> h
    array([1, 1, 0, 3], dtype=int32)
    """
    if count < 1 or bins < 1 or not dtype(kind).is_int:
        raise UnsupportedError(f"no histogram of {count} elements of {kind} over {bins} bins")
    blocks = max(1, min(_BLOCKS, count // (_THREADS * _EACH)))
    steps = -(-count // (_THREADS * blocks))
    private = bins * dtype(total).bits <= 8 * _SHARED
    params = ["X", *(["W"] if weighted else []), "H"]
    shapes = {"X": (count, kind), "W": (count, total), "H": (bins, total)}
    place = "S" if private else "H"
    number = "T.Cast('int64', X[at])" if dtype(kind).bits == 64 else "T.Cast('int32', X[at])"
    counting = under(
        f"for k in range({steps}):",
        f"at: T.int32 = (k * {blocks} + b) * {_THREADS} + t",
        under(
            f"if at < {count}:",
            under(
                f"if {_is_bin(kind, bins)}:",
                f"T.atomic_add(T.address_of({place}[{number}]), {'W[at]' if weighted else 'one'})",
            ),
        ),
    )
    counted = _private(counting, bins) if private else [counting]
    nests = [
        blocks_of(
            -(-bins // _THREADS),
            _THREADS,
            "zero",
            under(f"if b * {_THREADS} + t < {bins}:", f"H[b * {_THREADS} + t] = zero"),
        ),
        blocks_of(blocks, _THREADS, "count", *counted),
    ]
    head = f"histogram({', '.join(f'{x.lower()}: T.handle' for x in params)})"
    given = [
        f'{x} = T.match_buffer({x.lower()}, ({shapes[x][0]},), "{shapes[x][1]}")' for x in params
    ]
    names = {"zero": const(0, total), "one": const(1, total), "TOTAL": total}
    return kernel(head, [*given, *nests], names)


def _is_bin(kind: str, bins: int) -> str:
    """Whether `X[at]` is the number of a bin, in words that fit its type."""
    integer = dtype(kind)
    largest = (1 << (integer.bits - (not integer.is_unsigned))) - 1
    parts = [] if integer.is_unsigned else [f"X[at] >= T.{kind}(0)"]
    if bins <= largest:
        parts.append(f"X[at] < T.{kind}({bins})")
    return " and ".join(parts) or "True"


def _private(counting: str, bins: int) -> list[str]:
    """Counting in shared memory, which is cleared before and added to the result after."""

    def each(*body: str) -> str:
        index = f"k * {_THREADS} + t"
        guard = under(f"if {index} < {bins}:", *body) if bins % _THREADS else "\n".join(body)
        return under(f"for k in range({-(-bins // _THREADS)}):", guard)

    place = f"k * {_THREADS} + t"
    return [
        f'S = T.alloc_buffer(({bins},), TOTAL, scope="shared")',
        each(f"S[{place}] = zero"),
        counting,
        each(
            under(
                f"if S[{place}] != zero:",
                f"T.atomic_add(T.address_of(H[{place}]), S[{place}])",
            )
        ),
    ]
