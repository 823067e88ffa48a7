"""Read a log directory while a broker writes to it."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from native_log.errors import LogTruncatedError, OffsetOutOfRangeError
from native_log.log import PartitionCheckpoints, PartitionLog
from native_log.log.sources.directory import DirectorySource
from native_log.segment.files import file_name
from tests.builders.batches import batch
from tests.builders.golden import GoldenPartition, golden, open_golden
from tests.builders.logs import write_log
from tests.contents import offsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.log.log_state import Relocated


def test_growing_and_rolling(tmp_path: Path) -> None:
    """Opened at any time, the log is a prefix of the final log, and no error is raised."""
    write_log(tmp_path, {0: []})
    total, stop = 6000, threading.Event()
    failed: list[BaseException] = []

    def write() -> None:
        try:
            for base in range(0, total, 600):
                with (
                    open(tmp_path / file_name(base, "log"), "wb", buffering=0) as out,
                    open(tmp_path / file_name(base, "index"), "wb", buffering=0) as index,
                ):
                    index.truncate(8000)
                    for offset in range(base, base + 600, 3):
                        data, position = batch(offset, 3, size=200), out.tell()
                        out.write(data[:100])
                        out.write(data[100:])
                        if offset % 30 == 0 and position:
                            entry = (offset + 2 - base, position)
                            index.write(b"".join(number.to_bytes(4, "big") for number in entry))
                    index.truncate(index.tell())  # a roll trims the index to its entries
        except BaseException as error:
            failed.append(error)
        finally:
            stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = 0
    while True:
        last_round = stop.is_set()
        log = PartitionLog.open(tmp_path)
        assert log.log_end_offset >= seen
        seen = log.log_end_offset
        start = max(0, seen - 700)
        assert offsets(log.read(start, columns=["offset"])) == list(range(start, seen))
        if last_round:
            break
    writer.join()
    assert not failed
    assert seen == total


def test_records_appended_after_opening_are_not_read(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [batch(0)]})
    log = PartitionLog.open(tmp_path)
    write_log(tmp_path, {0: [batch(0), batch(3)], 6: [batch(6)]})
    assert offsets(log.read(columns=["offset"])) == [0, 1, 2]


@pytest.mark.parametrize(
    ("checkpoint", "live", "end"),
    [(4, True, 4), (4, False, 9), (None, True, 9), (100, True, 9), (0, True, 3)],
)
def test_a_live_log_ends_at_its_high_watermark(
    tmp_path: Path, checkpoint: int | None, live: bool, end: int
) -> None:
    write_log(tmp_path, {3: [batch(3), batch(6)]})
    log = PartitionLog.open(tmp_path, checkpoints=PartitionCheckpoints(high_watermark=checkpoint, live=live))
    assert (log.high_watermark, log.last_stable_offset, log.log_end_offset) == (end, end, 9)
    assert offsets(log.read(columns=["offset"])) == list(range(3, end))
    assert offsets(log.read(3, 9, ["offset"])) == list(range(3, end))


class Step:
    """Start a read and stop it after the first batch of rows, so that a test can change the files."""

    def __init__(self, log: PartitionLog, isolation_level: str = "read_uncommitted") -> None:
        self.batches = log.read(columns=["offset"], isolation_level=isolation_level, first_rows=1)
        self.seen = offsets([next(self.batches)])

    def rest(self) -> list[int]:
        return self.seen + offsets(self.batches)


def write_segments(directory: Path, count: int = 4) -> PartitionLog:
    write_log(directory, {o: [batch(o), batch(o + 3)] for o in range(0, 6 * count, 6)})
    return PartitionLog.open(directory)


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_compacted_under_the_reader(tmp_path: Path, isolation_level: str) -> None:
    """Segments 6 and 12 become one file under the name of the first. The remaining rows are read from it."""
    step = Step(write_segments(tmp_path), isolation_level)
    swap = tmp_path / file_name(6, "log", "swap")
    swap.write_bytes(batch(7, 2) + batch(14, 1) + batch(17, 1))
    for base in (6, 12):
        (tmp_path / file_name(base, "log")).rename(tmp_path / file_name(base, "log", "deleted"))
    swap.rename(tmp_path / file_name(6, "log"))
    assert step.rest() == [*range(6), 7, 8, 14, 17, *range(18, 24)]


def test_compacted_into_the_segment_before(tmp_path: Path) -> None:
    log = write_segments(tmp_path)
    tail = log.range(13).split_at([19])[0]
    (tmp_path / "new").write_bytes(batch(1, 1) + batch(15, 2))
    (tmp_path / "new").rename(tmp_path / file_name(0, "log"))
    for base in (6, 12):
        (tmp_path / file_name(base, "log")).unlink()
    assert offsets(tail.read(["offset"])) == [15, 16, 18]


def test_swap_renamed_under_the_reader(tmp_path: Path) -> None:
    log = write_segments(tmp_path)
    (tmp_path / file_name(6, "log")).rename(tmp_path / file_name(6, "log", "swap"))
    log = PartitionLog.open(tmp_path)
    step = Step(log)
    (tmp_path / file_name(6, "log", "swap")).rename(tmp_path / file_name(6, "log"))
    assert step.rest() == list(range(24))


def test_renamed_again_after_records_were_located_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Step(write_segments(tmp_path))
    log, swap = tmp_path / file_name(6, "log"), tmp_path / file_name(6, "log", "swap")
    locate_again = DirectorySource.locate_again

    def locate_and_rename(source: DirectorySource, *arguments: Any) -> Relocated:
        relocated = locate_again(source, *arguments)
        if swap.exists():
            swap.rename(log)
        return relocated

    log.rename(swap)
    monkeypatch.setattr(DirectorySource, "locate_again", locate_and_rename)
    assert step.rest() == list(range(24))


def test_compacted_between_opening_and_planning(tmp_path: Path) -> None:
    log, trimmed = write_segments(tmp_path), write_segments(tmp_path / "trimmed")
    (tmp_path / file_name(6, "log")).rename(tmp_path / file_name(6, "log", "swap"))
    assert offsets(log.read(7, 23, ["offset"])) == list(range(7, 23))
    assert log.last_stable_offset == 24
    assert log.offset_for_timestamp(0) == 0
    for base in (0, 6):
        (tmp_path / "trimmed" / file_name(base, "log")).unlink()
    with pytest.raises(OffsetOutOfRangeError, match="from the log start offset 12"):
        trimmed.range(7, 23)
    assert trimmed.offset_for_timestamp(0) == 12


def test_removed_by_retention_between_opening_and_planning(tmp_path: Path) -> None:
    """A read without a start offset begins where the log begins now."""
    write_segments(tmp_path)
    log = PartitionLog.open(tmp_path, checkpoints=PartitionCheckpoints(log_start_offset=8))
    for base in (0, 6):
        (tmp_path / file_name(base, "log")).unlink()
    assert offsets(log.read(columns=["offset"])) == list(range(12, log.log_end_offset))


def test_removed_by_retention(tmp_path: Path) -> None:
    log = write_segments(tmp_path)
    planned = log.range()
    for base in (0, 6):
        (tmp_path / file_name(base, "log")).unlink()
    with pytest.raises(FileNotFoundError, match=r"from offset 0 on .*retention.*Plan the read again"):
        list(planned.read())


def test_removed_in_the_middle(tmp_path: Path) -> None:
    step = Step(write_segments(tmp_path))
    (tmp_path / file_name(6, "log")).unlink()
    with pytest.raises(FileNotFoundError, match="from offset 6 on"):
        step.rest()


def test_a_file_removed_before_it_was_read(tmp_path: Path) -> None:
    """The segment was not merged: the segments before it are the same files as when the read was planned."""
    log = write_segments(tmp_path)
    planned = [log.range(13), log.range(7).split_at([13])[1], *log.range().split(1)[-1:]]
    for base in (6, 12, 18):
        (tmp_path / file_name(base, "log")).rename(tmp_path / file_name(base, "log", "deleted"))
    (tmp_path / file_name(24, "log")).write_bytes(batch(24))
    for range in planned:
        with pytest.raises(FileNotFoundError, match=f"from offset {range.start_offset} on"):
            list(range.read())


def test_data_loss_without_fail_on_data_loss(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The remaining rows are read, each one once, and a warning is logged."""
    log = write_segments(tmp_path)
    planned, newest = log.range(), log.range(7)
    batches = planned.read(["offset"], first_rows=1, fail_on_data_loss=False)
    seen = offsets([next(batches)])
    for base in (6, 12):
        (tmp_path / file_name(base, "log")).unlink()
    assert seen + offsets(batches) == [*range(6), *range(18, 24)]
    assert "from offset 6 on" in caplog.text
    assert offsets(newest.latest(["offset"], fail_on_data_loss=False)) == [23]
    # First the end is truncated, then everything: the log starts again at 0.
    (tmp_path / file_name(18, "log")).write_bytes(batch(18))
    assert offsets(planned.read(["offset"], fail_on_data_loss=False)) == [*range(6), 18, 19, 20]
    for base in (0, 18):
        (tmp_path / file_name(base, "log")).unlink()
    (tmp_path / file_name(30, "log")).write_bytes(batch(30))
    assert offsets(planned.read(["offset"], fail_on_data_loss=False)) == []
    with pytest.raises(FileNotFoundError, match="from offset 0 on"):
        list(planned.read(["offset"]))


