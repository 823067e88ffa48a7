"""Small segments that are not on a local disk are read many at a time: the same rows in the same order."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, ClassVar, get_args

import pytest

from native_log import CorruptRecordError, LogDir
from native_log.arguments import IsolationLevel
from native_log.log.reading import small_parts
from tests.builders.copies import batches, damage, rows, rows_of, write_copy
from tests.builders.golden import GOLDEN, PARTITIONS
from tests.builders.memory_storage import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from native_log import PartitionLog
    from native_log.storage import DataFile, KnownFile

ELSEWHERE = "/no/local/directory"
LOG_DIRS = sorted({partition.path.parent for partition in PARTITIONS})
WHOLE = batches(0, 20)
COLUMNS = ["offset", "value"]


class WatchedStorage(MemoryStorage):
    """A storage that calls a function with the name of each .log file before it is opened."""

    watch: ClassVar[Callable[[str], object]] = staticmethod(lambda _: None)

    def open(self, path: str, *, follow_link: bool = True, known: KnownFile | None = None) -> DataFile:
        if path.endswith(".log"):
            type(self).watch(path.rpartition("/")[2])
        return super().open(path, follow_link=follow_link, known=known)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    """A log with ten segments of two batches."""
    write_copy(tmp_path, WHOLE, rolls=range(6, 60, 6))
    return LogDir(ELSEWHERE, storage=WatchedStorage.copy_of(tmp_path, ELSEWHERE)).partition("t", 0)


@pytest.mark.parametrize("level", get_args(IsolationLevel))
@pytest.mark.parametrize("path", LOG_DIRS, ids=lambda path: str(path.relative_to(GOLDEN)))
def test_logs_of_brokers(path: Path, level: IsolationLevel) -> None:
    elsewhere = LogDir(ELSEWHERE, storage=MemoryStorage.copy_of(path, ELSEWHERE), include_deleted=True)
    local = LogDir(path, include_deleted=True)
    topics = sorted(local.topics())
    found, expected = (
        each.scan(topics, ["topic", "partition", *COLUMNS], isolation_level=level, mode="dropMalformed")
        for each in (elsewhere, local)
    )
    assert small_parts.small_parts(expected.ranges) is None
    assert found.to_table().equals(expected.to_table())
    assert found.count_rows() == expected.count_rows()


def test_parts_after_the_first_are_read_at_the_same_time(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(3)
    opened: list[str] = []

    def watch(name: str) -> None:
        opened.append(name)
        if len(opened) > 1:
            together.wait(timeout=20)

    monkeypatch.setattr(WatchedStorage, "watch", watch)
    assert rows(log.read(columns=COLUMNS)) == rows_of(WHOLE)
    assert len(opened) == 10


def test_the_first_rows_cost_one_file(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(WatchedStorage, "watch", opened.append)
    reader = log.read(columns=COLUMNS)
    assert rows([reader.read_next_batch()]) == rows_of(WHOLE[:2])
    assert opened == [f"{0:020}.log"]
    assert rows(reader) == rows_of(WHOLE[2:])


def test_an_error_comes_after_the_rows_before_it(tmp_path: Path) -> None:
    damage(write_copy(tmp_path, WHOLE, rolls=range(6, 60, 6)), WHOLE[9])
    log = LogDir(ELSEWHERE, storage=MemoryStorage.copy_of(tmp_path, ELSEWHERE)).partition("t", 0)
    found: list[tuple[int, bytes]] = []
    with pytest.raises(CorruptRecordError) as error:
        found.extend(row for batch in log.read(columns=COLUMNS) for row in rows([batch]))
    assert found == rows_of(WHOLE[:9])
    assert error.value.offset == 27


def test_large_segments_are_read_one_after_the_other(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_parts, "MAX_PART_BYTES", 100)
    assert small_parts.small_parts([log.range()]) is None
    assert rows(log.read(columns=COLUMNS)) == rows_of(WHOLE)
