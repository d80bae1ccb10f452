"""What passes ask of a program: accesses, regions, bounds, threads, and forms of indices."""
