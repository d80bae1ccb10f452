"""Settings: read from the environment, overridden, documented."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import pytest

from tileloom.base.errors import UserError
from tileloom.base.settings import Settings, override, parse_size, settings


def test_defaults_without_environment() -> None:
    assert Settings.from_environment({}) == Settings()


def test_every_variable_is_read() -> None:
    environment = {
        "TILELOOM_CACHE_DIR": "/some/where",
        "TILELOOM_CACHE": "off",
        "TILELOOM_CACHE_SIZE": "10M",
        "TILELOOM_NUM_THREADS": "7",
        "TILELOOM_THREADING": "pool",
        "TILELOOM_POOL_SIZE": "1.5GiB",
        "TILELOOM_VERIFY": "1",
        "TILELOOM_CHECK": "on",
        "TILELOOM_OPTIMIZE": "exact,+rule",
        "TILELOOM_TRACES": "/traces",
        "TILELOOM_RECORDS": "postgresql://team/records",
        "TILELOOM_PRINT_IR": "tir, llvm",
        "TILELOOM_DUMP_DIR": "/dump",
        "TILELOOM_FULL_TRACEBACK": "yes",
    }
    found = Settings.from_environment(environment)
    assert found == Settings(
        cache_dir=Path("/some/where"),
        cache=False,
        cache_size=10 << 20,
        num_threads=7,
        threading="pool",
        pool_size=3 << 29,
        verify=True,
        check=True,
        optimize=("exact", "+rule"),
        traces=Path("/traces"),
        records="postgresql://team/records",
        print_ir=("tir", "llvm"),
        dump_dir=Path("/dump"),
        full_traceback=True,
    )
    named = {item.metadata["variable"] for item in dataclasses.fields(Settings)}
    assert named == set(environment)


@pytest.mark.parametrize(
    ("variable", "text", "hint"),
    [
        ("TILELOOM_NUM_THREADS", "-1", "not negative"),
        ("TILELOOM_NUM_THREADS", "two", "not negative"),
        ("TILELOOM_CACHE_SIZE", "big", "512M"),
        ("TILELOOM_VERIFY", "maybe", "0 or 1"),
        ("TILELOOM_THREADING", "tbb", "omp"),
    ],
)
def test_unreadable_values_name_the_variable(variable: str, text: str, hint: str) -> None:
    with pytest.raises(UserError, match=variable) as caught:
        Settings.from_environment({variable: text})
    assert hint in str(caught.value)


def test_empty_cache_folder_means_the_default() -> None:
    assert Settings.from_environment({"TILELOOM_CACHE_DIR": ""}) == Settings()


def test_override_nests_and_ends_with_an_error() -> None:
    before = settings()
    with override(num_threads=3):
        with override(verify=True) as inner:
            assert (inner.num_threads, inner.verify) == (3, True)
            assert settings() is inner
        with pytest.raises(ZeroDivisionError), override(num_threads=4):
            raise ZeroDivisionError
        assert settings().num_threads == 3
    assert settings() == before
    with pytest.raises(TypeError), override(no_such_setting=1):
        pass


def test_overrides_of_threads_end_in_any_order() -> None:
    before = settings()
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with override(num_threads=5):
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with override(num_threads=4):
        thread.start()
        entered.wait(10)
    leave.set()
    thread.join(10)
    assert settings() == before


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings().verify = True  # type: ignore[misc]


def table() -> str:
    """All settings as a Markdown table: variable, default, meaning."""
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for item in dataclasses.fields(Settings):
        shown = "~/.cache/tileloom" if item.name == "cache_dir" else shown_default(item.default)
        lines.append(f"| `{item.metadata['variable']}` | {shown} | {item.metadata['meaning']} |")
    return "\n".join(lines)


def shown_default(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int) and value >= 1 << 30:
        return f"{value >> 30}GiB"
    return str(value) if value not in (None, ()) else "(none)"


def test_table_lists_all() -> None:
    lines = table().splitlines()
    assert len(lines) == len(dataclasses.fields(Settings)) + 2
    assert "| `TILELOOM_POOL_SIZE` | 4GiB |" in table()
    assert str(Path.home()) not in table()


@pytest.mark.parametrize("text", ["", "-1", "1.5.5", "5X", "M"])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(ValueError):
        parse_size(text)


def test_the_documentation_shows_the_table() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "settings.md"
    assert table() in page.read_text()
