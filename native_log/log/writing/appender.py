"""Append encoded batches to a log (Kafka: UnifiedLog.append, roll, close)."""

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
from native_log.storage import Folder
from native_log.storage.writing import flush_files, fsync_directory, remove_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from typing_extensions import Buffer

    from native_log.config import LogConfig
    from native_log.log.log_state import LogState

_INT_MAX = 2**31 - 1


class LogAppender:
    """Append encoded batches with their final offsets to a log. PartitionLog opens it at its first append.

    If `write` fails, the log is left as it was before.

    Attributes:
        log_end_offset: the offset after the last record.
        recovery_point: the offset up to which (exclusive) the log is flushed to disk.
        leader_epochs: the entries of leader-epoch-checkpoint.
    """

    def __init__(self, log: LogState, config: LogConfig, now_ms: int) -> None:
        """Open the end of `log`, which must not need recovery."""
        self._path = Path(log.path)
        self._config = config
        self.log_end_offset = log.log_end_offset
        self.recovery_point = log.log_end_offset
        self._flushed_ms = now_ms
        self.leader_epochs = log.leader_epochs
        self._states = newest_snapshot(
            log.path, log.usable_snapshots, log.local_log_start_offset, log.log_end_offset
        )
        self._states.replay(log.segments, log.log_end_offset, DamagedRange.reject)
        self._states.expire(now_ms - config.producer_id_expiration_ms)
        self._segments = list(log.segments)
        self._active = (
            SegmentWriter.open(self._segments.pop(), config, now_ms=now_ms)
            if self._segments
            else SegmentWriter.create(self._path, log.log_end_offset, config, now_ms=now_ms)
        )
        self._jitter_ms = self._draw_jitter()
        self._unflushed: list[str | Path] = []

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last batches; 0 if there is none."""
        return self.leader_epochs[-1].epoch if self.leader_epochs else 0

    @property
    def active(self) -> SegmentWriter:
        """The active segment."""
        return self._active

    def context(self, leader_epoch: int | None, now_ms: int, max_batch_bytes: int) -> AppendContext:
        """Return what the next append depends on. `leader_epoch` None means the latest epoch."""
        epoch = self.latest_epoch if leader_epoch is None else leader_epoch
        return AppendContext(
            self._path, self._config, self.log_end_offset, epoch, self._states, now_ms, max_batch_bytes
        )

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """All segments in their current state, the active one last."""
        return (*self._segments, _as_segment(self._active))

    def write(self, batches: Iterator[tuple[Buffer, pa.RecordBatch]], now_ms: int) -> None:
        """Append all batches or, if an error is raised by writing or by the iterator, none of them.

        Args:
            batches: slices of whole batches: their bytes, and their rows of BATCH_SCHEMA. Offsets are final,
                and the first one is at or above the log end offset. `position` counts from the first byte of
                the slice.
            now_ms: the current time.
        """
        with self._roll_back_on_error():
            for data, headers in batches:
                self._write(memoryview(data).cast("B"), headers, now_ms)
            unflushed = self.log_end_offset - self.recovery_point
            waited_ms = now_ms - self._flushed_ms
            if unflushed and (unflushed >= self._config.flush_messages or waited_ms >= self._config.flush_ms):
                self.flush(now_ms)

    def append_file(self, path: str, batches: pa.RecordBatch, own_segment_bytes: int, now_ms: int) -> None:
        """Append a file of whole batches, which must fit into one segment.

        A small file is copied to the end of the active segment if it fits there. Otherwise the file is moved
        and becomes the active segment. If an error is raised, the caller must undo the partial append.

        Args:
            path: the file.
            batches: rows of BATCH_SCHEMA with sizes, timestamps and final offsets, which begin at the log end
                offset. The batches have no producer, and their leader epoch is `latest_epoch`.
            own_segment_bytes: a file of at least this size becomes a segment.
            now_ms: the current time.
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
            self._segments.append(_as_segment(before))
        before.abandon()
        self._active = SegmentWriter.adopt(self._path, base, path, batches, self._config, now_ms=now_ms)
        self._jitter_ms = self._draw_jitter()

    def flush(self, now_ms: int) -> None:
        """Flush the active segment to disk. Earlier segments were flushed when they were rolled."""
        self._active.flush()
        self.recovery_point = self.log_end_offset
        self._flushed_ms = now_ms

    def close(self, *, flush: bool = True) -> None:
        """Complete and trim the indexes, write a producer state snapshot, and flush everything to disk.

        Args:
            flush: if False, nothing is flushed: the caller flushes the whole partition directory.
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
        for offset in snapshots:  # remove those of earlier closes, keep those at segment base offsets
            if offset not in bases and offset < self._states.end_offset:
                remove_file(self._path / file_name(offset, SNAPSHOT))
        if flush:
            fsync_directory(self._path)
        self.recovery_point = self.log_end_offset

    def trim(self) -> None:
        """Truncate preallocated files to their content."""
        self._active.trim()

    def abandon(self) -> None:
        """Close the files without completing them, as after a crash."""
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
            # Rolling an empty segment helps only if its base offset or its indexes are the reason.
            if reason is not None and (segment.size_bytes or reason in ("offset overflow", "index full")):
                self._roll(self._new_base(batches, start), now_ms)
                segment = self._active_segment()
            fit = count_fitting_batches(
                segment, self._config, sizes[start:], times[start:], last_offsets[start:], now_ms
            )
            count = max(1, fit)  # a batch that fits into no segment gets its own
            size = sum(sizes[start : start + count])
            self._append(data[position : position + size], batches.slice(start, count))
            start, position = start + count, position + size

    def _append(self, data: memoryview, batches: pa.RecordBatch) -> None:
        epochs = self.leader_epochs
        self._assign_epochs(batches)
        if self.leader_epochs != epochs:  # before their batches, as in UnifiedLog.append
            write_leader_epochs(self._path, self.leader_epochs)
        self._active.append(data, batches)
        first = batches.column("position")[0].as_py()
        self._active.append_aborted(
            self._states.apply(
                batches, lambda position, size: data[position - first : position - first + size]
            )
        )
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
            if magic < 2:  # such batches have no epoch, and brokers clear the earlier entries
                self.leader_epochs = ()
            elif epoch >= 0:
                self.leader_epochs = assign(self.leader_epochs, epoch, base)

    def _new_base(self, batches: pa.RecordBatch, index: int) -> int:
        first: int | None = batches.column("baseOffset")[index].as_py()
        if first is None:  # the header of a compressed v0/v1 wrapper has only its last offset
            first = int(int64s(batches, "lastOffset")[index]) - _INT_MAX
        return max(first, self.log_end_offset)

    def _roll(self, base_offset: int, now_ms: int) -> None:
        """Begin a new segment, after completing and flushing the previous one."""
        before = self._active
        if base_offset == before.base_offset:
            if before.size_bytes:
                raise KafkaLogError(
                    "expected a new segment with a greater base offset than the previous one, which is not "
                    f"empty, found the same base offset {base_offset}",
                    path=before.path,
                )
            before.abandon()
            self._active = SegmentWriter.create(self._path, base_offset, self._config, now_ms=now_ms)
            return
        before.seal()  # a reader that lists a following segment expects complete indexes
        self._active = SegmentWriter.create(self._path, base_offset, self._config, now_ms=now_ms)
        self._rolled.append(before)
        self._states.end_offset = base_offset
        self._states.write_snapshot(self._path)
        self._segments.append(_as_segment(before))
        self.recovery_point = self.log_end_offset
        self._jitter_ms = self._draw_jitter()

    @contextlib.contextmanager
    def _roll_back_on_error(self) -> Iterator[None]:
        active, mark, end, epochs = self._active, self._active.mark(), self.log_end_offset, self.leader_epochs
        states, segments, point = self._states.copy(), len(self._segments), self.recovery_point
        self._rolled: list[SegmentWriter] = []
        try:
            yield
        except BaseException:
            has_new_epoch = self.leader_epochs != epochs
            for writer in {id(writer): writer for writer in [*self._rolled[1:], self._active]}.values():
                if writer is not active:
                    self._remove(writer)
            self._active, self._states, self.leader_epochs = active, states, epochs
            self.log_end_offset, self.recovery_point = end, min(point, end)
            del self._segments[segments:]
            active.reset(mark)
            if has_new_epoch:
                with contextlib.suppress(OSError):
                    write_leader_epochs(self._path, epochs)
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

    def _draw_jitter(self) -> int:
        # As in Kafka, each segment gets its own jitter, so that the logs of a topic do not all roll at once.
        most = min(self._config.segment_jitter_ms, self._config.segment_ms)
        return random.randrange(most) if most > 0 else 0  # noqa: S311


def _as_segment(writer: SegmentWriter) -> LogSegment:
    # Each append comes here. A Path would take several times as long as the system calls.
    stat = os.stat(writer.path)  # noqa: PTH116
    base = writer.base_offset
    return LogSegment(
        Folder(writer.directory),
        base,
        file_name(base, LOG),
        writer.size_bytes,
        stat.st_ino,
        stat.st_mtime_ns // 1_000_000,
        file_name(base, INDEX),
        file_name(base, TIME_INDEX),
        file_name(base, TRANSACTION_INDEX) if writer.has_transaction_index else None,
    )
