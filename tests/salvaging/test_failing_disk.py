"""Salvage from files that the system cannot read, or that a broker removes meanwhile."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import native_log
from native_log import LogDir, LogDirInUseError
from native_log.checkpoints.lock import LogDirLock
from native_log.errors import LogTruncatedError
from native_log.salvaging import partition as salvaged_partition
from native_log.storage import DataFile, FaultyFile
from tests.builders.batches import batch
from tests.builders.golden import DATA
from tests.builders.logs import write_log
from tests.contents import batches, states
from tests.killing import survives

from .support import damaged, findings

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK = 4096


@pytest.fixture
def segments() -> dict[int, list[bytes]]:
    """Return three segments with ten batches of about 1 KiB each."""
    return {base: [batch(base + 10 * n, 10, 80) for n in range(10)] for base in (0, 100, 200)}


@pytest.fixture
def source(tmp_path: Path, segments: dict[int, list[bytes]]) -> Path:
    return write_log(tmp_path / "source/t-0", segments).parent


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> dict[str, range]:
    """Return a mapping from names of files in the source to bytes that then cannot be read."""
    ranges: dict[str, range] = {}
    read_into = DataFile.read_into

    def failing(file: DataFile, buffer: memoryview, position: int) -> None:
        path = Path(file.path)
        bad = ranges.get(path.name, range(0)) if "source" in path.parts else range(0)
        if max(position, bad.start) < min(position + len(buffer), bad.stop):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        read_into(file, buffer, position)

    monkeypatch.setattr(DataFile, "read_into", failing)
    return ranges


def log_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


@pytest.mark.parametrize("start", [0, 5, 1100, 3 * 1000, 2 * BLOCK - 6, 2 * BLOCK])
def test_blocks_that_cannot_be_read_are_lost_and_the_rest_is_copied(
    start: int, source: Path, segments: dict[int, list[bytes]], unreadable: dict[str, range], tmp_path: Path
) -> None:
    bad = range(start, start + 1)
    unreadable[log_name(100)] = bad
    block = range(start - start % BLOCK, start - start % BLOCK + BLOCK)
    report = native_log.salvage(source, tmp_path / "copy").to_pylist()
    position, expected = 0, [*segments[0]]
    for data in segments[100]:
        end = position + len(data)
        if end <= block.start or position >= block.stop:
            expected.append(data)
        position = end
    assert batches(tmp_path / "copy/t-0") == expected + segments[200]
    lost = [row for row in report if row["status"] == "lost"]
    assert {row["kind"] for row in lost} == {"unreadable"}
    assert all("Input/output error" in row["reason"] for row in lost)
    assert sum(row["sizeInBytes"] or 0 for row in report) == sum(
        len(data) for s in segments.values() for data in s
    )


def test_a_batch_with_unreadable_bytes_is_lost_even_if_zeros_leave_it_valid(
    tmp_path: Path, unreadable: dict[str, range]
) -> None:
    """The first bytes of the offset are zero anyway, and no checksum covers them."""
    first = batch(0, 1, 1000 + BLOCK - 4 - len(batch(0, 1, 1000)))
    assert len(first) == BLOCK - 4
    second, third = batch(1, 1, 5000), batch(2)
    source = write_log(tmp_path / "source/t-0", {0: [first, second, third]}).parent
    unreadable[log_name(0)] = range(1)
    native_log.salvage(source, tmp_path / "copy")
    assert batches(tmp_path / "copy/t-0") == [third]


def test_a_file_without_permission_is_lost(
    source: Path, segments: dict[int, list[bytes]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened = os.open

    def reject(path: Any, *more: Any, **named: Any) -> int:
        if str(path) == str(source / "t-0" / log_name(100)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *more, **named)

    monkeypatch.setattr(os, "open", reject)
    report = native_log.salvage(source, tmp_path / "copy")
    monkeypatch.undo()
    assert findings(report)[0] == ("lost", "unreadable", 100, 199)
    assert "Permission denied" in report.to_pylist()[1]["reason"]
    assert batches(tmp_path / "copy/t-0") == segments[0] + segments[200]


def test_a_partition_that_cannot_be_listed_is_lost(
    source: Path, segments: dict[int, list[bytes]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_log(source / "u-0", {0: [batch(0)]})
    scan = os.scandir

    def reject(path: Any = ".") -> Any:
        if str(path) == str(source / "u-0"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", reject)
    report = native_log.salvage(source, tmp_path / "copy").to_pylist()
    assert ("u", "lost", "unreadable") in {(row["topic"], row["status"], row["kind"]) for row in report}
    assert batches(tmp_path / "copy/t-0") == [data for content in segments.values() for data in content]


@pytest.mark.parametrize("name", ["meta.properties", "replication-offset-checkpoint", ".kafkalog-unfinished"])
def test_a_root_file_that_cannot_be_read_counts_as_missing(
    name: str, source: Path, unreadable: dict[str, range], tmp_path: Path
) -> None:
    (source / name).write_text("0\n0\n")
    unreadable[name] = range(1)
    report = native_log.salvage(source, tmp_path / "copy").to_pylist()
    (row,) = (row for row in report if row["topic"] is None)
    assert (row["status"], row["kind"], row["path"]) == ("warning", "file", str(source / name))


@pytest.mark.parametrize("name", ["partition.metadata", "leader-epoch-checkpoint", log_name(0)])
def test_a_partition_file_that_cannot_be_read_does_not_stop_the_others(
    name: str, unreadable: dict[str, range], tmp_path: Path
) -> None:
    """The first block of a .log file is unreadable in all partitions, __cluster_metadata included."""
    source = shutil.copytree(DATA.parent.parent / "examples/kafka-logs", tmp_path / "source")
    unreadable[name] = range(1)
    report = native_log.salvage(source, tmp_path / "copy").to_pylist()
    assert LogDir(tmp_path / "copy").topics() == LogDir(source).topics()
    statuses = {(row["status"], row["kind"]) for row in report if row["topic"] == "orders"}
    assert statuses == {
        ("copied", None),
        *{
            "partition.metadata": [],  # the topic id is also in the cluster metadata
            "leader-epoch-checkpoint": [],
            log_name(0): [("lost", "unreadable")],
        }[name],
    }
    problems = native_log.verify(tmp_path / "copy", exclude_topics="__cluster_metadata").to_pylist()
    assert {problem["kind"] for problem in problems} == ({"missing"} if name == log_name(0) else set())


def test_segments_that_a_broker_merges_meanwhile_are_found_again(
    source: Path, segments: dict[int, list[bytes]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Compaction merges the second segment into the first, after the first one was copied."""
    logs = source / "t-0"
    opened: list[str] = []

    def open_file(path: str, end_position: int | None) -> FaultyFile:
        opened.append(Path(path).name)
        if opened == [log_name(0), log_name(100)]:
            merged = b"".join([*segments[0][1:], *segments[100]])
            (logs / log_name(0)).write_bytes(merged)
            (logs / log_name(100)).unlink()
        return FaultyFile(path, end_position)

    monkeypatch.setattr(salvaged_partition, "FaultyFile", open_file)
    report = native_log.salvage(source, tmp_path / "copy", threads=1)
    assert opened == [log_name(0), log_name(100), log_name(0), log_name(200)]
    assert batches(tmp_path / "copy/t-0") == [data for content in segments.values() for data in content]
    assert [finding for finding in findings(report) if finding[0] == "lost"] == []


