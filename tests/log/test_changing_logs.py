"""Open, verify and read logs whose files a running broker changes meanwhile."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import native_log
from native_log import LogTruncatedError, PartitionCheckpoints, PartitionLog
from native_log.checkpoints.leader_epochs import EpochEntry, write_leader_epochs
from native_log.checkpoints.partition_checkpoints import EndBeforeWrite
from native_log.checkpoints.write_intent import WRITE_INTENT
from native_log.log import listing
from native_log.log.verification import verify_log
from native_log.policies import Gaps
from native_log.segment.files import file_name
from tests.builders.copies import batches, compact, damage, delete_segment, rows, rows_of, write_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from native_log.log.tail import Tail

WHOLE = batches(0, 20)
ROLLS = [15, 30]
LIVE = PartitionCheckpoints(live=True)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Three segments, with their indexes. A broker has the log open."""
    directory = write_copy(tmp_path, WHOLE, rolls=ROLLS)
    native_log.reindex(tmp_path)
    return directory


def verify(
    log: PartitionLog, change: Callable[[], object] = lambda: None, gaps: Gaps = Gaps.UNEXPLAINED
) -> list[tuple[str, int | None]]:
    """Verify a log, and change it when its first batches have been read. Return kinds and offsets."""
    changes = [change]

    def advance(size_bytes: int) -> None:
        if size_bytes and changes:
            changes.pop()()

    return [(each.kind, each.offset) for each in verify_log(log, advance, gaps=gaps)]


def open_live(directory: Path) -> PartitionLog:
    return PartitionLog.open(directory, checkpoints=LIVE)


def compact_first(directory: Path) -> None:
    """Replace the first two segments by one with every other batch."""
    compact(directory, WHOLE[:10:2], merged=15)


def test_an_unfinished_write_is_committed_and_its_segment_rewritten(directory: Path) -> None:
    """The position at which the write began means nothing in the new file."""
    size = sum(len(batch.data) for batch in WHOLE[10:15])
    before_write = EndBeforeWrite(45, 30, size)
    checkpoints = PartitionCheckpoints(live=True, high_watermark=45, before_write=before_write)
    intent = directory.parent / WRITE_INTENT
    intent.touch()
    log = PartitionLog.open(directory, checkpoints=checkpoints)
    assert (log.log_end_offset, log.size_bytes) == (45, sum(len(batch.data) for batch in WHOLE[:15]))
    assert rows(log.read()) == rows_of(WHOLE[:15])
    intent.unlink()
    rewritten = batches(10, 20, tag="a longer value: " * 10)
    cleaned = directory / file_name(30, "cleaned")
    cleaned.write_bytes(b"".join(batch.data for batch in rewritten))
    cleaned.replace(directory / file_name(30, "log"))
    assert rows(log.read()) == rows_of([*WHOLE[:10], *rewritten[:5]])
    assert sum(part.num_rows for part in log.batches()) == 20


@pytest.mark.parametrize("deleted", [[0], [0, 15]])
def test_a_deleted_segment_has_no_problems(directory: Path, deleted: list[int]) -> None:
    log = open_live(directory)
    for base_offset in deleted:
        delete_segment(directory, base_offset)
    assert verify(log) == []


def test_a_segment_that_is_deleted_while_it_is_read_has_no_problems(directory: Path) -> None:
    damage(directory, WHOLE[3])
    assert verify(open_live(directory)) == [("crc", 9)]
    assert verify(open_live(directory), partial(delete_segment, directory, 0)) == []


def test_damage_after_a_deleted_segment_is_found(directory: Path) -> None:
    damage(directory, WHOLE[12])
    log = open_live(directory)
    delete_segment(directory, 0)
    assert verify(log, partial(delete_segment, directory, 15)) == [("crc", 36)]


def test_compacted_segments_are_checked_where_they_are_now(directory: Path) -> None:
    log = open_live(directory)
    compact_first(directory)
    assert verify(log, gaps=Gaps.COMPACTED) == []
    damage(directory, WHOLE[8])
    assert verify(log, gaps=Gaps.COMPACTED) == [("crc", 21)]


def test_a_problem_of_a_file_that_compaction_replaces_is_forgotten(directory: Path) -> None:
    damage(directory, WHOLE[1])
    log = open_live(directory)
    assert verify(log, partial(compact_first, directory), Gaps.COMPACTED) == []


def test_a_segment_that_is_gone_from_the_middle_is_missing(directory: Path) -> None:
    log = open_live(directory)
    assert verify(log, partial(delete_segment, directory, 15)) == [("missing", 15)]


def test_what_is_appended_meanwhile_is_not_checked(directory: Path) -> None:
    """The index has an entry for a batch that was not there when the log was listed."""
    log = open_live(directory)
    size = log.segments[-1].size_bytes

    def append() -> None:
        with (directory / file_name(30, "log")).open("ab") as file:
            file.write(b"".join(batch.data for batch in batches(20, 22)))
        with (directory / file_name(30, "index")).open("ab") as file:
            file.write((62 - 30).to_bytes(4, "big") + size.to_bytes(4, "big"))

    assert verify(log, append) == []
    assert verify(open_live(directory)) == []


def test_the_index_of_the_active_segment_may_not_exist_yet(directory: Path) -> None:
    """A broker creates the indexes of a new segment when it first needs them."""
    for kind in ("index", "timeindex"):
        (directory / file_name(30, kind)).unlink()
    assert verify(open_live(directory)) == []
    assert verify(PartitionLog.open(directory)) == [("offset-index", 30), ("time-index", 30)]
    (directory / file_name(15, "index")).unlink()
    assert verify(open_live(directory)) == [("offset-index", 15)]


