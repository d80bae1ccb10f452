"""One line of log for a graph of which something is left to PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tileloom.frontend.torch import assemble  # noqa: E402

from .helpers import compiled  # noqa: E402


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "tileloom.torch"]


def some_left(x: Any) -> Any:
    return (x + 1).sort()[0].exp().sort()[0] * torch.linalg.det(x @ x.T)


def test_operators_are_named_with_their_number(caplog: pytest.LogCaptureFixture) -> None:
    run = compiled(some_left)
    for _ in range(2):
        run(torch.randn(3, 3))
    (line,) = lines(caplog)
    assert line.startswith("3 of ")
    assert "2 x aten.sort" in line
    assert "aten._linalg_det.default" in line
    assert "\n" not in line


def test_all_compiled_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    compiled(lambda x: (x + 1).exp())(torch.randn(3, 3))
    assert not lines(caplog)


def test_once_for_all_sizes(caplog: pytest.LogCaptureFixture) -> None:
    run = compiled(lambda x: torch.conv1d(x + 1, x[:, :1, :3]).sort()[0].exp(), dynamic=True)
    for size in (7, 9, 11):
        run(torch.randn(2, 2, size)[:, :1])
    assert len(lines(caplog)) == 1


def test_silence(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("ERROR", "tileloom.torch"):
        compiled(some_left)(torch.randn(3, 3))
    assert not lines(caplog)


def test_a_part_that_fails_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> Any:
        raise ValueError("no such thing\nin detail")

    monkeypatch.setattr(assemble, "CompiledPart", fail)
    torch.testing.assert_close(compiled(torch.exp)(torch.zeros(3)), torch.ones(3))
    assert lines(caplog) == ["a whole part is left to PyTorch: ValueError: no such thing"]
