"""Logs are restored from tiers, directories and replicas, also after a crash at any step."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import native_log
from native_log import CorruptRecordError, KafkaLogError, LogDir, LostOffsetsError
from native_log.checkpoints.meta_properties import read_meta_properties
from native_log.cli.app import kafkalog
from native_log.restoring import copying
from native_log.storage.writing import AppendFile
from tests.builders.batches import batch
from tests.builders.copies import RECORDS, batches, damage, rows_of, write_copy
from tests.builders.golden import golden
from tests.builders.golden_tiered import DANGLING, READABLE, TieredPartition, tiered
from tests.builders.logs import write_log
from tests.builders.tiered_cluster import TrackedCluster
from tests.contents import COLUMNS, as_rows, files, offsets

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = batches(0, 40)


def restored_rows(path: Path, topic: str, partition: int, level: Any = "read_uncommitted") -> Any:
    return as_rows(LogDir(path).partition(topic, partition).read(columns=COLUMNS, isolation_level=level))


@pytest.mark.parametrize("partition", READABLE, ids=str)
def test_a_tier_with_its_log_directory(partition: TieredPartition, tmp_path: Path) -> None:
    topic, number = partition.key
    source = partition.folder / "data"
    dest = tmp_path / "restored"
    remote = {**partition.remote, "start": {("pins", 0): 102}}  # the offsets before are lost
    planned = native_log.restore(source, dest, topic, dry_run=True, **remote)
    assert not dest.exists()
    done = native_log.restore(source, dest, topic, **remote)
    assert set(planned["status"].to_pylist()) == {"would be restored"}
    assert set(done["status"].to_pylist()) == {"restored"}
    for name in ("topic", "partition", "logStartOffset", "logEndOffset", "topicId"):
        assert planned[name] == done[name]
    for level in ("read_uncommitted", "read_committed"):
        assert restored_rows(dest, topic, number, level) == partition.rows(level)
    log = LogDir(dest).partition(topic, number)
    assert (log.log_end_offset, log.last_stable_offset) == (
        partition.expected["latest"],
        partition.expected["latestCommitted"],
    )
    assert native_log.verify(dest).num_rows == 0


def test_a_tier_alone(tmp_path: Path) -> None:
    partition = tiered("lts-overlap", "overlap-mid")
    remote = {**partition.remote, "remote_metadata": partition.folder / "data"}
    native_log.restore(None, tmp_path / "r", "overlap-mid", **remote)
    log = LogDir(tmp_path / "r").partition("overlap-mid", 0)
    assert offsets(log.read(columns=["offset"])) == list(range(428))


def test_a_directory_of_all_formats(tmp_path: Path) -> None:
    for name in (
        "kafka-4.1/txn",
        "kafka-4.1/compact-txn/round1-before",
        "kafka-2.8/v1-gzip",
        "kafka-2.8/v0-none",
    ):
        source = golden(name)
        dest = tmp_path / name.replace("/", "-")
        native_log.restore(source.path.parent, dest, source.topic)
        assert restored_rows(dest, source.topic, source.partition) == source.rows()
        assert native_log.verify(dest).num_rows == 0


def test_internal_topics_only_by_name(tmp_path: Path) -> None:
    source = golden("kafka-4.1/whole-broker").path.parent

    def topics(name: str, topics: Any = None) -> set[str]:
        return set(native_log.restore(source, tmp_path / name, topics)["topic"].to_pylist())

    assert topics("all") == {"events", "payments", "state", "trimmed"}
    assert topics("one", "__consumer_offsets") == {"__consumer_offsets"}
    with pytest.raises(native_log.InvalidTopicError, match="the new cluster writes its own"):
        topics("metadata", "__cluster_metadata")
    ours, theirs = (read_meta_properties(path) for path in (tmp_path / "all", source))
    assert ours is not None and theirs is not None
    assert (ours.version, ours.cluster_id, ours.node_id) == (
        theirs.version,
        theirs.cluster_id,
        theirs.node_id,
    )


def test_deleted_topics(tmp_path: Path) -> None:
    source, suffix = tmp_path / "source", "0" * 32
    for name in (f"deleted-0.{suffix}-delete", f"stray-0.{suffix}-stray", "kept-0"):
        write_copy(source, WHOLE).rename(source / name)
    deleted = source / f"deleted-0.{suffix}-delete"
    expected = as_rows(LogDir(source).partition("kept", 0).read(columns=COLUMNS))

    def topics(source: Path, name: str, **options: Any) -> list[str]:
        restored = native_log.restore(source, tmp_path / name, **options)["topic"].to_pylist()
        assert all(restored_rows(tmp_path / name, topic, 0) == expected for topic in restored)
        return sorted(restored)

    assert topics(source, "kept") == ["kept"]
    assert topics(source, "all", include_deleted=True) == ["deleted", "kept", "stray"]
    assert topics(deleted, "one") == ["deleted"]


def test_replicas_supply_what_is_damaged(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_copy(tmp_path / name, WHOLE, rolls=[30, 60])
    damage(tmp_path / "a" / "t-0", WHOLE[4])
    damage(tmp_path / "b" / "t-0", WHOLE[15])
    native_log.restore([tmp_path / "a", tmp_path / "b"], tmp_path / "r", replicas="merge")
    assert offsets(LogDir(tmp_path / "r").partition("t", 0).read(columns=["offset"])) == [
        o for o, _ in rows_of(WHOLE)
    ]
    assert native_log.verify(tmp_path / "r").num_rows == 0


def test_slices_of_several_copies_fill_files_of_limited_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [tmp_path / "a", tmp_path / "b"]
    for source in sources:
        write_copy(source, WHOLE)
    for number in (4, 25):
        damage(sources[0] / "t-0", WHOLE[number])
    size = len(WHOLE[0].data)
    monkeypatch.setattr(copying, "_MOST_FILE_BYTES", 20 * size)
    native_log.restore(sources, tmp_path / "r", replicas="merge")
    segments = LogDir(tmp_path / "r").partition("t", 0).segments
    assert [segment.base_offset // RECORDS for segment in segments] == [0, 5, 25]
    assert [segment.size_bytes // size for segment in segments] == [5, 20, 15]
    assert native_log.verify(tmp_path / "r").num_rows == 0


def test_slices_of_several_copies_fill_files_of_limited_offsets(tmp_path: Path) -> None:
    far = 2**31 - 1
    write_log(tmp_path / "a" / "t-0", {0: [batch(0)]})
    write_log(tmp_path / "b" / "t-0", {2: [batch(far)]})
    (tmp_path / "b" / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {far + 3}\n")
    native_log.restore([tmp_path / "a", tmp_path / "b"], tmp_path / "r", replicas="merge")
    log = LogDir(tmp_path / "r").partition("t", 0)
    assert [segment.base_offset for segment in log.segments] == [0, 3]
    assert offsets(log.read(columns=["offset"])) == [0, 1, 2, far, far + 1, far + 2]
    assert native_log.verify(tmp_path / "r").num_rows == 0


def test_two_brokers_and_their_remote_storage(tmp_path: Path) -> None:
    cluster = TrackedCluster(tmp_path / "tier")
    cluster.append(9)
    cluster.upload(5, 0)
    cluster.delete_local(4)
    for name, lag, damaged in (("a", 0, 7), ("b", 1, 6)):
        damage(cluster.write_local(tmp_path / name, lag), cluster.log[damaged])
        cluster.write_metadata(tmp_path / name)
    sources = [tmp_path / "a", tmp_path / "b"]
    native_log.restore(sources, tmp_path / "r", "t", replicas="merge", remote=cluster.tier)
    restored = LogDir(tmp_path / "r").partition("t", 0)
    assert offsets(restored.read(columns=["offset"])) == [offset for offset, _ in cluster.rows()]
    assert native_log.verify(tmp_path / "r").num_rows == 0


def test_damage_that_no_place_repairs_changes_nothing(tmp_path: Path) -> None:
    write_copy(tmp_path / "a", WHOLE)
    damage(tmp_path / "a" / "t-0", WHOLE[4])
    with pytest.raises(CorruptRecordError, match=r"t-0/0+\.log, position"):
        native_log.restore(tmp_path / "a", tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_lost_offsets_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(LostOffsetsError, match="expected offsets 47 to 101 in a segment"):
        native_log.restore(DANGLING.folder / "data", tmp_path / "r", **DANGLING.remote)
    native_log.restore(DANGLING.folder / "data", tmp_path / "r2", start={("pins", 0): 102}, **DANGLING.remote)
    assert LogDir(tmp_path / "r2").partition("pins", 0).log_start_offset == 102


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (33, 60, range(33, 60)),
        (31, 50, range(31, 51)),  # batches of three records are copied whole
        ({("t", 0): 90}, None, range(90, 120)),
        (None, {("t", 0): 6}, range(6)),
        (500, None, range(0)),
    ],
)
def test_a_range_of_offsets(start: Any, end: Any, expected: range, tmp_path: Path) -> None:
    write_copy(tmp_path / "a", WHOLE, rolls=[30, 60, 90])
    native_log.restore(tmp_path / "a", tmp_path / "r", start=start, end=end)
    log = LogDir(tmp_path / "r").partition("t", 0)
    assert offsets(log.read(columns=["offset"])) == list(expected)
    if expected:
        assert log.log_start_offset == expected[0]
    assert native_log.verify(tmp_path / "r").num_rows == 0


@pytest.mark.parametrize("name", ["kafka-2.8/v0-gzip", "kafka-2.8/v1-gzip", "kafka-4.1/plain-gzip"])
def test_a_range_begins_within_a_compressed_batch(name: str, tmp_path: Path) -> None:
    source = golden(name)
    for start in (40, 41, 42):
        dest = tmp_path / f"r{start}"
        native_log.restore(source.path.parent, dest, source.topic, start={(source.topic, 0): start})
        rows = [row for row in source.rows() if row["offset"] >= start]
        assert restored_rows(dest, source.topic, source.partition) == rows
        assert native_log.verify(dest).num_rows == 0


@pytest.mark.parametrize("name", ["kafka-2.8/v0-gzip", "kafka-2.8/v1-gzip", "kafka-4.1/plain-gzip"])
def test_a_range_ends_between_compressed_batches(name: str, tmp_path: Path) -> None:
    source = golden(name)
    batches = (
        LogDir(source.path.parent).partition(source.topic, source.partition).read(columns=["batchOffset"])
    )
    starts = sorted(set(batches.read_all().column(0).to_pylist()))
    for end in starts[1:6]:
        dest = tmp_path / f"r{end}"
        native_log.restore(source.path.parent, dest, source.topic, end={(source.topic, 0): end})
        rows = [row for row in source.rows() if row["offset"] < end]
        assert restored_rows(dest, source.topic, source.partition) == rows


def test_a_range_of_times(tmp_path: Path) -> None:
    source = golden("kafka-4.1/plain-zstd")
    rows = source.rows()
    middle = sorted(row["timestamp"] for row in rows)[len(rows) // 2]
    start = datetime.fromtimestamp(middle / 1000, UTC)
    first = LogDir(source.path).partition(source.topic, 0).offset_for_timestamp(middle)
    for number, given in enumerate([start, start.replace(tzinfo=None), {(source.topic, 0): start}]):
        native_log.restore(source.path, tmp_path / f"r{number}", start=given)
        assert LogDir(tmp_path / f"r{number}").partition(source.topic, 0).log_start_offset == first


@pytest.mark.parametrize("start", ["2024-01-01", 1.5, True, {("t", 0): None}])
def test_what_is_no_offset_and_no_time_is_an_error(start: Any, tmp_path: Path) -> None:
    write_copy(tmp_path / "a", WHOLE)
    with pytest.raises(TypeError, match="start"):
        native_log.restore(tmp_path / "a", tmp_path / "r", start=start)
    with pytest.raises(TypeError, match="start"):
        native_log.scan(tmp_path / "a", start=start)


def prepared(tmp_path: Path) -> Path:
    """Return a log directory as a broker has it that has created the topic."""
    dest = tmp_path / "broker"
    with LogDir.create(dest) as logs:
        logs.create_topic("t", 1, topic_id="hWsrRk9KT1ebWbDgoM5wZQ")
        logs.create_topic("other", 1)
    return dest


def test_empty_partitions_are_filled_and_keep_their_topic_ids(tmp_path: Path) -> None:
    write_copy(tmp_path / "a", WHOLE, rolls=[30])
    dest = prepared(tmp_path)
    identity = (dest / "meta.properties").read_text()
    native_log.restore(tmp_path / "a", dest)
    log = LogDir(dest).partition("t", 0)
    assert (log.topic_id, log.log_end_offset) == ("hWsrRk9KT1ebWbDgoM5wZQ", 120)
    assert (dest / "meta.properties").read_text() == identity
    assert LogDir(dest).partition("other", 0).log_end_offset == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "broker"]


def test_records_are_never_overwritten(tmp_path: Path) -> None:
    write_copy(tmp_path / "a", WHOLE)
    write_copy(tmp_path / "b", WHOLE[:1])
    before = files(tmp_path / "b")
    with pytest.raises(KafkaLogError, match="expected an empty partition, found one with offsets 0 to 3"):
        native_log.restore(tmp_path / "a", tmp_path / "b")
    assert files(tmp_path / "b") == before


class StoppedError(BaseException):
    """Stands for a kill."""


class StepLimit:
    """Functions that raise StoppedError instead of being called for the n-th time together."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def wrap(self, function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                raise StoppedError
            return function(*arguments, **named)

        return call


