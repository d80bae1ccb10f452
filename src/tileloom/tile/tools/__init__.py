"""Tools for text: passes over files as `triton-opt` runs them, and tests as `lit` runs them."""
