"""Products of words in the tile registers of x86 (AMX): which there are, and their strips.

Two by two tiles hold sums, so that a strip has up to 32 rows and a panel 32 columns. The innermost
part is a tensor intrinsic (`schedule/library/intrinsics/amx.py`), whose operands lie in memory.
"""

from __future__ import annotations

from ...expr import Call, free_vars, post_order
from ...expr.dot_ops import DOT_BF16, DOT_INT8, DOT_MEANINGS
from ...expr.extents import is_number, limits
from ...expr.tile_ops import TILE_BYTES, TILE_ROWS
from ...schedule.analysis.blocks import leaf_store
from ...schedule.library.product import Product
from ...schedule.schedule import Schedule
from ...target import Target
from ...tir import Block

#: Rows of a copy of a strip are so many words apart, modulo this: not a power of two.
APART, UNIT = TILE_ROWS, 2 * TILE_ROWS

_TILED = {DOT_BF16, *DOT_INT8.values()}


def dot_of(sch: Schedule, product: Product) -> str | None:
    """The dot product of words that a product is made of, if it is."""
    dot = _dot(sch.get(product.block))
    return None if dot is None else dot.op


def begins_with_columns(sch: Schedule, product: Product) -> bool:
    """Whether the first factor of the dot product is of the columns, as a convolution's image."""
    block: Block = sch.get(product.block)
    dot, column = _dot(block), block.iter_vars[-2].var
    return dot is not None and column in free_vars(dot.args[1])


def _dot(block: Block) -> Call | None:
    store = leaf_store(block)
    dots = [
        node
        for node in (post_order(store.value) if store is not None else ())
        if isinstance(node, Call) and node.op in DOT_MEANINGS
    ]
    return dots[0] if len(dots) == 1 else None


def words_in_tiles(sch: Schedule, product: Product, target: Target) -> str | None:
    """The kinds of words that a target multiplies in tiles, such as "u8s8"; None for others."""
    dot = dot_of(sch, product)
    whole = is_number(product.depth) or not product.depth % TILE_ROWS
    if dot not in _TILED or not whole or target.vector_bits != 8 * TILE_BYTES:
        return None
    feature = "amx-bf16" if dot == DOT_BF16 else "amx-int8"
    return dot.removeprefix("tir.dot_") if target.has(feature) else None


def tile_rows(rows: int) -> int:
    """The rows of a strip: of one tile, or of two that fill strips of the same height best.

    Where the number of rows is not known, few rows or many is a question of its own, and strips
    are as high as may be.

    >>> tile_rows(5), tile_rows(17), tile_rows(33), tile_rows(96)
    (5, 18, 18, 32)
    """
    if rows <= TILE_ROWS:
        return limits(rows)[1]
    if not is_number(rows):
        return 2 * TILE_ROWS
    tiles = 2 * -(-rows // (2 * TILE_ROWS))
    return 2 * -(-rows // tiles)
