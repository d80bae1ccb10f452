"""Shared test setup: private kernel cache, seeded randomness, GPU tests skipped without one."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache

import hypothesis
import numpy as np
import pytest

# Compilation in a property test makes single examples slow but says nothing about the property.
hypothesis.settings.register_profile(
    "tileloom",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tileloom"))

# The user's own kernel cache is neither read nor filled by tests. Set before xdist starts its
# workers, so that all of them share the folder made here.
_OWN_CACHE = None
if "TILELOOM_CACHE_DIR" not in os.environ:
    _OWN_CACHE = tempfile.mkdtemp(prefix="tileloom-tests-")
    os.environ["TILELOOM_CACHE_DIR"] = _OWN_CACHE


pytest_plugins = ["assembling"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of this suite."""
    parser.addoption(
        "--assemble",
        action="store_true",
        help="assemble every kernel that the emulator runs with ptxas, for sm_80 and sm_90a",
    )


def pytest_unconfigure() -> None:
    """Remove the kernel cache that this process made."""
    if _OWN_CACHE is not None:
        shutil.rmtree(_OWN_CACHE, ignore_errors=True)


@cache
def has_gpu() -> bool:
    """Whether the CUDA driver is there and finds a device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    ready = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    return ready and count.value > 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `gpu` on a machine without one."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not has_gpu():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU"))


@pytest.fixture
def rng() -> Iterator[np.random.Generator]:
    """A seeded generator, the same for every test."""
    yield np.random.default_rng(20240229)
