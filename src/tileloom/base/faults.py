"""What a kernel that ended early says: messages, and the numbers that belong into them."""

from __future__ import annotations

#: The function of a module that says where the numbers of a failed check are kept.
FAULTS = "tileloom_fault"
BOUNDS = "out of bounds: "
INDEX, EXTENT = "{index}", "{extent}"


def bounds_message(access: str, index: str, axis: int, buffer: str) -> str:
    """The message of a check of an index, with places for the index and the extent.

    >>> print(with_numbers(bounds_message("A[i + n]", "i + n", 0, "A"), 17, 16))
    out of bounds: A[i + n]: the index i + n of axis 0 is 17, and A has 16 elements there
    """
    return (
        f"{BOUNDS}{access}: the index {index} of axis {axis} is {INDEX}, "
        f"and {buffer} has {EXTENT} elements there"
    )


def with_numbers(message: str, index: int, extent: int) -> str:
    """The message with its places filled in."""
    return message.replace(INDEX, str(index), 1).replace(EXTENT, str(extent), 1)
