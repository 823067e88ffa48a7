"""Copies that are merged while brokers write to them: a stream reads what a new merge would give."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log import LogDir, LogTruncatedError
from native_log.checkpoints.leader_epochs import EpochEntry, write_leader_epochs
from native_log.log.live.divergence import diverged
from native_log.logdir.live_logdir import LiveLogDir
from native_log.logdir.options import LogDirOptions
from native_log.segment.files import file_name
from tests.builders.copies import RECORDS, Batch, batches, damage, rows, rows_of, write_copy

KEY = ("t", 0)


@dataclass
class Replica:
    """A copy of t-0, and the batches in it."""

    log_dir: Path
    log: list[Batch] = field(default_factory=list)

    @property
    def directory(self) -> Path:
        return self.log_dir / "t-0"

    def become(self, log: list[Batch]) -> None:
        """Truncate the log where it differs, and append the rest, as a follower does."""
        if not self.log:
            write_copy(self.log_dir, log)
        else:
            same = 0
            while same < min(len(log), len(self.log)) and self.log[same] == log[same]:
                same += 1
            epochs: dict[int, int] = {}
            for batch in log:
                epochs.setdefault(batch.epoch, batch.offset)
            write_leader_epochs(self.directory, [EpochEntry(*entry) for entry in epochs.items()])
            with (self.directory / file_name(0, "log")).open("r+b") as file:
                file.truncate(sum(len(batch.data) for batch in log[:same]))
                file.seek(0, 2)
                file.write(b"".join(batch.data for batch in log[same:]))
        self.log = list(log)


class Reader:
    """Reads merged copies as a stream does: each record once, again where the log was truncated."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths
        self.live = LiveLogDir(paths, LogDirOptions(replicas="merge"))
        self.read: list[tuple[int, bytes]] = []
        self.live.partition(*KEY)

    def check(self) -> None:
        change = self.live.refresh().logs.get(KEY)
        if change is not None and change.truncated_to is not None:
            self.read = [row for row in self.read if row[0] < change.truncated_to]
        log = self.live.partition(*KEY).log
        position = self.read[-1][0] + 1 if self.read else 0
        self.read += rows(log.range(min(position, log.log_end_offset)).read(["offset", "value"]))
        fresh = LogDir(self.paths, replicas="merge").partition(*KEY)
        assert self.read == rows(fresh.read(columns=["offset", "value"]))
        assert (log.log_end_offset, log.high_watermark) == (fresh.log_end_offset, fresh.high_watermark)


@given(st.data())
def test_a_stream_reads_what_a_new_merge_gives(data: st.DataObject) -> None:
    """Leaders change, also uncleanly. Followers lag, and truncate what no leader has."""
    with tempfile.TemporaryDirectory() as temporary:
        replicas = [Replica(Path(temporary, name)) for name in "abc"]
        for replica in replicas:
            replica.become([Batch(0, 0, "0-")])
        leader, epoch, written = replicas[0], 0, 0
        reader = Reader([replica.log_dir for replica in replicas])
        for _ in range(data.draw(st.integers(1, 8))):
            step = data.draw(st.sampled_from(["append", "append", "fetch", "fetch", "elect"]))
            if step == "append":
                written += 1
                following = Batch(leader.log[-1].offset + RECORDS, epoch, f"{written}-")
                leader.become([*leader.log, following])
            elif step == "fetch":
                follower = data.draw(st.sampled_from([each for each in replicas if each is not leader]))
                count = data.draw(st.integers(1, len(leader.log)))
                fetched = leader.log[: max(count, _common(leader.log, follower.log))]
                follower.become(fetched)
            else:
                leader, epoch = data.draw(st.sampled_from(replicas)), epoch + 1
                written += 1
                following = Batch(leader.log[-1].offset + RECORDS, epoch, f"{written}-")
                leader.become([*leader.log, following])
            reader.check()


def _common(log: list[Batch], other: list[Batch]) -> int:
    pairs = zip(log, other, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(log), len(other)))


