from __future__ import annotations

import errno
import json
import logging
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from broker_lock import held_lock

import native_log
from native_log import (
    EmptyLogDirError,
    NotALogDirError,
    UnknownTopicOrPartitionError,
)
from native_log.logdir import INTERNAL_TOPICS, LogDir, PartitionKind
from native_log.storage import without_credentials
from tests.builders.batches import batch
from tests.builders.golden import GOLDEN, golden_id, golden_partitions, read_rows
from tests.builders.logs import write_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from native_log.log import PartitionLog
    from tests.builders.golden import GoldenPartition

WHOLE_BROKER = GOLDEN / "kafka-4.1/whole-broker/data"
FUTURE = "spread-0.a81a7fcf8a9b41cfb1c5d72f7471f273-future"


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """Collect the warnings of native_log."""

    messages: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("native_log").addHandler(handler)
    yield messages
    logging.getLogger("native_log").removeHandler(handler)


def offsets(log: PartitionLog) -> list[int]:
    return [offset for batch in log.read(columns=["offset"]) for offset in batch.column(0).to_pylist()]


def partition_names(log_dir: LogDir) -> list[str]:
    return [f"{topic}-{partition}" for topic, numbers in log_dir.topics().items() for partition in numbers]


def log_dirs_of(data: Path) -> list[Path]:
    inside = sorted(data.glob("dir*"))
    return inside or [data]


@pytest.mark.parametrize("golden", list(golden_partitions()), ids=golden_id)
def test_every_partition_of_a_broker_exists_with_its_start_offset(golden: GoldenPartition) -> None:
    log_dir = LogDir(log_dirs_of(GOLDEN / golden.fixture / "data"))
    paths = {(partition.topic, partition.partition): partition.path for partition in log_dir.partitions()}
    assert paths[golden.topic, golden.partition] == golden.path
    assert log_dir.partition(golden.topic, golden.partition).log_start_offset == golden.expected["earliest"]


def test_a_complete_broker_directory(warnings: list[str]) -> None:
    log_dir = LogDir(WHOLE_BROKER)
    assert log_dir.topics() == {
        "__cluster_metadata": [0],
        "__consumer_offsets": [0, 1, 2],
        "__transaction_state": [0, 1],
        "events": [0, 1, 2],
        "payments": [0],
        "state": [0],
        "trimmed": [0],
    }
    assert {topic for topic in log_dir.topics() if topic in INTERNAL_TOPICS} == {
        "__cluster_metadata",
        "__consumer_offsets",
        "__transaction_state",
    }
    (directory,) = log_dir.directories
    assert directory.clean_shutdown
    assert directory.lock_holder is None
    assert log_dir.meta_properties is not None
    assert log_dir.meta_properties.node_id == 1
    assert offsets(log_dir.partition("__cluster_metadata", 0))
    assert warnings == []


def test_deleted_directories_are_read_on_request() -> None:
    log_dir = LogDir(WHOLE_BROKER, include_deleted=True)
    assert log_dir.topics()["gone"] == [0, 1]
    kinds = {partition.path.name.split(".")[0]: partition.kind for partition in log_dir.partitions()}
    assert kinds["gone-0"] is PartitionKind.DELETE
    assert kinds["events-0"] is PartitionKind.NORMAL
    log = log_dir.partition("gone", 0)
    assert (log.topic, log.partition) == ("gone", 0)
    assert offsets(log) == list(range(15))


def test_a_stray_directory_with_a_truncated_topic(tmp_path: Path) -> None:
    suffix = "-0.e881470a21df4f2f9303e764aa83e3bf-stray"
    topic = "t" * (255 - len(suffix))
    shutil.copytree(WHOLE_BROKER / "events-0", tmp_path / (topic + suffix))
    with pytest.raises(EmptyLogDirError, match="include_deleted"):
        LogDir(tmp_path)
    assert LogDir(tmp_path, include_deleted=True).topics() == {topic: [0]}


def test_a_recreated_topic_is_distinguished_from_the_deleted_one(
    golden_copy: Callable[[str], Path],
) -> None:
    data = golden_copy("kafka-4.1/whole-broker")
    deleted = data / "trimmed-0.e881470a21df4f2f9303e764aa83e3bf-delete"
    shutil.copytree(data / "trimmed-0", deleted)
    log_dir = LogDir(data, include_deleted=True)
    assert log_dir.partition("trimmed", 0).path == data / "trimmed-0"
    # It is read by its own path, but the checkpointed log start offset 75 belongs to the new topic.
    assert LogDir(deleted).partition("trimmed", 0).log_start_offset == 60


