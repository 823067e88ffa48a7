"""What a LiveLog reads of the files, and how it notices that a log was truncated or replaced."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import native_log
from native_log.checkpoints.leader_epochs import (
    EpochEndOffset,
    EpochEntry,
    end_offset_for_epoch,
    write_leader_epochs,
)
from native_log.errors import OffsetOutOfRangeError
from native_log.log import PartitionCheckpoints, PartitionLog
from native_log.log.live.divergence import diverged
from native_log.log.live.live_files import UNCHANGED, LogChange
from native_log.log.live.live_log import LiveLog
from native_log.log.sources.directory import DirectorySource
from native_log.segment import entries
from native_log.segment.files import file_name
from native_log.storage import local
from tests.builders.batches import TRANSACTIONAL, batch, marker
from tests.builders.logs import write_log
from tests.contents import offsets

if TYPE_CHECKING:
    from pathlib import Path

DAY_NS = 24 * 3600 * 10**9


@pytest.fixture
def opened_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the files that are opened."""
    paths: list[str] = []
    create = local.DataFile.__init__

    def record(self: local.DataFile, path: str, *, follow_link: bool = True) -> None:
        paths.append(path)
        create(self, path, follow_link=follow_link)

    monkeypatch.setattr(local.DataFile, "__init__", record)
    return paths


def settled(directory: Path) -> LiveLog:
    """Return a live log for whose clock all changes were long ago."""
    log = LiveLog(DirectorySource.at(directory), now_ns=lambda: time.time_ns() + DAY_NS)
    log.refresh()
    return log


def append(directory: Path, base_offset: int, *batches: bytes) -> None:
    with open(directory / file_name(base_offset, "log"), "ab") as file:
        file.write(b"".join(batches))


def truncate(directory: Path, base_offset: int, size: int) -> None:
    os.truncate(directory / file_name(base_offset, "log"), size)


def set_epochs(directory: Path, *pairs: tuple[int, int]) -> None:
    write_leader_epochs(directory, [EpochEntry(*pair) for pair in pairs])


