"""Tensor graphs: ops with shape, dtype and compute rules, rewrites and fusion."""
