"""`tvm.testing`: comparisons, and decorators for tests that need a device or a feature."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from .._names import missing
from ..arith.analyzer import Analyzer
from ..runtime.ndarray import Device, device
from ..target import Target
from .transformation import CompareBeforeAfter

# What this machine and this package have: `requires_*` of anything else skips.
_PRESENT = {"llvm", "cpu", "package_numpy", "x86", "python_rpc"}


def assert_allclose(
    actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """NumPy's `assert_allclose` on arrays of any kind, with the shapes compared as well."""
    found, wanted = np.asarray(actual), np.asarray(desired)
    np.testing.assert_allclose(found.shape, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol, verbose=verbose)


def assert_prim_expr_equal(lhs: Any, rhs: Any) -> None:
    """Raises `ValueError` unless both expressions always have one value."""
    if not Analyzer().can_prove_equal(lhs, rhs):
        raise ValueError(f"{lhs} and {rhs} are not equal")


def main() -> None:
    """Run the tests of the file that calls this."""
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    filename = caller.f_globals["__file__"] if caller is not None else ""
    sys.exit(_pytest().main([filename, *sys.argv[1:]]))


def _pytest() -> Any:
    return import_module("pytest")  # a user of the names of TVM need not have it


def skip_if_missing(feature: str) -> Any:
    """A decorator that skips a test unless a feature is there."""
    return _pytest().mark.skipif(
        feature not in _PRESENT, reason=f"tileloom.compat.tvm has no {feature} here"
    )


class _Requirement:
    """`@requires_x`, `@requires_x(...)`, and `*requires_x.marks()`."""

    def __init__(self, feature: str) -> None:
        self.feature = feature

    def __call__(self, func: Any = None, *_args: Any, **_options: Any) -> Any:
        if callable(func):
            return skip_if_missing(self.feature)(func)
        return self.__call__ if func is None else skip_if_missing(self.feature)

    def marks(self) -> list[Any]:
        """The marks of a parameter."""
        return [skip_if_missing(self.feature)]


def parameter(*values: Any, ids: Sequence[str] | None = None, by_dict: Any = None) -> Any:
    """A fixture that runs tests once for each value."""
    if by_dict:
        ids, values = list(by_dict), tuple(by_dict.values())

    def as_fixture(*_cls: Any, request: Any) -> Any:
        return request.param

    return _pytest().fixture(params=values, ids=ids)(as_fixture)


def parameters(*value_sets: Any, ids: Sequence[str] | None = None) -> tuple[Any, ...]:
    """Fixtures that take their values together, one tuple at a time."""
    common = _Together(value_sets, ids)
    return tuple(common.fixture(k) for k in range(len(value_sets[0])))


class _Together:
    """Fixtures over one list of tuples.

    pytest multiplies fixtures out. Each fixture here has all tuples as its parameters, and those
    tests where two of them stand at different tuples are skipped.
    """

    def __init__(self, value_sets: Sequence[Any], ids: Sequence[str] | None) -> None:
        self.value_sets, self.ids = list(value_sets), ids

    def fixture(self, k: int) -> Any:
        def as_fixture(*_cls: Any, request: Any) -> Any:
            place = request.param
            known = getattr(request.node, "_tvm_places", None)
            if known is None:
                known = request.node._tvm_places = {}
            if known.setdefault(id(self), place) != place:
                _pytest().skip("another combination of parameters")
            return self.value_sets[place][k]

        numbers = range(len(self.value_sets))
        return _pytest().fixture(params=list(numbers), ids=self.ids)(as_fixture)


def fixture(func: Any = None, *, cache_return_value: bool = False) -> Any:
    """pytest's fixture; what TVM would keep for other tests is made anew."""
    return _pytest().fixture() if func is None else _pytest().fixture(func)


def enabled_targets() -> list[tuple[str, Device]]:
    """Targets to run tests on, with their devices; `TVM_TEST_TARGETS` chooses among them."""
    given = os.environ.get("TVM_TEST_TARGETS", "llvm").split(";")
    return [(name, device("cpu")) for name in given if name and device_enabled(name)]


def device_enabled(target: Any) -> bool:
    """Whether code for a target can be run here."""
    return Target(target).kind.name == "llvm"


def parametrize_targets(*targets: Any) -> Any:
    """Run a test with `target` (and `dev`) for each of the targets that can be run."""

    def decorate(func: Callable[..., Any]) -> Any:
        marks = [
            _pytest().param(
                name, device("cpu"), id=str(name),
                marks=[] if device_enabled(name) else [skip_if_missing(str(name))],
            )
            for name in (targets or ("llvm",))
        ]  # fmt: skip
        return _pytest().mark.parametrize(("target", "dev"), marks)(func)

    if len(targets) == 1 and callable(targets[0]):
        func, targets = targets[0], ()
        return decorate(func)
    return decorate


def exclude_targets(*targets: str) -> Callable[[Any], Any]:
    """Targets that a test is not for: no change, as there is one."""
    return lambda func: func


def known_failing_targets(*targets: str) -> Callable[[Any], Any]:
    """Targets on which a test fails in TVM: no change."""
    return lambda func: func


def uses_gpu(func: Any) -> Any:
    """A mark of tests that may use a GPU."""
    return func


def requires_package(*packages: str) -> Callable[[Any], Any]:
    """Skip a test unless packages can be imported."""
    absent = [name for name in packages if find_spec(name) is None]
    mark = _pytest().mark.skipif(bool(absent), reason=f"no package {', '.join(absent)}")
    return lambda func: mark(func)


def slow(func: Any) -> Any:
    """A mark of tests that take long."""
    return func


def strtobool(value: str) -> bool:
    """Whether a word means yes."""
    return value.strip().lower() in ("1", "true", "yes", "on", "y", "t")


__all__ = [
    "CompareBeforeAfter", "assert_allclose", "assert_prim_expr_equal", "device_enabled",
    "enabled_targets", "exclude_targets", "fixture", "known_failing_targets", "main", "parameter",
    "parameters", "parametrize_targets", "requires_package", "skip_if_missing", "slow", "strtobool",
    "uses_gpu",
]  # fmt: skip
_missing = missing(__name__)


def __getattr__(name: str) -> Any:
    if name.startswith("requires_"):
        return _Requirement(name.removeprefix("requires_"))
    return _missing(name)
