"""Follow a log: every record arrives once, with inotify and without, and lost records are reported."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from native_log import LogDir, watch
from native_log.checkpoints.leader_epochs import EpochEntry, write_leader_epochs
from native_log.errors import CorruptRecordError, LogTruncatedError, LostOffsetsError, OffsetOutOfRangeError
from native_log.log import PartitionCheckpoints, PartitionLog
from native_log.log.live import live_log
from native_log.segment.entries import TIME_ENTRY
from native_log.segment.files import file_name
from tests.builders.batches import ABORT, T0, TRANSACTIONAL, batch, marker
from tests.builders.logs import write_log
from tests.contents import offsets

if TYPE_CHECKING:
    from collections.abc import Callable

    from native_log.log import LogFollower

NEVER_MS = 3_600_000
WAITING = ["polling", *(["inotify"] if sys.platform == "linux" else [])]


class ScriptedWatch:
    """Calls the next step instead of waiting for a change. After the last step, it stops the follower."""

    def __init__(self, follower: LogFollower, *steps: Callable[[], object]) -> None:
        self.follower = follower
        self.steps = list(steps)

    def add(self, _: object) -> bool:
        return False

    def wait(self, _: int | None) -> None:
        if self.steps:
            self.steps.pop(0)()
        else:
            self.follower.stop()

    def wake(self) -> None:
        pass

    def __enter__(self) -> ScriptedWatch:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def follow(
    log: PartitionLog, *steps: Callable[[], object], start: int | None = None, **how: Any
) -> LogFollower:
    """Follow a log through changes. Each is made when the records before it have arrived."""
    follower = log.follow(start, ["offset"], **how)
    follower._new_watch = lambda _: ScriptedWatch(follower, *steps)  # type: ignore[assignment, return-value]
    return follower


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_log(tmp_path / "t-0", {0: [batch(0), batch(3)]})


def append(directory: Path, base_offset: int, *batches: bytes) -> None:
    with open(directory / file_name(base_offset, "log"), "ab") as file:
        file.write(b"".join(batches))


class TestRecords:
    def test_growth_rolls_and_torn_batches(self, directory: Path) -> None:
        data = batch(12)
        steps = (
            lambda: append(directory, 0, batch(6)),
            lambda: append(directory, 9, batch(9), data[:30]),
            lambda: append(directory, 9, data[30:]),
            lambda: None,
            lambda: (append(directory, 15, batch(15)), append(directory, 18, batch(18))),
        )
        arrived = [offsets([records]) for records in follow(PartitionLog.open(directory), *steps)]
        assert arrived == [[6, 7, 8], [9, 10, 11], [12, 13, 14], [15, 16, 17], [18, 19, 20]]

    @pytest.mark.parametrize(("start", "first"), [(None, 6), (0, 0), (4, 4), (6, 6)])
    def test_where_it_begins(self, directory: Path, start: int | None, first: int) -> None:
        """Without an offset at the current end: at that of the call, not at that when the log was opened."""
        log = PartitionLog.open(directory)
        if start is None:
            append(directory, 0, batch(6))
            first = 9
        follower = follow(log, start=start)
        append(directory, 0, batch(9) if start is None else batch(6))
        follower._new_watch = lambda _: ScriptedWatch(follower, lambda: None)  # type: ignore[assignment, return-value]
        assert offsets(follower) == list(range(first, 12 if start is None else 9))

    @pytest.mark.parametrize("start", [-1, 7])
    def test_it_cannot_begin_outside_of_the_log(self, directory: Path, start: int) -> None:
        with pytest.raises(OffsetOutOfRangeError):
            PartitionLog.open(directory).follow(start)

    def test_it_can_begin_above_the_high_watermark(self, directory: Path) -> None:
        log = PartitionLog.open(directory, checkpoints=PartitionCheckpoints(high_watermark=3, live=True))
        assert offsets(follow(log, start=4)) == []

    def test_committed_records_arrive_with_their_marker(self, directory: Path) -> None:
        def transactional(offset: int, producer: int) -> bytes:
            return batch(offset, producer_id=producer, producer_epoch=0, attributes=TRANSACTIONAL)

        steps = (
            lambda: append(directory, 0, transactional(6, 1), transactional(9, 2), batch(12)),
            lambda: append(directory, 0, marker(15, 1)),
            lambda: append(directory, 0, marker(16, 2, ABORT)),
        )
        follower = follow(PartitionLog.open(directory), *steps, isolation_level="read_committed")
        arrived = [offsets([records]) for records in follower]
        assert arrived == [[6, 7, 8], [12, 13, 14]]

    def test_damaged_records(self, directory: Path) -> None:
        def damage() -> None:
            data = bytearray(batch(6))
            data[-1] ^= 1
            append(directory, 0, bytes(data), batch(9))

        with pytest.raises(CorruptRecordError):
            list(follow(PartitionLog.open(directory), damage))
        shutil.rmtree(directory)
        write_log(directory, {0: [batch(0), batch(3)]})
        log = PartitionLog.open(directory)
        assert offsets(follow(log, damage, mode="dropMalformed")) == [9, 10, 11]

    def test_columns_and_schema(self, directory: Path) -> None:
        log = PartitionLog.open(directory)
        with log.follow(0, timeout_ms=0) as follower:
            assert next(follower).schema == follower.schema == log.read().schema
        with log.follow(0, ["value", "_corrupt_record"], timeout_ms=0) as follower:
            assert pa.table(next(follower)).schema == follower.schema

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            ({"columns": ["unknown"]}, ValueError),
            ({"mode": "unknown"}, ValueError),
            ({"mdoe": "failFast"}, TypeError),
            ({"isolation_level": "unknown"}, ValueError),
            ({"poll_interval_ms": 0}, ValueError),
            ({"timeout_ms": "1"}, TypeError),
            ({"start_offset": "1"}, TypeError),
        ],
    )
    def test_invalid_arguments(
        self, directory: Path, arguments: dict[str, Any], error: type[Exception]
    ) -> None:
        with pytest.raises(error):
            PartitionLog.open(directory).follow(**arguments)


class TestLostRecords:
    def delete(self, directory: Path) -> None:
        append(directory, 6, batch(6))
        append(directory, 9, batch(9))
        for base in (0, 6):
            (directory / file_name(base, "log")).unlink()

    def truncate(self, directory: Path) -> None:
        os.truncate(directory / file_name(0, "log"), len(batch(0)))
        append(directory, 0, batch(3, leader_epoch=1), batch(6, leader_epoch=1), batch(9, leader_epoch=1))
        # A broker replaces the file, so the directory changes too.
        write_leader_epochs(directory, [EpochEntry(0, 0), EpochEntry(1, 3)])

    def recreate(self, directory: Path) -> None:
        directory.rename(directory.parent / "deleted")
        write_log(directory, {0: [batch(0)]})

    def copy_in_part(self, directory: Path) -> None:
        """Copy the index of the complete segment, and the segment after it, but not yet the segment."""
        (directory / file_name(0, "timeindex")).write_bytes(TIME_ENTRY.pack(T0 + 8, 8))
        append(directory, 9, batch(9))

    @pytest.mark.parametrize(
        ("change", "error", "says", "then"),
        [
            (
                copy_in_part,
                LostOffsetsError,
                "00000000000000000000.log ends before offset 6, but its time index says that it had offset 8",
                [9, 10, 11],
            ),
            (
                delete,
                OffsetOutOfRangeError,
                "records from offset 6 to 9 (exclusive) were deleted",
                [9, 10, 11],
            ),
            (
                truncate,
                LogTruncatedError,
                "truncated to offset 3 after its records up to offset 6",
                [*range(3, 12)],
            ),
            (recreate, LogTruncatedError, "was deleted and created again", [0, 1, 2]),
        ],
    )
    def test_it_is_an_error_or_a_warning(
        self,
        directory: Path,
        change: Callable[[object, Path], None],
        error: type[Exception],
        says: str,
        then: list[int],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        write_epochs = directory / "leader-epoch-checkpoint"
        write_epochs.write_text("0\n1\n0 0\n")
        copy = shutil.copytree(directory, directory.parent / "copy" / "t-0")
        with pytest.raises(error) as raised:
            list(follow(PartitionLog.open(directory), lambda: change(self, directory)))
        message = str(raised.value)
        assert message.startswith(str(directory))
        assert says in message
        assert "t-0" in message
        assert "fail_on_data_loss=False" in message
        arrived = follow(PartitionLog.open(copy), lambda: change(self, copy), fail_on_data_loss=False)
        assert offsets(arrived) == then
        assert says in caplog.text

    @pytest.mark.parametrize("opens_log_dir", [False, True])
    def test_records_are_deleted_between_a_refresh_and_the_read(
        self, directory: Path, opens_log_dir: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        append(directory, 6, batch(6))

        def read_after_deletion(**how: bool) -> list[int]:
            if opens_log_dir:
                logs = LogDir(directory.parent).follow(None, {("t", 0): 1}, ["offset"], **how)._logs
            else:
                logs = PartitionLog.open(directory).follow(1, ["offset"], **how)._logs
            (directory / file_name(0, "log")).rename(directory.parent / "deleted")
            try:
                assert list(logs.read(["offset"])) == []
                logs.refresh(None)
                return offsets(logs.read(["offset"]))
            finally:
                (directory.parent / "deleted").rename(directory / file_name(0, "log"))

        with pytest.raises(OffsetOutOfRangeError, match=r"from offset 1 to 6 \(exclusive\) were deleted"):
            read_after_deletion()
        assert read_after_deletion(fail_on_data_loss=False) == [6, 7, 8]
        assert "from offset 1 to 6 (exclusive) were deleted" in caplog.text

    def test_truncated_above_the_position(self, directory: Path) -> None:
        """Records that were never shown may be truncated."""
        append(directory, 0, batch(6))
        checkpoints = PartitionCheckpoints(high_watermark=3, live=True)
        log = PartitionLog.open(directory, checkpoints=checkpoints)
        assert offsets(follow(log, lambda: self.truncate(directory), start=0)) == [0, 1, 2]

    def test_the_directory_is_removed(self, directory: Path) -> None:
        with pytest.raises(FileNotFoundError):
            list(follow(PartitionLog.open(directory), lambda: shutil.rmtree(directory)))


class TestEnd:
    def test_stop_after_a_batch(self, directory: Path) -> None:
        arrived = []
        with PartitionLog.open(directory).follow(0, ["offset"], max_rows=1, first_rows=1) as follower:
            for records in follower:
                arrived += offsets([records])
                follower.stop()
        assert arrived == [0, 1, 2]
        assert list(follower) == []

    def test_stop_before_the_first_batch(self, directory: Path) -> None:
        follower = PartitionLog.open(directory).follow(0)
        follower.stop()
        assert list(follower) == []

    @pytest.mark.parametrize("waiting", WAITING)
    def test_stop_in_another_thread(
        self, directory: Path, waiting: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        choose(waiting, monkeypatch)
        follower = PartitionLog.open(directory).follow(poll_interval_ms=NEVER_MS)
        waits = threading.Event()
        wait = watch.DirectoryWatch.wait

        def report(self: watch.DirectoryWatch, timeout_ms: int | None) -> set[str] | None:
            waits.set()
            return wait(self, timeout_ms)

        monkeypatch.setattr(watch.DirectoryWatch, "wait", report)
        stopper = threading.Thread(target=lambda: (waits.wait(), follower.stop()))
        stopper.start()
        assert list(follower) == []
        stopper.join()

    def test_the_timeout_begins_again_with_each_record(self, directory: Path) -> None:
        now = 0.0
        waited = []

        def pass_time(seconds: float, *batches: bytes) -> None:
            nonlocal now
            now += seconds
            append(directory, 0, *batches)

        follower = PartitionLog.open(directory).follow(columns=["offset"], timeout_ms=1000)
        script = ScriptedWatch(
            follower,
            lambda: pass_time(0.9, batch(6)),
            lambda: pass_time(0.9),
            lambda: pass_time(0.05, batch(9)),
            lambda: pass_time(1.0),
            lambda: pytest.fail("it did not end"),
        )
        follower._clock = lambda: now
        follower._new_watch = lambda _: script  # type: ignore[assignment, return-value]
        wait = script.wait
        script.wait = lambda timeout_ms: waited.append(timeout_ms) or wait(timeout_ms)  # type: ignore[method-assign]
        assert offsets(follower) == list(range(6, 12))
        assert waited == [1000, 1000, 100, 1000]

    def test_descriptors_are_closed(self, directory: Path) -> None:
        before = open_descriptors()
        follower = PartitionLog.open(directory).follow(0, poll_interval_ms=NEVER_MS)
        assert open_descriptors() == before
        with follower:
            next(follower)
            assert open_descriptors() > before
        assert open_descriptors() == before
        assert list(follower) == []


def choose(waiting: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Choose how to wait. Return an interval with which a test ends soon, or only because of inotify."""
    if waiting == "polling":
        monkeypatch.setattr(watch._Inotify, "create", lambda: None)
        return 5
    return NEVER_MS