def test_a_segment_that_always_disappears_is_reported(
    source: Path, segments: dict[int, list[bytes]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def open_file(path: str, end_position: int | None) -> FaultyFile:
        if path.endswith(log_name(100)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return FaultyFile(path, end_position)

    monkeypatch.setattr(salvaged_partition, "FaultyFile", open_file)
    report = native_log.salvage(source, tmp_path / "copy", threads=1)
    assert findings(report)[0] == ("lost", "unreadable", 100, 199)
    assert batches(tmp_path / "copy/t-0") == segments[0] + segments[200]


def test_a_file_that_is_truncated_meanwhile_is_read_up_to_its_new_end(
    source: Path, segments: dict[int, list[bytes]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read = salvaged_partition.read_valid_batches
    calls: list[str] = []

    def read_and_truncate(file: FaultyFile, *arguments: Any) -> Iterator[Any]:
        calls.append(file.path)
        for part in read(file, *arguments):
            yield part
            if len(calls) == 3:
                raise LogTruncatedError("the file was truncated", path=file.path)

    monkeypatch.setattr(salvaged_partition, "read_valid_batches", read_and_truncate)
    native_log.salvage(source, tmp_path / "copy", threads=1)
    assert len(calls) == 4
    assert batches(tmp_path / "copy/t-0") == [data for content in segments.values() for data in content]


@pytest.mark.parametrize("base_offset", [100, 200])
def test_a_broker_explains_only_damage_at_the_end_of_the_log(
    base_offset: int, source: Path, segments: dict[int, list[bytes]], tmp_path: Path
) -> None:
    (source / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    is_last = base_offset == max(segments)
    content = list(segments[base_offset])
    number = 0 if is_last else len(content) - 1
    content[number] = damaged(content[number])
    (source / "t-0" / log_name(base_offset)).write_bytes(b"".join(content))

    def salvage() -> None:
        report = native_log.salvage(source, tmp_path / "copy")
        assert findings(report)[0][:2] == ("lost", "crc")

    with LogDirLock(source):
        assert survives(salvage, 10_000)


def test_a_source_in_use_is_read_without_its_lock(
    source: Path, segments: dict[int, list[bytes]], tmp_path: Path
) -> None:
    (source / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    last = source / "t-0" / log_name(200)
    with last.open("ab") as file:
        file.write(batch(300)[:50])

    def salvage() -> None:
        with pytest.raises(LogDirInUseError):
            LogDirLock(source)
        report = native_log.salvage(source, tmp_path / "copy")
        # The torn batch is not lost: the broker may be writing it.
        assert findings(report)[0][:2] == ("warning", "file")

    with LogDirLock(source):
        before = states(source)
        assert survives(salvage, 10_000)
        assert states(source) == before
    assert batches(tmp_path / "copy/t-0") == [data for content in segments.values() for data in content]
