"""Write copies of the partition t-0 as replicas have them, and damage them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import EpochEntry, write_leader_epochs
from native_log.segment.files import file_name

from .batches import T0, Rec, v2
from .logs import write_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import pyarrow as pa

RECORDS = 3


@dataclass(frozen=True)
class Batch:
    """A batch of three records; the timestamp of each is its offset after T0."""

    offset: int
    epoch: int = 0
    tag: str = ""

    @property
    def values(self) -> list[bytes]:
        return [f"{self.tag}{self.offset + i}".encode().rjust(30, b".") for i in range(RECORDS)]

    @property
    def data(self) -> bytes:
        records = [Rec(b"k", v, timestamp=T0 + self.offset + i) for i, v in enumerate(self.values)]
        return v2(records, self.offset, leader_epoch=self.epoch, base_timestamp=T0)

    @property
    def rows(self) -> list[tuple[int, bytes]]:
        return [(self.offset + i, value) for i, value in enumerate(self.values)]


def batches(first: int, last: int, epoch: int = 0, tag: str = "") -> list[Batch]:
    """Return the batches with numbers from `first` to before `last`."""
    return [Batch(number * RECORDS, epoch, tag) for number in range(first, last)]


def epoch_starts(log: Iterable[Batch]) -> dict[int, int]:
    """Return the start offset of each leader epoch."""
    starts: dict[int, int] = {}
    for batch in log:
        starts.setdefault(batch.epoch, batch.offset)
    return starts


def write_copy(
    log_dir: Path,
    log: Sequence[Batch],
    *,
    rolls: Iterable[int] = (),
    high_watermark: int | None = None,
    log_start_offset: int | None = None,
) -> Path:
    """Write the partition t-0 of a log directory. A segment begins at each offset of `rolls`."""
    bases = sorted({log[0].offset, *(offset for offset in rolls if offset > log[0].offset)})
    segments: dict[int, list[bytes]] = {base: [] for base in bases}
    for batch in log:
        segments[max(base for base in bases if base <= batch.offset)].append(batch.data)
    directory = write_log(log_dir / "t-0", segments)
    write_leader_epochs(directory, [EpochEntry(epoch, start) for epoch, start in epoch_starts(log).items()])
    for name, offset in (
        ("replication-offset-checkpoint", high_watermark),
        ("log-start-offset-checkpoint", log_start_offset),
    ):
        if offset is not None:
            (log_dir / name).write_text(f"0\n1\nt 0 {offset}\n")
    (log_dir / "meta.properties").write_text("version=0\nbroker.id=1\n")
    return directory


def damage(directory: Path, batch: Batch, at: int = 70) -> tuple[Path, int]:
    """Change a byte of a batch. Return the file, and the position of the batch."""
    for path in directory.glob("*.log"):
        data = bytearray(path.read_bytes())
        position = data.find(batch.data)
        if position >= 0:
            data[position + at] ^= 0x55
            path.write_bytes(data)
            return path, position
    raise AssertionError(batch)


def delete_segment(directory: Path, base_offset: int) -> None:
    """Delete the files of a segment."""
    for path in directory.glob(f"{base_offset:020d}.*"):
        path.unlink()


def compact(directory: Path, kept: Iterable[Batch], merged: int) -> None:
    """Replace the segments 0 and `merged` by one with some of their batches, as a broker's cleaner does."""
    log = directory / file_name(0, "log")
    log.with_suffix(".cleaned").write_bytes(b"".join(batch.data for batch in kept))
    modified = log.stat().st_mtime + 1  # files of the same size are distinguished by their times
    log.with_suffix(".cleaned").replace(log)
    os.utime(log, (modified, modified))
    for index in directory.glob(f"{0:020d}.*index"):
        index.write_bytes(b"")
    delete_segment(directory, merged)


def rows(source: Iterable[pa.RecordBatch]) -> list[tuple[int, bytes]]:
    return [
        row
        for batch in source
        for row in zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True)
    ]


def rows_of(log: Iterable[Batch]) -> list[tuple[int, bytes]]:
    return [row for batch in log for row in batch.rows]
