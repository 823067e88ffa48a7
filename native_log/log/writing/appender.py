"""Appending to a partition's log (Kafka: UnifiedLog.append, roll, close)."""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import assign, read_leader_epochs, write_leader_epochs
from native_log.errors import KafkaLogError
from native_log.log.producers.producer_states import newest_snapshot
from native_log.log.writing.append_context import AppendContext
from native_log.log.writing.roll import ActiveSegment, count_fitting_batches, roll_reason
from native_log.segment.damage import DamagedRange
from native_log.segment.files import INDEX, LOG, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX, file_name
from native_log.segment.scan import int32s, int64s
from native_log.segment.segment import LogSegment
from native_log.segment.writer import SegmentWriter
from native_log.storage.writing import flush_files, fsync_directory, remove_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from typing_extensions import Buffer

    from native_log.config import LogConfig
    from native_log.log.local_log import LocalLog

_INT_MAX = 2**31 - 1


class LogAppender:
    """The end of a log that is written. PartitionLog makes one at its first append.

    What it is given are encoded batches with their final offsets. Whatever `write` is stopped by, the log is
    left as it was before.

    Attributes:
        log_end_offset: the offset after the last record.
        recovery_point: the offset up to which everything is on the disk.
    """

    def __init__(self, log: LocalLog, config: LogConfig, now_ms: int) -> None:
        """`log` has to be whole: see PartitionLog.append."""
        self._path = Path(log.path)
        self._config = config
        self.log_end_offset = log.log_end_offset
        self.recovery_point = log.log_end_offset
        self._flushed_ms = now_ms
        self.leader_epochs = log.leader_epochs
        self._states = newest_snapshot(
            log.path, log.snapshots, log.local_log_start_offset, log.log_end_offset
        )
        self._states.replay(log.segments, log.log_end_offset, DamagedRange.refuse)
        self._states.expire(now_ms - config.producer_id_expiration_ms)
        self._segments = list(log.segments)
        self._active = (
            SegmentWriter.open(self._segments.pop(), config, now_ms=now_ms)
            if self._segments
            else SegmentWriter.create(self._path, log.log_end_offset, config, now_ms=now_ms)
        )
        self._jitter_ms = self._drawn_jitter()
        self._unflushed: list[str | Path] = []

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last batches; 0 before there is one."""
        return self.leader_epochs[-1].epoch if self.leader_epochs else 0

    @property
    def active(self) -> SegmentWriter:
        """The segment that is written."""
        return self._active

    def admission(self, leader_epoch: int | None, now_ms: int, max_batch_bytes: int) -> AppendContext:
        """What is to be written next has to comply with this. `leader_epoch` None: the latest."""
        epoch = self.latest_epoch if leader_epoch is None else leader_epoch
        return AppendContext(
            self._path, self._config, self.log_end_offset, epoch, self._states, now_ms, max_batch_bytes
        )

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """All segments, the one that is written last, as they are now."""
        return (*self._segments, _listed(self._active))

    def write(self, pieces: Iterator[tuple[Buffer, pa.RecordBatch]], now_ms: int) -> None:
        """Append all pieces, or, if an error comes from anywhere, none.

        Args:
            pieces: bytes of whole batches, with their rows of BATCH_SCHEMA: final offsets, the first at or
                above the log's end; `position` counts from the piece's first byte.
        """
        with self._all_or_nothing():
            for data, batches in pieces:
                self._write(memoryview(data).cast("B"), batches, now_ms)
            unflushed = self.log_end_offset - self.recovery_point
            waited_ms = now_ms - self._flushed_ms
            if unflushed and (unflushed >= self._config.flush_messages or waited_ms >= self._config.flush_ms):
                self.flush(now_ms)

    def append_file(self, path: str, batches: pa.RecordBatch, own_segment_bytes: int, now_ms: int) -> None:
        """Append a file of whole batches, which has to fit into a segment.

        It is copied to the end of the last segment if it goes there and is small; else it becomes a segment,
        by being moved. If anything fails the log is left half done: who calls this can undo it.

        Args:
            batches: their rows of BATCH_SCHEMA (sizes, offsets, times), final offsets from the log's end on.
                The batches have no producer, and the leader epoch `latest_epoch`.
            own_segment_bytes: from this size on a file becomes a segment.
        """
        sizes = int32s(batches, "sizeInBytes").tolist()
        times, last_offsets = int64s(batches, "maxTimestamp"), int64s(batches, "lastOffset")
        segment, epoch = self._active_segment(), self.latest_epoch
        fits = count_fitting_batches(segment, self._config, sizes, times, last_offsets, now_ms) == len(sizes)
        if fits and segment.size_bytes and sum(sizes) < own_segment_bytes:
            self._active.append_from(path, 0, batches)
        else:
            self._adopt(path, batches, now_ms)
        self.leader_epochs = assign(self.leader_epochs, epoch, self.log_end_offset)
        self.log_end_offset = self._states.end_offset = last_offsets[len(sizes) - 1] + 1

    def _adopt(self, path: str, batches: pa.RecordBatch, now_ms: int) -> None:
        before, base = self._active, self.log_end_offset
        if before.size_bytes:
            before.seal(flush=False)
            self._unflushed += before.paths
            self._states.end_offset = base
            self._unflushed.append(self._states.write_snapshot(self._path, flush=False))
            self._segments.append(_listed(before))
        before.abandon()
        self._active = SegmentWriter.adopt(self._path, base, path, batches, self._config, now_ms=now_ms)
        self._jitter_ms = self._drawn_jitter()

    def flush(self, now_ms: int) -> None:
        """Have everything on the disk. (Segments were flushed when the next was begun.)"""
        self._active.flush()
        self.recovery_point = self.log_end_offset
        self._flushed_ms = now_ms

    def close(self, *, flush: bool = True) -> None:
        """Everything to the disk, indexes complete and trimmed, a snapshot of the producers' state.

        Args:
            flush: without, who made the log's directory flushes all of it.
        """
        self._active.close(flush=False)
        snapshots = self._snapshots()
        if self._states.end_offset > max(snapshots, default=self.segments[0].base_offset):
            self._unflushed.append(self._states.write_snapshot(self._path, flush=False))
        if flush:
            flush_files([*self._active.paths, *self._unflushed])
        if self.leader_epochs != read_leader_epochs(self._path):
            write_leader_epochs(self._path, self.leader_epochs, flush=flush)
        bases = {segment.base_offset for segment in self._segments} | {self._active.base_offset}
        for offset in snapshots:  # of earlier closes: brokers keep those of segments' base offsets
            if offset not in bases and offset < self._states.end_offset:
                remove_file(self._path / file_name(offset, SNAPSHOT))
        if flush:
            fsync_directory(self._path)
        self.recovery_point = self.log_end_offset

    def trim(self) -> None:
        """Give back what is preallocated."""
        self._active.trim()

    def abandon(self) -> None:
        """Close the files as they are, as a crash would."""
        self._active.abandon()

    def _write(self, data: memoryview, batches: pa.RecordBatch, now_ms: int) -> None:
        sizes = int32s(batches, "sizeInBytes").tolist()
        times = int64s(batches, "maxTimestamp").tolist()
        last_offsets = int64s(batches, "lastOffset").tolist()
        start = position = 0
        while start < len(sizes):
            segment = self._active_segment()
            reason = roll_reason(
                segment, self._config, sizes[start], times[start], last_offsets[start], now_ms
            )
            # An empty segment is no better after a roll, unless its offsets or indexes are the reason.
            if reason is not None and (segment.size_bytes or reason in ("offset overflow", "index full")):
                self._roll(self._new_base(batches, start), now_ms)
                segment = self._active_segment()
            fit = count_fitting_batches(
                segment, self._config, sizes[start:], times[start:], last_offsets[start:], now_ms
            )
            count = max(1, fit)  # one that fits nowhere has a segment of its own
            size = sum(sizes[start : start + count])
            self._append(data[position : position + size], batches.slice(start, count))
            start, position = start + count, position + size

    def _append(self, data: memoryview, batches: pa.RecordBatch) -> None:
        self._active.append(data, batches)
        first = batches.column("position")[0].as_py()
        self._active.append_aborted(
            self._states.apply(
                batches, lambda position, size: data[position - first : position - first + size]
            )
        )
        self._assign_epochs(batches)
        self.log_end_offset = max(
            self.log_end_offset, int64s(batches, "lastOffset")[batches.num_rows - 1] + 1
        )
        self._states.end_offset = self.log_end_offset

    def _assign_epochs(self, batches: pa.RecordBatch) -> None:
        magics, epochs = int32s(batches, "magic"), int32s(batches, "leaderEpoch")
        if min(magics) >= 2 and min(epochs) == max(epochs):
            if epochs[0] >= 0:
                base = batches.column("baseOffset")[0].as_py()
                self.leader_epochs = assign(self.leader_epochs, epochs[0], base)
            return
        for magic, epoch, base in zip(magics, epochs, batches.column("baseOffset").to_pylist(), strict=True):
            if magic < 2:  # they carry no epochs, and brokers forget those before
                self.leader_epochs = ()
            elif epoch >= 0:
                self.leader_epochs = assign(self.leader_epochs, epoch, base)

    def _new_base(self, batches: pa.RecordBatch, index: int) -> int:
        first: int | None = batches.column("baseOffset")[index].as_py()
        if first is None:  # hidden in a compressed v0/v1 wrapper
            first = int(int64s(batches, "lastOffset")[index]) - _INT_MAX
        return max(first, self.log_end_offset)

    def _roll(self, base_offset: int, now_ms: int) -> None:
        """Begin the next segment; the one before is complete and on the disk."""
        before = self._active
        if base_offset == before.base_offset:
            if before.size_bytes:
                raise KafkaLogError(
                    f"a new segment would have the base offset {base_offset} of the one before it, which is "
                    "not empty",
                    path=before.path,
                )
            before.abandon()
            self._active = SegmentWriter.create(self._path, base_offset, self._config, now_ms=now_ms)
            return
        self._active = SegmentWriter.create(self._path, base_offset, self._config, now_ms=now_ms)
        self._rolled.append(before)
        before.seal()
        self._states.end_offset = base_offset
        self._states.write_snapshot(self._path)
        self._segments.append(_listed(before))
        self.recovery_point = self.log_end_offset
        self._jitter_ms = self._drawn_jitter()

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        active, mark, end, epochs = self._active, self._active.mark(), self.log_end_offset, self.leader_epochs
        states, segments, point = self._states.copy(), len(self._segments), self.recovery_point
        self._rolled: list[SegmentWriter] = []
        try:
            yield
            if self.leader_epochs != epochs:
                write_leader_epochs(self._path, self.leader_epochs)
        except BaseException:
            for writer in {id(one): one for one in [*self._rolled[1:], self._active]}.values():
                if writer is not active:
                    self._remove(writer)
            self._active, self._states, self.leader_epochs = active, states, epochs
            self.log_end_offset, self.recovery_point = end, min(point, end)
            del self._segments[segments:]
            active.reset(mark)
            raise
        for writer in self._rolled:
            writer.abandon()

    def _remove(self, writer: SegmentWriter) -> None:
        writer.abandon()
        for kind in (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT):
            with contextlib.suppress(OSError):
                remove_file(self._path / file_name(writer.base_offset, kind))

    def _snapshots(self) -> list[int]:
        names = [Path(name) for name in os.listdir(self._path)]  # noqa: PTH208
        return sorted(
            int(name.stem) for name in names if name.suffix == f".{SNAPSHOT}" and name.stem.isdigit()
        )

    def _active_segment(self) -> ActiveSegment:
        writer = self._active
        return ActiveSegment(
            writer.base_offset,
            writer.size_bytes,
            writer.free_entries,
            writer.rolling_timestamp_ms,
            writer.created_ms,
            self._jitter_ms,
        )

    def _drawn_jitter(self) -> int:
        # Kafka draws it for each segment when it is opened, so that not all logs of a topic roll at once.
        most = min(self._config.segment_jitter_ms, self._config.segment_ms)
        return random.randrange(most) if most > 0 else 0  # noqa: S311


def _listed(writer: SegmentWriter) -> LogSegment:
    stat = Path(writer.path).stat()
    base = writer.base_offset
    transactions = file_name(base, TRANSACTION_INDEX)
    return LogSegment(
        writer.directory,
        base,
        file_name(base, LOG),
        writer.size_bytes,
        stat.st_ino,
        stat.st_mtime_ns // 1_000_000,
        file_name(base, INDEX),
        file_name(base, TIME_INDEX),
        transactions if Path(writer.directory, transactions).exists() else None,
    )