class TestReading:
    def test_an_idle_refresh_opens_nothing_and_makes_two_stat_calls(
        self, tmp_path: Path, opened_files: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = settled(write_log(tmp_path, {0: [batch(0)], 3: [batch(3)]}))
        calls: list[object] = []
        for name in ("stat", "scandir", "listdir", "open"):
            original = getattr(os, name)
            monkeypatch.setattr(
                os, name, lambda *a, name=name, original=original: calls.append(name) or original(*a)
            )
        opened_files.clear()
        assert log.refresh() is UNCHANGED
        assert (calls, opened_files) == (["stat", "stat"], [])

    def test_of_a_segment_that_has_grown_only_the_new_bytes_are_read(
        self, tmp_path: Path, opened_files: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = settled(write_log(tmp_path, {0: [batch(0)], 3: [batch(offset) for offset in range(3, 90, 3)]}))
        end = log.log.segments[-1].size_bytes
        append(tmp_path, 3, batch(90), batch(93))
        read: list[tuple[int, int]] = []
        read_into = local.DataFile.read_into

        def record(self: local.DataFile, buffer: memoryview, position: int) -> None:
            read.append((position, len(buffer)))
            read_into(self, buffer, position)

        monkeypatch.setattr(local.DataFile, "read_into", record)
        opened_files.clear()
        assert log.refresh().is_changed
        assert log.log.log_end_offset == 96
        assert opened_files == [str(tmp_path / file_name(3, "log"))]
        # Apart from new bytes, only parts of the headers of the last batches are read.
        assert all(position >= end or size <= 21 for position, size in read)

    def test_recent_ends_are_located_without_an_index(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = settled(write_log(tmp_path, {0: [batch(offset) for offset in range(0, 90, 3)]}))

        def fail(*_: object) -> None:
            raise AssertionError("an index is read")

        monkeypatch.setattr(entries.IndexFile, "load", fail)
        for end in range(90, 150, 6):
            append(tmp_path, 0, batch(end), batch(end + 3))
            log.refresh()
            assert offsets(log.log.range(end).read(["offset"])) == list(range(end, end + 6))
            # Between the ends of two refreshes, batches are scanned from the first one on.
            assert offsets(log.log.range(end + 1, end + 5).read(["offset"])) == list(range(end + 1, end + 5))

    def test_after_a_roll_the_end_of_the_old_segment_is_located_too(self, tmp_path: Path) -> None:
        log = settled(write_log(tmp_path, {0: [batch(0)]}))
        append(tmp_path, 0, batch(3))
        append(tmp_path, 6, batch(6))
        assert log.refresh().is_changed
        assert [segment.base_offset for segment in log.log.segments] == [0, 6]
        assert offsets(log.log.range(3).read(["offset"])) == list(range(3, 9))

    def test_a_file_that_changes_within_a_clock_tick_is_read_again(self, tmp_path: Path) -> None:
        """With preallocation, neither the size nor the time shows that a batch was written."""
        write_log(tmp_path, {0: [batch(0), bytes(1000)]})
        path = tmp_path / file_name(0, "log")
        os.utime(path, ns=(10**18, 10**18))
        log = LiveLog(DirectorySource.at(tmp_path), now_ns=lambda: 10**18 + 1)
        assert log.log.log_end_offset == 3
        with open(path, "r+b") as file:
            file.write(batch(0) + batch(3))
        os.utime(path, ns=(10**18, 10**18))
        log.refresh()
        assert log.log.log_end_offset == 6

    def test_locations_in_a_replaced_file_are_forgotten(self, tmp_path: Path) -> None:
        """Compaction replaces a file by another one, which may get the inode of one that was removed."""
        log = settled(write_log(tmp_path, {0: [batch(0), batch(3)], 6: [batch(6)]}))
        assert offsets(log.log.range(3, 6).read(["offset"])) == [3, 4, 5]
        with open(tmp_path / file_name(0, "log"), "r+b") as file:
            file.write(batch(2, 1) + batch(3))
            file.truncate()
        (tmp_path / file_name(0, "index")).touch()
        (tmp_path / "any file").touch()  # a change of the directory, as by a rename
        assert log.refresh().truncated_to is None
        assert offsets(log.log.range(3, 6).read(["offset"])) == [3, 4, 5]

    def test_a_removed_directory(self, tmp_path: Path) -> None:
        log = settled(write_log(tmp_path / "t-0", {0: [batch(0)]}))
        shutil.rmtree(tmp_path / "t-0")
        with pytest.raises(FileNotFoundError):
            log.refresh()

    def test_an_error_does_not_hide_a_truncation(self, tmp_path: Path) -> None:
        write_log(tmp_path, {0: [batch(0), batch(3)]})
        set_epochs(tmp_path, (0, 0))
        log = settled(tmp_path)
        truncate(tmp_path, 0, len(batch(0)))
        log.read_files()
        append(tmp_path, 0, batch(3, leader_epoch=7))  # the first part of a refresh again, without the second
        log.read_files()
        assert log.advance(PartitionCheckpoints()).truncated_to == 3

    def test_an_invalid_isolation_level(self, tmp_path: Path) -> None:
        log = settled(write_log(tmp_path, {0: [batch(0)]}))
        with pytest.raises(ValueError, match="isolation_level"):
            log.log.end_offset("committed")  # type: ignore[arg-type]


class TestChangesOfALog:
    def test_appended_and_compacted_by_native_log(self, tmp_path: Path) -> None:
        with native_log.LogDir.create(tmp_path / "logs") as log_dir:
            (directory,) = log_dir.create_topic("t")
            config = {"segment.bytes": 3000, "cleanup.policy": "compact"}
            with log_dir.partition("t", 0, config=config) as writer:
                log = LiveLog(DirectorySource.at(directory.path))
                seen = []
                for first in range(0, 200, 10):
                    keys = [b"%d" % (n % 7) for n in range(first, first + 10)]
                    writer.append(pa.table({"key": keys, "value": [b"v" * 50] * 10}))
                    change = log.refresh()
                    assert (change.is_changed, change.truncated_to) == (True, None)
                    seen += offsets(log.log.range(first).read(["offset"]))
        assert seen == list(range(200))
        native_log.compact(
            tmp_path / "logs", config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}
        )
        assert log.refresh().truncated_to is None
        assert log.log.log_end_offset == 200
        left = offsets(PartitionLog.open(directory.path).read(columns=["offset"]))
        assert left == offsets(log.log.range().read(["offset"]))
        assert len(left) < 200

    def test_a_truncation_that_the_epochs_do_not_show(self, tmp_path: Path) -> None:
        """After a crash, a log may be truncated and written again in the same epoch."""
        log = settled(write_log(tmp_path, {0: [batch(0)]}))
        append(tmp_path, 0, batch(3))
        log.refresh()
        append(tmp_path, 0, batch(6))
        log.refresh()
        truncate(tmp_path, 0, 2 * len(batch(0)))
        append(tmp_path, 0, batch(6, 3, size=21), batch(9))
        change = log.refresh()
        assert (change.truncated_to, log.log.log_end_offset) == (6, 12)

    def test_a_truncation_beyond_what_is_remembered(self, tmp_path: Path) -> None:
        """Then the offset is that of the segment, or of the last end that is still there."""
        log = settled(write_log(tmp_path, {0: [batch(0)], 3: [batch(3)]}))
        for offset in range(6, 60, 3):
            append(tmp_path, 3, batch(offset))
            log.refresh()
        truncate(tmp_path, 3, len(batch(3)))
        append(tmp_path, 3, *(batch(offset, 3, size=21) for offset in range(6, 90, 3)))
        assert log.refresh().truncated_to == 3

    def test_a_compacted_segment_that_reuses_the_inode_of_an_older_one(self, tmp_path: Path) -> None:
        log = settled(write_log(tmp_path / "t-0", {0: [batch(0), batch(3)]}))
        path = tmp_path / "t-0" / file_name(0, "log")

        path.rename(tmp_path / "deleted")
        write_log(tmp_path / "t-0", {0: [batch(0, 1), batch(3)], 6: [batch(6)]})
        assert log.refresh().truncated_to is None

        # A file system gives the inode of a deleted file to the next one.
        (tmp_path / "deleted").write_bytes(batch(3) + batch(6, 1))
        (tmp_path / "deleted").rename(path)
        (tmp_path / "t-0" / file_name(6, "log")).unlink()
        write_log(tmp_path / "t-0", {9: [batch(9)]})
        assert log.refresh().truncated_to is None

    def test_segments_that_are_compacted_twice_between_two_refreshes(self, tmp_path: Path) -> None:
        log = settled(write_log(tmp_path, {0: [batch(0)], 3: [batch(3)], 6: []}))
        (tmp_path / file_name(3, "log")).unlink()
        (tmp_path / file_name(0, "log")).write_bytes(batch(0) + batch(3))  # a new file with the same inode
        assert log.refresh().truncated_to is None

    def test_truncated_and_grown_in_a_new_epoch_in_other_files(self, tmp_path: Path) -> None:
        write_log(tmp_path, {0: [batch(0)], 3: [batch(3)], 6: [batch(6), batch(9)]})
        set_epochs(tmp_path, (0, 0))
        log = settled(tmp_path)
        for base in (3, 6):
            (tmp_path / file_name(base, "log")).unlink()
        later = [batch(offset, leader_epoch=2) for offset in range(3, 30, 3)]
        write_log(tmp_path, {3: later[:4], 15: later[4:]})
        set_epochs(tmp_path, (0, 0), (2, 3))
        change = log.refresh()
        assert (change.truncated_to, log.log.log_end_offset) == (3, 30)
        assert log.epoch_of(2) == 0
        assert log.epoch_of(3) == 2
        assert log.end_offset_for_epoch(1) == EpochEndOffset(0, 3)
        assert log.end_offset_for_epoch(2) == EpochEndOffset(2, 30)

    def test_garbage_that_recovery_removes_is_no_truncation(self, tmp_path: Path) -> None:
        log = settled(write_log(tmp_path, {0: [batch(0), b"\xff" * 100]}))
        assert log.log.log_end_offset == 3
        truncate(tmp_path, 0, len(batch(0)))
        append(tmp_path, 0, batch(3))
        change = log.refresh()
        assert (change.truncated_to, log.log.log_end_offset) == (None, 6)

    def test_epochs_that_contradict_the_batches_are_no_truncation(self, tmp_path: Path) -> None:
        write_log(tmp_path, {0: [batch(0), batch(3)]})
        set_epochs(tmp_path, (0, 0), (5, 3))
        log = settled(tmp_path)
        append(tmp_path, 0, batch(6, leader_epoch=5))
        set_epochs(tmp_path, (0, 0), (5, 3), (6, 9))
        assert log.refresh().truncated_to is None

    @pytest.mark.parametrize(
        ("before", "after", "is_recreated"),
        [
            ("A" * 21 + "w", "B" * 21 + "w", True),
            ("A" * 21 + "w", "A" * 21 + "w", False),
            (None, None, True),
        ],
    )
    def test_another_directory_of_the_same_name(
        self, tmp_path: Path, before: str | None, after: str | None, is_recreated: bool
    ) -> None:
        """A topic that was created again has another id. A broker that moves a partition keeps the id."""

        def create(path: Path, topic_id: str | None, count: int) -> Path:
            write_log(path, {0: [batch(offset) for offset in range(0, 3 * count, 3)]})
            if topic_id is not None:
                (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
            return path

        other = create(tmp_path / "other", after, 2)
        log = settled(create(tmp_path / "t-0", before, 1))
        (tmp_path / "t-0").rename(tmp_path / "t-0.deleted")
        other.rename(tmp_path / "t-0")
        change = log.refresh()
        assert (change.is_recreated, change.truncated_to, log.log.log_end_offset) == (is_recreated, None, 6)
        assert log.topic_id == after
        append(tmp_path / "t-0", 0, batch(6))
        assert not log.refresh().is_recreated
        assert offsets(log.log.range(6).read(["offset"])) == [6, 7, 8]


class TestHighWatermark:
    def test_it_does_not_move_back(self, tmp_path: Path) -> None:
        write_log(tmp_path, {0: [batch(0), batch(3), batch(6)]})
        set_epochs(tmp_path, (0, 0))
        log = settled(tmp_path)
        assert log.log.high_watermark == 9
        for checkpointed in (3, None, 6):
            log.refresh(PartitionCheckpoints(high_watermark=checkpointed, live=True))
            assert log.log.high_watermark == 9
        truncate(tmp_path, 0, len(batch(0)))
        change = log.refresh(PartitionCheckpoints(high_watermark=9, live=True))
        assert (change.truncated_to, log.log.high_watermark) == (3, 3)

    def test_a_transaction_that_contains_it_is_open(self, tmp_path: Path) -> None:
        data = batch(0, 3, producer_id=1, producer_epoch=0, attributes=TRANSACTIONAL)
        write_log(tmp_path, {0: [data, marker(3, 1)]})
        log = LiveLog(
            DirectorySource.at(tmp_path, checkpoints=PartitionCheckpoints(high_watermark=2, live=True))
        )
        assert log.log.last_stable_offset == 0
        for high_watermark, stable in ((3, 0), (4, 4)):
            log.refresh(PartitionCheckpoints(high_watermark=high_watermark, live=True))
            assert log.log.last_stable_offset == stable

    def test_records_above_it_are_not_shown(self, tmp_path: Path) -> None:
        write_log(tmp_path, {0: [batch(0), batch(3), batch(6)]})
        log = LiveLog(
            DirectorySource.at(tmp_path, checkpoints=PartitionCheckpoints(high_watermark=3, live=True))
        )
        assert (log.log.high_watermark, log.log.end_offset(), log.log.log_end_offset) == (3, 3, 9)
        assert log.refresh(PartitionCheckpoints(high_watermark=6, live=True)).is_changed
        assert offsets(log.log.range().read(["offset"])) == list(range(6))
        with pytest.raises(OffsetOutOfRangeError):
            log.log.range(10)


entries_of_a_log = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), max_size=6)


def epochs_of(pairs: list[tuple[int, int]]) -> tuple[list[EpochEntry], list[int]]:
    """Return entries, and the epoch of each offset, for (growth of the epoch, number of records)."""
    entries, epochs, epoch = [], [], 0
    for growth, count in pairs:
        epoch += growth
        entries.append(EpochEntry(epoch, len(epochs)))
        epochs += [epoch] * count
    return entries, epochs


class TestDivergence:
    @given(entries_of_a_log, st.integers(0, 25), st.integers(0, 5), entries_of_a_log)
    def test_it_is_the_first_offset_of_another_epoch(
        self, first: list[tuple[int, int]], keep: int, more: int, then: list[tuple[int, int]]
    ) -> None:
        """A new leader's log has the same records as long as it has the same epochs.

        It has the first `keep` records. If the next one was of a later epoch, it may have `more` of the epoch
        before. Its own records have a new epoch.
        """
        old, old_epochs = epochs_of(first)
        keep = min(keep, len(old_epochs))
        new = [entry for entry in old if entry.start_offset < keep]
        new_epochs = old_epochs[:keep]
        if then and 0 < keep < len(old_epochs) and old_epochs[keep - 1] != old_epochs[keep]:
            new_epochs += [new_epochs[-1]] * more
        latest = max([0, *old_epochs])
        for growth, count in then:
            latest += growth
            new.append(EpochEntry(latest, len(new_epochs)))
            new_epochs += [latest] * count
        for position in range(1, len(old_epochs) + 1):
            changed = [
                offset
                for offset in range(position)
                if old_epochs[offset] != [*new_epochs, *[-1] * 99][offset]
            ]
            offset = diverged(position, old_epochs[position - 1], new, len(new_epochs), read_entries=old)
            assert offset == (changed[0] if changed else None)

    def test_without_epochs_only_the_end_counts(self) -> None:
        assert diverged(10, None, [], 10) is None
        assert diverged(10, -1, [EpochEntry(3, 0)], 10) is None
        assert diverged(10, None, [], 9) == 9
        assert diverged(0, None, [EpochEntry(3, 0)], 0) is None

    @pytest.mark.parametrize(
        ("epoch", "expected"),
        [
            (-1, None),
            (0, EpochEndOffset(0, 10)),
            (2, EpochEndOffset(2, 20)),
            (3, EpochEndOffset(2, 20)),
            (5, EpochEndOffset(5, 33)),
            (6, None),
        ],
    )
    def test_the_end_of_an_epoch_is_what_a_leader_answers(
        self, epoch: int, expected: EpochEndOffset | None
    ) -> None:
        epochs = [EpochEntry(2, 10), EpochEntry(5, 20)]
        assert end_offset_for_epoch(epochs, epoch, 33) == expected
        assert end_offset_for_epoch([], epoch, 33) is None


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (LogChange(True), LogChange(False), LogChange(True)),
        (LogChange(False), LogChange(True), LogChange(True)),
        (LogChange(True, 5), LogChange(True, 7), LogChange(True, 5)),
        (LogChange(True, 7), LogChange(True, 5), LogChange(True, 5)),
        (LogChange(True, 5), LogChange(True), LogChange(True, 5)),
        (LogChange(True, 5), LogChange(True, is_recreated=True), LogChange(True, is_recreated=True)),
        (LogChange(True, is_recreated=True), LogChange(True, 5), LogChange(True, 5, is_recreated=True)),
    ],
)
def test_two_changes_together(first: LogChange, second: LogChange, both: LogChange) -> None:
    assert first.and_then(second) == both
