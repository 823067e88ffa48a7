"""Repeat the retention and DeleteRecords of brokers, and compare the results."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from dry_runs import as_done

import native_log
from native_log.checkpoints.leader_epochs import read_leader_epochs
from native_log.checkpoints.offset_checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    read_offset_checkpoint,
    write_offset_checkpoint,
)
from native_log.log import PartitionLog
from native_log.log.largest_timestamp import largest_timestamp_ms
from native_log.retention import plan
from tests.builders.batches import batch
from tests.builders.golden import GOLDEN
from tests.builders.logs import write_log
from tests.contents import files
from tests.killing import survives

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RUNS = sorted(GOLDEN.glob("kafka-*/ret-*/before"))
V41 = GOLDEN / "kafka-4.1"


def run_id(before: Path) -> str:
    return f"{before.parents[1].name}-{before.parent.name}"


def expected(fixture: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((fixture / "expected.json").read_text())
    return content


def copy(before: Path, to: Path) -> Path:
    """Copy the log directory, with the modification times that the broker saw."""
    shutil.copytree(before / "data", to)
    for file in expected(before)["files"]:
        os.utime(to / file["path"], ns=(file["mtimeMs"] * 1_000_000,) * 2)
    return to


def arguments(before: Path) -> dict[str, Any]:
    after = expected(before.with_name("after"))
    (config,) = (topic["config"] for topic in after["topics"].values())
    return {"config": config, "now_ms": int(after["facts"]["removedBetweenMs"].split("..")[0])}


def segment_files(directory: Path) -> dict[str, bytes]:
    """Return the files of segments except snapshots: Kafka 2.8 keeps the snapshots of deleted segments."""
    contents = {path.name: path.read_bytes() for path in directory.iterdir() if path.name[:20].isdigit()}
    return {name: data for name, data in contents.items() if ".snapshot" not in name}


@pytest.mark.parametrize("before", RUNS, ids=run_id)
def test_runs(before: Path, tmp_path: Path) -> None:
    data, after, topic = copy(before, tmp_path / "data"), before.with_name("after"), before.parent.name

    planned = native_log.retain(data, **arguments(before), dry_run=True)
    assert files(data) == files(before / "data")
    table = native_log.retain(data, **arguments(before))

    assert as_done(planned) == table
    assert segment_files(data / f"{topic}-0") == segment_files(after / "data" / f"{topic}-0")
    start = expected(after)["partitions"][0]["earliest"]
    assert read_offset_checkpoint(data / LOG_START_OFFSET_CHECKPOINT)[topic, 0] == start
    log = native_log.LogDir(data).partition(topic, 0)
    assert (log.log_start_offset, log.log_end_offset) == (start, expected(after)["partitions"][0]["latest"])
    if "kafka-2.8" not in run_id(before):
        names = {path.name for path in (data / f"{topic}-0").iterdir()}
        assert names == {path.name for path in (after / "data" / f"{topic}-0").iterdir()}
        # The broker was elected again afterwards, which added an entry.
        theirs = read_leader_epochs(after / "data" / f"{topic}-0")
        ours = read_leader_epochs(data / f"{topic}-0")
        assert ours[0].start_offset == start == theirs[0].start_offset


def test_there_are_runs() -> None:
    assert len(RUNS) == 8


def test_delete_records_and_retain_match_the_broker(tmp_path: Path) -> None:
    before, after = V41 / "delete-records/before", V41 / "delete-records/after"
    data = copy(before, tmp_path / "data")

    table = native_log.delete_records(data, {("delete-records", 0): 93, ("delete-records", 1): 130})

    assert table.column("logStartOffset").to_pylist() == [93, 130]
    native_log.retain(data, config={"retention.ms": "-1"})
    for partition in ("delete-records-0", "delete-records-1"):
        assert segment_files(data / partition) == segment_files(after / "data" / partition)
        assert read_leader_epochs(data / partition)[0] == read_leader_epochs(after / "data" / partition)[0]
    starts = read_offset_checkpoint(data / LOG_START_OFFSET_CHECKPOINT)
    theirs = read_offset_checkpoint(after / "data" / LOG_START_OFFSET_CHECKPOINT)
    assert starts == {key: offset for key, offset in theirs.items() if key[0] == "delete-records"}


def test_delete_records_rejects_offsets_above_the_high_watermark(tmp_path: Path) -> None:
    data = copy(V41 / "delete-records/before", tmp_path / "data")
    before = files(data)
    log = native_log.LogDir(data).partition("delete-records", 0)
    key = ("delete-records", 0)

    with pytest.raises(native_log.OffsetOutOfRangeError, match=f"high watermark {log.high_watermark}"):
        native_log.delete_records(data, {("delete-records", 1): 5, key: log.high_watermark + 1})
    assert files(data) == before

    for end in (-1, log.high_watermark):
        planned = native_log.delete_records(data, {key: end}, dry_run=True)
        assert planned["status"].to_pylist() == ["would be deleted"]
        assert planned["logStartOffset"].to_pylist() == [log.high_watermark]
    assert files(data) == before

    assert native_log.delete_records(data, {key: -1})["status"].to_pylist() == ["deleted"]
    again = native_log.delete_records(data, {key: 3})  # the log start offset never moves back
    assert again["status"].to_pylist() == ["unchanged"]
    assert native_log.LogDir(data).partition(*key).log_start_offset == log.high_watermark


def test_deleted_files_are_removed_after_the_delay(tmp_path: Path) -> None:
    before = V41 / "ret-time/before"
    data, partition = copy(before, tmp_path / "data"), tmp_path / "data/ret-time-0"
    native_log.retain(data, **arguments(before))
    renamed_ms = max(path.stat().st_ctime_ns for path in partition.glob("*.deleted")) // 1_000_000
    keep_all = {"retention.ms": "-1", "file.delete.delay.ms": "60000"}

    native_log.retain(data, config=keep_all, now_ms=renamed_ms + 59_000)
    assert len(list(partition.glob("*.deleted"))) == 7

    native_log.retain(data, config=keep_all, now_ms=renamed_ms + 60_001)
    assert not list(partition.glob("*.deleted"))


@pytest.mark.parametrize("damage", ["missing", "torn", "zero", "too old"])
def test_a_wrong_time_index_does_not_change_the_result(damage: str, tmp_path: Path) -> None:
    before = V41 / "ret-time/before"
    data, partition = copy(before, tmp_path / "data"), tmp_path / "data/ret-time-0"
    for index in partition.glob("*.timeindex"):
        if damage == "missing":
            index.unlink()
        elif damage == "torn":
            index.write_bytes(index.read_bytes()[:-5])
        elif damage == "zero":
            index.write_bytes(bytes(len(index.read_bytes())))
        else:
            index.write_bytes((1).to_bytes(8, "big") + index.read_bytes()[-4:])

    table = native_log.retain(data, **arguments(before))

    assert table.column("decision").to_pylist() == ["deleted"] * 2 + ["kept"] * 3


def test_a_kill_at_any_change_leaves_a_readable_log_and_the_next_run_finishes(tmp_path: Path) -> None:
    before = V41 / "ret-time/before"
    starts = set()
    for step in itertools.count():
        data = copy(before, tmp_path / f"data{step}")
        completed = survives(partial(native_log.retain, data, **arguments(before)), step)
        log = native_log.LogDir(data).partition("ret-time", 0)
        starts.add(log.log_start_offset)
        assert sum(batch.num_rows for batch in log.read(columns=["offset"])) == 345 - log.log_start_offset
        native_log.retain(data, **arguments(before))
        names = {path.name for path in (data / "ret-time-0").iterdir()}
        assert names == {path.name for path in (before.with_name("after") / "data/ret-time-0").iterdir()}
        if completed:
            break
    assert starts == {0, 162}
    assert step > 10


def test_a_log_without_timestamps_is_as_old_as_its_files(tmp_path: Path) -> None:
    """Message format 0 has no timestamps."""
    before = GOLDEN / "kafka-2.8/compact-v0/round1-before"
    data = copy(before, tmp_path / "data")
    times = sorted(path.stat().st_mtime_ns // 1_000_000 for path in data.glob("compact-v0-0/*.log"))
    assert len(set(times)) > 1

    for age, deleted in ((times[-1] - times[0], 0), (times[-1] - times[0] - 1, 1)):
        config = {"retention.ms": age}
        rows = native_log.retain(data, config=config, now_ms=times[-1], dry_run=True).to_pylist()
        assert [row["largestTimestampMs"] for row in rows][: deleted + 1] == times[: deleted + 1]
        assert [row["decision"] for row in rows].count("would be deleted") == deleted


def test_a_directory_in_use_is_rejected(tmp_path: Path) -> None:
    before = V41 / "ret-time/before"
    data = copy(before, tmp_path / "data")
    script = (
        "import sys, time; from pathlib import Path; from native_log.checkpoints.lock import LogDirLock\n"
        "with LogDirLock(Path(sys.argv[1])): print(flush=True); sys.stdin.read()"
    )
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script, str(data)], **pipes) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        content = files(data)
        calls: list[Callable[[], object]] = [
            lambda: native_log.retain(data, **arguments(before)),
            lambda: native_log.delete_records(data, {("ret-time", 0): 1}),
        ]
        for call in calls:
            with pytest.raises(native_log.LogDirInUseError, match=str(holder.pid)):
                call()
        assert files(data) == content
        assert native_log.retain(data, **arguments(before), dry_run=True).num_rows == 5
        holder.communicate()


def test_an_interrupted_compaction_is_finished_first(tmp_path: Path) -> None:
    before = V41 / "ret-time/before"
    data, partition = copy(before, tmp_path / "data"), tmp_path / "data/ret-time-0"
    first = min(partition.glob("*.log"))
    first.rename(first.with_name(f"{first.name}.swap"))  # a crash before the last rename
    (partition / f"{'9' * 18}.log.cleaned").touch()

    table = native_log.retain(data, **arguments(before))

    assert table.column("decision").to_pylist() == ["deleted"] * 2 + ["kept"] * 3
    assert not list(partition.glob("*.log.swap")) + list(partition.glob("*.log.cleaned"))
    assert (partition / f"{first.name}.deleted").exists()


def test_a_partition_that_cannot_be_read_fails_alone(tmp_path: Path) -> None:
    before = V41 / "delete-records/before"
    data = copy(before, tmp_path / "data")
    first = min((data / "delete-records-0").glob("*.log"))
    os.truncate(first, 2**31)  # more than a segment can have
    lengths = {path.name: path.stat().st_size for path in first.parent.iterdir()}

    rows = native_log.retain(data, config={"retention.ms": "1"}).to_pylist()

    (failed,) = (row for row in rows if row["partition"] == 0)
    assert failed["decision"] == "failed"
    assert str(first) in failed["reason"]
    assert {path.name: path.stat().st_size for path in first.parent.iterdir()} == lengths
    assert any(row["decision"] == "deleted" for row in rows if row["partition"] == 1)


def test_a_dry_run_while_a_broker_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It deletes the first segment of one partition, and the other partition."""
    for name in ("t-0", "t-1"):
        write_log(tmp_path / name, {0: [batch(0)], 3: [batch(3)], 6: [batch(6)]})
    plan_log = plan._plan_log

    def delete(log: PartitionLog, *arguments: Any) -> plan.RetentionPlan:
        for path in log.path.glob(f"{0:020d}.*" if log.partition == 0 else "*"):
            path.unlink()
        if log.partition == 1 and log.path.exists():
            log.path.rmdir()
        return plan_log(log, *arguments)

    monkeypatch.setattr(plan, "_plan_log", delete)
    config = {"cleanup.policy": "delete", "retention.ms": 1}
    rows = native_log.retain(tmp_path, "t", config, dry_run=True).to_pylist()
    assert [(row["partition"], row["baseOffset"], row["decision"]) for row in rows] == [
        (0, 3, "would be deleted"),
        (0, 6, "would be deleted"),
    ]


