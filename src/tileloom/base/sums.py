"""How reductions are split and sums made, wherever they are planned.

Both are a matter of extents alone: a result must not depend on how many threads there are.
"""

from __future__ import annotations

#: Attribute of a function: the error of its long sums of floats must not grow with their length.
COMPENSATED = "compensated_sums"
#: Annotation of a loop: so many additions to one place make a run there, other than the usual few.
SUM_RUN = "sum_run"

#: With fewer independent results than this, a reduction is split into parts for several workers.
FEW_RESULTS = 4
#: The same for reductions in one pass over so many elements a result, where parts cost nothing.
FEW_LONG_RESULTS, LONG = 64, 1 << 17
#: How many elements make a part, and between how many parts that leaves to choose.
PART, LEAST_PARTS, MOST_PARTS = 1 << 15, 4, 64


def is_split(results: int, depth: int, passes: int = 1) -> bool:
    """Whether a reduction over `depth` elements a result is split into parts.

    >>> is_split(1, 1000), is_split(50, 1000), is_split(50, 1_000_000), is_split(50, 1_000_000, 2)
    (True, False, True, False)
    """
    if results < FEW_RESULTS:
        return True
    known = isinstance(results, int) and isinstance(depth, int)
    return known and passes == 1 and results < FEW_LONG_RESULTS and depth >= LONG


def parts_of(elements: int, extent: int) -> int:
    """Into about how many parts an axis of `extent` is cut in a reduction over so many elements.

    >>> parts_of(1 << 20, 1 << 20), parts_of(100, 50), parts_of(1 << 30, 10)
    (32, 4, 10)
    """
    return max(LEAST_PARTS, min(MOST_PARTS, elements // PART, extent))


def equal_parts(extent: int, parts: int) -> int | None:
    """The length of equal parts, about so many or some more, if there are such.

    >>> equal_parts(1000, 7), equal_parts(1009, 7)
    (125, None)
    """
    for count in range(parts, min(4 * parts, extent) + 1):
        if extent % count == 0:
            return extent // count
    return None
