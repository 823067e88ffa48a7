"""`kafkalog transactions`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from markdown_blocks import ROOT

from native_log.cli.app import kafkalog
from native_log.messages.transaction_log import RECORDS
from tests.builders.golden import GOLDEN
from tests.builders.internal_topics import TRANSACTIONS_TOPIC, InternalTopic, Pair
from tests.builders.messages import encode_key, encode_value

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE = ROOT / "examples/kafka-logs"
ONGOING, COMPLETE_COMMIT = 1, 4


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(kafkalog, ["transactions", *map(str, arguments)])
    assert (result.exit_code, result.stderr) == (code, "")
    return str(result.stdout)


def rows(*arguments: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(*arguments, "--json"))["transactions"]
    return found


def write_state(log_dir: Path, name: str, status: int, partitions: list[int]) -> None:
    """Write the state of producer 7."""
    fields = {
        "producerId": 7,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": status,
        "transactionStartTimestampMs": -1,
        "transactionPartitions": [{"topic": "payments", "partitionIds": partitions}] if partitions else None,
    }
    value = encode_value(RECORDS, 0, 0, **fields)
    write_coordinator(log_dir, (encode_key(RECORDS, 0, transactionalId=name), value))


def write_coordinator(log_dir: Path, record: Pair) -> None:
    coordinator = InternalTopic(log_dir.with_name("coordinator"), TRANSACTIONS_TOPIC)
    coordinator.append(record)
    (coordinator.path / "__transaction_state-0").rename(log_dir / "__transaction_state-0")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Producer 7 has an open transaction in payments-0, producer 8 has ended one."""
    topic = InternalTopic(tmp_path / "logs", "payments")
    topic.append((b"a", b"1"))
    topic.append((b"b", b"2"), producer_id=7, sequence=0)
    topic.append((b"c", b"3"), producer_id=8, sequence=0)
    topic.end(8, commit=True)
    return tmp_path / "logs"


def test_an_open_transaction_without_the_coordinator(log_dir: Path) -> None:
    (row,) = rows(log_dir)
    assert (row["topic"], row["partition"], row["firstOffset"], row["producerId"]) == ("payments", 0, 1, 7)
    assert (row["transactionalId"], row["coordinatorState"], row["isInCoordinator"]) == (None, None, None)
    assert run(log_dir).splitlines()[-1] == (
        "1 open transaction in 1 partition; __transaction_state is not in these directories"
    )


@pytest.mark.parametrize(
    ("status", "partitions", "is_in_coordinator", "cell"),
    [
        (ONGOING, [0], True, "Ongoing"),
        (ONGOING, [3], False, "Ongoing, not here"),
        (COMPLETE_COMMIT, [], False, "CompleteCommit, not here"),
    ],
)
def test_the_state_of_the_coordinator(
    log_dir: Path, status: int, partitions: list[int], is_in_coordinator: bool, cell: str
) -> None:
    write_state(log_dir, "pay-hang", status, partitions)
    (row,) = rows(log_dir)
    assert (row["transactionalId"], row["transactionTimeoutMs"]) == ("pay-hang", 60_000)
    assert (row["coordinatorState"], row["isInCoordinator"]) == (cell.split(",")[0], is_in_coordinator)
    head, line, totals = run(log_dir).splitlines()
    assert head.split("  ")[0] == "TOPIC"
    assert " ".join(line.split("pay-hang")[1].split()) == f"{cell} 1 min"
    assert totals == "1 open transaction in 2 partitions"


def test_ages_are_measured_from_the_newest_record() -> None:
    (row,) = rows(GOLDEN / "kafka-4.1/crash-txn/data", "-t", "crash-txn")
    assert (row["firstOffset"], row["producerId"], row["startTimestamp"]) == (207, 10, 1700000731524)
    assert row["ageMs"] == 14_154
    assert "14 s 154 ms" in run(GOLDEN / "kafka-4.1/crash-txn/data", "-t", "crash-txn")


def test_no_open_transaction() -> None:
    assert run(SAMPLE) == "0 open transactions in 6 partitions\n"
    assert run(SAMPLE, "-t", "payments") == "0 open transactions in 1 partition\n"
    assert rows(SAMPLE) == []


def test_a_record_that_cannot_be_decoded(log_dir: Path) -> None:
    write_coordinator(log_dir, (b"\0\7", b""))
    result = CliRunner().invoke(kafkalog, ["transactions", str(log_dir)])
    assert result.exit_code == 1
    assert "__transaction_state-0, offset 0: " in result.stderr
    assert "1 open transaction in 2 partitions" in result.stdout
