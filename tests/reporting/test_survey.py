"""Figures of directories that brokers wrote."""

from __future__ import annotations

import json
import shutil
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import native_log
from native_log import LogDir
from native_log.messages import share_groups as share_messages
from native_log.reporting.figures import CoordinatorFigures, Extent, PartitionFigures, ReportFigures
from native_log.reporting.findings import decide_findings
from native_log.reporting.layout import Table
from native_log.reporting.samples import SAMPLE_BYTES
from native_log.reporting.sections import sections
from native_log.reporting.sections.directories import directory_section
from native_log.reporting.survey import survey
from tests.builders import cluster_metadata
from tests.builders.golden import DATA, GOLDEN, GoldenPartition, golden_partitions, read_rows
from tests.builders.golden_tiered import READABLE, TieredPartition
from tests.builders.internal_topics import SHARE_STATE_TOPIC, InternalTopic, Pair, group_record
from tests.builders.messages import encode_key, encode_value
from tests.reporting.examples import NOW_MS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

V41 = GOLDEN / "kafka-4.1"
WHOLE_BROKER = V41 / "whole-broker"
FULL = Extent(batches=True, verification=True, compaction=True, retention=True)


def survey_of(path: Path, extent: Extent = FULL, now_ms: int = 2 * NOW_MS) -> ReportFigures:
    log_dir = LogDir(path)
    return survey(log_dir, log_dir.partitions(), extent, now_ms)


def partition_of(path: Path, extent: Extent = FULL) -> PartitionFigures:
    (figures,) = survey_of(path, extent).partitions
    return figures


FIXTURES = {
    fixture: list(partitions)
    for fixture, partitions in groupby(golden_partitions(), key=lambda partition: partition.fixture)
}


@pytest.mark.parametrize("extent", [Extent(), FULL], ids=["quick", "full"])
@pytest.mark.parametrize("partition", READABLE, ids=str)
def test_every_tier_that_a_broker_wrote(partition: TieredPartition, extent: Extent) -> None:
    log_dir = LogDir(partition.folder / "data", **partition.remote)
    log = log_dir.partition(*partition.key)
    directories = [each for each in log_dir.partitions() if each.key == partition.key]
    result = survey(log_dir, directories, extent, 2 * NOW_MS)
    (figures,) = result.partitions
    assert not result.failures
    assert figures.offsets == log.log_end_offset - log.local_log_start_offset
    assert figures.size_bytes == sum(segment.size_bytes for segment in log.segments)
    local = LogDir(partition.folder / "data").partition(*partition.key)
    assert len(log.segments) - len(local.segments) <= figures.remote_segments <= len(log.segments)
    assert 0 < figures.remote_bytes < figures.size_bytes or not figures.remote_segments
    if extent.batches:
        assert figures.damaged_ranges == 0


@pytest.mark.parametrize("extent", [Extent(), FULL], ids=["quick", "full"])
@pytest.mark.parametrize("fixture", FIXTURES)
def test_every_directory_that_a_broker_wrote(fixture: str, extent: Extent) -> None:
    """Crashed, damaged, compacted and tiered ones included."""
    expected = FIXTURES[fixture]
    log_dirs = sorted({partition.path.parent for partition in expected})
    log_dir = LogDir(log_dirs)
    figures = survey(log_dir, log_dir.partitions(), extent, 2 * NOW_MS)
    assert sections(figures) and isinstance(decide_findings(figures), list)
    assert figures.failures == ()
    by_name = {(partition.topic, partition.partition): partition for partition in figures.partitions}
    for partition in expected:
        check_figures(by_name[partition.topic, partition.partition], partition)


def test_local_segments_of_tiered_topics() -> None:
    figures = survey_of(DATA / "tiered")
    assert sections(figures) and figures.failures == ()
    assert [partition.name for partition in figures.partitions] == ["d-local-0", "d-rec-0", "d-ret-0"]
    titles = [finding.title for finding in decide_findings(figures)]
    assert any("without their first records" in title for title in titles)


def check_figures(figures: PartitionFigures, expected: GoldenPartition) -> None:
    """Compare figures with what the broker and a consumer said, and with the files."""
    offsets = expected.expected["earliest"], expected.expected["latest"]
    assert (figures.log_start_offset, figures.log_end_offset) == offsets
    assert figures.size_bytes == sum(figures.segment_sizes)
    if figures.damaged_ranges or figures.missing_end:
        return
    times = [row["timestamp"] for row in expected.rows()]
    known = [time or -1 for time in figures.segment_times_ms]
    if times and max(known) >= 0:
        assert max(known) >= max(times)
    if times and figures.last_timestamp_ms is not None:
        assert figures.last_timestamp_ms >= times[-1]


