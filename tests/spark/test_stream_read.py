"""Streams of growing logs: where they start, what a trigger reads, and what is reported as lost."""

from __future__ import annotations

import json
import logging
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from broker_lock import held_lock
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_spark.errors import DataLossError, OptionError
from native_log import LogDir, PartitionLog, delete_records
from native_log.checkpoints.leader_epochs import EpochEntry, write_leader_epochs
from native_log.checkpoints.offset_checkpoints import (
    REPLICATION_OFFSET_CHECKPOINT,
    update_offset_checkpoint,
)
from native_log.errors import UnknownTopicOrPartitionError
from native_log.log import LogRange
from native_log.segment.files import file_name
from tests.builders.golden import golden
from tests.builders.interruptions import before_next_call
from tests.effort import examples

from .read_limits import needs_read_limits
from .stream_query import Checkpoint, StreamQuery

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_read_limits

EARLIEST = {"startingOffsets": "earliest"}


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path / "logs")


class Logs:
    """A log directory to write to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.options = {"path": str(path)}
        self._config: dict[str, object] = {}
        LogDir.create(path).close()

    def create(self, topic: str = "t", partitions: int = 1, **config: object) -> None:
        with LogDir(self.path, allow_empty=True) as log_dir:
            log_dir.create_topic(topic, partitions)
        self._config |= config

    def append(self, count: int, topic: str = "t", partition: int = 0, **arguments: object) -> None:
        batch = pa.record_batch({"value": [b"x" * 10] * count})
        with LogDir(self.path) as log_dir:
            log_dir.partition(topic, partition, config=self._config).append(batch, **arguments)

    def log(self, topic: str = "t", partition: int = 0) -> PartitionLog:
        return LogDir(self.path).partition(topic, partition)

    def remove(self, topic: str = "t", partition: int = 0) -> None:
        shutil.rmtree(self.path / f"{topic}-{partition}")


def offsets(text: str) -> dict[str, int]:
    """Return {"topic-partition": offset} of offsets as JSON."""
    return {
        f"{t}-{p}": offset
        for t, by_partition in json.loads(text).items()
        for p, offset in by_partition.items()
    }


def drain(query: StreamQuery) -> dict[tuple[str, int], list[int]]:
    """Run triggers until there is nothing new, and return the offsets that were read, in order."""
    rows: dict[tuple[str, int], list[int]] = {}
    while (batch := query.trigger()) is not None:
        for key, read in batch.rows.items():
            rows.setdefault(key, []).extend(read)
    return rows


def test_starts_at_latest_and_reads_what_is_appended(logs: Logs) -> None:
    logs.create()
    logs.append(5)
    query = StreamQuery(**logs.options)
    assert drain(query) == {}
    logs.append(3)
    assert drain(query) == {("t", 0): [5, 6, 7]}
    assert query.trigger() is None


@pytest.mark.parametrize(
    "fixture", ["kafka-2.8/compact-v2/round2-after", "kafka-4.1/compact-idem/round1-after"]
)
@pytest.mark.parametrize("limit", [3, 40])
def test_a_compacted_log_in_small_steps(fixture: str, limit: int) -> None:
    partition = golden(fixture)
    options = {"path": str(partition.path), "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(limit)}
    expected = [row["offset"] for row in partition.rows()]
    assert list(drain(StreamQuery(**options)).values()) == [expected]
    assert expected[-1] - expected[0] >= len(expected)


def test_the_initial_offset_is_determined_once(logs: Logs) -> None:
    logs.create()
    query = StreamQuery(**logs.options)
    first = query.reader.initialOffset()
    logs.append(3)
    assert query.reader.initialOffset() == first == {"t": {"0": 0}}


def test_an_initial_offset_that_is_kept_survives_a_crash_before_the_first_commit(
    logs: Logs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs.create()
    logs.append(5)
    kept = {**logs.options, "offsetStateLocation": str(tmp_path / "state")}
    StreamQuery(**kept).reader.initialOffset()
    assert "skipped" not in caplog.text
    logs.append(3)
    assert drain(StreamQuery(Checkpoint(), **kept)) == {("t", 0): [5, 6, 7]}


def test_a_topic_is_created_again_before_the_first_micro_batch(
    logs: Logs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The query has stopped before. Its initial offset is in the log that is gone."""
    logs.create()
    logs.append(5)
    kept = {**logs.options, "offsetStateLocation": str(tmp_path / "state")}
    first = StreamQuery(**kept)
    assert drain(first) == {}
    logs.remove()
    logs.create()
    logs.append(8)
    with pytest.raises(DataLossError, match=r"created again: .* of t-0 from offset 0 to 5"):
        StreamQuery(first.checkpoint, **kept).trigger()
    rows = drain(StreamQuery(first.checkpoint, failOnDataLoss="false", **kept))
    assert rows == {("t", 0): list(range(8))}
    assert "created again" in caplog.text


