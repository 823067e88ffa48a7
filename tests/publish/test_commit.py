"""The commit of staged files: offsets, segments, indexes, checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from native_log import LogDir, erase, recover
from native_log.checkpoints.offset_checkpoints import OffsetCheckpoints
from native_log.checkpoints.write_intent import WriteIntent
from native_log.errors import InvalidRecordError
from native_log.log.verification import verify_log
from native_log.publish import commit as publishing
from native_log.publish import partitions, staging
from native_log.publish.job import WriteJob
from native_log.publish.partitioning import Partitioner
from tests.builders.commits import NOW_MS, expected, records, stage, staged_job, values, write
from tests.contents import files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.records.encoding import Part


@pytest.fixture
def data(tmp_path: Path) -> Path:
    LogDir.create(tmp_path / "data")
    return tmp_path / "data"


def test_a_commit_creates_a_topic_and_the_next_one_appends(data: Path) -> None:
    published = write(data, 0, 400)
    assert [(added.partition, added.start_offset, added.end_offset) for added in published] == [
        (0, 0, 200),
        (1, 0, 200),
    ]
    write(data, 400, 800)
    assert values(data) == expected((0, 800))
    checkpoints = OffsetCheckpoints.read(data)
    assert checkpoints.recovery_points == checkpoints.high_watermarks == {("t", 0): 400, ("t", 1): 400}
    assert not [name for name in files(data) if "kafkalog" in name]
    assert (data / ".kafka_cleanshutdown").exists()


def test_records_are_in_the_order_of_the_tasks(data: Path) -> None:
    write(data, 0, 400, partitions=1, tasks=4)
    log = LogDir(data).partition("t", 0)
    written = [value for batch in log.read(columns=["value"]) for value in batch.column(0).to_pylist()]
    assert written == [b"v%d" % i for i in range(400)]


def test_staged_records_are_not_visible_before_the_commit(data: Path) -> None:
    write(data, 0, 100)
    before = values(data)
    job, staged = staged_job(data, 100, 200)
    other, _ = staged_job(data, 100, 200)
    assert values(data) == before
    publishing.commit(job, staged, {}, 2)
    assert values(data) == expected((0, 200))
    other.end()
    assert not [name for name in files(data) if "kafkalog" in name]


def test_readers_see_nothing_during_the_commit(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(data, 0, 100)
    opened_before = LogDir(data)
    job, staged = staged_job(data, 100, 200)
    seen = []

    def read_then_commit(self: WriteIntent, log_dir: Path) -> None:
        seen.append(values(log_dir))
        seen.append([opened_before.partition("t", number).high_watermark for number in (0, 1)])
        original(self, log_dir)

    original = WriteIntent.commit
    monkeypatch.setattr(WriteIntent, "commit", read_then_commit)
    publishing.commit(job, staged, {}, 2)
    assert seen == [expected((0, 100)), [50, 50]]
    assert values(data) == expected((0, 200))


def test_a_log_is_opened_long_after_a_commit_that_its_log_directory_has_seen(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader sees none of the new records, never only some of them. The files may have been rewritten."""
    write(data, 0, 100)
    job, staged = staged_job(data, 100, 200)
    opened = []

    def open_then_commit(self: WriteIntent, log_dir: Path) -> None:
        opened.append(LogDir(log_dir))
        original(self, log_dir)

    original = WriteIntent.commit
    monkeypatch.setattr(WriteIntent, "commit", open_then_commit)
    publishing.commit(job, staged, {}, 2)
    erase(data, keys=[b"k7", b"k8"])
    for number in (0, 1):
        log = opened[0].partition("t", number)
        assert pc.max(log.read(columns=["offset"]).read_all()["offset"]).as_py() == 49
        assert next(log.batches()).num_rows


def test_batches_do_not_depend_on_the_size_of_the_appended_parts(data: Path) -> None:
    job = WriteJob.begin(data)
    whole, single = (
        stage(
            job,
            [(0, records(i, i + step)) for i in range(0, 500, step)],
            attempt=str(step),
            compression="lz4",
        )
        for step in (500, 1)
    )
    assert single[0].headers().equals(whole[0].headers())
    assert Path(single[0].path).read_bytes() == Path(whole[0].path).read_bytes()
    assert whole[0].headers().num_rows > 5


