"""Which process measures which candidates, in a file of JSON; for who holds a lock."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

Claims = dict[str, tuple[str, float]]


class ClaimFile:
    """Names by owner, each until a time at which the claim ends by itself.

    Args:
        path: of the file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = uuid4().hex
        self._seconds = 0.0  # of a claim, where there are any

    def take(self, names: Sequence[str], seconds: float) -> set[str]:
        """Take names in place of those taken before; those that nobody else has."""
        self._seconds = seconds
        others = self._others()
        until = time.time() + seconds
        own = {name: (self._owner, until) for name in names if name not in others}
        self._write(others | own)
        return set(own)

    def prolong(self) -> None:
        """Begin the time of all claims of this process anew."""
        if self._seconds:
            until = time.time() + self._seconds
            claims = self._read()
            own = {
                name: (owner, until) for name, (owner, _) in claims.items() if owner == self._owner
            }
            self._write(claims | own)

    def give_back(self) -> None:
        """Have no claims any more."""
        if self._seconds:
            self._seconds = 0.0
            self._write(self._others())

    @property
    def _owner(self) -> str:
        return f"{self._token}-{os.getpid()}"

    def _others(self) -> Claims:
        """What others hold at this time."""
        now = time.time()
        return {
            name: (owner, until)
            for name, (owner, until) in self._read().items()
            if owner != self._owner and until >= now
        }

    def _read(self) -> Claims:
        try:
            return {
                name: (claim[0], claim[1])
                for name, claim in json.loads(self._path.read_text()).items()
            }
        except FileNotFoundError:
            return {}

    def _write(self, claims: Claims) -> None:
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(claims))
        new.replace(self._path)  # all of it or nothing, should this process be killed
