"""Each option of a command has an effect: with it, the command prints something else."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from native_log import LogDir
from native_log.cli.app import kafkalog
from tests.builders.golden import GOLDEN

if TYPE_CHECKING:
    from collections.abc import Sequence

WHOLE_BROKER = GOLDEN / "kafka-4.1/whole-broker/data"
DAMAGED = GOLDEN / "kafka-4.1/corrupt-bitflip-body/data"
NOW_NS = 1_800_000_000 * 10**9
DELETED = "0" * 32 + "-delete"
DELETED_TOPIC = "gone-0.e881470a21df4f2f9303e764aa83e3bf-delete"
END = ("--high-watermark", "checkpoint")
KINDS = ("--include-deleted",)
TOPIC, OTHERS = ("--topic", "payments"), ("--exclude-topic", "payments")
LOGS = (END, KINDS, TOPIC, OTHERS)
RECORDS = (
    *(("--partition", "1"), ("--offset", "3"), ("--end-offset", "5")),
    *(("--from", "2023-11-14T22:30"), ("--until", "2023-11-14T22:30")),
    *(("--key", "k1"), ("--key-prefix", "k1"), ("--where", "offset = 1"), ("--limit", "2")),
    *(("--columns", "key"), ("--encoding", "base64"), ("--include-headers",)),
    ("--isolation-level", "read_committed"),
)
EFFECTS = {
    "ls LOGS --json": (*LOGS, ("--verify",), ("--count",)),
    "verify LOGS --json": LOGS,
    "transactions LOGS --json": (KINDS, ("--topic", "txn"), ("--exclude-topic", "txn")),
    "groups LOGS --json": (END, KINDS, ("--group", "group-a")),
    "report LOGS -o NEW": (
        *LOGS,
        *(("--verify",), ("--batches",), ("--compaction",), ("--retention",), ("--full",)),
    ),
    "diff LOGS COPY --json": (KINDS, TOPIC, OTHERS),
    "restore LOGS NEW --json --dry-run": (
        *LOGS,
        *(("--offset", "3"), ("--end-offset", "5")),
        *(("--from", "2023-11-14T22:30"), ("--until", "2023-11-14T22:30")),
    ),
    "salvage LOGS NEW --json --dry-run": (KINDS, TOPIC, OTHERS),
    "recover LOGS --json --dry-run": (TOPIC, OTHERS, ("--from-start",)),
    "reindex LOGS --dry-run": (TOPIC, OTHERS, ("--index-interval-bytes", "1")),
    "compact LOGS --json --dry-run": (TOPIC, OTHERS, ("--conf", "min.cleanable.dirty.ratio=0")),
    "retain LOGS --json --dry-run": (TOPIC, OTHERS, ("--conf", "retention.bytes=1")),
    "erase LOGS --json --dry-run --key-prefix pay": (TOPIC, OTHERS, ("--key", "k1"), ("--header", "h")),
    "cat LOGS --format json --mode dropMalformed": (
        *LOGS,
        *RECORDS,
        *(("--header", "h"), ("--header-prefix", "h=1"), ("--tail", "1")),
    ),
    "grep --regexp . LOGS --format json --mode dropMalformed": (
        *LOGS,
        *RECORDS,
        *(("--fixed-strings",), ("--in", "headers"), ("--count",)),
    ),
}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A log directory with an open transaction, deleted partitions, damage, and low high watermarks."""
    folder = tmp_path_factory.mktemp("options")
    logs = shutil.copytree(WHOLE_BROKER, folder / "logs")
    for topic in ("txn-0", f"other-0.{DELETED}"):
        shutil.copytree(GOLDEN / "kafka-4.1/txn/data/txn-0", logs / topic)
    (logs / "events-2").rename(logs / f"events-2.{DELETED}")
    for directory in ("payments-0", "state-0", f"other-0.{DELETED}", DELETED_TOPIC):
        *_, last = sorted((logs / directory).glob("*.log"))
        with last.open("ab") as log:
            log.write(b"no batch" * 20)
    checkpoint = logs / "replication-offset-checkpoint"
    version, _, *entries = checkpoint.read_text().splitlines()
    halves = [f"{name} {int(end) // 2}" for name, end in (entry.rsplit(" ", 1) for entry in entries)]
    checkpoint.write_text("\n".join([version, str(len(halves)), *halves, ""]))
    return {"LOGS": str(logs), "NEW": str(folder / "new"), "COPY": str(WHOLE_BROKER)}


def printed(paths: dict[str, str], command: str, option: Sequence[str] = ()) -> str:
    name, *arguments = (paths.get(part, part) for part in command.split())
    result = CliRunner().invoke(kafkalog, [name, *option, *arguments])
    assert result.exit_code in (0, 1), result.stderr
    file = Path(paths["NEW"])
    output = result.stdout + (file.read_text() if file.exists() else "")
    file.unlink(missing_ok=True)
    return output


@pytest.mark.parametrize("command", EFFECTS, ids=lambda command: command.split()[0])
def test_options_have_effects(paths: dict[str, str], command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: NOW_NS)
    without = printed(paths, command)
    assert printed(paths, command) == without
    for option in EFFECTS[command]:
        assert printed(paths, command, option) != without, option


@pytest.mark.parametrize("command", ["cat DAMAGED", "grep --regexp . DAMAGED"])
def test_damage_is_an_error_or_skipped(command: str) -> None:
    arguments = [str(DAMAGED) if part == "DAMAGED" else part for part in command.split()]
    failed, skipped = (
        CliRunner().invoke(kafkalog, [*arguments, "--mode", mode]) for mode in ("failFast", "dropMalformed")
    )
    assert (failed.exit_code, skipped.exit_code) == (1, 0)
    assert len(failed.stdout) < len(skipped.stdout)


def test_tombstones_keep_keys(tmp_path: Path) -> None:
    logs = shutil.copytree(WHOLE_BROKER, tmp_path / "logs")
    before = LogDir(logs).scan(filter="key = 'k1'").count_rows()
    erase = ["erase", str(logs), "--key", "k1", "--yes"]
    assert CliRunner().invoke(kafkalog, [*erase, "--tombstone"]).exit_code == 0
    assert LogDir(logs).scan(filter="key = 'k1' AND value IS NULL").count_rows() == before > 0
    assert CliRunner().invoke(kafkalog, erase).exit_code == 0
    assert LogDir(logs).scan(filter="key = 'k1'").count_rows() == 0


@pytest.mark.parametrize(
    "command",
    [
        *(
            "ls URL",
            "verify URL",
            "transactions URL",
            "groups URL",
            "report URL -o NEW",
            "diff URL URL",
            "cat URL",
        ),
        *("grep x URL", "restore URL NEW --dry-run", "compact URL --dry-run", "retain URL --dry-run"),
        *("erase URL --dry-run --key k", "delete-records URL --dry-run --offset t:0:1"),
    ],
)
def test_storage_options_are_used(command: str, tmp_path: Path) -> None:
    """An unknown one is an error before any request is sent."""
    names = {"URL": "s3://bucket/logs", "NEW": str(tmp_path / "new")}
    arguments = [names.get(part, part) for part in command.split()]
    result = CliRunner().invoke(kafkalog, [*arguments, "--storage-option", "nonsense=1"])
    assert "found nonsense" in result.stderr
