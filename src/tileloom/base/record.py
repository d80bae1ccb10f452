"""Immutable objects with named fields, written as dataclasses are, that cost little to define.

`dataclasses` compiles five methods for each class while a program is still being imported: half the
time of importing tensor IR. Here two are compiled, the constructor and `replace`, when they are
first called.
"""

from __future__ import annotations

from .late import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self, dataclass_transform
else:

    def dataclass_transform(**_says):
        return lambda cls: cls


_REQUIRED: Any = object()


class _Default:
    """What a field has where the constructor is not given a value."""

    __slots__ = ("factory", "kw_only", "value")

    def __init__(self, value: Any, factory: Callable[[], Any] | None, kw_only: bool) -> None:
        self.value = value
        self.factory = factory
        self.kw_only = kw_only


def field(
    *,
    default: Any = _REQUIRED,
    default_factory: Callable[[], Any] | None = None,
    kw_only: bool = False,
) -> Any:
    """The default of a field that is more than a value, as `dataclasses.field` has it."""
    return _Default(default, default_factory, kw_only)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
class RecordType(type):
    """Makes a class of its annotations: slots, `__match_args__`, and a constructor."""

    _fields: dict[str, _Default]
    _setters: tuple[tuple[str, Callable[[Any, Any], None]], ...]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> RecordType:
        kinds: dict[str, str] = namespace.get("__annotations__", {})
        own = [part for part, kind in kinds.items() if not kind.startswith("ClassVar")]
        fields: dict[str, _Default] = {}
        for base in reversed(bases):
            fields.update(getattr(base, "_fields", {}))
        for part in own:
            default = namespace.pop(part, _REQUIRED)
            is_plain = not isinstance(default, _Default)
            fields[part] = _Default(default, None, False) if is_plain else default
        namespace["__slots__"] = tuple(own)
        namespace["__match_args__"] = tuple(part for part in fields if not fields[part].kw_only)
        cls = super().__new__(mcs, name, bases, namespace)
        cls._fields = fields
        cls._setters = tuple((part, getattr(cls, part).__set__) for part in fields)
        for method, compiled in (("__init__", _constructor), ("replace", _replacer)):
            if method not in namespace:
                setattr(cls, method, _first(cls, method, compiled))
        return cls


def _first(cls: RecordType, name: str, compiled: Callable[[RecordType], Any]) -> Any:
    """The first call of a method compiles it."""

    def call(self: Any, *args: Any, **named: Any) -> Any:
        method = compiled(cls)
        setattr(cls, name, method)
        return method(self, *args, **named)

    return call


def _constructor(cls: RecordType) -> Any:
    known: dict[str, Any] = {}
    heads: dict[bool, list[str]] = {False: ["self"], True: ["*"]}
    lines = []
    for name, setter in cls._setters:
        default = cls._fields[name]
        known[f"set_{name}"], known[f"default_{name}"] = setter, default.factory or default.value
        value = name
        if default.factory is not None:
            heads[default.kw_only].append(f"{name}=REQUIRED")
            value = f"default_{name}() if {name} is REQUIRED else {name}"
        elif default.value is not _REQUIRED:
            heads[default.kw_only].append(f"{name}=default_{name}")
        else:
            heads[default.kw_only].append(name)
        lines.append(f"set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    head = heads[False] + (heads[True] if len(heads[True]) > 1 else [])
    return _compile(cls, "__init__", head, lines or ["pass"], known)


def _replacer(cls: RecordType) -> Any:
    known: dict[str, Any] = {"new": object.__new__}
    head, lines = ["self"], ["made = new(type(self))"]
    for name, setter in cls._setters:
        known[f"set_{name}"] = setter
        head += [f"{name}=REQUIRED"] if len(head) > 1 else ["*", f"{name}=REQUIRED"]
        lines.append(f"set_{name}(made, self.{name} if {name} is REQUIRED else {name})")
    if hasattr(cls, "__post_init__"):
        lines.append("made.__post_init__()")
    return _compile(cls, "replace", head, [*lines, "return made"], known)


def _compile(
    cls: RecordType, name: str, head: list[str], lines: list[str], known: dict[str, Any]
) -> Any:
    known["REQUIRED"] = _REQUIRED
    exec(f"def {name}({', '.join(head)}):\n " + "\n ".join(lines), known)
    known[name].__qualname__ = f"{cls.__qualname__}.{name}"
    return known[name]


class Record(metaclass=RecordType):
    """An immutable object; two are equal if they are one, unless its class says otherwise.

    >>> class Point(Record):
    ...     x: int
    ...     y: int = 0
    >>> p = Point(1)
    >>> p, p.replace(y=2)
    (Point(x=1, y=0), Point(x=1, y=2))
    >>> p.x = 3
    Traceback (most recent call last):
    AttributeError: Point is immutable: cannot set 'x'
    """

    def replace(self, **changes: Any) -> Self:
        """The same with some fields changed."""
        return self  # of one without fields; those of subclasses are compiled

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot delete {name!r}")

    def __getstate__(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name, _ in type(self)._setters])

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        for (_, setter), value in zip(type(self)._setters, state, strict=True):
            setter(self, value)

    def __repr__(self) -> str:
        shown = [f"{name}={getattr(self, name)!r}" for name, _ in type(self)._setters]
        return f"{type(self).__qualname__}({', '.join(shown)})"