@pytest.mark.parametrize("version", ["kafka-3.9", "kafka-4.1"])
def test_two_log_dirs_with_a_partition_that_moves_between_them(version: str, warnings: list[str]) -> None:
    fixture = GOLDEN / version / "jbod"
    log_dir = LogDir(fixture / "data/dir1", fixture / "data/dir2")
    assert log_dir.topics() == {"__cluster_metadata": [0], "spread": [0, 1, 2, 3]}
    for partition in json.loads((fixture / "expected.json").read_text())["partitions"]:
        rows = read_rows(fixture / partition["rows"]["file"])
        log = log_dir.partition(partition["topic"], partition["partition"])
        assert offsets(log) == [row["offset"] for row in rows]
    directory_ids = {
        state.meta_properties.directory_id for state in log_dir.directories if state.meta_properties
    }
    assert len(directory_ids) == 2
    assert warnings == []


def test_a_future_copy_is_read_by_its_own_path_only() -> None:
    dir2 = GOLDEN / "kafka-4.1/jbod/data/dir2"
    assert partition_names(LogDir(dir2, include_deleted=True)) == ["spread-1", "spread-3"]
    log = LogDir(dir2 / FUTURE, high_watermark="checkpoint").partition("spread", 0)
    assert (log.log_end_offset, log.high_watermark) == (70, 70)
    dir1 = GOLDEN / "kafka-4.1/jbod/data/dir1"
    assert LogDir(dir2 / FUTURE, dir1).partition("spread", 0).path == dir1 / "spread-0"


@pytest.mark.parametrize("stale_first", [True, False])
def test_of_two_copies_the_longer_one_is_read(tmp_path: Path, warnings: list[str], stale_first: bool) -> None:
    stale = tmp_path / "events-0"
    shutil.copytree(WHOLE_BROKER / "events-0", stale)
    for file in stale.glob("00000000000000000090.*"):
        file.unlink()
    paths = [tmp_path, WHOLE_BROKER] if stale_first else [WHOLE_BROKER, tmp_path]
    log_dir = LogDir(paths)
    assert log_dir.partition("events", 0).path == WHOLE_BROKER / "events-0"
    assert len([partition for partition in log_dir.partitions() if partition.topic == "events"]) == 3
    (warning,) = warnings
    assert f"{stale} (log end offset 90)" in warning
    assert f"{WHOLE_BROKER / 'events-0'} (log end offset 195) is read" in warning


def test_a_directory_given_twice_is_read_once(tmp_path: Path, warnings: list[str]) -> None:
    link = tmp_path / "link"
    link.symlink_to(WHOLE_BROKER)
    log_dir = LogDir(WHOLE_BROKER, link, WHOLE_BROKER / "events-0")
    assert log_dir.topics() == LogDir(WHOLE_BROKER).topics()
    assert warnings == []


def test_log_dirs_of_two_clusters_are_reported(tmp_path: Path, warnings: list[str]) -> None:
    shutil.copytree(GOLDEN / "kafka-4.1/jbod/data/dir1", tmp_path / "other")
    properties = tmp_path / "other/meta.properties"
    properties.write_text(properties.read_text().replace("cluster.id=", "cluster.id=x"))
    LogDir(GOLDEN / "kafka-4.1/jbod/data/dir2", tmp_path / "other")
    assert any("several clusters" in warning for warning in warnings)


def test_a_single_partition_directory_uses_the_checkpoints_beside_it(tmp_path: Path) -> None:
    log_dir = LogDir(WHOLE_BROKER / "trimmed-0")
    assert log_dir.topics() == {"trimmed": [0]}
    assert log_dir.partition("trimmed", 0).log_start_offset == 75
    alone = shutil.copytree(WHOLE_BROKER / "trimmed-0", tmp_path / "trimmed-0")
    assert LogDir(alone).partition("trimmed", 0).log_start_offset == 60


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "file://localhost{}", "{}/", "{}/../data"])
def test_forms_of_paths(form: str) -> None:
    assert LogDir(form.format(WHOLE_BROKER)).paths == (WHOLE_BROKER,)


def test_relative_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(WHOLE_BROKER / "trimmed-0")
    assert LogDir(".").partition("trimmed", 0).log_start_offset == 75
    monkeypatch.chdir(WHOLE_BROKER)
    assert LogDir("events-1").topics() == {"events": [1]}


