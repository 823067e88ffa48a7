"""Writing a segment: index entries, preallocation, the last time index entry, writes that fail."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from native_log.config import LogConfig
from native_log.errors import KafkaLogError
from native_log.records import scan
from native_log.segment.entries import OFFSET_ENTRY
from native_log.segment.files import CLEANED, file_name
from native_log.segment.segment import LogSegment
from native_log.segment.writer import SegmentWriter
from native_log.storage import Folder
from tests.builders.batches import T0, Rec, batch, v2

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


def rows(data: bytes) -> pa.RecordBatch:
    return scan(data).batches


def segment(directory: Path, base_offset: int = 0) -> LogSegment:
    names = [f"{base_offset:020d}.{kind}" for kind in ("log", "index", "timeindex", "txnindex")]
    size = (directory / names[0]).stat().st_size
    return LogSegment(Folder(str(directory)), base_offset, names[0], size, 0, 0, *names[1:])


def entries(directory: Path, base_offset: int = 0) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    built = segment(directory, base_offset)
    index, times = built.load_offset_index(), built.load_time_index()
    return [index.entry(i) for i in range(len(index))], [times.entry(i) for i in range(len(times))]


def timed(offset: int, timestamp: int, size: int) -> bytes:
    return v2([Rec(b"k", b"v" * (size - 74), timestamp=timestamp)], offset)


@pytest.mark.parametrize("per_call", [1, 2, 7])
def test_a_batch_gets_an_entry_after_more_than_the_interval(tmp_path: Path, per_call: int) -> None:
    """Per batch, not per call: the entry has the last offset and the position of the batch."""
    data = [batch(i * 3, size=1000) for i in range(7)]
    size = len(data[0])
    config = LogConfig.parse({"index.interval.bytes": size})  # not more than the interval after one batch
    with SegmentWriter.create(tmp_path, 0, config) as writer:
        for i in range(0, 7, per_call):
            some = b"".join(data[i : i + per_call])
            writer.append(some, rows(some))
    assert entries(tmp_path)[0] == [(8, 2 * size), (14, 4 * size), (20, 6 * size)]


def test_the_time_index_has_the_maximum_timestamp_so_far_and_a_last_entry(tmp_path: Path) -> None:
    times = [T0, T0 + 50, T0 + 20, T0 + 50, T0 + 60, T0 + 10]
    data = b"".join(timed(i, at, 1000) for i, at in enumerate(times))
    with SegmentWriter.create(tmp_path, 0, LogConfig.parse({"index.interval.bytes": 1500})) as writer:
        writer.append(data, rows(data))
    # Entries with batch 2 (greatest: that of batch 1) and with batch 4; batch 5 brings no greater one.
    assert entries(tmp_path)[0] == [(2, rows(data).column("position")[2].as_py()),
                                    (4, rows(data).column("position")[4].as_py())]  # fmt: skip
    assert entries(tmp_path)[1] == [(T0 + 50, 1), (T0 + 60, 4)]


def test_close_writes_the_last_time_index_entry_even_if_the_index_is_full(tmp_path: Path) -> None:
    config = LogConfig.parse({"index.interval.bytes": 0, "segment.index.bytes": 40})  # 5 and 3 entries
    data = b"".join(timed(i, T0 + i, 200) for i in range(9))
    with SegmentWriter.create(tmp_path, 0, config) as writer:
        writer.append(data, rows(data))
        assert writer.free_entries == 0
    index, times = entries(tmp_path)
    assert len(index) == 2
    assert times == [(T0 + 1, 1), (T0 + 2, 2), (T0 + 8, 8)]


def test_indexes_are_preallocated_to_multiples_of_the_entry_size_and_trimmed(tmp_path: Path) -> None:
    writer = SegmentWriter.create(
        tmp_path, 5, LogConfig.parse({"preallocate": "true", "segment.bytes": 5000})
    )
    data = batch(5)
    writer.append(data, rows(data))
    log, index, times = (tmp_path / f"{5:020d}.{kind}" for kind in ("log", "index", "timeindex"))
    assert [file.stat().st_size for file in (log, index, times)] == [5000, 10485760, 10485756]
    assert times.stat().st_blocks * 512 < 1 << 20
    writer.close()
    assert [file.stat().st_size for file in (log, index, times)] == [len(data), 0, 12]


def test_an_opened_segment_is_appended_to(tmp_path: Path) -> None:
    config = LogConfig.parse({"index.interval.bytes": 1500})
    parts = [b"".join(timed(i, T0 + i, 1000) for i in some) for some in (range(5), range(5, 10))]
    with SegmentWriter.create(tmp_path, 0, config) as writer:
        writer.append(parts[0], rows(parts[0]))
    before = entries(tmp_path)
    with SegmentWriter.open(segment(tmp_path), config) as writer:
        assert writer.max_timestamp_ms == T0 + 4
        assert writer.rolling_timestamp_ms == T0
        writer.append(parts[1], rows(parts[1]))
    index, times = entries(tmp_path)
    assert (index[: len(before[0])], times[: len(before[1])]) == before
    assert [offset for offset, _ in index] == [2, 4, 7, 9]
    assert times[-1] == (T0 + 9, 9)


def test_create_removes_existing_files_of_its_suffix(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.txnindex.cleaned").write_bytes(b"stale")
    (tmp_path / f"{0:020d}.log.cleaned").write_bytes(b"stale")
    data = batch(0)
    with SegmentWriter.create(tmp_path, 0, state="cleaned") as writer:
        writer.append(data, rows(data))
    names = [f"{0:020d}.{kind}.cleaned" for kind in ("index", "log", "timeindex")]
    assert sorted(file.name for file in tmp_path.iterdir()) == names


def test_a_replacing_segment_is_not_preallocated_and_takes_all_index_entries(
    tmp_path: Path,
) -> None:
    config = LogConfig.parse({"index.interval.bytes": 0, "segment.index.bytes": 24, "preallocate": "true"})
    data = b"".join(batch(i * 3) for i in range(9))
    for name in ("plain", CLEANED):
        (tmp_path / name).mkdir()
    with SegmentWriter.create(tmp_path / "plain", 0, config) as writer:
        assert writer.free_entries == 1
    with SegmentWriter.create(tmp_path / CLEANED, 0, config, state=CLEANED) as writer:
        assert [file.stat().st_size for file in (tmp_path / CLEANED).iterdir()] == [0, 0, 0]
        writer.append(data, rows(data))
    index = tmp_path / CLEANED / file_name(0, "index", CLEANED)
    assert index.stat().st_size == 8 * OFFSET_ENTRY.size


def test_bytes_copied_from_a_file_are_indexed_from_their_rows(tmp_path: Path) -> None:
    data = b"".join(batch(i * 3, size=1000) for i in range(9))
    (tmp_path / "staged").write_bytes(b"head" + data)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with SegmentWriter.create(tmp_path / "a", 0) as writer:
        writer.append(data, rows(data))
    with SegmentWriter.create(tmp_path / "b", 0) as writer:
        writer.append_from(str(tmp_path / "staged"), 4, rows(data))
    for kind in ("log", "index", "timeindex"):
        name = f"{0:020d}.{kind}"
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_offsets_too_far_from_the_base_offset_are_rejected(tmp_path: Path) -> None:
    writer = SegmentWriter.create(tmp_path, 100)
    for offset in (97, 100 + 2**31 - 2):
        data = batch(offset)
        with pytest.raises(KafkaLogError, match="base offset"):
            writer.append(data, rows(data))
    data = batch(100 + 2**31 - 3)
    writer.append(data, rows(data))
    writer.close()


@pytest.mark.parametrize("failing", [1, 2, 3])
@pytest.mark.parametrize("preallocate", ["false", "true"])
def test_a_write_that_fails_leaves_all_three_files_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int, preallocate: str
) -> None:
    settings = {"index.interval.bytes": 500, "preallocate": preallocate, "segment.bytes": 50000}
    parts = [b"".join(timed(i, T0 + i, 1000) for i in range(n, n + 4)) for n in (0, 4, 8)]
    writer = SegmentWriter.create(tmp_path, 0, LogConfig.parse(settings))
    writer.append(parts[0], rows(parts[0]))
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    pwrite, calls = os.pwrite, 0

    def fails(*args: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(*args)

    monkeypatch.setattr(os, "pwrite", fails)
    with pytest.raises(OSError, match="No space"):
        writer.append(parts[1], rows(parts[1]))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    for part in parts[1:]:
        writer.append(part, rows(part))
    writer.close()
    assert segment(tmp_path).path.read_bytes() == b"".join(parts)
    index, times = entries(tmp_path)
    assert [offset for offset, _ in index] == list(range(1, 12))
    assert times[-1] == (T0 + 11, 11)


def test_no_write_is_accepted_after_one_that_cannot_be_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> int:
        raise OSError(errno.EIO, "Input/output error")

    writer = SegmentWriter.create(tmp_path, 0)
    data = batch(0)
    writer.append(data, rows(data))
    monkeypatch.setattr(os, "pwrite", fails)
    monkeypatch.setattr(os, "ftruncate", fails)
    with pytest.raises(OSError, match="Input/output"):
        writer.append(data, rows(data))
    monkeypatch.undo()
    with pytest.raises(KafkaLogError, match="kafkalog recover"):
        writer.append(data, rows(data))
    writer.abandon()