@pytest.mark.parametrize("extent", [Extent(), FULL], ids=["quick", "full"])
def test_a_broker(extent: Extent) -> None:
    figures = survey_of(WHOLE_BROKER / "data", extent)
    by_name = {(partition.topic, partition.partition): partition for partition in figures.partitions}
    for expected in json.loads((WHOLE_BROKER / "expected.json").read_text())["partitions"]:
        partition = by_name[expected["topic"], expected["partition"]]
        assert (partition.log_start_offset, partition.log_end_offset) == (
            expected["earliest"],
            expected["latest"],
        )
        logs = list((WHOLE_BROKER / expected["dir"]).glob("*.log"))
        assert partition.size_bytes == sum(partition.segment_sizes)
        assert partition.size_bytes == sum(log.stat().st_size for log in logs)
        assert partition.open_transactions == ()
        times = [row["timestamp"] for row in read_rows(WHOLE_BROKER / expected["rows"]["file"])]
        if partition.topic in ("events", "trimmed"):
            assert max(time or 0 for time in partition.segment_times_ms) == max(times)
    (directory,) = figures.directories
    assert (directory.node_id, directory.clean_shutdown, directory.lock_holder) == (1, True, None)
    assert directory.set_aside["delete"][0] == 2
    assert by_name["state", 0].is_compacted
    assert not by_name["events", 0].is_compacted
    assert figures.failures == ()


@pytest.mark.parametrize("fixture", ["whole-broker", "crash-txn", "torn-keep100"])
def test_times_are_the_same_from_few_and_from_all_batches(fixture: str) -> None:
    """Also after a crash, when the time index of the active segment has too few entries, or too many."""
    quick, full = survey_of(V41 / fixture / "data", Extent()), survey_of(V41 / fixture / "data")
    for few, all_batches in zip(quick.partitions, full.partitions, strict=True):
        assert few.segment_sizes == all_batches.segment_sizes
        assert few.segment_times_ms == all_batches.segment_times_ms
        assert (few.first_timestamp_ms, few.last_timestamp_ms) == (
            all_batches.first_timestamp_ms,
            all_batches.last_timestamp_ms,
        )


def test_groups() -> None:
    groups = survey_of(WHOLE_BROKER / "data", Extent()).coordinators.groups or ()
    by_name = {group.name: group for group in groups}
    assert (by_name["group-a"].lag, by_name["group-a"].largest_lag) == (420, (190, "events-0"))
    assert by_name["group-b"].type == "consumer"
    assert not any(group.below_start or group.beyond_end for group in groups)


SHARE_METADATA = 11
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def share_state(
    partition: int, start_offset: int, *batches: tuple[int, int, int, int], **fields: Any
) -> Pair:
    names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
    states = [dict(zip(names, batch, strict=True)) for batch in batches]
    value = {"startOffset": start_offset, "stateBatches": states, "writeTimestamp": NOW_MS, **fields}
    key = {"groupId": "g", "topicId": TOPIC_ID, "partition": partition}
    return encode_key(share_messages.RECORDS, 0, **key), encode_value(share_messages.RECORDS, 0, 0, **value)


def coordinators_of(*paths: Path) -> CoordinatorFigures:
    log_dir = LogDir(paths)
    return survey(log_dir, log_dir.partitions(), Extent(), NOW_MS).coordinators


@pytest.fixture
def share_group(tmp_path: Path) -> tuple[Path, InternalTopic]:
    """Return a log directory with the share group `g` and a topic of three partitions, and its states."""
    with LogDir.create(tmp_path / "logs") as log_dir:
        log_dir.create_topic("orders", 3, topic_id=TOPIC_ID)
        for number, count in enumerate((20, 10, 1)):
            log_dir.partition("orders", number).append(pa.table({"value": ["v"] * count}), now_ms=NOW_MS)
    groups = InternalTopic(tmp_path / "groups")
    groups.append(group_record(SHARE_METADATA, key={"groupId": "g"}, epoch=1))
    for path in groups.path.glob("__consumer_offsets-0"):
        path.rename(tmp_path / "logs" / path.name)
    return tmp_path / "logs", InternalTopic(tmp_path / "states", SHARE_STATE_TOPIC)


def test_share_groups(share_group: tuple[Path, InternalTopic]) -> None:
    logs, states = share_group
    acknowledged, available, not_started, elsewhere = 2, 0, -1, 3
    states.append(
        share_state(0, 5, (6, 7, acknowledged, 1), (8, 9, available, 1)),
        share_state(1, 2, writeTimestamp=NOW_MS + 1),
        share_state(2, not_started),
        share_state(elsewhere, 4),
        (b"\0\7", b""),
    )
    coordinators = coordinators_of(logs, states.path)
    (group,) = coordinators.groups or ()
    assert (group.name, group.type, group.state) == ("g", "share", "Empty")
    assert (group.partitions, group.known) == (3, 2)
    assert (group.lag, group.largest_lag) == (15 - 2 + 8, (13, "orders-0"))
    assert group.last_commit_ms == NOW_MS + 1
    assert coordinators.undecodable == 1
    assert "__share_group_state" not in coordinators.unread


