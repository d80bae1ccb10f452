"""Sparse kernels against SciPy, PyTorch, MKL, Numba and C: `python -m benchmarks.sparse`."""
