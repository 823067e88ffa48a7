from __future__ import annotations

import errno
import sys

import pytest

from native_log import cli, errors
from native_log.cli.app import kafkalog
from native_log.cli.runner import exit_code_of


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FileNotFoundError(errno.ENOENT, "no such file", "/x"), 2),
        (PermissionError(errno.EACCES, "permission denied", "/x"), 2),
        (errors.NotALogDirError("x"), 2),
        (errors.EmptyLogDirError("x"), 2),
        (errors.UnknownTopicOrPartitionError("x"), 2),
        (errors.LogDirInUseError("x"), 2),
        (errors.CorruptRecordError("x"), 1),
        (errors.CorruptIndexError("x"), 1),
        (errors.LogNeedsRecoveryError("x"), 1),
        (errors.LogTruncatedError("x"), 1),
    ],
)
def test_damage_and_usage_errors_have_different_exit_codes(error: errors.KafkaLogError, code: int) -> None:
    assert exit_code_of(error) == code


def test_no_permission_is_not_damage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def deny(path: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", deny)
    with pytest.raises(SystemExit) as ended:
        kafkalog.main(["ls", "/var/kafka-logs"], prog_name="kafkalog")
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("kafkalog: /var/kafka-logs: no permission")


def test_a_missing_library_is_not_damage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "native_log.cli.app")
    monkeypatch.setitem(sys.modules, "click", None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "needs click and rich: pip install" in capsys.readouterr().err
