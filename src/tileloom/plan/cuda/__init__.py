"""What kernels of blocks are on an NVIDIA GPU: grids of thread blocks."""
