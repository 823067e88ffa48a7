from __future__ import annotations

import errno
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from markdown_blocks import ROOT

from native_log import LogDir, cli, errors
from native_log.cli import runner
from native_log.cli.app import kafkalog
from native_log.cli.runner import exit_code_of

if TYPE_CHECKING:
    from pathlib import Path


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def deny(path: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", deny)
    with pytest.raises(SystemExit) as ended:
        kafkalog.main(["ls", str(tmp_path)], prog_name="kafkalog")
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"kafkalog: {tmp_path}: no permission")


def test_a_missing_library_is_not_damage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "native_log.cli.app")
    monkeypatch.setitem(sys.modules, "click", None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "needs click and rich: pip install" in capsys.readouterr().err


def test_an_interrupt_during_the_exit_leaves_no_traceback() -> None:
    """The work is done then, and the exit code says so."""
    program = (
        "import atexit, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "atexit.register(signal.raise_signal, signal.SIGINT)\n"
        "from native_log.cli import main\n"
        "sys.argv = ['kafkalog', '--version']\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_all_exit_codes_are_in_the_documentation() -> None:
    codes = {name: value for name, value in vars(runner).items() if name.isupper() and isinstance(value, int)}
    assert codes == {"DATA_ERROR": 1, "USAGE_ERROR": 2, "DECLINED": 3, "INTERRUPTED": 130}
    documented = (ROOT / "docs/cli.md").read_text().split("## Exit codes")[1]
    help_text = CliRunner().invoke(kafkalog, ["--help"]).stdout
    for code in (0, *codes.values()):
        assert f"| {code} | " in documented
        assert re.search(rf"^ +{code}  \w", help_text, re.MULTILINE)


def test_names_of_directories_do_not_reach_the_terminal_raw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    LogDir.create(tmp_path)
    LogDir(tmp_path, allow_empty=True).create_topic("t")
    (tmp_path / "\x1b[31mred\u202e-0").mkdir()
    with pytest.raises(SystemExit):
        kafkalog.main(["ls", str(tmp_path)], prog_name="kafkalog")
    assert "skipped: \\x1b[31mred\\u202e-0\n" in capsys.readouterr().err


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["produce --topic t", "compact --topic t", "ls"])
def test_closed_standard_streams(command: str, closed: str, tmp_path: Path) -> None:
    """A log file must not get the number of one of them."""
    LogDir.create(tmp_path).create_topic("t")
    main = f"{sys.executable} -c 'from native_log.cli import main; main()'"
    run = ["sh", "-c", f"{main} {command} {tmp_path} {closed}"]
    result = subprocess.run(run, input="value\n", capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in result.stderr
    # compact asks first: that takes a terminal.
    assert result.returncode == (2 if command.startswith("compact") else 0), result.stderr
    records = 1 if command.startswith("produce") and "<" not in closed else 0
    assert LogDir(tmp_path).partition("t", 0).log_end_offset == records


def test_a_termination_undoes_work_in_progress() -> None:
    program = (
        "import os, signal\n"
        "from native_log.cli.termination import terminable\n"
        "with terminable():\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        signal.pause()\n"
        "    finally:\n"
        "        print('undone')\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (-signal.SIGTERM, "undone\n")
