"""`kafkalog report`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from native_log.cli.app import kafkalog
from tests.builders.golden import GOLDEN

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

DATA = GOLDEN / "kafka-4.1/whole-broker/data"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(kafkalog, ["report", *map(str, arguments)])


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "native_log.reporting.page", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = run(DATA, "-o", tmp_path / "report.html")
    assert result.exit_code == 2
    assert result.stderr.startswith("kafkalog: a report needs Jinja2 and Matplotlib: pip install")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("is_report", [True, False])
def test_only_an_earlier_report_is_replaced(tmp_path: Path, is_report: bool) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    output = tmp_path / "report.html"
    output.write_text("<!doctype html>\n<!-- kafkalog report -->\n" if is_report else "<!doctype html>\n")
    before = output.read_text()
    result = run(DATA, "-t", "events", "-o", output)
    if is_report:
        assert (result.exit_code, result.stderr) == (0, "")
        assert "events" in output.read_text() and "trimmed" not in output.read_text()
        assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    else:
        assert result.exit_code == 2
        assert "expected a new file or an earlier report" in result.stderr
        assert output.read_text() == before


def test_a_link_keeps_its_place(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    (tmp_path / "link.html").symlink_to("target.html")
    assert run(DATA, "-t", "events", "-o", tmp_path / "link.html").exit_code == 0
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "target.html").read_text().startswith("<!doctype html>")


def test_stdout() -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    result = run(DATA, "-t", "state", "-o", "-", "--full")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("<!doctype html>")
    assert (
        "No problems were found in the batches, records, indexes and snapshots of 1 partition"
        in result.stdout
    )


def test_the_file_is_checked_before_the_work(tmp_path: Path) -> None:
    result = run(DATA, "-o", tmp_path / "none/report.html")
    assert result.exit_code == 2
    assert "expected a directory for the report" in result.stderr
    assert run(DATA, "-o", tmp_path).exit_code == 2
    assert run(DATA, "-o", "/dev/null").exit_code == 2


def test_an_unknown_topic(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    result = run(DATA, "-t", "none", "-o", tmp_path / "report.html")
    assert result.exit_code == 2
    assert "none" in result.stderr


def test_an_output_is_required() -> None:
    assert run(DATA).exit_code == 2
