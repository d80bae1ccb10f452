"""Vector code: loops over lanes, strips, tiles, sums and arg-maxima in lanes."""

from .vectorize_loops import vectorize_loops

__all__ = ["vectorize_loops"]
