"""The operators on GPUs, or on the emulator of these."""
