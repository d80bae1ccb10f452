"""Refusals of the schedule: a sentence at once, the program with carets when somebody looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import InternalError, UserError
from ..script import show_marked
from ..tir import Block, For, IRModule, SparseIteration, Stmt
from .sref import Referable, StmtSRef

LEVELS = ("detail", "fast", "none")
Place = StmtSRef | Stmt


class ScheduleError(UserError):
    """A step that cannot be taken.

    The text is made when it is asked for: catching refusals and going on costs little. With
    `error_render_level="detail"` it holds the step, the precondition that failed, the program with
    the loops and blocks concerned underlined, and what to do instead.

    Attributes:
        message: what is wrong, in one sentence.
        places: the loops and blocks concerned.
        notes: a word on each place.
        with_fast: whether the detailed text ends with the one of `error_render_level="fast"`.
    """

    with_fast = False

    def __init__(
        self,
        message: str,
        *,
        at: Sequence[Place] = (),
        notes: Sequence[str] = (),
        hint: str | None = None,
        primitive: str = "",
        fast: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.primitive = primitive
        self.fast = fast or message
        # References move on; the statements they stand at now are what the message is about.
        self.places = tuple(p.stmt if isinstance(p, StmtSRef) else p for p in at)
        self.notes = tuple(notes)
        self.mod: IRModule | None = None
        self.step = ""
        self.level = "detail"

    def complete(self, mod: IRModule, primitive: str, step: str, level: str) -> None:
        """Add what the schedule knows, unless a step within this one has added it already."""
        if self.mod is None:
            self.mod, self.step, self.level = mod, step, level
            self.primitive = self.primitive or primitive

    @property
    def args(self) -> tuple[Any, ...]:  # type: ignore[override]
        """The text, as other exceptions have it."""
        return (str(self),)

    def __repr__(self) -> str:
        """With the whole text, as other exceptions have it: pytest shows this of what it caught."""
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_plain, (str(self),))

    def __str__(self) -> str:
        if self.level == "none":
            return "ScheduleError: (not rendered)"
        if self.level == "fast":
            return f"ScheduleError: {self.fast}"
        lines = [f"{self.primitive}: {self.message}" if self.primitive else self.message]
        if self.step:
            lines.append(f"  --> {self.step}")
        if self.mod is not None:
            lines.append(self._program(self.mod))
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        if self.with_fast:
            step = self.primitive.replace("_", "-")
            title = f"An error occurred in the schedule primitive '{step}'."
            lines.append(f"  TVM says: ScheduleError: {title} {self.fast}")
        return "\n".join(lines)

    def _program(self, mod: IRModule) -> str:
        marks = {}
        for i, place in enumerate(self.places):
            if place is not None and place not in marks:
                marks[place] = self.notes[i] if i < len(self.notes) else ""
        return show_marked(mod, marks)


def _plain(text: str) -> ScheduleError:
    """What a pickled refusal comes back as."""
    return ScheduleError(text)


def refuse(
    message: str,
    *,
    at: Sequence[Place] = (),
    notes: Sequence[str] = (),
    hint: str | None = None,
    fast: str = "",
) -> ScheduleError:
    """A refusal to raise: `raise refuse("...", at=[loop], hint="...")`.

    Args:
        message: the precondition that does not hold, with the names of what breaks it.
        at: the loops and blocks concerned, which the text underlines.
        notes: a word on each of them, printed next to the carets.
        hint: legal alternatives.
        fast: a shorter message for `error_render_level="fast"`.
    """
    return ScheduleError(message, at=at, notes=notes, hint=hint, fast=fast)


def name_of(place: StmtSRef | Referable) -> str:
    """How messages call a loop, block or iteration: `loop 'i'`, `block 'C'`."""
    stmt = place.stmt if isinstance(place, StmtSRef) else place
    if isinstance(stmt, For):
        return f"loop {stmt.loop_var.name!r}"
    if isinstance(stmt, Block):
        return f"block {stmt.name_hint!r}"
    if isinstance(stmt, SparseIteration):
        return f"sparse iteration {stmt.name!r}"
    raise InternalError("a message about an expired reference")
