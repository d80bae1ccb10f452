"""Shared test setup: private kernel cache, seeded randomness."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator

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


pytest_plugins = ["assembling", "gpu_suite", "pytester", "recorded"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of this suite."""
    parser.addoption(
        "--assemble",
        action="store_true",
        help="assemble every kernel that the emulator runs with ptxas, for sm_80 and sm_90a",
    )

    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write the plans that tests compare with anew; look at what changed before you commit",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without the garbage collector, and keep it off what stays until the end.

    Some millions of objects belong to the collected tests; a search through them takes a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """Remove the kernel cache that this process made."""
    if _OWN_CACHE is not None:
        shutil.rmtree(_OWN_CACHE, ignore_errors=True)


@pytest.fixture
def rng() -> Iterator[np.random.Generator]:
    """A seeded generator, the same for every test."""
    yield np.random.default_rng(20240229)
