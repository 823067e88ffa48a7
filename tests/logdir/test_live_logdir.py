"""A LiveLogDir after changes of log directories equals a LogDir that is opened afresh."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

import pytest
from broker_lock import held_lock

from native_log import LogDir, NotALogDirError, UnknownTopicOrPartitionError
from native_log.checkpoints.names import deleted_name
from native_log.checkpoints.offset_checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    write_offset_checkpoint,
)
from native_log.checkpoints.write_intent import WRITE_INTENT, PartitionBackup, WriteIntent
from native_log.logdir import discovery, live_directory, live_discovery, live_logdir
from native_log.logdir.live_logdir import LiveLogDir, LogDirChange
from native_log.logdir.options import LogDirOptions
from native_log.segment.files import file_name
from tests.builders.batches import batch
from tests.builders.logs import write_log
from tests.contents import offsets

if TYPE_CHECKING:
    from pathlib import Path

DAY_NS = 24 * 3600 * 10**9
NOTHING = LogDirChange()


def settled(*paths: Path, **arguments: object) -> LiveLogDir:
    """Return a live log directory for whose clock all changes were long ago, with all logs opened."""
    options = LogDirOptions(**arguments)  # type: ignore[arg-type]
    live = LiveLogDir(paths, options, now_ns=lambda: time.time_ns() + DAY_NS)
    for partition in live.partitions():
        live.partition(*partition.key)
    live.refresh()
    return live


def append(directory: Path, base_offset: int, *batches: bytes) -> None:
    with open(directory / file_name(base_offset, "log"), "ab") as file:
        file.write(b"".join(batches))


def high_watermarks(root: Path, **offsets: int) -> None:
    entries = {(name.rsplit("_", 1)[0], int(name.rsplit("_", 1)[1])): end for name, end in offsets.items()}
    write_offset_checkpoint(root / REPLICATION_OFFSET_CHECKPOINT, entries)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log directory with the partitions t-0, t-1 and u-0 of 6 records each."""
    root = tmp_path / "logs"
    for name in ("t-0", "t-1", "u-0"):
        write_log(root / name, {0: [batch(0), batch(3)]})
    high_watermarks(root, t_0=3, t_1=3, u_0=6)
    return root


