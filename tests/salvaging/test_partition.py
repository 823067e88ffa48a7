"""What the report says about one partition: gaps, transactions, checkpoints."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import native_log
from native_log import LogDir, UnknownTopicOrPartitionError
from native_log.checkpoints.write_intent import PartitionBackup, WriteIntent
from native_log.policies import Gaps, TopicFacts, explain_gaps
from native_log.salvaging.accounting import OffsetAccount
from native_log.segment.damage import DamagedRange
from native_log.segment.files import INDEX, LOG, file_name
from tests.builders.batches import ABORT, COMMIT, TRANSACTIONAL, Rec, batch, marker, v2
from tests.builders.golden import DATA, GOLDEN
from tests.builders.logs import write_log
from tests.contents import batches

from .support import damaged, findings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def data(offset: int, producer_id: int, count: int = 1) -> bytes:
    """Return a batch of an open transaction."""
    return v2([Rec()] * count, offset, attributes=TRANSACTIONAL, producer_id=producer_id, base_sequence=0)


def salvage(tmp_path: Path, segments: dict[int, Sequence[bytes]]) -> list[tuple[Any, ...]]:
    """Return the findings of a salvage of one partition, without the missing topic id."""
    source = write_log(tmp_path / "source/t-0", segments).parent
    report = native_log.salvage(source, tmp_path / "copy")
    return [finding for finding in findings(report) if finding[1] != "topic-id"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        # the marker is lost: the transaction stays open
        (
            [data(0, 7, 2), damaged(marker(2, 7)), batch(3)],
            [("lost", "crc", 2, 2), ("transaction", "open", 0, 1)],
        ),
        # the next marker of the producer decides about the records before the loss, too
        (
            [data(0, 7, 2), damaged(marker(2, 7, ABORT)), data(3, 7), marker(4, 7, COMMIT)],
            [("lost", "crc", 2, 2), ("transaction", "doubtful", 0, 1)],
        ),
        # producers without an open transaction at the loss are not in doubt
        (
            [data(0, 7), marker(1, 7), damaged(batch(2)), data(5, 7), marker(6, 7)],
            [("lost", "crc", 2, 4)],
        ),
        # two producers; one ends before the loss
        (
            [data(0, 7), data(1, 8), marker(2, 7), damaged(batch(3)), marker(6, 8)],
            [("lost", "crc", 3, 5), ("transaction", "doubtful", 1, 1)],
        ),
        ([data(0, 7)], [("transaction", "open", 0, 0)]),
    ],
)
def test_transactions(content: list[bytes], expected: list[tuple[Any, ...]], tmp_path: Path) -> None:
    assert salvage(tmp_path, {0: content}) == expected
    log = LogDir(tmp_path / "copy").partition("t", 0)
    first = [finding[2] for finding in expected if finding[1] == "open"]
    assert log.last_stable_offset == (first[0] if first else log.log_end_offset)
    assert native_log.verify(tmp_path / "copy").to_pylist() == []


def test_a_lost_segment_may_contain_markers(tmp_path: Path) -> None:
    segments = {0: [data(0, 7)], 10: [b"garbage"], 20: [data(20, 7), marker(21, 7)]}
    assert salvage(tmp_path, segments) == [
        ("lost", "size", 10, 19),
        ("gap", None, 1, 9),
        ("transaction", "doubtful", 0, 0),
    ]


@pytest.mark.parametrize(
    ("facts", "gaps"),
    [
        (TopicFacts(), Gaps.UNKNOWN),
        (TopicFacts(stored={}), Gaps.UNEXPLAINED),
        (TopicFacts(stored={"cleanup.policy": "delete"}), Gaps.UNEXPLAINED),
        (TopicFacts(stored={"cleanup.policy": "compact,delete"}), Gaps.COMPACTED),
        (TopicFacts(stored={"cleanup.policy": "delete"}, was_compacted=True), Gaps.COMPACTED),
        (TopicFacts(was_compacted=True), Gaps.COMPACTED),
        (TopicFacts(is_internal=True), Gaps.COMPACTED),
        (TopicFacts(stored={"cleanup.policy": "unknown"}), Gaps.UNKNOWN),
    ],
)
def test_what_explains_gaps(facts: TopicFacts, gaps: Gaps) -> None:
    assert explain_gaps(facts) is gaps


def copy(account: OffsetAccount, *offsets: tuple[int | None, int]) -> None:
    """Copy batches with these first and last offsets."""
    bases, lasts = zip(*offsets, strict=True)
    account.copy(bases, lasts)


def account(tmp_path: Path, gaps: Gaps, missing: Sequence[int] = ()) -> OffsetAccount:
    """Return the account of a log with gaps from 5 to 9, from 20 to 29, and a damaged range up to 49."""
    account = OffsetAccount(tmp_path, gaps, dict.fromkeys(missing, "why"), 0)
    copy(account, (0, 4), (10, 19))
    copy(account, (30, 39))
    account.lose(DamagedRange("x", 100, 200, 40, None, "bad", "crc"), 50)
    copy(account, (50, 59))
    account.finish(60, 70, "evidence")
    return account


def bounds(account: OffsetAccount) -> list[tuple[Any, ...]]:
    return [(f.status, f.kind, f.first_offset, f.last_offset) for f in account.findings]


def test_gaps_that_compaction_cannot_explain(tmp_path: Path) -> None:
    assert bounds(account(tmp_path, Gaps.UNEXPLAINED)) == [
        ("lost", "missing", 5, 9),
        ("lost", "missing", 20, 29),
        ("lost", "crc", 40, 49),
        ("lost", "missing-end", 60, 69),
    ]


def test_gaps_that_compaction_may_explain(tmp_path: Path) -> None:
    unknown = account(tmp_path, Gaps.UNKNOWN)
    assert bounds(unknown)[-1] == ("gap", None, 5, 29)
    assert "15 offsets in 2 gaps" in str(unknown.findings[-1].reason)
    assert [bound[1] for bound in bounds(account(tmp_path, Gaps.COMPACTED))] == ["crc", "missing-end"]


def test_an_index_without_a_log_shows_a_missing_segment(tmp_path: Path) -> None:
    lost_ranges = bounds(account(tmp_path, Gaps.COMPACTED, [3, 22, 65]))
    assert lost_ranges == [
        ("lost", "missing-segment", 20, 29),
        ("lost", "crc", 40, 49),
        ("lost", "missing-segment", 60, 69),
    ]


def test_an_index_without_a_log_at_the_end(tmp_path: Path) -> None:
    assert bounds(account(tmp_path, Gaps.COMPACTED, [60]))[-1] == ("lost", "missing-segment", 60, 69)


def test_damage_between_batches_with_consecutive_offsets(tmp_path: Path) -> None:
    account = OffsetAccount(tmp_path, Gaps.UNEXPLAINED, {}, 0)
    copy(account, (0, 4))
    account.lose(DamagedRange("x", 100, 200, None, 5, "bad", "crc"), None)
    copy(account, (5, 9))
    account.finish(10, 10, "evidence")
    assert bounds(account) == [("lost", "crc", None, None)]
    assert account.findings[0].reason == "bad. No offset is missing"


def test_message_sets_without_a_base_offset_are_no_gap(tmp_path: Path) -> None:
    account = OffsetAccount(tmp_path, Gaps.UNEXPLAINED, {}, 0)
    copy(account, (None, 4), (5, 5), (None, 9))
    account.finish(10, 0, "")
    assert (account.findings, account.first_offset, account.next_offset) == ([], None, 10)


def test_a_missing_segment_of_a_topic_that_is_not_compacted(tmp_path: Path) -> None:
    """The cluster metadata says that the topic is not compacted."""
    source = shutil.copytree(DATA.parent.parent / "examples/kafka-logs", tmp_path / "source")
    with LogDir(source) as logs, logs.partition("orders", 0, config={"segment.bytes": 200}) as log:
        for _ in range(4):
            log.append(pa.table({"value": [b"v" * 100]}))
        missing = log.segments[2]
    for file in missing.path.parent.glob(f"{missing.base_offset:020d}.*"):
        file.unlink()
    report = native_log.salvage(source, tmp_path / "copy", "orders")
    assert findings(report) == [("lost", "missing", missing.base_offset, missing.base_offset)]


def test_a_log_that_ends_before_its_start_offset_is_kept(tmp_path: Path) -> None:
    write_log(tmp_path / "source/t-0", {0: [batch(0), batch(3)]})
    (tmp_path / "source/log-start-offset-checkpoint").write_text("0\n1\nt 0 50\n")
    report = native_log.salvage(tmp_path / "source", tmp_path / "copy")
    assert ("warning", "log-start-offset", None, None) in findings(report)
    log = LogDir(tmp_path / "copy").partition("t", 0)
    assert (log.log_start_offset, log.log_end_offset) == (0, 6)


def test_an_empty_log_keeps_its_offsets(tmp_path: Path) -> None:
    assert salvage(tmp_path, {5000: []}) == []
    log = LogDir(tmp_path / "copy").partition("t", 0)
    assert (log.log_start_offset, log.log_end_offset) == (5000, 5000)


def test_offsets_that_no_index_entry_can_hold_are_lost(tmp_path: Path) -> None:
    content = [batch(0), batch(2**31 - 3), batch(2**31), batch(2**32)]
    found = salvage(tmp_path, {0: content})
    assert batches(tmp_path / "copy/t-0") == content[:2]
    assert ("lost", "order", 2**31, None) in found
    assert native_log.verify(tmp_path / "copy").to_pylist() == []


def test_an_unfinished_write_is_left_out(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "source/t-0", {0: [batch(0), batch(3), batch(6)]})
    backup = PartitionBackup.of(directory, 0, (len(batch(0)), 0, 0), (3, 9))
    WriteIntent("job", (backup,), {}).write(tmp_path / "source")
    report = native_log.salvage(tmp_path / "source", tmp_path / "copy")
    assert findings(report)[0] == ("skipped", "uncommitted", 3, None)
    assert batches(tmp_path / "copy/t-0") == [batch(0)]


def test_an_unfinished_write_that_rolled_the_log_is_left_out(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "source/t-0", {0: [batch(0), batch(3)], 6: [batch(6)], 9: [batch(9)]})
    backup = PartitionBackup.of(directory, 0, (len(batch(0)), 0, 0), (3, 12))
    WriteIntent("job", (backup,), {}).write(tmp_path / "source")
    (directory / f"{9:020d}.snapshot").write_bytes(b"")
    report = native_log.salvage(tmp_path / "source", tmp_path / "copy")
    assert findings(report) == [("skipped", "uncommitted", 3, None), ("warning", "topic-id", None, None)]
    assert batches(tmp_path / "copy/t-0") == [batch(0)]


def test_a_log_that_starts_at_its_start_offset_has_all_its_records(tmp_path: Path) -> None:
    source = write_log(tmp_path / "source/t-0", {5: [batch(5)]}).parent
    (source / "log-start-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    report = native_log.salvage(source, tmp_path / "copy")
    assert findings(report) == [("warning", "topic-id", None, None)]


def test_a_topic_id_of_another_partition_or_a_given_one(tmp_path: Path) -> None:
    for number in (0, 1):
        write_log(tmp_path / f"source/t-{number}", {0: [batch(0)]})
    topic_id = "5TCEJCGxQ7mWJGPZdfOGpg"
    (tmp_path / "source/t-1/partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    native_log.salvage(tmp_path / "source", tmp_path / "copy")
    logs = LogDir(tmp_path / "copy")
    assert [logs.partition("t", number).topic_id for number in (0, 1)] == [topic_id] * 2
    other = topic_id[::-1]
    native_log.salvage(tmp_path / "source", tmp_path / "other", topic_ids={"t": other})
    assert LogDir(tmp_path / "other").partition("t", 0).topic_id == other


def test_wrong_leader_epochs_are_rebuilt(tmp_path: Path) -> None:
    content = [batch(0, leader_epoch=1), batch(3, leader_epoch=4)]
    directory = write_log(tmp_path / "source/t-0", {0: content})
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n9 0\n")
    native_log.salvage(tmp_path / "source", tmp_path / "copy")
    epochs = LogDir(tmp_path / "copy").partition("t", 0).leader_epochs
    assert [(entry.epoch, entry.start_offset) for entry in epochs] == [(1, 0), (4, 3)]


def test_right_leader_epochs_are_kept(tmp_path: Path) -> None:
    """The epochs of lost and of compacted batches are only in the checkpoint."""
    content = [batch(0, leader_epoch=1), damaged(batch(3, leader_epoch=4)), batch(6, leader_epoch=5)]
    directory = write_log(tmp_path / "source/t-0", {0: content})
    (directory / "leader-epoch-checkpoint").write_text("0\n4\n1 0\n4 3\n5 6\n6 9\n")
    native_log.salvage(tmp_path / "source", tmp_path / "copy")
    epochs = LogDir(tmp_path / "copy").partition("t", 0).leader_epochs
    assert [(entry.epoch, entry.start_offset) for entry in epochs] == [(1, 0), (4, 3), (5, 6)]


def test_leader_epochs_begin_at_the_log_start_offset(tmp_path: Path) -> None:
    """A broker that was killed may have moved the log start offset, but not the epochs."""
    directory = write_log(tmp_path / "source/t-0", {0: [batch(0, leader_epoch=1), batch(3, leader_epoch=4)]})
    (directory / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n4 3\n")
    (tmp_path / "source/log-start-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    native_log.salvage(tmp_path / "source", tmp_path / "copy")
    epochs = LogDir(tmp_path / "copy").partition("t", 0).leader_epochs
    assert [(entry.epoch, entry.start_offset) for entry in epochs] == [(1, 2), (4, 3)]


def test_an_unknown_topic(tmp_path: Path) -> None:
    write_log(tmp_path / "source/t-0", {0: [batch(0)]})
    with pytest.raises(UnknownTopicOrPartitionError, match="there is no topic u, but t"):
        native_log.salvage(tmp_path / "source", tmp_path / "copy", "u")


@pytest.mark.parametrize("name", ["2.log", "00000000000000000002.log.swap", "00000000000000000000.log.swap"])
@pytest.mark.parametrize("content", [b"", b"garbage" * 20])
def test_a_file_without_records_hides_no_others(tmp_path: Path, name: str, content: bytes) -> None:
    segments = {0: [batch(0), batch(3), batch(6)], 9: [batch(9), batch(12)]}
    directory = write_log(tmp_path / "source/t-0", segments)
    expected = batches(directory)
    (directory / name).write_bytes(content)
    report = native_log.salvage(tmp_path / "source", tmp_path / "copy").to_pylist()
    assert batches(tmp_path / "copy/t-0") == expected
    assert [row["kind"] for row in report if row["status"] == "lost"] == []
    (ignored,) = [row for row in report if row["path"] == str(directory / name)]
    assert (ignored["status"], ignored["kind"], ignored["sizeInBytes"]) == ("warning", "file", len(content))


def test_a_damaged_segment_that_hides_nothing_is_lost(tmp_path: Path) -> None:
    segments = {0: [batch(0)], 3: [damaged(batch(3))], 6: [batch(6)]}
    assert salvage(tmp_path, segments) == [("lost", "crc", 3, 5)]


def test_a_directory_in_the_place_of_a_log_file_is_a_missing_segment(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "source/t-0", {0: [batch(0)], 3: [batch(3)], 6: [batch(6)]})
    (directory / file_name(3, INDEX)).touch()
    (directory / file_name(3, LOG)).unlink()
    (directory / file_name(3, LOG)).mkdir()
    report = findings(native_log.salvage(tmp_path / "source", tmp_path / "copy"))
    assert ("lost", "missing-segment", 3, 5) in report
    (problem,) = native_log.verify(tmp_path / "source").to_pylist()
    assert "expected a regular file, found a directory" in problem["problem"]


def test_a_topic_id_of_the_cluster_metadata(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(GOLDEN / "kafka-4.1/whole-broker/data", source)
    expected = {topic: LogDir(source).partition(topic, 0).topic_id for topic in ("state", "trimmed")}
    assert None not in expected.values()
    (source / "state-0/partition.metadata").write_bytes(b"\xff\xfe")
    (source / "trimmed-0/partition.metadata").unlink()
    report = native_log.salvage(source, tmp_path / "copy").to_pylist()
    assert [row for row in report if row["kind"] == "topic-id"] == []
    copy = LogDir(tmp_path / "copy")
    assert {topic: copy.partition(topic, 0).topic_id for topic in expected} == expected