def test_an_initial_offset_beyond_the_end_of_a_log_that_grows(logs: Logs, tmp_path: Path) -> None:
    logs.create()
    logs.append(5)
    kept = {"offsetStateLocation": str(tmp_path / "state"), "startingOffsets": '{"t": {"0": 7}}'}
    StreamQuery(**logs.options, **kept).reader.initialOffset()
    logs.append(5)
    assert drain(StreamQuery(**logs.options, **kept)) == {("t", 0): [7, 8, 9]}


def test_an_initial_offset_that_is_not_kept_is_warned_of(
    logs: Logs, caplog: pytest.LogCaptureFixture
) -> None:
    logs.create()
    StreamQuery(**logs.options).reader.initialOffset()
    assert "offsetStateLocation is not set" in caplog.text


def test_a_stream_reports_missing_segments(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    logs.create(**{"segment.bytes": 100})
    for _ in range(3):
        logs.append(2)
    lost = logs.log().segments[1]
    lost.path.unlink()
    assert drain(StreamQuery(**logs.options, **EARLIEST)) == {("t", 0): [0, 1, 4, 5]}
    assert f"/{file_name(2, 'index')}: the .log file of this index is missing" in caplog.text


def test_a_malformed_state_file_is_an_error(logs: Logs, tmp_path: Path) -> None:
    logs.create()
    kept = {**logs.options, "offsetStateLocation": str(tmp_path)}
    (tmp_path / "initial-offsets.json").write_text('{"version": 7}')
    with pytest.raises(OptionError, match=r"expected JSON of version 1 in .*initial-offsets.json"):
        StreamQuery(**kept).reader.initialOffset()


def test_new_partitions_and_topics_start_at_their_beginning(logs: Logs) -> None:
    logs.create()
    logs.append(5)
    query = StreamQuery(**logs.options)
    assert drain(query) == {}
    logs.create("u", 2)
    logs.append(2, "u", 1)
    assert drain(query) == {("u", 1): [0, 1]}
    logs.append(1, "u", 0)
    logs.append(1, "t", 0)
    assert drain(query) == {("u", 0): [0], ("t", 0): [5]}


def test_a_stream_may_start_before_there_are_topics(logs: Logs) -> None:
    query = StreamQuery(**logs.options)
    assert drain(query) == {}
    logs.create()
    logs.append(2)
    assert drain(query) == {("t", 0): [0, 1]}


def test_offsets_of_a_kafka_checkpoint_are_starting_offsets(logs: Logs) -> None:
    logs.create("b")
    logs.create("a", 2)
    for topic, partition in [("a", 0), ("a", 1), ("b", 0)]:
        logs.append(4, topic, partition)
    query = StreamQuery(**logs.options, startingOffsets='{"b":{"0":3},"a":{"1":2,"0":1}}')
    assert drain(query) == {("a", 0): [1, 2, 3], ("a", 1): [2, 3], ("b", 0): [3]}
    text = query.checkpoint.offsets[-1]
    assert json.loads(text) == {"a": {"0": 4, "1": 4}, "b": {"0": 4}}
    assert list(json.loads(text)) == ["a", "b"]


@settings(max_examples=examples(30))
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 30)), max_size=4), min_size=1, max_size=6),
    st.sampled_from(
        [{}, {"maxOffsetsPerTrigger": "7"}, {"maxBytesPerTrigger": "200"}, {"minPartitions": "5"}]
    ),
)
def test_each_record_is_read_once(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[list[tuple[int, int]]], limits: dict[str, str]
) -> None:
    logs = Logs(tmp_path_factory.mktemp("stream") / "logs")
    logs.create(partitions=2, **{"segment.bytes": 1024})
    query = StreamQuery(**logs.options, **EARLIEST, **limits)
    rows: dict[tuple[str, int], list[int]] = {}
    counts = [0, 0]
    for number, appends in enumerate(rounds):
        for partition, count in appends:
            logs.append(count, partition=partition)
            counts[partition] += count
        if number % 3 == 2:  # the query is stopped, and started again
            query = StreamQuery(query.checkpoint, **logs.options, **EARLIEST, **limits)
        for key, read in drain(query).items():
            rows.setdefault(key, []).extend(read)
    assert rows == {("t", p): list(range(count)) for p, count in enumerate(counts) if count}


