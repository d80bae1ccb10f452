"""`PostgresStore`: records in a database of PostgreSQL, for several machines that tune together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ..base.errors import UserError
from .sql import NEWEST, TABLES, SqlStore, Statement

_GIVE_UP_SECONDS = 60.0  # for a server that is away
_RETRY_SECONDS = 0.5
_CONNECT_SECONDS = 10
_LOCK = 0x71_1E_10_03  # the advisory lock under which tables are made
_CLAIMS_LOCK = 0x71_1E_10_04  # and the one under which claims are

T = TypeVar("T")


class PostgresStore(SqlStore):
    """Records in PostgreSQL, through `psycopg` (the extra `postgres`).

    Where the connection is lost, because the server was restarted for one, it is made anew, for up
    to a minute. Rows have tokens, so that one sent again is not there twice.

    Args:
        url: `postgresql://user:password@host:port/database?options`.
    """

    _from_extra = "extra::json ->> '{}'"
    _before_claims = (("SELECT pg_advisory_xact_lock(?)", (_CLAIMS_LOCK,)),)

    def __init__(self, url: str) -> None:
        self._url = url
        self._psycopg = _psycopg()
        parts = urlsplit(url)
        super().__init__(f"PostgreSQL{parts.path} on {parts.hostname or 'this machine'}")

    def _connect(self) -> Any:
        with self._refusals():
            connection = self._psycopg.connect(
                self._url, autocommit=True, connect_timeout=_CONNECT_SECONDS
            )
            try:
                self._make_tables(connection)
            except BaseException:
                connection.close()
                raise
            return connection

    def _make_tables(self, connection: Any) -> None:
        """Where there are none yet, so that who may not make tables can use those of others."""
        [known] = connection.execute(f"SELECT to_regclass('{NEWEST}')").fetchone()
        if known is not None:
            return
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            for sql in TABLES:
                connection.execute(sql.format(serial="BIGSERIAL"))

    def _read(self, connection: Any, sql: str, values: Sequence[Any]) -> list[Any]:
        def read(link: Any) -> list[Any]:
            return list(link.execute(_in_dialect(sql), values).fetchall())

        return self._again_if_lost(connection, read)

    def _write(self, connection: Any, statements: Sequence[Statement]) -> None:
        def write(link: Any) -> None:
            with link.transaction():
                for sql, values in statements:
                    link.execute(_in_dialect(sql), values)

        self._again_if_lost(connection, write)

    def _again_if_lost(self, connection: Any, work: Callable[[Any], T]) -> T:
        give_up = time.monotonic() + _GIVE_UP_SECONDS
        while True:
            try:
                with self._refusals():
                    return work(connection)
            except UserError:
                if not connection.broken and not connection.closed:
                    raise
            connection = self._connection = self._reconnected(give_up)

    def _reconnected(self, give_up: float) -> Any:
        while True:
            try:
                return self._connect()
            except UserError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(_RETRY_SECONDS)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except self._psycopg.Error as error:
            raise UserError(f"cannot keep records in {self._place}: {error}") from error


def _in_dialect(sql: str) -> str:
    """`psycopg` writes `%s` where SQLite has a question mark."""
    return sql.replace("?", "%s")


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise UserError(
            "records in PostgreSQL need the package 'psycopg'",
            hint="pip install 'tileloom[postgres]'",
        ) from error
    return psycopg