@pytest.mark.parametrize(
    "options", [{}, {"topics": "compact-codecs"}, {"config": {"cleanup.policy": "delete"}}]
)
def test_size_and_time_delete_nothing_from_a_compacted_topic(options: dict[str, Any], tmp_path: Path) -> None:
    """The topic has no entry in cleaner-offset-checkpoint until it is compacted."""
    data = copy(V41 / "compact-codecs/round1-before", tmp_path / "data")
    assert native_log.compact(data, "compact-codecs", {"min.cleanable.dirty.ratio": 0}).num_rows == 1
    before = files(data)

    config = {"retention.ms": 86_400_000, **options.get("config", {})}
    rows = native_log.retain(data, **{**options, "config": config}).to_pylist()

    assert {(row["decision"], row["rule"]) for row in rows} == {("kept", "compacted")}
    assert files(data) == before

    native_log.retain(data, "compact-codecs", {"retention.ms": 86_400_000, "cleanup.policy": "delete"})
    log = native_log.LogDir(data).partition("compact-codecs", 0)
    assert log.log_start_offset == log.log_end_offset


def test_without_a_policy_and_settings_nothing_is_deleted(tmp_path: Path) -> None:
    data = copy(V41 / "ret-time/before", tmp_path / "data")
    before = files(data)
    rows = native_log.retain(data).to_pylist()
    assert {(row["decision"], row["rule"]) for row in rows} == {("kept", "cleanup.policy")}
    assert "set retention.ms or retention.bytes" in rows[0]["reason"]
    assert files(data) == before


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__remote_log_metadata"])
def test_the_brokers_own_topics_are_left_alone_unless_they_are_named(topic: str, tmp_path: Path) -> None:
    data = copy(V41 / "ret-time/before", tmp_path / "data")
    (data / "ret-time-0").rename(data / f"{topic}-0")
    before = files(data)
    assert native_log.retain(data, config={"retention.ms": 1}).num_rows == 0
    rows = native_log.retain(data, topic, config={"retention.ms": 1}).to_pylist()
    assert {(row["decision"], row["rule"]) for row in rows} == {("kept", "cleanup.policy")}
    assert "the topic is internal to Kafka; to delete from it anyway, name" in rows[0]["reason"]
    assert native_log.compact(data).num_rows == 0
    if topic == "__remote_log_metadata":
        with pytest.raises(native_log.InvalidTopicError, match="no keys"):
            native_log.compact(data, topic)
    assert files(data) == before