def test_foreign_files_and_directories_are_skipped(
    golden_copy: Callable[[str], Path], warnings: list[str]
) -> None:
    data = golden_copy("kafka-4.1/whole-broker")
    for name in ("lost+found", ".snapshot", "remote-log-index-cache"):
        (data / name).mkdir()
    (data / "notes-1").write_text("a file, not a partition")
    (data / "meta.properties.tmp").touch()
    (data / "log-start-offset-checkpoint.tmp").write_text("0\n1\nevents 0 100\n")
    (data / "dangling-0").symlink_to(data / "nowhere")
    staging = data / "events-0/.staging-1"
    staging.mkdir()
    (staging / "00000000000000000000.log").write_bytes(b"x")
    log_dir = LogDir(data)
    assert log_dir.topics() == LogDir(WHOLE_BROKER).topics()
    assert log_dir.partition("events", 0).log_start_offset == 0
    assert len(offsets(log_dir.partition("events", 0))) == 195
    assert warnings == [f"{data}: not partition directories, skipped: .snapshot, lost+found"]


def test_a_malformed_checkpoint_counts_as_empty(
    golden_copy: Callable[[str], Path], warnings: list[str]
) -> None:
    data = golden_copy("kafka-4.1/whole-broker")
    (data / "log-start-offset-checkpoint").write_text("0\n2\ntrimmed 0 75\n")
    assert LogDir(data).partition("trimmed", 0).log_start_offset == 60
    (warning,) = warnings
    assert "log-start-offset-checkpoint, line 2: expected 2 entries, found 1" in warning


def test_where_a_log_ends(golden_copy: Callable[[str], Path]) -> None:
    data = golden_copy("kafka-4.1/whole-broker")
    (data / "replication-offset-checkpoint").write_text("0\n2\nevents 0 100\ntrimmed 0 0\n")

    def ends(mode: Any) -> list[int]:
        log_dir = LogDir(data, high_watermark=mode)
        logs = [
            log_dir.partition(topic, 0) for topic in ("events", "trimmed", "payments", "__cluster_metadata")
        ]
        assert [log.log_end_offset for log in logs] == [195, 270, 24, 165]
        return [log.range().end_offset for log in logs]

    # A high watermark below the log start offset is raised to it. payments is not in the checkpoint, so its
    # high watermark is 0, as in a broker. That of the metadata log is never in the checkpoint.
    clamped, whole = [100, 75, 0, 165], [195, 270, 24, 165]
    assert ends("auto") == whole
    assert ends("checkpoint") == clamped
    assert ends("ignore") == whole
    with held_lock(data) as pid:
        assert LogDir(data / "events-0").directories[0].lock_holder == pid
        assert ends("auto") == clamped
        assert ends("checkpoint") == clamped
        assert ends("ignore") == whole
    assert ends("auto") == whole


def test_without_a_checkpoint_a_log_ends_at_its_end(tmp_path: Path) -> None:
    shutil.copytree(WHOLE_BROKER / "events-0", tmp_path / "events-0")
    assert LogDir(tmp_path, high_watermark="checkpoint").partition("events", 0).high_watermark == 195


def test_an_unknown_high_watermark_is_rejected() -> None:
    with pytest.raises(ValueError, match="auto, ignore or checkpoint"):
        LogDir(WHOLE_BROKER, high_watermark="always")  # type: ignore[arg-type]


def test_a_partition_that_was_removed_since(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", {0: [batch(0)]})
    logs = LogDir(tmp_path)
    shutil.rmtree(tmp_path / "t-0")
    with pytest.raises(FileNotFoundError, match=r"removed or moved since .* open it again: '.*/t-0'"):
        logs.partition("t", 0)


@pytest.mark.parametrize(
    ("topic", "partition", "says"),
    [
        ("event", 0, "there is no topic event, but __cluster_metadata, __consumer_offsets"),
        ("events", 3, "topic events has no partition 3 here, but 0, 1, 2"),
        ("gone", 0, "include_deleted"),
    ],
)
def test_unknown_topics_and_partitions(topic: str, partition: int, says: str) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match=says):
        LogDir(WHOLE_BROKER).partition(topic, partition)