def test_the_directory_removed(tmp_path: Path) -> None:
    step = Step(write_segments(tmp_path / "t-0"))
    shutil.rmtree(tmp_path / "t-0")
    with pytest.raises(FileNotFoundError):
        step.rest()


def test_truncated_at_the_end(tmp_path: Path) -> None:
    step = Step(write_segments(tmp_path))
    os.truncate(tmp_path / file_name(18, "log"), len(batch(0)))
    with pytest.raises(LogTruncatedError, match="reached offset 24 and now ends at 21") as raised:
        step.rest()
    assert raised.value.path == str(tmp_path)


def test_truncated_while_it_is_open(tmp_path: Path) -> None:
    """A file that is truncated between two reads raises an error, and never a SIGBUS."""
    write_log(tmp_path, {0: [batch(o, 100, size=2000) for o in range(0, 6000, 100)]})
    step = Step(PartitionLog.open(tmp_path))
    os.truncate(tmp_path / file_name(0, "log"), 3_000_000)
    with pytest.raises(LogTruncatedError, match="reached offset 6000"):
        step.rest()


def test_truncated_and_written_again(tmp_path: Path) -> None:
    """A follower truncates and appends. The reader continues with the new records at its position."""
    write_log(tmp_path, {0: [batch(o, 100, size=2000) for o in range(0, 6000, 100)]})
    step = Step(PartitionLog.open(tmp_path))
    path = tmp_path / file_name(0, "log")
    data = path.read_bytes()
    os.truncate(path, 3_000_000)
    other = tmp_path / "other"
    other.write_bytes(data)
    other.rename(path)
    assert step.rest() == list(range(6000))