def test_copies_come_and_go(tmp_path: Path) -> None:
    whole = batches(0, 12)
    first, second = Replica(tmp_path / "a"), Replica(tmp_path / "b")
    first.become(whole[:10])
    second.log_dir.mkdir()
    (second.log_dir / "meta.properties").write_text("version=1\nbroker.id=2\n")
    reader = Reader([tmp_path / "a", tmp_path / "b"])
    reader.check()
    second.become(whole)
    reader.check()
    assert len(reader.read) == 12 * RECORDS
    shutil.rmtree(first.directory)
    reader.check()
    assert reader.live.partition(*KEY).path == second.directory


def test_a_follower_that_truncates_what_was_never_shown_is_no_truncation(tmp_path: Path) -> None:
    shared = batches(0, 4)
    leader, follower = Replica(tmp_path / "a"), Replica(tmp_path / "b")
    leader.become([*shared, *batches(4, 9, epoch=1)])
    follower.become([*shared, *batches(4, 7, tag="lost")])
    reader = Reader([tmp_path / "a", tmp_path / "b"])
    reader.check()
    follower.become(leader.log[:6])
    change = reader.live.refresh().logs.get(KEY)
    assert change is None or change.truncated_to is None
    reader.check()


def test_a_damaged_batch_is_read_from_another_copy(tmp_path: Path) -> None:
    whole = batches(0, 12)
    copies = [Replica(tmp_path / name) for name in "ab"]
    for copy in copies:
        copy.become(whole[:8])
    reader = Reader([copy.log_dir for copy in copies])
    damage(copies[0].directory, whole[5])
    reader.check()
    assert reader.read == rows_of(whole[:8])


def test_the_warnings_of_a_merge_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    leader, diverged = Replica(tmp_path / "a"), Replica(tmp_path / "b")
    leader.become(batches(0, 6, epoch=1))
    diverged.become([*batches(0, 2, epoch=0, tag="x")])
    reader = Reader([tmp_path / "a", tmp_path / "b"])
    caplog.clear()
    for count in (7, 8, 9):
        leader.become(batches(0, count, epoch=1))
        reader.live.refresh()
    assert not [message for message in caplog.messages if "are left out" in message]


def test_merged_copies_are_followed(tmp_path: Path) -> None:
    whole = batches(0, 12)
    copies = [Replica(tmp_path / name) for name in "ab"]
    for copy in copies:
        copy.become(whole[:8])
    log_dir = LogDir([copy.log_dir for copy in copies], replicas="merge")
    followers = [
        log_dir.partition(*KEY).follow(0, ["offset", "value"], timeout_ms=500),
        log_dir.follow("t", {KEY: 0}, ["offset", "value"], timeout_ms=500),
    ]
    copies[1].become(whole)
    for follower in followers:
        with follower as arriving:
            assert rows(arriving) == rows_of(whole)


def test_a_truncation_ends_a_follower(tmp_path: Path) -> None:
    leader, other = Replica(tmp_path / "a"), Replica(tmp_path / "b")
    for replica in (leader, other):
        replica.become(batches(0, 4))
    leader.become(batches(0, 8))
    log = LogDir([tmp_path / "a", tmp_path / "b"], replicas="merge").partition(*KEY)
    with log.follow(0, ["offset"], timeout_ms=2000) as arriving:
        assert next(arriving).num_rows == 8 * RECORDS
        other.become([*batches(0, 4), *batches(4, 6, epoch=1)])
        with pytest.raises(LogTruncatedError, match="truncated to offset 12"):
            list(arriving)


def test_two_leaders_that_take_turns_uncleanly() -> None:
    """Neither has the epochs of the other, so that one comparison of epochs is not enough (KIP-279)."""
    before = (EpochEntry(0, 0), EpochEntry(1, 3), EpochEntry(3, 6))
    now = (EpochEntry(0, 0), EpochEntry(2, 3), EpochEntry(4, 6))
    assert diverged(9, 3, now, 9, read_entries=before) == 3
