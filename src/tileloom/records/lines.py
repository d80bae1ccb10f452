"""Files of JSON lines that several processes append to, and that a crash leaves readable."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from .record import json_text


class LineFile:
    """The values of a file, one a line, as far as they were read.

    Args:
        path: of the file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0  # bytes

    def new_values(self) -> list[Any]:
        """The values that were added since the last call.

        A line without an end is one that is being written, or whose writer was killed: it counts
        once it is whole.
        """
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        *lines, last = data.split(b"\n")
        values = [self._value(line) for line in lines if line.strip()]
        self._read += len(data) - len(last)
        if _is_whole(last):
            values.append(json.loads(last))
            self._read += len(last)
        return values

    def append(self, values: list[Any]) -> None:
        """Add lines, which are on the disk when this returns; only for who holds the lock."""
        text = "".join(f"{json_text(value)}\n" for value in values)
        with self.path.open("a+b") as file:
            end = file.seek(0, os.SEEK_END)
            start = _last_line(file, end)
            file.seek(start)
            rest = file.read()
            if rest and not _is_whole(rest):
                file.truncate(start)  # of a writer that was killed
            file.write((b"\n" if _is_whole(rest) else b"") + text.encode())
            file.flush()
            os.fsync(file.fileno())

    def _value(self, line: bytes) -> Any:
        try:
            return json.loads(line)
        except ValueError as error:
            raise UserError(f"{self.path} has a line that is no JSON: {error}") from None


def _is_whole(line: bytes) -> bool:
    """Whether a line without an end is all there: no part of a list is a list."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _last_line(file: Any, end: int) -> int:
    """Where the last line starts, which is the end after a line feed."""
    step, start = 1 << 16, end
    while start > 0:
        begin = max(0, start - step)
        file.seek(begin)
        at = file.read(start - begin).rfind(b"\n")
        if at >= 0:
            return int(begin + at + 1)
        start = begin
    return 0


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone among the processes that lock this file, and the threads of this one."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # given back when the file is closed, or the process dies
        yield
