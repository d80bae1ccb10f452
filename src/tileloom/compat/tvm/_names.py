"""How names are mapped: classes that stand for our nodes, and what is said of names not mapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self


class Scoped:
    """What is current inside `with`; each class that is made of this has a stack of its own."""

    _stack: ClassVar[list[Any]]

    def __init_subclass__(cls) -> None:
        cls._stack = []

    def __enter__(self) -> Self:
        self._stack.append(self)
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.pop()


class NodeType(type):
    """A class as scripts see it: a call takes TVM's arguments, `isinstance` asks for our node.

    >>> from tileloom.expr import nodes
    >>> Add = node_type(nodes.Add, lambda a, b: nodes.Add(a, b))
    >>> x = nodes.Var("x")
    >>> Add(x, x), isinstance(x + x, Add), isinstance(x * x, Add)
    (x + x, True, False)
    """

    node: Any
    build: Callable[..., Any]

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], node: Any = None
    ) -> NodeType:
        return super().__new__(mcls, name, bases, namespace)

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], node: Any = None
    ) -> None:
        super().__init__(name, bases, namespace)
        cls.node = node

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("span", None)  # places in a source text of TVM's
        return cls.build(*args, **kwargs)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.node)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.node)

    def __eq__(cls, other: object) -> bool:
        return cls is other or cls.node == other  # `type(x) == tvm.tir.Add`

    def __hash__(cls) -> int:
        return hash(cls.node)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.node, name)


def node_type(node: type[Any], build: Callable[..., Any] | None = None) -> Any:
    """The class for a node; `build` takes TVM's arguments, the node's own constructor if None."""
    space = {"build": staticmethod(build or node), "__doc__": node.__doc__}
    return NodeType(node.__name__, (), space, node=node)


def missing(module: str) -> Callable[[str], Any]:
    """A module's `__getattr__`: says which name of TVM is not provided."""
    shown = module.removeprefix("tileloom.compat.")

    def look_up(name: str) -> Any:
        raise AttributeError(
            f"{shown}.{name} of TVM is not provided by tileloom.compat.tvm"
            if not name.startswith("__")
            else f"module {module!r} has no attribute {name!r}"
        )

    return look_up
