"""Sparse tensors: formats, programs over sparse axes, operators on arrays people already have."""
