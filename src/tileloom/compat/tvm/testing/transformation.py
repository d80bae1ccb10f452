"""`tvm.testing.CompareBeforeAfter`: test classes of a transform, a program before and one after."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar

from ....tir import IRModule, PrimFunc
from ..ir import assert_structural_equal
from ..ir.module import IRModule as Module
from ..script import ir_module


class CompareBeforeAfter:
    """A base of test classes.

    A subclass has a `transform` (a pass, or a function of the parameters that returns one), a
    program `before`, and `expected`: a program, "before" (`expected = before`), or the class of the
    exception that is to be raised. Programs are functions or modules, or Python functions with the
    body of one (`def before(A: T.Buffer(...)): ...`), or methods that return one.
    """

    transform: Any = None
    before: Any = None
    expected: Any = None
    check_well_formed: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in ("before", "expected", "transform"):
            if name in cls.__dict__:
                setattr(cls, name, _as_fixture(name, cls.__dict__[name]))

    def test_compare(self, before: Any, expected: Any, transform: Any) -> None:
        """The program after the transform is the expected one."""
        if isinstance(expected, type) and issubclass(expected, Exception):
            with import_module("pytest").raises(expected):
                transform(before)
            return
        after = transform(_as_module(before))
        if isinstance(expected, PrimFunc) and isinstance(after, IRModule):
            expected = _as_module(expected)
        assert_structural_equal(after, expected, map_free_vars=True)


def _as_module(program: Any) -> Any:
    return Module({"main": program}) if isinstance(program, PrimFunc) else program


def _as_fixture(name: str, value: Any) -> Any:
    """A fixture of the test class that gives the program (or the transform)."""
    pytest = import_module("pytest")
    if hasattr(value, "_pytestfixturefunction") or type(value).__name__.startswith("Fixture"):
        return value
    if name != "transform" and inspect.isfunction(value) and _takes_no_buffers(value):
        return pytest.fixture(value)
    if name == "transform" and inspect.isfunction(value):
        return pytest.fixture(value)
    if inspect.isclass(value) and not issubclass(value, Exception):
        value = ir_module(value)
    elif inspect.isfunction(value):
        value = _read_function(value)

    def give(_self: Any) -> Any:
        return value

    return pytest.fixture(give)


def _takes_no_buffers(function: Callable[..., Any]) -> bool:
    """Whether it is a method of the test class, which computes the program."""
    return next(iter(inspect.signature(function).parameters), "") == "self"


def _read_function(function: Callable[..., Any]) -> PrimFunc:
    parse: Any = import_module("tileloom.script.parse")
    node, source = parse._function_source(function)
    found: PrimFunc = parse.parse_function(node, source, parse._captured(function, None), True)
    return found
