"""Whole programs that use Tileloom, to be read and run: `python -m examples.<name>`."""
