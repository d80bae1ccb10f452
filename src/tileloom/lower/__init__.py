"""Lowering: blocks -> loops -> flat, one pass a file, the pipelines in `pipeline`."""

from .pipeline import BLOCKS_TO_LOOPS, LOOPS_TO_FLAT, PIPELINE, lower, run_passes

__all__ = ["BLOCKS_TO_LOOPS", "LOOPS_TO_FLAT", "PIPELINE", "lower", "run_passes"]
