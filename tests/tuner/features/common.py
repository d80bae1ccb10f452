"""Programs as text, and their features by name."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tileloom.script import parse
from tileloom.target import target
from tileloom.tir import IRModule
from tileloom.tuner.features import FEATURE_NAMES, per_store_features

Numbers = npt.NDArray[np.float64]
HEADER = "from tvm.script import tir as T\n@T.prim_func\n"


def module(text: str) -> IRModule:
    """The functions of a script."""
    found = parse(text)
    return found if isinstance(found, IRModule) else IRModule({"main": found})


def features(text: str, machine: str = "llvm") -> Numbers:
    """The features of the stores of a script."""
    return per_store_features(module(text), target(machine))


def column(rows: Numbers, name: str) -> list[float]:
    """A feature of all stores."""
    return [float(x) for x in rows[:, FEATURE_NAMES.index(name)]]


def amount(rows: Numbers, name: str) -> list[float]:
    """A feature of all stores, off its logarithmic scale."""
    return [round(2**x - 1, 6) for x in column(rows, name)]
