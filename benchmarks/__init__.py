"""Benchmarks: one harness, workloads by peers. Run with `python -m benchmarks.cpu`."""