@pytest.mark.parametrize(("buffered", "remainder"), [(300, 4 << 20), (300, 100), (0, 0)])
def test_small_limits_of_memory(
    data: Path, monkeypatch: pytest.MonkeyPatch, buffered: int, remainder: int
) -> None:
    """One partition gets few rows of each batch, the other one the rest."""
    monkeypatch.setattr(staging, "MAX_BUFFERED_BYTES", buffered)
    monkeypatch.setattr(staging, "MAX_REMAINDER_BYTES", remainder)
    monkeypatch.setattr(staging, "MAX_PENDING_BYTES", buffered)
    job = WriteJob.begin(data)

    def parts() -> Iterator[tuple[int, Part]]:
        for start in range(0, 200, 20):
            batch = records(start, start + 20)
            yield 1, (batch, pa.array([7], pa.uint32()))
            yield 0, (batch, pa.array([i for i in range(20) if i != 7], pa.uint32()))

    publishing.commit(job, stage(job, parts()), {}, 2)
    logs = LogDir(data)
    for partition in (0, 1):
        batches = logs.partition("t", partition).read()
        written = [row["value"] for batch in batches for row in batch.to_pylist()]
        assert written == [b"v%d" % i for i in range(200) if (i % 20 == 7) is bool(partition)]


def test_large_string_and_large_binary_columns(data: Path) -> None:
    headers = pa.list_(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
    rows = pa.record_batch(
        {
            "key": pa.array(["a", "b", None] * 10, pa.large_string()),
            "value": pa.array([b"v"] * 30, pa.large_binary()),
            "headers": pa.array([[("h", b"x")]] * 30, headers),
        }
    )
    parts = Partitioner("t", 2, 20, ignore_keys=False, round_robin=False).split(rows, None)
    job = WriteJob.begin(data)
    publishing.commit(job, stage(job, parts), {}, 2)
    logs = LogDir(data)
    written = [
        row for number in (0, 1) for batch in logs.partition("t", number).read() for row in batch.to_pylist()
    ]
    assert sorted(row["key"] or b"" for row in written) == sorted([b"a", b"b", b""] * 10)
    assert all(row["headers"] == [{"key": "h", "value": b"x"}] for row in written)


def test_large_files_become_segments_small_ones_are_appended(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "OWN_SEGMENT_BYTES", 3000)
    write(data, 0, 20, partitions=1, tasks=1)
    job, staged = staged_job(data, 20, 400, partitions=1, tasks=2)
    small = stage(job, [(0, records(400, 410))], attempt="small")
    assert [file.size_bytes > 3000 for file in [*staged, *small]] == [True, True, False]
    publishing.commit(job, [*staged, *small], {"segment.bytes": "8000"}, 1)
    log = LogDir(data).partition("t", 0)
    assert [segment.base_offset for segment in log.segments] == [0, 20, 210]
    assert log.log_end_offset == 410
    assert values(data) == expected((0, 410))
    assert list(verify_log(log)) == []


def test_log_append_time(data: Path) -> None:
    config = {"message.timestamp.type": "LogAppendTime"}
    job = WriteJob.begin(data)
    publishing.commit(job, stage(job, [(0, records(0, 50))], config=config), config, 1)
    log = LogDir(data).partition("t", 0)
    batches = [row for batch in log.batches() for row in batch.to_pylist()]
    assert {(row["timestampType"], row["maxTimestamp"]) for row in batches} == {(1, NOW_MS)}
    assert log.offset_for_timestamp(NOW_MS) == 0


def test_a_compacted_topic_requires_keys(data: Path) -> None:
    rows = pa.record_batch({"key": [b"k", None], "value": [b"v", b"w"]})
    job = WriteJob.begin(data)
    with pytest.raises(InvalidRecordError, match="expected a key"):
        stage(job, [(0, rows)], config={"cleanup.policy": "compact"})


def test_many_small_writes_build_the_same_index_as_recovery(data: Path) -> None:
    for start in range(0, 600, 10):
        write(data, start, start + 10, partitions=1, tasks=1, config={"index.interval.bytes": "1000"})
    index = data / "t-0" / "00000000000000000000.index"
    before = index.read_bytes()
    assert len(before) > 8 * 5
    recover(data, from_start=True, config={"index.interval.bytes": "1000"})
    assert index.read_bytes() == before
    assert values(data) == expected((0, 600))
