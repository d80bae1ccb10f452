"""Immutable, interned objects: equal ones are one object, so `is` is equality."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .text import PLAIN

if TYPE_CHECKING:
    from .text import TextStyle


class Interned(type):
    """The metaclass of types and attributes: a constructor gives the object made before, if any.

    A class annotates its fields; its constructor takes them in that order, and `normalize` (a
    class method) may complete or convert them first.
    """

    def __new__(mcls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> Any:
        own = tuple(n for n in members.get("__annotations__", ()) if n not in members)
        inherited = bases[0].fields if bases else ()  # type: ignore[attr-defined]
        made = super().__new__(mcls, name, bases, {**members, "__slots__": own})
        made.fields = (*inherited, *own)  # type: ignore[attr-defined]
        made.table = {}  # type: ignore[attr-defined]
        return made

    def __call__(cls, *args: Any) -> Any:
        fields = cls.normalize(*args)  # type: ignore[attr-defined]
        key = cls.key(fields)  # type: ignore[attr-defined]
        table = cls.table  # type: ignore[attr-defined]
        found = table.get(key)
        if found is None:
            found = object.__new__(cls)  # type: ignore[arg-type]
            for name, value in zip(cls.fields, fields, strict=True):  # type: ignore[attr-defined]
                object.__setattr__(found, name, value)
            found.check()
            table[key] = found
        return found


class Immutable(metaclass=Interned):
    """Base of what is interned: fields are set once, by the metaclass."""

    if TYPE_CHECKING:
        fields: ClassVar[tuple[str, ...]]

        def __init__(self, *fields: Any) -> None: ...

    @classmethod
    def normalize(cls, *args: Any) -> tuple[Any, ...]:
        """The fields, from the arguments of the constructor."""
        return args

    @classmethod
    def key(cls, fields: tuple[Any, ...]) -> Any:
        """What tells objects of this class apart; the fields themselves if they hash so."""
        return fields

    def check(self) -> None:
        """Refuses fields that make no sense, with a `UserError`."""

    def replace(self, **changes: Any) -> Any:
        """A copy with other fields."""
        values = (changes.pop(name, getattr(self, name)) for name in self.fields)
        made = tuple(values)
        if changes:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(changes)}")
        return type(self)(*made)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot set {name!r}")

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> Any:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, name) for name in self.fields)

    def __repr__(self) -> str:
        return f"<{self}>" if type(self).__str__ is not object.__str__ else super().__repr__()


class Attribute(Immutable):
    """Any attribute."""

    alias = ""  # the stem of the alias that text gives it, if any

    def text(self, style: TextStyle) -> str:
        """The attribute in textual syntax."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text(PLAIN)