class TestRefusals:
    """Each error has its own plain sentence, with the path and what to do."""

    def test_a_missing_path(self, tmp_path: Path) -> None:
        with pytest.raises(
            FileNotFoundError, match="no such directory; expected a Kafka log directory"
        ) as error:
            LogDir(tmp_path / "nowhere")
        assert error.value.filename == str(tmp_path / "nowhere")

    def test_no_permission(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def deny(path: object) -> None:
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(os, "scandir", deny)
        with pytest.raises(PermissionError, match="run as a user who may read it") as error:
            LogDir(tmp_path)
        assert error.value.filename == str(tmp_path)

    def test_a_file(self) -> None:
        with pytest.raises(NotALogDirError, match="this is a file"):
            LogDir(WHOLE_BROKER / "meta.properties")

    def test_an_empty_directory(self, tmp_path: Path) -> None:
        with pytest.raises(NotALogDirError, match="the directory is empty"):
            LogDir(tmp_path)

    def test_a_directory_of_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "pom.xml").touch()
        (tmp_path / "module-1").mkdir()
        with pytest.raises(
            NotALogDirError, match=r"expected partitions or log segments, found module-1/, pom\.xml; "
        ):
            LogDir(tmp_path)

    def test_the_parent_of_log_dirs(self) -> None:
        with pytest.raises(
            NotALogDirError, match="these directories in it are: dir1, dir2; give them instead"
        ):
            LogDir(GOLDEN / "kafka-4.1/jbod/data")

    def test_volumes_named_like_partitions(self, golden_copy: Callable[[str], Path], tmp_path: Path) -> None:
        """Kubernetes volumes have such names: /var/lib/kafka/data-0/kafka-log0."""
        golden_copy("kafka-4.1/whole-broker").rename(tmp_path / "data-0")
        with pytest.raises(NotALogDirError, match="these directories in it are: data-0; give them instead"):
            LogDir(tmp_path)
        assert LogDir(tmp_path / "data-0").topics() == LogDir(WHOLE_BROKER).topics()

    def test_a_partition_directory_with_another_name(self, tmp_path: Path) -> None:
        other = shutil.copytree(WHOLE_BROKER / "events-0", tmp_path / "events")
        with pytest.raises(NotALogDirError, match="its name is not <topic>-<partition>; rename it"):
            LogDir(other)

    def test_a_log_dir_without_partitions(self, tmp_path: Path) -> None:
        (tmp_path / "meta.properties").write_text("version=1\n")
        with pytest.raises(EmptyLogDirError, match="contains no partitions"):
            LogDir(tmp_path)
        # An empty disk that was added recently does not keep the others from being read.
        assert LogDir(tmp_path, WHOLE_BROKER).topics() == LogDir(WHOLE_BROKER).topics()

    def test_nothing_but_deleted_directories(self, tmp_path: Path) -> None:
        for directory in WHOLE_BROKER.glob("gone-*"):
            shutil.copytree(directory, tmp_path / directory.name)
        with pytest.raises(EmptyLogDirError, match="use include_deleted to read -delete and -stray"):
            LogDir(tmp_path)

    @pytest.mark.parametrize("uri", ["dbfs:/kafka-logs", "ftp://host/kafka-logs", "http://host/kafka-logs"])
    def test_another_file_system(self, uri: str) -> None:
        with pytest.raises(NotALogDirError, match="expected a local path, or a URL that begins with s3"):
            LogDir(uri, allow_empty=True)

    def test_a_url_is_no_relative_path(self) -> None:
        with pytest.raises(NotALogDirError, match=r"expected a URL without `\.\.`"):
            LogDir("s3://bucket/a/../kafka-logs")

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("s3a://KEY:hunter2@bucket/logs", "s3a://bucket/logs"),
            ("s3://KEY:hunt/er2@bucket", "s3://bucket"),
            ("hdfs://user:1234@namenode:8020/logs", "hdfs://namenode:8020/logs"),
            ("ftp://user:hunter2@host/logs", "ftp://host/logs"),
            ("az://container/logs?sv=2026&sig=hunter2", "az://container/logs?sv=2026"),
            ("s3://bucket/logs?X-Amz-Signature=hunter2", "s3://bucket/logs"),
        ],
    )
    def test_credentials_in_a_url(self, url: str, shown: str) -> None:
        with pytest.raises(NotALogDirError) as caught:
            LogDir(url)
        expected = "expected a URL without credentials, found some; set them in the environment or as options"
        assert str(caught.value) == f"{shown}: {expected}"

    @pytest.mark.parametrize(
        "url",
        [
            "abfss://container@account.dfs.core.windows.net/logs:a@b",
            "hdfs://namenode:8020/logs@b",
            "hdfs://namenode:8020",
            "s3://bucket/a:b@c?d=e",
        ],
    )
    def test_urls_without_credentials(self, url: str) -> None:
        assert without_credentials(url) == url

    @pytest.mark.parametrize("url", ["s3:///kafka-logs", "gs:/", "abfss:///"])
    def test_a_url_without_a_bucket(self, url: str) -> None:
        with pytest.raises(NotALogDirError, match="expected a URL with a bucket"):
            LogDir(url)

    def test_an_empty_directory_is_opened_to_create_topics(self, tmp_path: Path) -> None:
        LogDir.create(tmp_path / "logs")
        with pytest.raises(EmptyLogDirError, match="use allow_empty=True"):
            LogDir(tmp_path / "logs")
        LogDir(tmp_path / "logs", allow_empty=True).create_topic("t")
        assert LogDir(tmp_path / "logs").topics() == {"t": [0]}