@pytest.mark.parametrize("is_new", [True, False])
def test_a_kill_at_each_step(is_new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change of the file system can be the last one. The next run continues."""
    for number in (0, 1):
        write_copy(tmp_path / f"a{number}", WHOLE, rolls=[30])
        shutil.move(tmp_path / f"a{number}" / "t-0", tmp_path / "source" / f"t-{number}")
    step = 0
    is_done = False
    while not is_done:
        step += 1
        place = tmp_path / str(step)
        place.mkdir()
        dest = place / "dest" if is_new else prepared(place)
        with monkeypatch.context() as patch:
            limit = StepLimit(step)
            for name in ("rename", "replace", "mkdir", "unlink", "rmdir"):
                patch.setattr(os, name, limit.wrap(getattr(os, name)))
            try:
                native_log.restore(tmp_path / "source", dest, threads=1)
                is_done = True
            except StoppedError:
                pass
        is_complete = not (place / f"{dest.name}.unfinished-restore").exists() and (dest / "t-1").exists()
        if is_complete and LogDir(dest).partition("t", 1).log_end_offset > 0:
            is_done = True  # only the removal of the folder was stopped, if anything
        if not is_done:
            native_log.restore(tmp_path / "source", dest, threads=1)
            assert not [path for path in place.rglob("*") if "restore" in path.name]
        for number in (0, 1):
            log = LogDir(dest).partition("t", number)
            assert offsets(log.read(columns=["offset"])) == [offset for offset, _ in rows_of(WHOLE)]
        assert native_log.verify(dest).num_rows == 0
    assert step > 10


@pytest.mark.parametrize("appends", range(1, 9))
@pytest.mark.parametrize("bounds", [(None, None), (4, 33)])
def test_a_kill_while_a_partition_is_copied(
    appends: int, bounds: tuple[int | None, int | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run keeps all finished segments, and copies the others again."""
    write_copy(tmp_path / "source", WHOLE, rolls=[9, 15, 24, 30])
    part = tmp_path / "dest.unfinished-restore" / "t-0.part"
    with monkeypatch.context() as patch:
        patch.setattr(AppendFile, "append", StepLimit(appends).wrap(AppendFile.append))
        try:
            native_log.restore(tmp_path / "source", tmp_path / "dest", None, *bounds)
        except StoppedError:
            for begun in sorted(part.glob("*.log"))[-1:]:
                begun.write_bytes(b"half a batch")  # it was not flushed
                (part / "00000000000000000001.log").symlink_to(tmp_path)
    kept = {path.name: path.stat().st_ino for path in part.glob("*.log")} if part.exists() else {}
    native_log.restore(tmp_path / "source", tmp_path / "dest", None, *bounds)
    native_log.restore(tmp_path / "source", tmp_path / "whole", None, *bounds)
    assert files(tmp_path / "dest" / "t-0") == files(tmp_path / "whole" / "t-0")
    copied = {path.name: path.stat().st_ino for path in (tmp_path / "dest" / "t-0").glob("*.log")}
    assert len(kept.items() & copied.items()) >= len(kept) - 2


def test_a_copy_that_the_disk_has_damaged_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_copy(tmp_path / "source", WHOLE, rolls=[9, 15, 24, 30])
    with monkeypatch.context() as patch:
        patch.setattr(AppendFile, "append", StepLimit(5).wrap(AppendFile.append))
        with pytest.raises(StoppedError):
            native_log.restore(tmp_path / "source", tmp_path / "dest")
    kept = min((tmp_path / "dest.unfinished-restore" / "t-0.part").glob("*.log"))
    kept.write_bytes(kept.read_bytes()[:-1] + b"!")
    with pytest.raises(CorruptRecordError, match="The disk may be failing"):
        native_log.restore(tmp_path / "source", tmp_path / "dest")
    native_log.restore(tmp_path / "source", tmp_path / "dest")
    log = LogDir(tmp_path / "dest").partition("t", 0)
    assert offsets(log.read(columns=["offset"])) == [offset for offset, _ in rows_of(WHOLE)]


def test_an_unfinished_restore_of_something_else(tmp_path: Path) -> None:
    write_copy(tmp_path / "a", WHOLE)
    damage(tmp_path / "a" / "t-0", WHOLE[4])
    with pytest.raises(CorruptRecordError):
        native_log.restore(tmp_path / "a", tmp_path / "r")
    write_copy(tmp_path / "b", WHOLE)
    with pytest.raises(KafkaLogError, match="an unfinished restore with the same arguments"):
        native_log.restore(tmp_path / "b", tmp_path / "r")


def test_the_command(tmp_path: Path) -> None:
    partition = tiered("lts-overlap", "overlap-mid")
    remote = ["--remote", str(partition.folder / "tier"), "--topic", "overlap-mid"]
    source, dest = str(partition.folder / "data"), str(tmp_path / "r")
    for command, text in (
        (["restore", source, dest, *remote, "--dry-run"], "1 partition, 49 KiB would be restored"),
        (["restore", source, dest, *remote, "--offset", "100"], "1 partition, 40 KiB restored"),
    ):
        result = CliRunner().invoke(kafkalog, command)
        assert (result.exit_code, text in result.output) == (0, True), result.output
    assert LogDir(dest).partition("overlap-mid", 0).log_start_offset == 100
    result = CliRunner().invoke(kafkalog, ["restore", source, dest, *remote, "--json"])
    assert (result.exit_code, "expected an empty partition" in result.stderr) == (1, True)
    result = CliRunner().invoke(kafkalog, ["restore", source, str(tmp_path / "j"), *remote, "--json"])
    assert json.loads(result.output)["logEndOffset"] == 456
    assert CliRunner().invoke(kafkalog, ["restore", dest]).exit_code == 2