def test_an_epoch_may_be_newer_than_the_check(directory: Path) -> None:
    """A broker stores a new leader epoch, and appends batches with it."""
    log = open_live(directory)

    def append() -> None:
        write_leader_epochs(directory, [EpochEntry(0, 0), EpochEntry(1, 60)])
        with (directory / file_name(30, "log")).open("ab") as file:
            file.write(b"".join(batch.data for batch in batches(20, 22, epoch=1)))

    assert verify(log, append) == []
    write_leader_epochs(directory, [EpochEntry(0, 0)])
    assert verify(open_live(directory)) == [("leader-epochs", 60)]


def test_a_removed_snapshot_has_no_problems(directory: Path) -> None:
    snapshot = directory / file_name(30, "snapshot")
    snapshot.write_bytes(b"damaged")
    log = open_live(directory)
    assert verify(log) == [("snapshot", 30)]
    snapshot.unlink()
    assert verify(log) == []


def test_a_file_that_can_never_be_opened_is_an_error(directory: Path) -> None:
    log = directory / file_name(15, "log")
    opened = open_live(directory)
    log.rename(log.with_suffix(".away"))
    log.mkdir()
    with pytest.raises(OSError, match="directory"):
        verify(opened)


def test_a_file_that_is_replaced_each_time_is_believed_in_the_end(directory: Path) -> None:
    path, _ = damage(directory, WHOLE[3])

    def replace(size_bytes: int) -> None:
        if size_bytes:
            copy = path.with_suffix(".copy")
            copy.write_bytes(path.read_bytes())
            copy.replace(path)

    assert [each.kind for each in verify_log(open_live(directory), replace)] == ["crc"]


def test_a_log_is_opened_while_its_last_segment_is_removed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_tail, removed = listing.tail_of, [30]

    def remove_first(*arguments: Any) -> Tail:
        while removed:
            delete_segment(directory, removed.pop())
        return find_tail(*arguments)

    monkeypatch.setattr(listing, "list_ordinary", lambda *_: None)  # the kernel would find the end itself
    monkeypatch.setattr(listing, "tail_of", remove_first)
    assert PartitionLog.open(directory).log_end_offset == 30


def test_a_removed_partition_is_data_loss(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    planned = open_live(directory).range()
    shutil.rmtree(directory)
    with pytest.raises(FileNotFoundError, match="t-0: the partition was removed while it was read"):
        list(planned.read())
    assert list(planned.read(fail_on_data_loss=False)) == []
    assert "the partition was removed while it was read, with the records from offset 0 on" in caplog.text


def test_a_partition_is_not_removed_if_its_disk_is_gone(directory: Path) -> None:
    planned = open_live(directory).range()
    shutil.rmtree(directory.parent)
    with pytest.raises(FileNotFoundError):
        list(planned.read(fail_on_data_loss=False))


def test_a_log_that_begins_after_its_former_end(directory: Path) -> None:
    """Before the last stable offset is looked up, a broker deletes all segments that were there."""
    log = open_live(directory)
    (directory / file_name(90, "log")).write_bytes(b"".join(batch.data for batch in batches(30, 32)))
    for base_offset in (0, *ROLLS):
        delete_segment(directory, base_offset)
    planned = log.range(isolation_level="read_committed")
    assert rows(planned.read(fail_on_data_loss=False)) == rows_of(batches(30, 32))


def test_keys_that_may_be_missing_are_warned_of(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    planned = open_live(directory).range()
    assert rows(planned.latest(["offset", "value"])) == rows_of(WHOLE)[-1:]
    assert not caplog.messages
    compact_first(directory)
    assert rows(planned.latest(["offset", "value"])) == rows_of(WHOLE)[-1:]
    assert "keys that were written again since then may be missing" in caplog.text


def test_batches_are_listed_where_they_are_now(directory: Path) -> None:
    log = open_live(directory)
    compact_first(directory)
    assert [offset for _, offset in listed(log)] == [batch.offset for batch in [*WHOLE[:10:2], *WHOLE[10:]]]


def test_batches_that_were_listed_are_not_listed_again(directory: Path) -> None:
    listing = listed(open_live(directory))
    before = next(listing)
    compact_first(directory)
    expected = [
        *((0, batch) for batch in WHOLE[:5]),  # of the file that is open
        *((0, batch) for batch in WHOLE[6:10:2]),
        *((30, batch) for batch in WHOLE[10:]),
    ]
    assert [before, *listing] == [(file_name(base, "log"), batch.offset) for base, batch in expected]


def listed(log: PartitionLog) -> Iterator[tuple[str, int]]:
    """Yield segment and base offset of each batch."""
    for batch in log.batches():
        for row in batch.select(["segment", "baseOffset"]).to_pylist():
            yield row["segment"], row["baseOffset"]


@pytest.mark.parametrize("base_offset", [0, 30])
def test_only_the_last_segment_may_grow(directory: Path, base_offset: int) -> None:
    """Another file can have the inode number of one that was removed."""
    segments = {segment.base_offset: segment for segment in open_live(directory).segments}
    with (directory / file_name(base_offset, "log")).open("ab") as file:
        file.write(b"more")
    if base_offset == 30:
        segments[base_offset].open_same().close()
    else:
        with pytest.raises(LogTruncatedError, match="found another one"):
            segments[base_offset].open_same()
