"""Streams over a bucket, which refresh by listing: growth, rolls, retention, truncation, new topics."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import obstore
import pytest
from obstore.store import S3Store

from native_log import LogDir
from native_log.logdir.live_logdir import LiveLogDir
from native_log.logdir.options import LogDirOptions
from native_log.storage import Storages
from tests.builders.copies import batches, rows_of, write_copy
from tests.contents import offsets

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.http_proxy import HttpProxy
    from benchmarks.s3_server import S3Server

pytestmark = pytest.mark.object_store

WHOLE = batches(0, 40)
KEY = ("t", 0)


class Bucket:
    """A bucket that is kept like a local directory, as `aws s3 sync --delete` does."""

    def __init__(self, s3: S3Server, name: str, folder: Path) -> None:
        (s3.root / name).mkdir()
        options: Any = {n.removeprefix("aws_"): value for n, value in s3.options.items() if n != "allow_http"}
        self._store = S3Store(name, config=options, client_options={"allow_http": True})
        self.folder = folder
        self.url = f"s3://{name}"
        self._known: dict[str, bytes] = {}

    def sync(self) -> None:
        files = {
            file.relative_to(self.folder).as_posix(): file.read_bytes()
            for file in self.folder.rglob("*")
            if file.is_file()
        }
        for name in self._known.keys() - files.keys():
            obstore.delete(self._store, name)
        for name, content in files.items():
            if self._known.get(name) != content:
                obstore.put(self._store, name, content)
        self._known = files

    def write(self, content: Sequence[bytes], rolls: Sequence[int] = (), topic_id: str | None = None) -> None:
        """Replace the partition t-0 by a log with these batches."""
        for file in self.folder.rglob("t-0/*"):
            file.unlink()
        write_copy(self.folder, content, rolls=rolls)
        if topic_id is not None:
            (self.folder / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
        self.sync()


@pytest.fixture
def bucket(s3: S3Server, tmp_path: Path, request: pytest.FixtureRequest) -> Bucket:
    name = "live-" + "".join(c if c.isalnum() else "-" for c in request.node.name.lower())[:40].strip("-")
    return Bucket(s3, name, tmp_path / "data")


@pytest.fixture
def storages(s3: S3Server) -> Storages:
    return Storages(s3.options)


def test_growth_and_rolls(bucket: Bucket, storages: Storages) -> None:
    bucket.write(WHOLE[:4])
    log_dir = LiveLogDir(bucket.url, LogDirOptions(storages=storages))
    log = log_dir.partition(*KEY)
    assert log.log.log_end_offset == 12
    assert log_dir.refresh().logs == {}
    for count, rolls in ((6, []), (20, [30]), (40, [30, 60, 90])):
        bucket.write(WHOLE[:count], rolls)
        change = log_dir.refresh().logs[KEY]
        assert (change.is_changed, change.truncated_to, change.is_recreated) == (True, None, False)
        found = offsets(log.log.range(0, log.log.log_end_offset).read(["offset"]))
        assert found == [offset for offset, _ in rows_of(WHOLE[:count])]
    assert log_dir.refresh().logs == {}


def test_a_range_is_read_after_the_log_has_grown(bucket: Bucket, storages: Storages) -> None:
    bucket.write(WHOLE[:10])
    located = LiveLogDir(bucket.url, LogDirOptions(storages=storages)).partition(*KEY).log.range()
    bucket.write(WHOLE[:20], [45])
    assert offsets(located.read(["offset"])) == [offset for offset, _ in rows_of(WHOLE[:10])]


def test_truncation_and_other_records(bucket: Bucket, storages: Storages) -> None:
    bucket.write(WHOLE[:20])
    log_dir = LiveLogDir(bucket.url, LogDirOptions(storages=storages))
    log = log_dir.partition(*KEY)
    bucket.write(WHOLE[:10])
    assert log_dir.refresh().logs[KEY].truncated_to == 30
    assert log.log.log_end_offset == 30


def test_deletion_of_old_segments(bucket: Bucket, storages: Storages) -> None:
    bucket.write(WHOLE, [30, 60, 90])
    log_dir = LiveLogDir(bucket.url, LogDirOptions(storages=storages))
    log = log_dir.partition(*KEY)
    for file in bucket.folder.glob("t-0/00000000000000000000.*"):
        file.unlink()
    bucket.sync()
    change = log_dir.refresh().logs[KEY]
    assert (change.is_changed, change.truncated_to) == (True, None)
    assert log.log.local_log_start_offset == 30


def test_a_topic_that_is_created_again(bucket: Bucket, storages: Storages) -> None:
    bucket.write(WHOLE[:20], topic_id="hWsrRk9KT1ebWbDgoM5wZQ")
    log_dir = LiveLogDir(bucket.url, LogDirOptions(storages=storages))
    log_dir.partition(*KEY)
    bucket.write(WHOLE[:25], topic_id="e1iVJKhJQp-1oy3sm9qX9w")
    assert log_dir.refresh().logs[KEY].is_recreated


def test_partitions_that_appear_and_disappear(bucket: Bucket, storages: Storages) -> None:
    bucket.write(WHOLE[:20])
    log_dir = LiveLogDir(bucket.url, LogDirOptions(storages=storages))
    log_dir.partition(*KEY)
    shutil.copytree(bucket.folder / "t-0", bucket.folder / "t-1")
    bucket.sync()
    assert log_dir.refresh().added == (("t", 1),)
    assert log_dir.partition("t", 1).log.log_end_offset == 60
    for file in bucket.folder.glob("t-1/*"):
        file.unlink()
    bucket.sync()
    assert log_dir.refresh().removed == (("t", 1),)
    assert log_dir.topics() == {"t": [0]}


def test_checkpoints(bucket: Bucket, storages: Storages) -> None:
    bucket.folder.mkdir()
    checkpoint = bucket.folder / "replication-offset-checkpoint"
    checkpoint.write_text("0\n1\nt 0 12\n")
    bucket.write(WHOLE[:20])
    log_dir = LiveLogDir(bucket.url, LogDirOptions(storages=storages, high_watermark="checkpoint"))
    log = log_dir.partition(*KEY)
    assert log.log.high_watermark == 12
    checkpoint.write_text("0\n1\nt 0 24\n")
    bucket.sync()
    assert log_dir.refresh().logs[KEY].is_changed
    assert log.log.high_watermark == 24


def test_follow(bucket: Bucket, s3: S3Server) -> None:
    bucket.write(WHOLE[:10])
    log_dir = LogDir(bucket.url, storage_options=s3.options)
    found = []
    with log_dir.follow("t", {KEY: 0}, ["offset"], timeout_ms=20_000, poll_interval_ms=20) as follower:
        for batch in follower:
            found += batch.column("offset").to_pylist()
            if len(found) == 30:
                bucket.write(WHOLE[:30], [45])
            if len(found) == 90:
                follower.stop()
    assert found == [offset for offset, _ in rows_of(WHOLE[:30])]


class TestManyPartitions:
    """A request takes tens of milliseconds, so those for different partitions are sent at the same time."""

    KEYS = (("t", 0), ("t", 1), ("t", 2), ("t", 3))

    def write(self, bucket: Bucket, count: int) -> None:
        bucket.write(WHOLE[:count])
        for _, partition in self.KEYS[1:]:
            shutil.copytree(bucket.folder / "t-0", bucket.folder / f"t-{partition}", dirs_exist_ok=True)
        bucket.sync()

    def test_folders_are_listed_together(self, bucket: Bucket, s3: S3Server, proxy: HttpProxy) -> None:
        self.write(bucket, 10)
        storages = Storages({**s3.options, "aws_endpoint": proxy.endpoint})
        log_dir = LiveLogDir(bucket.url, LogDirOptions(storages=storages))
        proxy.reset()
        log_dir.open_logs(self.KEYS)
        assert _counts(proxy) == (1, 8)  # the ends of the segments, and the leader epochs
        proxy.reset()
        assert not log_dir.refresh().logs
        assert _counts(proxy) == (3, 0)
        self.write(bucket, 20)
        proxy.reset()
        assert len(log_dir.refresh().logs) == 4
        assert _counts(proxy) == (3, 4)

    @pytest.mark.usefixtures("partitions_meet")
    def test_logs_are_opened_and_refreshed_at_the_same_time(self, bucket: Bucket, storages: Storages) -> None:
        self.write(bucket, 10)
        log_dir = LiveLogDir(bucket.url, LogDirOptions(storages=storages))
        log_dir.open_logs(self.KEYS)
        self.write(bucket, 20)
        assert len(log_dir.refresh().logs) == 4
        assert [log_dir.partition(*key).log.log_end_offset for key in self.KEYS] == [60] * 4

    def test_logs_are_followed_at_the_same_time(
        self, bucket: Bucket, s3: S3Server, partitions_meet: threading.Event
    ) -> None:
        self.write(bucket, 10)
        log_dir = LogDir(bucket.url, storage_options=s3.options)
        found: dict[int, list[int]] = {}
        with log_dir.follow("t", dict.fromkeys(self.KEYS, 0), ["partition", "offset"]) as follower:
            partitions_meet.clear()
            while sum(map(len, found.values())) < 120:
                batch = next(follower)
                for partition, offset in zip(*batch.to_pydict().values(), strict=True):
                    found.setdefault(partition, []).append(offset)
        assert found == {partition: list(range(30)) for partition in range(4)}

    def test_a_partition_that_is_gone(self, bucket: Bucket, storages: Storages) -> None:
        self.write(bucket, 10)
        log_dir = LiveLogDir(bucket.url, LogDirOptions(storages=storages))
        for file in bucket.folder.glob("t-2/*"):
            file.unlink()
        bucket.sync()
        log_dir.open_logs(self.KEYS)
        with pytest.raises(FileNotFoundError):
            log_dir.partition("t", 2)
        assert log_dir.partition("t", 3).log.log_end_offset == 30
        assert log_dir.refresh().removed == (("t", 2),)


def _counts(proxy: HttpProxy) -> tuple[int, int]:
    """Return how many lists and how many objects were requested."""
    lists = sum("list-type" in request for request in proxy.traffic.requests)
    return lists, len(proxy.traffic.requests) - lists
