"""What kernels of blocks are on a CPU: nests of loops shared among threads, in vectors."""
