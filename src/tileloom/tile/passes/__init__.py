"""Passes over tile IR, one a file."""