class TestIdle:
    def test_nothing_is_listed_or_read(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        live = settled(root)

        def fail(*_: object) -> None:
            raise AssertionError("something is listed or read")

        monkeypatch.setattr(live_discovery, "find_partitions", fail)
        monkeypatch.setattr(live_directory, "read_offset_checkpoint", fail)
        monkeypatch.setattr(live_directory.WriteIntent, "read", fail)
        monkeypatch.setattr(os, "scandir", fail)
        locks = []
        monkeypatch.setattr(live_directory, "lock_holder", locks.append)
        assert live.refresh() == NOTHING
        assert locks == [root]

    def test_two_paths_in_one_log_directory_share_its_state(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        live = settled(root / "t-0", root / "t-1")
        assert live.topics() == {"t": [0, 1]}
        assert live.directories == (root,)
        locks = []
        monkeypatch.setattr(live_directory, "lock_holder", locks.append)
        assert live.refresh() == NOTHING
        assert locks == [root]


class TestPartitions:
    def test_new_grown_and_removed_ones(self, root: Path) -> None:
        live = settled(root)
        append(root / "t-0", 0, batch(6))
        write_log(root / "t-2", {3: [batch(3)]})
        shutil.rmtree(root / "u-0")
        change = live.refresh()
        assert (change.added, change.removed) == ((("t", 2),), (("u", 0),))
        assert change.logs.keys() == {("t", 0)}
        assert live.topics() == LogDir(root).topics() == {"t": [0, 1, 2]}
        assert live.partition("t", 2).log.log_end_offset == 6
        with pytest.raises(UnknownTopicOrPartitionError):
            live.partition("u", 0)
        write_log(root / "u-0", {0: [batch(0)]})
        change = live.refresh()
        assert (change.added, change.removed) == ((("u", 0),), ())
        assert live.partition("u", 0).log.log_end_offset == 3
        assert live.refresh() == NOTHING

    def test_only_the_ones_asked_for_are_refreshed(self, root: Path) -> None:
        live = settled(root)
        append(root / "t-0", 0, batch(6))
        append(root / "u-0", 0, batch(6))
        high_watermarks(root, t_0=9, t_1=3, u_0=9)
        write_log(root / "t-2", {0: [batch(0)]})
        with held_lock(root):
            change = live.refresh([("t", 0), ("unknown", 0)])
            assert (change.added, change.logs.keys()) == ((("t", 2),), {("t", 0)})
            assert live.partition("u", 0).log.log_end_offset == 6
            assert live.refresh().logs.keys() == {("u", 0)}
            assert live.partition("u", 0).log.high_watermark == 9

    def test_one_that_is_removed_while_logs_are_refreshed(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is deleted and created again between the listing of the root and the refresh of its log."""
        live = settled(root)
        with monkeypatch.context() as patch:
            patch.setattr(
                live.partition("t", 1)._files, "read", lambda **_: shutil.rmtree(root / "t-1") or fail()
            )

            def fail() -> None:
                raise FileNotFoundError(root / "t-1")

            change = live.refresh()
        assert (change.removed, change.logs) == ((("t", 1),), {})
        write_log(root / "t-1", {0: [batch(0)]})
        assert live.refresh().added == (("t", 1),)
        assert live.partition("t", 1).log.log_end_offset == 3

    def test_a_topic_that_was_created_again(self, root: Path) -> None:
        live = settled(root)
        (root / "u-0").rename(root / f"u-0.{'a' * 32}-delete")
        write_log(root / "u-0", {0: [batch(0)]})
        change = live.refresh()
        assert (change.added, change.removed) == ((), ())
        assert change.logs["u", 0].is_recreated
        assert live.partition("u", 0).log.log_end_offset == 3

    def test_one_that_moves_to_another_log_directory(self, root: Path, tmp_path: Path) -> None:
        other = tmp_path / "other"
        write_log(other / "v-0", {0: [batch(0)]})
        for path in (root / "u-0", other / f"u-0.{'a' * 32}-future"):
            write_log(path, {0: [batch(0), batch(3)]})
            (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {'B' * 22}")
        live = settled(root, other)
        log = live.partition("u", 0)
        append(other / f"u-0.{'a' * 32}-future", 0, batch(6))
        (root / "u-0").rename(root / f"u-0.{'a' * 32}-delete")
        (other / f"u-0.{'a' * 32}-future").rename(other / "u-0")
        change = live.refresh()
        assert (change.added, change.removed) == ((), ())
        assert (change.logs["u", 0].is_recreated, change.logs["u", 0].truncated_to) == (False, None)
        assert (live.partition("u", 0), log.path, log.log.log_end_offset) == (log, other / "u-0", 9)
        assert offsets(log.log.range(6).read(["offset"])) == [6, 7, 8]

    def test_a_second_copy(self, root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        other = tmp_path / "other"
        write_log(other / "v-0", {0: [batch(0)]})
        live = settled(root, other)
        write_log(other / "u-0", {0: [batch(0), batch(3), batch(6)]})
        live.refresh()
        assert live.partition("u", 0).path == other / "u-0"
        assert len(caplog.messages) == 1
        for _ in range(3):
            write_log(root / f"w-{time.time_ns()}"[:10], {0: []})
            live.refresh()
        assert len(caplog.messages) == 1

    def test_a_single_partition_directory(self, root: Path) -> None:
        live = settled(root / "t-0", high_watermark="checkpoint")
        assert live.topics() == {"t": [0]}
        assert live.partition("t", 0).log.high_watermark == 3
        high_watermarks(root, t_0=6)
        assert live.refresh().logs.keys() == {("t", 0)}
        assert live.partition("t", 0).log.high_watermark == 6
        (root / "t-0").rename(root / f"t-0.{'a' * 32}-delete")
        assert live.refresh().removed == (("t", 0),)
        assert live.topics() == {}
        write_log(root / "t-0", {0: [batch(0)]})
        assert live.refresh().added == (("t", 0),)

    def test_unknown_directories_are_reported_once(
        self, root: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (root / "lost+found").mkdir()
        live = settled(root)
        assert len(caplog.messages) == 1
        (root / "other files").mkdir()
        live.refresh()
        assert len(caplog.messages) == 2
        write_log(root / "t-5", {0: []})
        assert live.refresh().added == (("t", 5),)
        assert len(caplog.messages) == 2

    def test_an_empty_log_directory(self, tmp_path: Path) -> None:
        with pytest.raises(NotALogDirError):
            LiveLogDir(tmp_path)
        LogDir.create(tmp_path / "logs")
        live = LiveLogDir(tmp_path / "logs")
        assert (live.topics(), live.partitions()) == ({}, [])
        LogDir(tmp_path / "logs", allow_empty=True).create_topic("new")
        assert live.refresh().added == (("new", 0),)


class TestCheckpoints:
    def test_the_high_watermark_of_a_running_broker(self, root: Path) -> None:
        assert LiveLogDir(root).partition("t", 0).log.high_watermark == 6
        live = LiveLogDir(root)
        with held_lock(root):
            live.refresh()
            log = live.partition("t", 0)
            assert (log.log.high_watermark, log.log.log_end_offset) == (3, 6)
            append(root / "t-0", 0, batch(6))
            live.refresh()
            assert (log.log.high_watermark, log.log.log_end_offset) == (3, 9)
            high_watermarks(root, t_0=6)
            assert live.refresh().logs.keys() == {("t", 0)}
            assert log.log.high_watermark == 6
            (root / REPLICATION_OFFSET_CHECKPOINT).write_text("0\n")  # a broker that starts
            live.refresh()
            assert log.log.high_watermark == 6, "it never moves back"
        assert live.refresh().logs.keys() == {("t", 0)}
        assert log.log.high_watermark == 9, "the broker was stopped"

    def test_deleted_records(self, root: Path) -> None:
        live = settled(root)
        write_offset_checkpoint(root / LOG_START_OFFSET_CHECKPOINT, {("t", 0): 4})
        assert live.refresh().logs.keys() == {("t", 0)}
        log = live.partition("t", 0)
        assert log.log.log_start_offset == log.log.local_log_start_offset == 4
        assert offsets(log.log.range().read(["offset"])) == [4, 5]

    def test_an_unknown_high_watermark_is_rejected(self, root: Path) -> None:
        with pytest.raises(ValueError, match="expected auto, ignore or checkpoint"):
            LiveLogDir(root, LogDirOptions(high_watermark="all"))  # type: ignore[arg-type]

    def test_checkpoints_are_read_before_logs(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """So a high watermark is never that of records that were not live in the log."""
        live = settled(root)
        order = []
        refresh = live_directory.LiveDirectory.refresh
        monkeypatch.setattr(
            live_directory.LiveDirectory, "refresh", lambda self: order.append("directory") or refresh(self)
        )
        read_files = live_logdir.LiveLog.read_files
        monkeypatch.setattr(
            live_logdir.LiveLog, "read_files", lambda self: order.append("log") or read_files(self)
        )
        live.refresh()
        assert order == ["directory", "log", "log", "log"]


class TestWrites:
    """Writes to several partitions that are shown when they are committed."""

    def intent(self, root: Path) -> WriteIntent:
        size = (root / "t-0" / file_name(0, "log")).stat().st_size
        backup = PartitionBackup.of(root / "t-0", 0, (size, 0, 0), (6, 9))
        return WriteIntent("job", (backup,), {deleted_name("new", 0, "job"): "new-0"})

    def test_an_unfinished_write_is_not_shown(self, root: Path) -> None:
        live = settled(root)
        self.intent(root).write(root)
        append(root / "t-0", 0, batch(6))
        write_log(root / "new-0", {0: [batch(0)]})
        change = live.refresh()
        assert change.added == ()
        log = live.partition("t", 0)
        assert (log.log.high_watermark, log.log.log_end_offset) == (6, 6)
        (root / WRITE_INTENT).unlink()
        change = live.refresh()
        assert (change.added, change.logs.keys()) == ((("new", 0),), {("t", 0)})
        assert log.log.high_watermark == 9

    def test_a_write_that_begins_during_a_refresh_is_not_shown(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        live = settled(root)
        log = live.partition("t", 0)
        read = log._files.read

        def read_later(*, clean_shutdown: bool) -> object:
            self.intent(root).write(root)
            append(root / "t-0", 0, batch(6))
            return read(clean_shutdown=clean_shutdown)

        with monkeypatch.context() as patch:
            patch.setattr(log._files, "read", read_later)
            live.refresh()
        assert (log.log.high_watermark, log.log.log_end_offset) == (6, 6)

    def test_a_write_that_begins_when_a_log_is_opened_is_not_shown(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        live = LiveLogDir(root)
        open_log = live_logdir.LiveLog

        def open_later(*arguments: object, **named: object) -> object:
            if not (root / WRITE_INTENT).exists():
                self.intent(root).write(root)
                append(root / "t-0", 0, batch(6))
            return open_log(*arguments, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(live_logdir, "LiveLog", open_later)
        log = live.partition("t", 0)
        assert (log.log.high_watermark, log.log.log_end_offset) == (6, 6)


def test_a_log_directory_that_was_removed(root: Path) -> None:
    live = settled(root)
    shutil.rmtree(root)
    with pytest.raises(FileNotFoundError):
        live.refresh()


def test_known_directories_are_not_parsed_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The root of a running broker changes every few seconds, and may have many thousand partitions."""
    live = settled(root)
    parsed = []
    parse = discovery.parse_partition_name
    monkeypatch.setattr(discovery, "parse_partition_name", lambda name: parsed.append(name) or parse(name))
    write_log(root / "t-3", {0: []})
    live.refresh()
    assert parsed == ["t-3"]
