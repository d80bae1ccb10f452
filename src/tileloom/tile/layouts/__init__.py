"""How tensors are spread over threads and shared memory."""
