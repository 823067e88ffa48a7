"""Settings from files, and settings that are ignored in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from native_log.config import InvalidConfigError
from native_log.settings_file import merge_settings

if TYPE_CHECKING:
    from pathlib import Path


def test_given_settings_override_the_file(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text("retention.ms = 5\n#segment.bytes=1\n\nretention.bytes=7")
    expected = {"retention.ms": "6", "retention.bytes": "7"}
    assert merge_settings(tmp_path / "conf", {"retention.ms": "6"}) == expected
    assert merge_settings(None, {"a": "b"}) == {"a": "b"}


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
@pytest.mark.parametrize("name", ["cleanup.policy", "log.cleanup.policy"])
def test_a_file_does_not_ask_to_delete(
    name: str, policy: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "conf").write_text(f"{name}={policy}\nretention.ms=5\n")
    assert merge_settings(tmp_path / "conf", {}) == {"retention.ms": "5"}
    assert f"{name} is ignored" in caplog.text
    caplog.clear()
    given = {"cleanup.policy": "delete"}
    assert merge_settings(tmp_path / "conf", given) == {"retention.ms": "5"} | given
    assert not caplog.records


def test_a_file_may_ask_not_to_delete(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "conf").write_text("cleanup.policy=compact")
    assert merge_settings(tmp_path / "conf", {}) == {"cleanup.policy": "compact"}
    assert not caplog.records


def test_an_invalid_line_is_reported_with_its_number(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text("retention.ms=5\nretention.bytes\n")
    with pytest.raises(InvalidConfigError, match=r"line 2: expected NAME=VALUE, found"):
        merge_settings(tmp_path / "conf", {})