def test_share_groups_beyond_their_logs(share_group: tuple[Path, InternalTopic]) -> None:
    logs, states = share_group
    (logs / "log-start-offset-checkpoint").write_text("0\n1\norders 0 7\n")
    states.append(share_state(0, 6), share_state(1, 11))
    (group,) = coordinators_of(logs, states.path).groups or ()
    assert (group.below_start, group.beyond_end, group.lag) == (1, 1, 14)


def test_a_share_group_without_its_states(share_group: tuple[Path, InternalTopic]) -> None:
    logs, states = share_group
    coordinators = coordinators_of(logs)
    assert [(group.type, group.known) for group in coordinators.groups or ()] == [("share", 0)]
    assert "__share_group_state is not in these directories." in coordinators.unread.values()
    states.append(share_state(0, 5))
    (group,) = coordinators_of(states.path).groups or ()
    assert (group.type, group.state, group.partitions, group.known) == ("share", None, 1, 0)


def test_a_directory_without_internal_topics() -> None:
    coordinators = survey_of(V41 / "plain-none/data", Extent()).coordinators
    assert coordinators.groups is None
    assert coordinators.transactional_ids is None
    assert len(coordinators.unread) == 2


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_samples_have_the_codec_and_its_ratio(codec: str) -> None:
    figures = survey_of(V41 / f"plain-{codec}/data", Extent())
    codecs = {name for _, name in figures.samples.codecs}
    assert codecs == {codec}
    (sampled,) = figures.samples.codecs.values()
    assert sampled.ratio is not None and sampled.ratio > 1


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("records", [300, 30_000], ids=["many batches", "one large batch"])
def test_a_topic_larger_than_a_sample_has_a_ratio(tmp_path: Path, codec: str, records: int) -> None:
    """A sample usually ends in the middle of a batch. A batch can also be larger than a sample."""
    values = [
        b"%d order %d of customer %d" % (number, number * number, number // 7) for number in range(records)
    ]
    with LogDir.create(tmp_path / "kafka") as logs:
        logs.create_topic("t", config={"max.message.bytes": 100_000_000})
        with logs.partition("t", 0) as log:
            for _ in range(120_000 // records):
                log.append(pa.table({"value": values}), compression=codec, batch_size=100_000_000)
            assert log.size_bytes > 2 * SAMPLE_BYTES
    samples = survey_of(tmp_path / "kafka", Extent()).samples
    assert set(samples.codecs) == {("t", codec)}
    ratio = samples.codecs["t", codec].ratio
    assert ratio is not None and (ratio > 1) == (codec != "none")


def test_uncompressed_data_has_a_ratio_below_one() -> None:
    (sampled,) = survey_of(V41 / "plain-none/data", Extent()).samples.codecs.values()
    assert sampled.ratio is not None and 0.5 < sampled.ratio < 1


def test_all_headers_count_all_bytes() -> None:
    figures = partition_of(V41 / "plain-mixed/data")
    assert figures.codecs is not None and len(figures.codecs) > 1
    assert sum(codec.stored_bytes for codec in figures.codecs.values()) == figures.size_bytes


@pytest.mark.parametrize("extent", [Extent(), FULL], ids=["quick", "full"])
def test_open_transactions_of_a_crash(extent: Extent) -> None:
    expected = LogDir(V41 / "crash-txn/data").partition("crash-txn", 0).transactions().to_pylist()
    expected_open = [(row["producerId"], row["firstOffset"]) for row in expected if row["state"] == "open"]
    assert expected_open
    figures = partition_of(V41 / "crash-txn/data", extent)
    transactions = [
        (transaction.producer_id, transaction.first_offset) for transaction in figures.open_transactions or ()
    ]
    assert sorted(transactions) == sorted(expected_open)
    assert all(transaction.started_ms is not None for transaction in figures.open_transactions or ())


def test_damage_is_counted() -> None:
    figures = survey_of(V41 / "corrupt-bad-crc/data")
    assert [(kind.kind, kind.count) for kind in figures.problems or ()] == [("crc", 1)]
    assert survey_of(V41 / "corrupt-magic-3/data").partitions[0].damaged_ranges == 1
    assert survey_of(V41 / "corrupt-bad-crc/data", Extent()).problems is None


def test_what_a_compaction_frees() -> None:
    figures = survey_of(GOLDEN / "kafka-2.8/compact-v2/round2-before/data")
    (partition,) = figures.partitions
    assert partition.is_compacted and (partition.dirty_ratio or 0) > 0
    (topic,) = figures.compaction or ()
    assert 0 < topic.bytes_after < topic.bytes_before
    assert topic.records_after < topic.records_before
    assert topic.tombstones > 0


def test_what_retention_deletes(golden_copy: Callable[[str], Path]) -> None:
    """Only the oldest segments are deleted, by the stored settings of each topic."""
    data = golden_copy("kafka-4.1/whole-broker")
    cluster_metadata.store(data, "events", {"retention.bytes": "1", "retention.ms": "-1"})
    cluster_metadata.store(data, "state", {"cleanup.policy": "compact"})
    figures = survey_of(data, Extent(retention=True))
    topics = {topic.topic: topic for topic in figures.retention or ()}
    expected = native_log.retain(data, now_ms=2 * NOW_MS, dry_run=True).to_pylist()
    deleted = [row for row in expected if row["decision"] == "would be deleted"]
    assert {row["topic"] for row in deleted} == {"events"}
    assert (topics["events"].segments, topics["events"].size_bytes) == (
        len(deleted),
        sum(row["sizeInBytes"] for row in deleted),
    )
    assert topics["events"].partitions == len({row["partition"] for row in deleted})
    assert topics["events"].rules == {"retention.bytes"}
    assert topics["events"].size_bytes > 0
    assert (topics["state"].kept_by, topics["state"].segments) == ("compacted", 0)
    assert "__consumer_offsets" not in topics


def test_dry_runs_without_partitions_to_change(tmp_path: Path) -> None:
    """Directories of deleted partitions can be read, but maintenance leaves them out."""
    name = f"events-0.{'0' * 32}-delete"
    shutil.copytree(WHOLE_BROKER / "data/events-0", tmp_path / name)
    log_dir = LogDir(tmp_path, include_deleted=True)
    figures = survey(log_dir, log_dir.partitions(), FULL, NOW_MS)
    assert [partition.name for partition in figures.partitions] == ["events-0"]
    assert (figures.compaction, figures.retention) == ((), ())


def test_a_partition_that_cannot_be_opened(golden_copy: Callable[[str], Path]) -> None:
    data = golden_copy("kafka-4.1/whole-broker")
    with open(data / "state-0/00000000000000000424.log", "r+b") as file:
        file.truncate(2**31)  # sparse; a segment cannot be as large
    figures = survey_of(data, Extent())
    assert [failure.name for failure in figures.failures] == ["state-0"]
    assert len(figures.partitions) == 11


def test_the_problems_of_each_copy(golden_copy: Callable[[str], Path], tmp_path: Path) -> None:
    sound = golden_copy("kafka-4.1/whole-broker")
    damaged = shutil.copytree(sound, tmp_path / "damaged")
    with open(damaged / "events-0/00000000000000000000.log", "r+b") as file:
        file.seek(100)
        file.write(b"damage")
    log_dir = LogDir([sound, damaged], replicas="merge")
    problems = native_log.verify([sound, damaged]).to_pylist()
    figures = survey(log_dir, log_dir.partitions(), Extent(verification=True), NOW_MS)
    assert any(copy.problems for copy in figures.copies)
    for copy in figures.copies:
        directory = f"{copy.log_dir}/{copy.name}/"
        assert copy.problems == sum(f"{problem['path']}/".startswith(directory) for problem in problems)
    table = directory_section(figures).parts[1]
    assert isinstance(table, Table)
    assert {row[-1] for row in table.rows} == {str(copy.problems) for copy in figures.copies}
    unverified = survey(log_dir, log_dir.partitions(), Extent(), NOW_MS)
    assert {copy.problems for copy in unverified.copies} == {None}


def test_an_offset_below_the_log_start(golden_copy: Callable[[str], Path]) -> None:
    data = golden_copy("kafka-4.1/whole-broker")
    checkpoint = data / "log-start-offset-checkpoint"
    lines = [line for line in checkpoint.read_text().split("\n")[2:] if line]
    lines = [*(line for line in lines if not line.startswith("events 0 ")), "events 0 100"]
    checkpoint.write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    groups = survey_of(data, Extent()).coordinators.groups or ()
    assert {group.name for group in groups if group.below_start} >= {"group-a", "group-b"}


def test_no_file_is_changed(golden_copy: Callable[[str], Path]) -> None:
    data = golden_copy("kafka-4.1/whole-broker")
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    survey_of(data)
    assert {path: path.stat().st_mtime_ns for path in data.rglob("*")} == before


def test_progress_does_not_go_back() -> None:
    steps: list[tuple[int, int]] = []
    log_dir = LogDir(V41 / "plain-none/data")
    survey(
        log_dir,
        log_dir.partitions(),
        FULL,
        NOW_MS,
        on_progress=lambda done, total: steps.append((done, total)),
    )
    assert steps == sorted(steps)
    assert len({total for _, total in steps}) == 1
