"""Records: their constructors, matching, copies, and what they refuse."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from tileloom.base.record import Record, field


class Node(Record):
    known: ClassVar[int] = 7
    where: str | None = field(default=None, kw_only=True)


class Pair(Node):
    """Two things."""

    a: int
    b: int = 2
    notes: dict[str, int] = field(default_factory=dict)


class Even(Record):
    value: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", self.value // 2 * 2)


class Empty(Record):
    pass


def test_constructor_takes_fields_by_place_and_name() -> None:
    one, other = Pair(1), Pair(b=5, a=4, notes={"x": 1}, where="here")
    assert (one.a, one.b, one.notes, one.where) == (1, 2, {}, None)
    assert (other.a, other.b, other.notes, other.where) == (4, 5, {"x": 1}, "here")
    assert one.notes is not Pair(1).notes
    assert Pair.known == one.known == 7


@pytest.mark.parametrize("args", [(), (1, 2, {}, "here")])
def test_constructor_refuses_too_few_and_too_many(args: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="__init__"):
        Pair(*args)
    with pytest.raises(TypeError, match="other"):
        Pair(1, other=2)  # type: ignore[call-arg]


def test_first_object_of_a_base_class_leaves_others_alone() -> None:
    class Base(Record):
        a: int = 0

    class Derived(Base):
        b: int = 1

    assert Base(3).a == 3
    assert (Derived(4, 5).a, Derived(4, 5).b) == (4, 5)


def test_fields_are_slots_and_match_by_place() -> None:
    match Pair(1, 3, where="here"):
        case Pair(a, 3, {}):
            assert a == 1
        case _:
            pytest.fail("no match")
    assert not hasattr(Pair(1), "__dict__")
    with pytest.raises(AttributeError, match="Pair is immutable: cannot set 'a'"):
        Pair(1).a = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="cannot delete 'a'"):
        del Pair(1).a


def test_replace() -> None:
    old = Pair(1, where="here")
    new = old.replace(b=9)
    assert (new.a, new.b, new.where, old.b) == (1, 9, "here", 2)
    assert Even(4).replace(value=7).value == Even(7).value == 6
    with pytest.raises(TypeError, match=r"Pair.replace\(\) got an unexpected keyword argument 'c'"):
        old.replace(c=1)


def test_equality_is_identity() -> None:
    one = Pair(1)
    assert one == one
    assert one != Pair(1)
    assert len({one, Pair(1)}) == 2


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))]
)
def test_copies(again: Callable[..., Any]) -> None:
    found = again(Pair(1, notes={"x": 3}, where="here"))
    assert repr(found) == "Pair(where='here', a=1, b=2, notes={'x': 3})"
    assert repr(again(Empty())) == "Empty()"
