"""What can go wrong with a GPU, as errors that say what to do."""

from __future__ import annotations

from ...base.errors import UnsupportedError, UserError


class CudaError(UserError):
    """The CUDA driver refuses something.

    Attributes:
        code: the driver's name for it, such as "CUDA_ERROR_INVALID_VALUE"; empty if it was
            seen before the driver was asked.
    """

    def __init__(self, message: str, *, code: str = "", hint: str | None = None) -> None:
        self.code = code
        super().__init__(message, hint=hint)


class NoDriverError(CudaError, UnsupportedError):
    """There is no CUDA driver, no package to reach it through, or no device."""


class ArchitectureError(CudaError):
    """Code for another GPU, or of a newer PTX version than the driver knows."""


class JitError(CudaError):
    """The driver's assembler refuses PTX; the message holds its log."""


class DeviceMemoryError(CudaError, MemoryError):
    """The device's memory does not suffice."""


class LaunchError(CudaError):
    """A kernel cannot be launched as it is."""


class LostContextError(CudaError):
    """A kernel went wrong while it ran; nothing works on the device in this process any more."""
