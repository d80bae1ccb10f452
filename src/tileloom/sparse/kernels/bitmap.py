"""Sets of columns as bits in words, with a bit for each word that is not zero, and so on above.

Marking a column touches one word as a rule; the columns come out in ascending order, words and
bits that are not set cost next to nothing, and all is zero again afterwards. So a row of a result
is gathered from rows in any order, and needs no sort.
"""

from __future__ import annotations

from collections.abc import Callable

from .text import KernelText

#: Columns from which on there are three levels of words and not two.
WIDE = 1 << 19
_ONE = "T.uint64(1)"


def allocate_bitmap(t: KernelText, levels: int) -> None:
    """Words `Z0` of a bit for each of `n` columns, `Z1` of a bit for each of these, ...: zero."""
    t("words0: T.int64 = (n + T.int64(63)) // T.int64(64)")
    for level in range(1, levels):
        t(f"words{level}: T.int64 = (words{level - 1} + T.int64(63)) // T.int64(64)")
    for level in range(levels):
        t(
            f"z{level}_ = T.allocate([words{level}], 'uint64', 'global')",
            f"Z{level} = T.Buffer((words{level},), 'uint64', data=z{level}_)",
        )
        with t.inside(f"for z in range(words{level}):"):
            t(f"Z{level}[z] = T.uint64(0)")


def mark(t: KernelText, levels: int, index: str = "j", level: int = 0) -> None:
    """Set the bit of an index, an int64 variable, and those above it."""
    word, old = f"w{level}", f"o{level}"
    t(f"{word}: T.int64 = {index} >> T.int64(6)", f"{old}: T.uint64 = Z{level}[{word}]")
    if level + 1 < levels:
        with t.inside(f"if {old} == T.uint64(0):"):
            mark(t, levels, word, level + 1)
    t(f"Z{level}[{word}] = {old} | ({_ONE} << T.Cast('uint64', {index} & T.int64(63)))")


def each_word(t: KernelText, levels: int, low: str, high: str, body: Callable[[], None]) -> None:
    """For each word of columns that is not zero, in ascending order: the body.

    Args:
        levels: of the bitmap.
        low, high: no column before or after these is marked.
        body: it has the number of the word as `e0`, and must set it to zero.
    """
    top = levels - 1
    shift = f"T.int64({6 * levels})"
    with t.inside(f"for z{top} in range(({high} >> {shift}) - ({low} >> {shift}) + T.int64(1)):"):
        t(f"e{top}: T.int64 = ({low} >> {shift}) + z{top}")
        _each(t, top, body)


def _each(t: KernelText, level: int, body: Callable[[], None]) -> None:
    if level == 0:
        body()
        return
    with t.inside(f"if Z{level}[e{level}] != T.uint64(0):"):
        each_bit(t, level, f"e{level - 1}", lambda: _each(t, level - 1, body))
        t(f"Z{level}[e{level}] = T.uint64(0)")


def each_bit(t: KernelText, level: int, name: str, body: Callable[[], None]) -> None:
    """For each bit that is set in word `e{level}` of a level: the body, which has its index."""
    left, low = f"y{level}", f"b{level}"
    t(
        f"{left}_ = T.allocate([1], 'uint64', 'local')",
        f"{left} = T.Buffer((1,), 'uint64', data={left}_, scope='local')",
        f"{left}[0] = Z{level}[e{level}]",
    )
    with t.inside(f"while {left}[0] != T.uint64(0):"):
        t(f"{low}: T.uint64 = T.popcount(({left}[0] - {_ONE}) & ~{left}[0])")
        t(f"{name}: T.int64 = e{level} * T.int64(64) + T.Cast('int64', {low})")
        t(f"{left}[0] = {left}[0] & ({left}[0] - {_ONE})")
        body()