@pytest.mark.parametrize("waiting", WAITING)
def test_a_writer_in_another_thread(tmp_path: Path, waiting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With both ways to wait, the same records arrive in the same order."""
    interval = choose(waiting, monkeypatch)
    log_dir = LogDir.create(tmp_path / "logs")
    log_dir.create_topic("t")
    total = 2000
    failed: list[BaseException] = []

    def write() -> None:
        try:
            with log_dir.partition("t", 0, config={"segment.bytes": 10_000}) as writer:
                for first in range(0, total, 20):
                    writer.append(pa.table({"value": [b"%d" % n for n in range(first, first + 20)]}))
        except BaseException as error:
            failed.append(error)

    arrived: list[bytes] = []
    with log_dir.partition("t", 0).follow(
        columns=["value"], poll_interval_ms=interval, timeout_ms=60_000
    ) as follower:
        writer = threading.Thread(target=write)
        writer.start()
        for records in follower:
            arrived += records.column(0).to_pylist()
            if len(arrived) >= total:
                follower.stop()
        writer.join()
    assert not failed
    assert arrived == [b"%d" % n for n in range(total)]


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is a part of Linux")
def test_waiting_does_not_look_at_files(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refreshed = []
    refresh = live_log.LiveLog.refresh
    monkeypatch.setattr(live_log.LiveLog, "refresh", lambda self: refreshed.append(1) or refresh(self))
    with PartitionLog.open(directory).follow(timeout_ms=100, poll_interval_ms=NEVER_MS) as follower:
        assert list(follower) == []
    assert len(refreshed) <= 3


def test_a_filter_selects_records_as_they_arrive(tmp_path: Path) -> None:
    with LogDir.create(tmp_path) as logs:
        logs.create_topic("t")
        log = logs.partition("t", 0)
        log.append(pa.record_batch({"key": ["a", "b", "a"], "value": ["1", "2", "3"]}))
        with log.follow(0, ["offset"], filter="key = 'a'", timeout_ms=200, poll_interval_ms=10) as batches:
            found = offsets([next(batches)])
            log.append(pa.record_batch({"key": ["b", "a"], "value": ["4", "5"]}))
            found += offsets(batches)
    assert found == [0, 2, 4]