def test_reading_leaves_no_files(golden_copy: Callable[[str], Path]) -> None:
    data = golden_copy("kafka-4.1/whole-broker")
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    log_dir = LogDir(data, include_deleted=True)
    for partition in log_dir.partitions():
        offsets(log_dir.partition(partition.topic, partition.partition))
    assert {path: path.stat().st_mtime_ns for path in data.rglob("*")} == before


class TestWhatCannotBeReadBesideTheLogs:
    def test_a_link_to_itself_is_skipped(
        self, golden_copy: Callable[[str], Path], warnings: list[str]
    ) -> None:
        data = golden_copy("kafka-4.1/whole-broker")
        (data / "loop-0").symlink_to("loop-0")
        assert LogDir(data).topics() == LogDir(WHOLE_BROKER).topics()
        assert warnings == [f"{data}/loop-0: skipped: Too many levels of symbolic links"]
        native_log.recover(data)
        assert native_log.retain(data, dry_run=True).num_rows

    @pytest.mark.parametrize("kind", ["index", "timeindex"])
    @pytest.mark.parametrize("how", ["link", "directory", "error"])
    def test_an_index(
        self,
        kind: str,
        how: str,
        golden_copy: Callable[[str], Path],
        warnings: list[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        data = golden_copy("kafka-4.1/whole-broker")
        whole = LogDir(data).partition("events", 0)
        middle = whole.log_end_offset // 2
        (timestamp,) = (
            whole.read(middle, middle + 1, ["timestamp"]).read_all()["timestamp"].cast("int64").to_pylist()
        )
        expected = whole.offset_for_timestamp(timestamp // 1000)
        for index in (data / "events-0").glob(f"*.{kind}"):
            if how == "link":
                index.unlink()
                index.symlink_to(index.name)
            elif how == "directory":
                index.unlink()
                index.mkdir()
        if how == "error":
            deny_opening(f".{kind}", monkeypatch)

        log = LogDir(data).partition("events", 0)

        assert offsets(log) == offsets(whole)
        assert log.read(middle, middle + 1, ["offset"]).read_all().to_pylist() == [{"offset": middle}]
        assert log.offset_for_timestamp(timestamp // 1000) == expected
        if how != "directory":  # a directory is not a file, and so not an index
            assert any(f".{kind}: " in warning for warning in warnings)

    def test_a_transaction_index_is_needed_to_write_it_again(
        self, golden_copy: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data = golden_copy("kafka-4.1/txn")
        (topic, *_) = LogDir(data).topics()
        deny_opening(".txnindex", monkeypatch)
        log = LogDir(data).partition(topic, 0)
        assert {segment.load_transaction_index().health.status for segment in log.segments} >= {"unreadable"}
        report = native_log.erase(data, topic, key_prefix=["k", "a"])
        assert any("Permission denied" in (row["reason"] or "") for row in report.to_pylist())

    def test_a_log_is_needed(self, golden_copy: Callable[[str], Path]) -> None:
        data = golden_copy("kafka-4.1/whole-broker")
        log = next((data / "events-0").glob("*.log"))
        log.unlink()
        log.symlink_to(log.name)
        with pytest.raises(OSError, match="symbolic links"):
            LogDir(data).partition("events", 0)


def deny_opening(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the error of a file that belongs to another user; the tests may run as root."""
    open_ = os.open

    def deny(path: Any, flags: int, *more: Any, **how: Any) -> int:
        if str(path).endswith(ending):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return open_(path, flags, *more, **how)

    monkeypatch.setattr(os, "open", deny)


def test_directories_with_other_names_are_named(tmp_path: Path) -> None:
    for name in ("orders", "orders_1"):
        shutil.copytree(WHOLE_BROKER / "events-0", tmp_path / name)
    with pytest.raises(NotALogDirError, match="names are not <topic>-<partition>: orders, orders_1; rename"):
        LogDir(tmp_path)
    (tmp_path / "meta.properties").write_text("version=1\n")
    with pytest.raises(
        EmptyLogDirError, match=r"no partitions, only orders \(not <topic>-<partition>\), orders_1"
    ):
        LogDir(tmp_path)
