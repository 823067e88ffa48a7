"""A whole log that was planned without its end has the same records as one whose end is known."""

from __future__ import annotations

import pickle
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from native_log import LogDir, LogTruncatedError, reindex
from native_log.log import tail
from native_log.log.unbounded_range import UnboundedRange
from native_log.storage import KnownFile
from tests.builders.copies import batches, damage, rows, rows_of, write_copy
from tests.builders.golden import GOLDEN, PARTITIONS
from tests.builders.memory_storage import MemoryEntry, MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.log import LogRange
    from native_log.storage import DataFile
    from tests.builders.copies import Batch

ELSEWHERE = "/no/local/directory"
LOG_DIRS = sorted({partition.path.parent for partition in PARTITIONS})
KEY = ("t", 0)


class VersionedStorage(MemoryStorage):
    """A storage with one version of each file. To read another one is an error, as in a bucket."""

    def open(self, path: str, *, follow_link: bool = True, known: KnownFile | None = None) -> DataFile:
        entry = self.entries.get(path)
        if known is not None and entry is not None and known[:2] != (entry.st_size, entry.st_ino):
            raise LogTruncatedError("replaced", path=path)
        return super().open(path, follow_link=follow_link)

    def listed(self, path: str) -> KnownFile | None:
        entry = self.entries[path]
        return KnownFile(entry.st_size, entry.st_ino, entry.st_mtime_ns // 1_000_000)

    def become(self, other: MemoryStorage, version: int) -> None:
        """Replace all files."""
        assert isinstance(self.entries, dict)
        self.entries.clear()
        self.entries.update(
            {path: replace(e, st_ino=e.st_ino + version) for path, e in other.entries.items()}
        )


def whole_log(storage: MemoryStorage) -> UnboundedRange:
    ranges = LogDir(ELSEWHERE, storage=storage).unbounded_ranges([KEY])
    assert ranges is not None
    return ranges[KEY]


def read(parts: Sequence[LogRange | UnboundedRange]) -> list[tuple[int, bytes]]:
    bounded = [p.bounded(fail_on_data_loss=False) if isinstance(p, UnboundedRange) else p for p in parts]
    return rows(batch for part in bounded for batch in part.read(["offset", "value"], mode="dropMalformed"))


@pytest.mark.parametrize("path", LOG_DIRS, ids=lambda path: str(path.relative_to(GOLDEN)))
def test_logs_of_brokers(path: Path) -> None:
    storage = MemoryStorage.copy_of(path, ELSEWHERE)
    log_dir = LogDir(ELSEWHERE, storage=storage, high_watermark="ignore", include_deleted=True)
    for directory in log_dir.partitions():
        log = log_dir.partition(*directory.key)
        ranges = log_dir.unbounded_ranges([directory.key])
        if ranges is None:
            assert log.missing_start or log.missing_segments
        elif directory.key not in ranges:
            assert log.size_bytes == 0
        else:
            assert ranges[directory.key].bounded(fail_on_data_loss=True) == log.range()


@example(rolls={1, 55, 56}, cut_bytes=175, zeros=0, damaged=set(), clean=False, part_bytes=100)
@given(
    rolls=st.sets(st.integers(1, 60), max_size=3),
    cut_bytes=st.integers(0, 300),
    zeros=st.sampled_from([0, 0, 100]),
    damaged=st.sets(st.integers(0, 19), max_size=3),
    clean=st.booleans(),
    part_bytes=st.integers(100, 3000),
)
def test_any_split_of_any_log(
    rolls: set[int], cut_bytes: int, zeros: int, damaged: set[int], clean: bool, part_bytes: int
) -> None:
    whole = batches(0, 20)
    with TemporaryDirectory() as name:
        log_dir = Path(name)
        directory = write_copy(log_dir, whole, rolls=rolls)
        for number in damaged:
            damage(directory, whole[number])
        last = max(directory.glob("*.log"))
        last.write_bytes(last.read_bytes()[: max(0, last.stat().st_size - cut_bytes)] + bytes(zeros))
        if clean:
            (log_dir / ".kafka_cleanshutdown").touch()
        storage = MemoryStorage.copy_of(log_dir, ELSEWHERE)
    known = LogDir(ELSEWHERE, storage=storage).partition(*KEY).range()
    ranges = LogDir(ELSEWHERE, storage=storage).unbounded_ranges([KEY])
    assert ranges is not None
    if KEY not in ranges:
        assert not known.slices
        return
    assert ranges[KEY].bounded(fail_on_data_loss=True) == known
    assert read(pickle.loads(pickle.dumps(ranges[KEY].split(part_bytes)))) == read([known])


def copy_of(log: Sequence[Batch], tmp_path: Path, rolls: Sequence[int] = ()) -> VersionedStorage:
    write_copy(tmp_path, log, rolls=rolls)
    return VersionedStorage(VersionedStorage.copy_of(tmp_path, ELSEWHERE).entries)


def test_records_that_were_appended_after_the_plan_are_not_read(tmp_path: Path) -> None:
    whole = batches(0, 20)
    storage = copy_of(whole[:12], tmp_path / "old", rolls=[30])
    planned = whole_log(storage)
    storage.become(copy_of(whole, tmp_path / "new", rolls=[30]), 100)
    bounded = planned.bounded(fail_on_data_loss=True)
    assert bounded.end_offset == 36
    assert read([bounded]) == rows_of(whole[:12])


@pytest.mark.parametrize("is_replaced", [False, True])
def test_the_end_is_found_by_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    monkeypatch.setattr(tail, "_SMALL_BYTES", 0)
    write_copy(tmp_path, batches(0, 100))
    reindex(tmp_path)
    storage = VersionedStorage(VersionedStorage.copy_of(tmp_path, ELSEWHERE).entries)
    planned = whole_log(storage)
    path = f"{ELSEWHERE}/t-0/{0:020}.index"
    listed = storage.listed(path)
    assert planned.last_index == listed
    if is_replaced:  # as by a broker that truncates the preallocated file
        storage.entries[path] = replace(storage.entries[path], st_ino=1000)
    opened: list[object] = []
    open_file = VersionedStorage.open

    def record(storage: VersionedStorage, path: str, **how: Any) -> DataFile:
        if path.endswith(".index"):
            opened.append(how.get("known"))
        return open_file(storage, path, **how)

    monkeypatch.setattr(VersionedStorage, "open", record)
    assert planned.bounded(fail_on_data_loss=True).end_offset == 300
    assert opened == [listed, None] if is_replaced else [listed]


@pytest.mark.parametrize("has_rolled", [False, True])
def test_a_log_that_was_truncated_after_the_plan(
    tmp_path: Path, has_rolled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    whole = batches(0, 20)
    storage = copy_of(whole, tmp_path / "old", rolls=[30])
    planned = whole_log(storage)
    storage.become(copy_of(whole[:5], tmp_path / "new", rolls=[9] if has_rolled else ()), 100)
    with pytest.raises(
        LogTruncatedError, match="the planned end of the log can no longer be found; read again"
    ):
        planned.bounded(fail_on_data_loss=True)
    assert read([planned]) == rows_of(whole[:5])
    assert "found it replaced or truncated; reading up to the present end of the log" in caplog.text


class WatchedStorage(MemoryStorage):
    """A storage that waits for other threads before it lists a partition."""

    together: ClassVar[threading.Barrier | None] = None

    def list(self, path: str) -> dict[str, MemoryEntry]:
        if self.together is not None and path != ELSEWHERE:
            self.together.wait(timeout=20)
        return super().list(path)


def test_folders_are_listed_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A storage that cannot list several folders with one request would need long for many of them."""
    written = write_copy(tmp_path, batches(0, 3))
    for number in range(1, 6):
        shutil.copytree(written, tmp_path / f"t-{number}")
    log_dir = LogDir(ELSEWHERE, storage=WatchedStorage.copy_of(tmp_path, ELSEWHERE))
    monkeypatch.setattr(WatchedStorage, "together", threading.Barrier(3))
    ranges = log_dir.unbounded_ranges([("t", number) for number in range(6)])
    assert ranges is not None
    assert len(ranges) == 6


def test_logs_that_need_more_than_lists(tmp_path: Path) -> None:
    for name, arguments in (
        ("start", {"log_start_offset": 0}),
        ("end", {"high_watermark": 4}),
    ):
        write_copy(tmp_path / name, batches(4, 9), **arguments)
        storage = MemoryStorage.copy_of(tmp_path / name, ELSEWHERE)
        log_dir = LogDir(ELSEWHERE, storage=storage, high_watermark="checkpoint")
        assert log_dir.unbounded_ranges([KEY]) is None
        assert LogDir(tmp_path / name).unbounded_ranges([KEY]) is None
