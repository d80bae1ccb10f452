"""Places to keep records in, and records to keep, for tests."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tileloom.records import Record

TRACE = [
    [["GetBlock", [], ["C", "main"], ["b0"]], ["Split", ["l1", "v2", "None"], [True], ["l3"]]],
    [[1, [4, 16]], [2, None]],
]
BINARIES = Path("/usr/lib/postgresql")


def record(number: int = 0, **changes: Any) -> Record:
    """A record, of which there may be many that differ."""
    given: dict[str, Any] = {
        "workload": "w", "target": "t", "trace": TRACE, "seconds": (1e-3 + number, 3e-3 + number),
        "created": 1e9 + number, "extra": {"number": number, "args_info": None},
    }  # fmt: skip
    return Record(**{**given, **changes})


def _binary(name: str) -> str | None:
    installed = sorted(BINARIES.glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(installed[-1]) if installed else None)


def _unprivileged() -> dict[str, Any]:
    """Whom to run the server as, which refuses to run as root."""
    if os.getuid() != 0:
        return {}
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        pytest.skip("a server of PostgreSQL needs a user that is not root")
    return {"user": entry.pw_uid, "group": entry.pw_gid}


class Server:
    """A server of PostgreSQL in a folder of its own, reached by a socket there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.whom = _unprivileged()
        self.url = f"postgresql://tester@/postgres?host={folder}"
        if self.whom:
            os.chown(folder, self.whom["user"], self.whom["group"])
        self._run("initdb", "-D", str(folder / "data"), "-U", "tester", "-A", "trust", "-N")
        self.start()

    def start(self) -> None:
        options = f"-c listen_addresses='' -k {self.folder} -c fsync=off"
        self._control("-w", "-o", options, "-l", str(self.folder / "log"), "start")

    def stop(self) -> None:
        self._control("-m", "immediate", "stop")

    def clear(self) -> None:
        """Drop all tables."""
        psycopg = pytest.importorskip("psycopg")
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", str(self.folder / "data"), *arguments)

    def _run(self, name: str, *arguments: str) -> None:
        command = [_binary(name) or name, *arguments]
        output = self.folder / "output"  # no pipe, which the server would keep open
        with output.open("a") as file:
            subprocess.run(
                command, check=True, stdout=file, stderr=file, cwd=self.folder, **self.whom
            )


def running_server() -> Iterator[Server]:
    """A server for some tests."""
    pytest.importorskip("psycopg")
    if _binary("initdb") is None or _binary("pg_ctl") is None:
        pytest.skip("there is no PostgreSQL here")
    folder = Path(tempfile.mkdtemp(prefix="tileloom-"))  # short: the name of a socket is limited
    try:
        server = Server(folder)
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