def snapshot(directory: Path) -> dict[str, tuple[int, int, int]]:
    files = {}
    for path in sorted(directory.rglob("*")):
        stat = path.stat()
        files[str(path)] = (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size)
    return files


@pytest.mark.parametrize(
    "fixture",
    ["kafka-4.1/txn", "kafka-4.1/compact-crash-swap", "kafka-4.1/corrupt-size-0", "kafka-4.1/crash"],
)
def test_no_file_or_descriptor_is_left(golden_copy: object, fixture: str) -> None:
    partition: GoldenPartition = golden(fixture)
    data = golden_copy(fixture)  # type: ignore[operator]
    before = snapshot(data)
    log = open_golden(partition, data / partition.expected["dir"].removeprefix("data/"))
    for isolation_level in ("read_uncommitted", "read_committed"):
        list(log.read(isolation_level=isolation_level, mode="dropMalformed"))
    log.range().split(1000)
    log.offset_for_timestamp(1_700_000_700_000, mode="dropMalformed")
    log.transactions(mode="dropMalformed")
    list(log.batches(mode="dropMalformed"))
    assert log.topic_id is not None
    assert log.leader_epochs
    assert snapshot(data) == before
    assert not [link for link in Path("/proc/self/fd").iterdir() if str(data) in os.path.realpath(link)]


@pytest.mark.parametrize("age_s", [0, 60])
def test_a_file_renamed_while_its_directory_is_listed_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_s: int
) -> None:
    """A large directory is read in parts: a renamed file may be missing under both names."""
    directory = write_log(tmp_path / "t-0", {0: [batch(0)], 3: [batch(3)], 6: [batch(6)]})
    file = directory / "00000000000000000003.log"
    swap = file.with_suffix(".log.swap")
    file.rename(swap)
    then = time.time() - age_s
    os.utime(directory, (then, then))
    scandir, calls = os.scandir, []

    @contextlib.contextmanager
    def listed(path: str) -> Iterator[list[os.DirEntry[str]]]:
        calls.append(path)
        with scandir(path) as entries:
            listing = list(entries)
        if len(calls) == 1:
            listing = [entry for entry in listing if entry.name != swap.name]
            swap.rename(file)
        yield listing

    monkeypatch.setattr(os, "scandir", listed)
    log = PartitionLog.open(directory)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
