"""A log checked through and through, without changing it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from native_log.errors import CorruptIndexError
from native_log.log.producer_state import parse_snapshot
from native_log.records import decode
from native_log.segment.files import INDEX, TIME_INDEX
from native_log.segment.rebuild import rebuild
from native_log.segment.scan import int32s, int64s
from native_log.storage import read_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from native_log.log import PartitionLog
    from native_log.segment.health import IndexHealth
    from native_log.segment.segment import LogSegment
    from native_log.storage import DataFile


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a broker, or a reader, would meet: where, and what was found."""

    path: str
    position: int | None
    offset: int | None
    message: str

    def __str__(self) -> str:
        where = [self.path]
        if self.position is not None:
            where.append(f"position {self.position}")
        if self.offset is not None:
            where.append(f"offset {self.offset}")
        return f"{', '.join(where)}: {self.message}"


def verify_log(log: PartitionLog) -> Iterator[Problem]:
    """What is wrong with a log: batches (checksum, structure of every record, order of offsets), indexes
    (entries that cannot be, or point to no batch), snapshots of producers' state, leader epochs.

    Of the last segment only what is written of it counts while a broker runs on the directory.
    """
    expected = 0
    for segment in log.segments:
        found: list[Problem] = []
        is_last = segment is log.segments[-1]
        last_offsets: dict[int, int] = {}
        previous = max(expected, segment.base_offset) - 1

        def take(file: DataFile, batches: pa.RecordBatch) -> None:
            nonlocal previous
            positions, sizes = int64s(batches, "position"), int32s(batches, "sizeInBytes")
            bases, lasts = batches.column("baseOffset").to_pylist(), int64s(batches, "lastOffset")
            for i in range(batches.num_rows):
                base = lasts[i] if bases[i] is None else bases[i]
                if base <= previous:
                    message = f"expected an offset above {previous}, found a batch from {base} to {lasts[i]}"
                    found.append(Problem(file.path, positions[i], base, message))  # noqa: B023
                previous = max(previous, lasts[i])
                last_offsets[positions[i]] = lasts[i]  # noqa: B023
                batch = memoryview(file.read(positions[i], sizes[i]))
                damage = decode(batch, ["offset"], control=True, check_crcs=False).damage
                if damage is not None:
                    found.append(Problem(file.path, positions[i], base, damage.message))  # noqa: B023

        one = rebuild(segment, 1 << 30, take, max_batch_bytes=log.max_batch_bytes)
        yield from found
        if one.truncated_bytes and not (is_last and log.checkpoints.live):
            reason = one.damage.message if one.damage else "less than a batch is left at the end"
            yield Problem(str(segment.path), one.valid_bytes, one.next_offset, reason)
        yield from _index_problems(segment, last_offsets, one.valid_bytes, may_be_preallocated=is_last)
        expected = max(expected, one.next_offset)
    for offset, name in log.snapshots:
        try:
            parse_snapshot(read_file(f"{log.path}/{name}"))
        except CorruptIndexError as error:
            yield Problem(f"{log.path}/{name}", None, offset, str(error))
    epochs = log.leader_epochs
    for before, after in pairwise(epochs):
        if after.epoch <= before.epoch or after.start_offset <= before.start_offset:
            message = f"expected leader epochs and their offsets to increase, found {after} behind {before}"
            yield Problem(f"{log.path}/leader-epoch-checkpoint", None, after.start_offset, message)


def _index_problems(
    segment: LogSegment, last_offsets: dict[int, int], valid_bytes: int, *, may_be_preallocated: bool
) -> Iterator[Problem]:
    index, times = segment.load_offset_index(), segment.load_time_index()
    for kind, name, health in (
        (INDEX, segment.index, index.health(segment.size_bytes)),
        (TIME_INDEX, segment.time_index, times.health()),
    ):
        yield from _health_problems(segment, kind, name, health, may_be_preallocated)
    for entry in range(index.health(segment.size_bytes).entries):
        offset, position = index.entry(entry)
        if position < valid_bytes and position not in last_offsets:
            message = f"entry {entry} points to position {position} of the .log, where no batch begins"
            yield Problem(f"{segment.directory}/{segment.index}", entry * 8, offset, message)


def _health_problems(
    segment: LogSegment, kind: str, name: str | None, health: IndexHealth, may_be_preallocated: bool
) -> Iterator[Problem]:
    path = f"{segment.directory}/{name or f'{segment.path.stem}.{kind}'}"
    if health.status == "missing" and segment.size_bytes:
        yield Problem(path, None, segment.base_offset, "the file is missing; kafkalog reindex makes it anew")
    elif health.status in ("torn", "corrupt") or (health.status == "zero-filled" and not may_be_preallocated):
        message = f"{health.status} behind its first {health.entries} entries; kafkalog reindex makes it anew"
        yield Problem(path, None, segment.base_offset, message)