def test_the_start_of_a_log_with_remote_segments_is_kept_unless_the_topic_is_named(tmp_path: Path) -> None:
    """A broker deletes the remote segments below the log start offset."""
    data = copy(V41 / "ret-time/before", tmp_path / "data")
    for file in (data / "ret-time-0").glob(f"{0:020}.*"):
        file.unlink()
    write_offset_checkpoint(data / LOG_START_OFFSET_CHECKPOINT, {("ret-time", 0): 0})
    before = files(data)

    rows = native_log.retain(data, config={"retention.ms": 1, "cleanup.policy": "delete"}).to_pylist()

    assert {(row["decision"], row["rule"]) for row in rows} == {("kept", "remote.storage.enable")}
    assert "tiered storage" in rows[0]["reason"]
    assert files(data) == before
    rows = native_log.retain(data, "ret-time", {"retention.ms": 1, "cleanup.policy": "delete"}).to_pylist()
    assert {row["decision"] for row in rows} == {"deleted"}


def test_a_segment_with_offsets_out_of_order_is_as_new_as_its_file(tmp_path: Path) -> None:
    """A damaged segment is not deleted because of the timestamps of its other batches."""
    same = batch(0, base_timestamp=1000, max_timestamp=1000)
    path = write_log(tmp_path / "t-0", {0: [same, same], 3: [batch(3)]})
    os.utime(path / f"{0:020d}.log", (5000, 5000))
    log = PartitionLog.open(path)
    assert largest_timestamp_ms(log, 0, 9_000_000) == 5_000_000
    (path / f"{0:020d}.log").write_bytes(same)
    assert largest_timestamp_ms(PartitionLog.open(path), 0, 9_000_000) == 1000
