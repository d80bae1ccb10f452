"""Where records are kept: URLs, files that are something else, other formats, TVM's files."""

from __future__ import annotations

import base64
import fcntl
import json
import sqlite3
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from records.places import TRACE, Server, record
from tileloom import UserError
from tileloom.records import open_records
from tileloom.records.lines import locked
from tileloom.records.sqlite import use_wal


@pytest.mark.parametrize("form", ["{}/a.db", "sqlite:///{}/a.db"])
def test_a_path_is_a_file_of_sqlite(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    with open_records(form.format(folder)) as store:
        store.add(record())
    with open_records(folder / "a.db") as store:
        assert store.all() == [record()]
    connection = sqlite3.connect(folder / "a.db")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_path_may_have_a_colon(tmp_path: Path) -> None:
    with open_records(f"{tmp_path}/a:b.db") as store:
        store.add(record())
    assert (tmp_path / "a:b.db").exists()


@pytest.mark.parametrize("url", ["mysql://a/b", "sqlite:a", "sqlite:///", "jsonl:", "postgresql:a"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(UserError, match="cannot be kept"):
        open_records(url)


def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, and no database" * 100)
    with pytest.raises(UserError, match="not a database"):
        open_records(path)
    assert path.read_text().startswith("these are notes")
    with pytest.raises(UserError, match=r"notes\.txt"):
        open_records(path / "below.db")
    with pytest.raises(UserError, match=r"notes\.txt"):
        open_records(f"jsonl:{path}")


def test_records_of_a_later_format_are_refused(tmp_path: Path) -> None:
    open_records(tmp_path / "a.db").close()
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("INSERT INTO tileloom_format VALUES (99)")
    connection.commit()
    connection.close()
    with pytest.raises(UserError, match="of format 99"):
        open_records(tmp_path / "a.db")


def test_nothing_is_left_open(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with open_records(tmp_path / "a.db") as store:
            store.add(record())
    assert {path.name for path in tmp_path.iterdir()} == {"a.db"}  # the log is folded in


def test_the_switch_to_a_log_is_tried_again() -> None:
    """Where two processes make a file at the same time SQLite does not wait, but refuses one."""

    class Busy:
        refusals = 2

        def execute(self, _sql: str) -> None:
            self.refusals -= 1
            if self.refusals >= 0:
                raise sqlite3.OperationalError("database is locked")

    busy: Any = Busy()
    use_wal(busy)
    assert busy.refusals == -1


def test_postgresql_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UserError, match=r"pip install 'tileloom\[postgres\]'"):
        open_records("postgresql://user:secret@host/database")


@pytest.mark.postgres
def test_a_server_that_is_away(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(UserError, match="cannot keep records in PostgreSQL/base on") as caught:
        open_records(f"postgresql://user:secret@/base?host={tmp_path}")
    assert "secret" not in str(caught.value)


@pytest.mark.postgres
def test_a_server_that_comes_back(server: Server) -> None:
    with open_records(server.url) as store:
        store.add(record(1))
        server.stop()
        server.start()
        assert store.all() == [record(1)]
        server.stop()
        server.start()
        store.add(record(2))
        assert store.all() == [record(1), record(2)]
    server.clear()


# ---------------------------------------------------------------------- TVM's files


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def packed(text: str) -> str:
    """As TVM writes a workload: its length in eight bytes comes first."""
    return base64.b64encode(len(text).to_bytes(8, "little") + text.encode()).decode()


def test_lines_are_those_of_tvm(tmp_path: Path) -> None:
    with open_records(f"jsonl:{tmp_path}") as store:
        store.add_workload("w", "text")
        types = [["TENSOR", "float32", [4]]]
        store.add(record(0, target="cpu-x", extra={"args_info": types}))
        store.add(record(1, workload="v", target="cuda-y", seconds=(), error="lost", extra={}))
    [first, second] = lines(tmp_path / "database_workload.json")
    assert (first[0], second[0]) == ("w", "v")
    assert packed('{"script":"text"}') == first[1]
    cpu = {"kind": "llvm", "keys": ["cpu"], "tag": "cpu-x"}
    gpu = {"kind": "cuda", "keys": ["cuda", "gpu"], "tag": "cuda-y"}
    assert lines(tmp_path / "database_tuning_record.json") == [
        [0, [TRACE, [1e-3, 3e-3], cpu, types]],
        [1, [TRACE, [1e10], gpu, None]],
    ]


def test_files_of_tvm_are_read_and_continued(tmp_path: Path) -> None:
    graph = packed('{\n  "root_index": 1,\n  "nodes": [{"type": "None"}]}')
    llvm = {"kind": "llvm", "keys": ["cpu"], "tag": "", "num-cores": 4}
    types = [["TENSOR", "float32", [128]]]
    written = [[0, [TRACE, [2.0], llvm, types]], [0, [TRACE, None, llvm, types]],
               [0, [TRACE, [1e10], llvm, types]]]  # fmt: skip
    (tmp_path / "database_workload.json").write_text(json.dumps(["123", graph]) + "\n")
    records = tmp_path / "database_tuning_record.json"
    records.write_text("\n".join(map(json.dumps, written)))  # without a line feed at the end
    with open_records(f"jsonl:{tmp_path}") as store:
        assert store.workloads() == {"123": ""}
        found = store.all("123")
        assert [r.seconds for r in found] == [(2.0,), (), ()]
        assert found[0].trace == TRACE and found[0].extra == {"args_info": types}
        key = found[0].target
        assert json.loads(key) == llvm
        store.add(record(workload="123", target=key))
        store.add_workload("123", "text")
        assert store.workloads() == {"123": "text"}
        assert len(store.best("123", key, 9)) == 2
    assert lines(records)[:3] == written
    assert lines(records)[3][1][2] == llvm


def test_a_line_that_was_cut_off_is_written_over(tmp_path: Path) -> None:
    with open_records(f"jsonl:{tmp_path}") as store:
        store.add(record(0))
        with (tmp_path / "database_tuning_record.json").open("a") as file:
            file.write('[0,[[[["GetBlock"')
        assert store.all() == [record(0)]
        with open_records(f"jsonl:{tmp_path}") as other:
            other.add(record(1, extra={"long": "x" * 200_000}))
        store.add(record(2))
        assert [r.created for r in store.all()] == [1e9, 1e9 + 1, 1e9 + 2]
        assert len(lines(tmp_path / "database_tuning_record.json")) == 3


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "database_tuning_record.json").write_text("[0,\n[1]\n")
    with pytest.raises(UserError, match=r"database_tuning_record\.json has a line that is no JSON"):
        open_records(f"jsonl:{tmp_path}")


def test_writers_of_lines_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path), path.open("ab") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