def test_a_micro_batch_that_was_not_committed_is_the_same_again(logs: Logs) -> None:
    logs.create()
    logs.append(10)
    options = {**logs.options, **EARLIEST, "maxOffsetsPerTrigger": "4"}
    query = StreamQuery(**options)
    query.trigger()
    lost = query.plan()
    logs.append(10)
    again = StreamQuery(query.checkpoint, **options).plan()
    assert lost == again
    assert again is not None and again.rows == {("t", 0): [4, 5, 6, 7]}


def test_max_bytes_per_trigger_reads_whole_batches(logs: Logs) -> None:
    logs.create()
    for _ in range(6):
        logs.append(10)  # one batch
    size = logs.log().size_bytes // 6
    query = StreamQuery(**logs.options, **EARLIEST, maxBytesPerTrigger=str(2 * size + 1))
    assert [batch.rows["t", 0] for batch in query.available_now()] == [
        list(range(start, start + 20)) for start in (0, 20, 40)
    ]
    smallest = StreamQuery(**logs.options, **EARLIEST, maxBytesPerTrigger="1")
    assert [len(batch.rows["t", 0]) for batch in smallest.available_now()] == [10] * 6


def test_max_bytes_per_trigger_is_applied_again_if_files_change(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker compacts a segment after its bytes were counted."""
    logs.create(**{"segment.bytes": 512})
    for _ in range(6):
        logs.append(10)
    query = StreamQuery(**logs.options, **EARLIEST, maxBytesPerTrigger="1")

    def replace_first() -> None:
        path = logs.path / "t-0" / file_name(0, "log")
        path.with_suffix(".cleaned").write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        path.with_suffix(".cleaned").replace(path)

    changes = before_next_call(monkeypatch, LogRange, "first_batches", replace_first)
    batch = query.trigger()
    assert not changes
    assert batch is not None and batch.rows == {("t", 0): list(range(10))}


def test_available_now_ends_at_what_was_there(logs: Logs) -> None:
    logs.create()
    logs.append(4)
    query = StreamQuery(**logs.options, **EARLIEST, maxOffsetsPerTrigger="3")
    batches = query.available_now()
    first = next(batches)
    logs.append(4)
    logs.create("u")
    logs.append(1, "u")
    assert [first.rows, *(batch.rows for batch in batches)] == [{("t", 0): [0, 1, 2]}, {("t", 0): [3]}]


def test_the_latest_offset_is_reported(logs: Logs) -> None:
    logs.create()
    logs.append(9)
    query = StreamQuery(**logs.options, **EARLIEST, maxOffsetsPerTrigger="2")
    query.trigger()
    assert offsets(query.checkpoint.offsets[-1]) == {"t-0": 2}
    assert query.reader.reportLatestOffset() == {"t": {"0": 9}}


class TestLostData:
    """Each test loses data after the first micro-batch."""

    @pytest.fixture
    def query(self, logs: Logs, tmp_path: Path) -> StreamQuery:
        logs.create(partitions=2, **{"segment.bytes": 512})
        for _ in range(6):
            logs.append(10, leader_epoch=3)
        logs.append(5, partition=1, leader_epoch=3)
        self.options = {
            **logs.options,
            **EARLIEST,
            "maxOffsetsPerTrigger": "30",
            "offsetStateLocation": str(tmp_path / "state"),
        }
        query = StreamQuery(**self.options)
        batch = query.trigger()
        assert batch is not None
        self.position = offsets(batch.end)
        return query

    def check(
        self,
        query: StreamQuery,
        message: str,
        rows: dict[tuple[str, int], list[int]],
        *,
        restart: bool,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Expect an error that matches `message`; and without failOnDataLoss a warning and these rows."""
        if restart:
            query = StreamQuery(query.checkpoint, **self.options)
        before = list(query.checkpoint.offsets)
        with pytest.raises(DataLossError, match=message):
            drain(query)
        lenient = {**self.options, "failOnDataLoss": "false"}
        other = StreamQuery(Checkpoint(before, len(before)), **lenient)
        assert drain(other) == rows
        assert any(record.levelno == logging.WARNING for record in caplog.records)

    def test_retention(self, logs: Logs, query: StreamQuery, caplog: pytest.LogCaptureFixture) -> None:
        delete_records(logs.path, {("t", 0): 45})
        self.check(
            query,
            rf"expected offsets \[{self.position['t-0']}, \d+\) of t-0, .*holds \[45",
            {("t", 0): list(range(45, 60)), ("t", 1): list(range(self.position["t-1"], 5))},
            restart=False,
            caplog=caplog,
        )

    @pytest.mark.parametrize("fail", ["true", "false"])
    def test_retention_between_the_steps_of_a_trigger(
        self, logs: Logs, query: StreamQuery, fail: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        reader = StreamQuery(
            **{**self.options, "failOnDataLoss": fail, "maxOffsetsPerTrigger": "1000"}
        ).reader
        start = json.loads(query.checkpoint.offsets[-1])
        end = reader.latestOffset(start)
        last = logs.log().segments[-1]
        for file in (logs.path / "t-0").glob("0*"):
            if int(file.name.partition(".")[0]) < last.base_offset:
                file.unlink()
        if fail == "true":
            with pytest.raises(DataLossError, match="COULD_NOT_READ_OFFSET_RANGE"):
                reader.partitions(start, end)
        else:
            reader.partitions(start, end)
            assert f"{last.base_offset - self.position['t-0']} offsets lost" in caplog.text
            ranges = [r for split in reader.partitions(start, end) for r in split.ranges]
            assert [(r.start_offset, r.end_offset) for r in ranges if r.partition == 0] == [
                (last.base_offset, 60)
            ]
            assert "COULD_NOT_READ_OFFSET_RANGE" in caplog.text

    def test_copy_that_is_still_being_made(
        self, logs: Logs, query: StreamQuery, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A new segment arrives before the final version of the previous one."""
        logs.append(10, leader_epoch=3)
        assert drain(query)["t", 0][-1] == 69
        last = logs.log().segments[-1]
        assert last.base_offset == 60
        outdated = last.path.read_bytes()
        for _ in range(3):
            logs.append(10, leader_epoch=3)
        complete = last.path.read_bytes()
        last.path.write_bytes(outdated)
        rows = {("t", 0): list(range(80, 100))}
        self.check(query, "ends before offset 70, but its time index", rows, restart=False, caplog=caplog)
        last.path.write_bytes(complete)
        assert drain(StreamQuery(query.checkpoint, **self.options)) == {("t", 0): list(range(70, 100))}

    def test_deleted_partition(
        self, logs: Logs, query: StreamQuery, caplog: pytest.LogCaptureFixture
    ) -> None:
        logs.remove(partition=1)
        rows = {("t", 0): list(range(self.position["t-0"], 60))}
        self.check(query, "PARTITIONS_DELETED: t-1 ", rows, restart=False, caplog=caplog)

    def test_shorter_log(self, logs: Logs, query: StreamQuery, caplog: pytest.LogCaptureFixture) -> None:
        logs.remove()
        LogDir(logs.path).partition("t", 1)
        (logs.path / "t-0").mkdir()
        (logs.path / "t-0" / f"{0:020}.log").touch()
        rows = {("t", 1): list(range(self.position["t-1"], 5))}
        self.check(query, "PARTITION_OFFSET_CHANGED: .*t-0", rows, restart=True, caplog=caplog)

    @pytest.mark.parametrize("restart", [False, True])
    def test_recreated_topic(
        self, logs: Logs, query: StreamQuery, caplog: pytest.LogCaptureFixture, restart: bool
    ) -> None:
        for partition in (0, 1):
            logs.remove(partition=partition)
        logs.create(partitions=2)
        for _ in range(8):
            logs.append(10)
        logs.append(3, partition=1)
        # Its logs may be longer than those before. All their records are new.
        rows = {("t", 0): list(range(80)), ("t", 1): [0, 1, 2]}
        self.check(query, "created again", rows, restart=restart, caplog=caplog)

    @pytest.mark.parametrize("restart", [False, True])
    def test_truncated_log_that_has_grown_again(
        self, logs: Logs, query: StreamQuery, caplog: pytest.LogCaptureFixture, restart: bool
    ) -> None:
        """An unclean leader election: offset 10 on was written again, with another leader epoch."""
        logs.remove()
        donor = logs.path.parent / "donor"
        other = Logs(donor)
        other.create()
        other.append(10, leader_epoch=3)
        other.append(70, leader_epoch=5)
        shutil.copytree(donor / "t-0", logs.path / "t-0")
        write_leader_epochs(logs.path / "t-0", [EpochEntry(3, 0), EpochEntry(5, 10)])
        metadata = logs.path / "t-1" / "partition.metadata"
        shutil.copy(metadata, logs.path / "t-0")
        rows = {("t", 0): list(range(10, 80)), ("t", 1): list(range(self.position["t-1"], 5))}
        self.check(query, "t-0 from offset 10 ", rows, restart=restart, caplog=caplog)

    def test_new_partition_without_its_first_records(
        self, logs: Logs, query: StreamQuery, caplog: pytest.LogCaptureFixture
    ) -> None:
        logs.create("u")
        logs.append(10, "u")
        delete_records(logs.path, {("u", 0): 4})
        rows = {
            ("t", 0): list(range(self.position["t-0"], 60)),
            ("t", 1): list(range(self.position["t-1"], 5)),
            ("u", 0): list(range(4, 10)),
        }
        self.check(query, "ADDED_PARTITION_.*u-0 starts at offset 4", rows, restart=False, caplog=caplog)


class TestLiveDirectory:
    """A broker holds the lock, and checkpoints high watermarks."""

    @staticmethod
    def checkpoint(logs: Logs, offset: int) -> None:
        update_offset_checkpoint(logs.path / REPLICATION_OFFSET_CHECKPOINT, {("t", 0): offset})

    def test_ends_at_the_high_watermark(self, logs: Logs) -> None:
        logs.create()
        logs.append(10)
        self.checkpoint(logs, 4)
        with held_lock(logs.path):
            query = StreamQuery(**logs.options, **EARLIEST)
            assert drain(query) == {("t", 0): [0, 1, 2, 3]}
            self.checkpoint(logs, 7)
            assert drain(query) == {("t", 0): [4, 5, 6]}
            ignoring = StreamQuery(**logs.options, **EARLIEST, highWatermark="ignore")
            assert drain(ignoring) == {("t", 0): list(range(10))}
        assert drain(query) == {("t", 0): [7, 8, 9]}

    def test_a_high_watermark_that_goes_back_loses_nothing(self, logs: Logs) -> None:
        """A broker that starts again may have an older checkpoint than the stream has read."""
        logs.create()
        logs.append(10)
        self.checkpoint(logs, 4)
        query = StreamQuery(**logs.options, **EARLIEST, maxOffsetsPerTrigger="8")
        query.trigger()
        planned = query.plan()  # not committed: it is planned again below
        assert planned is not None
        with held_lock(logs.path):
            again = StreamQuery(query.checkpoint, **logs.options, **EARLIEST)
            assert again.trigger() == planned
            assert again.trigger() is None
            self.checkpoint(logs, 10)
            assert drain(again) == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is not supported in a stream"),
        ({"endingOffsetsByTimestamp": '{"t":{"0":1}}'}, "endingOffsetsByTimestamp is not supported"),
        ({"view": "batches"}, "view=batches cannot be read as a stream"),
        ({"maxTriggerDelay": "2 hours"}, "maxTriggerDelay: expected a duration"),
        ({"maxTriggerDelay": ""}, "maxTriggerDelay: expected a duration .* found ''"),
        ({"maxTriggerDelay": "5w"}, "maxTriggerDelay: expected a duration"),
        ({"maxOffsetsPerTrigger": "1.5"}, "maxOffsetsPerTrigger: expected an integer"),
        ({"maxBytesPerTrigger": "0"}, "maxBytesPerTrigger: expected a size"),
        ({"subscribe": "missing"}, "unknown topic 'missing'"),
    ],
)
def test_invalid_options(logs: Logs, options: dict[str, str], message: str) -> None:
    logs.create()
    with pytest.raises((OptionError, UnknownTopicOrPartitionError), match=message):
        StreamQuery(**logs.options, **options).trigger()


def test_whatever_spark_calls_first_rejects_invalid_options(logs: Logs) -> None:
    reader = StreamQuery(**logs.options, view="lag").reader
    for method, arguments in [("initialOffset", ()), ("latestOffset", ()), ("partitions", ({}, {}))]:
        with pytest.raises(OptionError, match="view=lag cannot be read as a stream"):
            getattr(reader, method)(*arguments)


def test_before_spark_4_2_limits_apply_without_arguments(logs: Logs) -> None:
    """Spark 4.0 and 4.1 call latestOffset first, and pass nothing to it."""
    logs.create()
    logs.append(10)
    options = {**logs.options, **EARLIEST, "maxOffsetsPerTrigger": "4"}
    reader = StreamQuery(**options).reader
    end = reader.latestOffset()
    assert end == {"t": {"0": 4}}
    reader.partitions(reader.initialOffset(), end)
    assert reader.latestOffset() == {"t": {"0": 8}}
    restarted = StreamQuery(**options).reader
    restarted.partitions(end, end)
    assert restarted.latestOffset() == {"t": {"0": 8}}


def test_before_spark_4_2_a_limit_that_leaves_offsets_is_warned_of(
    logs: Logs, caplog: pytest.LogCaptureFixture
) -> None:
    """Such a query may have Trigger.AvailableNow, and then ends here. The source cannot know."""
    logs.create(partitions=3)
    logs.append(2000, partition=0)
    logs.append(10, partition=1)
    options = {**logs.options, **EARLIEST, "maxOffsetsPerTrigger": "603"}
    reader = StreamQuery(**options).reader
    end = reader.latestOffset()
    assert "leaves 1,407 offsets in 2 partitions behind, because maxOffsetsPerTrigger" in caplog.text
    caplog.clear()
    reader.partitions(reader.initialOffset(), end)
    reader.latestOffset()
    assert "because maxOffsetsPerTrigger" not in caplog.text  # a trigger that can have a second micro-batch
    restarted = StreamQuery(**options).reader
    restarted.partitions(end, end)
    restarted.latestOffset()
    assert "leaves 804 offsets in 2 partitions behind" in caplog.text


@pytest.mark.parametrize("limits", [{}, {"maxOffsetsPerTrigger": "10"}, {"minOffsetsPerTrigger": "100"}])
def test_before_spark_4_2_limits_that_leave_nothing_are_not_warned_of(
    logs: Logs, limits: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    logs.create()
    logs.append(10)
    assert StreamQuery(**logs.options, **EARLIEST, **limits).reader.latestOffset() == {"t": {"0": 10}}
    assert "behind" not in caplog.text


def test_each_micro_batch_logs_what_it_reads_and_what_it_leaves(
    logs: Logs, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafkalog.plan")
    logs.create(partitions=2)
    logs.append(3000, partition=0)
    logs.append(20, partition=1)
    query = StreamQuery(**logs.options, **EARLIEST, maxOffsetsPerTrigger="1510")
    while query.trigger() is not None:
        pass
    lines = [record.getMessage() for record in caplog.records if record.name == "kafkalog.plan"]
    assert [line.rpartition("; ")[2] for line in lines] == [
        "1,510 offsets in 2 partitions behind",
        "0 offsets behind",
    ]
    assert lines[0].startswith("1 topic (t), 2 partitions, ")


def test_a_micro_batch_that_is_run_again_logs_what_it_leaves(
    logs: Logs, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafkalog.plan")
    logs.create()
    logs.append(10)
    options = {**logs.options, **EARLIEST, "maxOffsetsPerTrigger": "4"}
    query = StreamQuery(**options)
    query.plan()
    caplog.clear()
    StreamQuery(query.checkpoint, **options).plan()
    assert "6 offsets in 1 partition behind" in caplog.text


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_restart_without_a_state_location_is_warned_of(
    logs: Logs, tmp_path: Path, is_committed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    logs.create()
    logs.append(3)
    first = StreamQuery(**logs.options, **EARLIEST)
    first.trigger() if is_committed else first.plan()
    first.trigger()
    assert "created again" not in caplog.text
    kept = {"offsetStateLocation": str(tmp_path / "state")}
    StreamQuery(first.checkpoint, **logs.options, **EARLIEST, **kept).trigger()
    assert "created again" not in caplog.text
    query = StreamQuery(first.checkpoint, **logs.options, **EARLIEST)
    query.trigger()
    query.trigger()
    assert caplog.text.count("offsetStateLocation is not set: a topic that was deleted and") == 1
