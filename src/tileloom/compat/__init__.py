"""Faces of Tileloom that speak the names of other systems: `tileloom.compat.tvm`."""
