"""`SqliteStore`: records in one file, which any number of processes of a machine may write to.

The file is in WAL mode, so that readers and the writer do not wait for each other, with full
synchronisation: a commit is on the disk when `add` returns. WAL needs memory that all processes
share, so the file belongs on a disk of the machine itself; use PostgreSQL across machines.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..base.errors import UserError
from .sql import NEWEST, TABLES, SqlStore, Statement

_BUSY_SECONDS = 60.0  # how long a writer waits for others
_RETRY_SECONDS = 0.02


class SqliteStore(SqlStore):
    """Records in a file of SQLite's.

    Args:
        path: of the file, which is made if there is none; folders too.
    """

    _from_extra = "json_extract(extra, '$.{}')"

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        super().__init__(str(path))

    def _connect(self) -> sqlite3.Connection:
        with self._refusals():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Threads take turns by our own lock.
            connection = sqlite3.connect(
                self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                use_wal(connection)
                connection.execute("PRAGMA synchronous = FULL")
                tables = [(sql.format(serial="INTEGER"), ()) for sql in TABLES]
                if not _has_tables(connection):
                    self._write(connection, tables)
            except BaseException:
                connection.close()
                raise
            return connection

    def _read(
        self, connection: sqlite3.Connection, sql: str, values: Sequence[object]
    ) -> list[tuple[object, ...]]:
        with self._refusals():
            return connection.execute(sql, values).fetchall()

    def _write(self, connection: sqlite3.Connection, statements: Sequence[Statement]) -> None:
        with self._refusals():
            # Taken at once: a transaction that reads first would fail where others write between.
            connection.execute("BEGIN IMMEDIATE")
            try:
                for sql, values in statements:
                    connection.execute(sql, values)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise UserError(f"cannot keep records in {self._path}: {error}") from error


def use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL, for which SQLite does not wait as it does for all else."""
    give_up = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > give_up:
                raise
            time.sleep(_RETRY_SECONDS)


def _has_tables(connection: sqlite3.Connection) -> bool:
    """Whether the tables are there; they are made in one transaction."""
    sql = f"SELECT count(*) FROM sqlite_master WHERE name = '{NEWEST}'"
    return bool(connection.execute(sql).fetchone()[0])
