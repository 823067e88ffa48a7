"""Write one segment: the .log file and its indexes (Kafka: LogSegment.append)."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from native_log.config import LogConfig
from native_log.errors import KafkaLogError
from native_log.segment.entries import OFFSET_ENTRY, TIME_ENTRY
from native_log.segment.files import INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX, file_name
from native_log.segment.indexing import IndexState, index_entries
from native_log.segment.offset_index import MAX_RELATIVE_OFFSET
from native_log.segment.scan import int32s, int64s, scan_file
from native_log.segment.transaction_index import ABORTED_ENTRY, transaction_index_bytes
from native_log.storage import DataFile, Window
from native_log.storage.writing import AppendFile, remove_file
from native_log.system import current_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    import pyarrow as pa
    from typing_extensions import Buffer

    from native_log.segment.segment import LogSegment
    from native_log.segment.transaction_index import AbortedTxn

_KINDS = (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX)


@dataclass(frozen=True, slots=True)
class SegmentMark:
    """The state of a SegmentWriter, to which `SegmentWriter.reset` returns."""

    log_bytes: int
    index_bytes: int
    time_index_bytes: int
    transaction_index_bytes: int | None
    rolling_timestamp_ms: int
    indexing: IndexState


class SegmentWriter:
    """Append batches to a segment; a context manager. Use `create`, `open` or `adopt`.

    Of a batch it needs only the row of BATCH_SCHEMA (sizeInBytes, lastOffset, maxTimestamp). So it can also
    index bytes that are copied from another file. A write that fails leaves the segment as it was.

    Attributes:
        directory: directory of the files: that of a partition, or a staging directory within it.
        base_offset: base offset of the segment.
        state: suffix of the file names: "", or CLEANED for a segment that will replace others.
        rolling_timestamp_ms: the maximum timestamp of the first batch; -1 if there is none.
        created_ms: the time when the segment was created or opened.
        has_transaction_index: whether the segment has a `.txnindex`.
    """

    def __init__(
        self,
        directory: str,
        base_offset: int,
        config: LogConfig,
        state: str,
        files: tuple[AppendFile, AppendFile, AppendFile],
        created_ms: int,
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.state = state
        self.rolling_timestamp_ms = -1
        self.created_ms = created_ms
        self._config = config
        self._log, self._index, self._time_index = files
        self.has_transaction_index = False
        self._transaction_index: AppendFile | None = None
        self._indexing = IndexState(-1, base_offset)
        self._bytes_before = 0
        self._broken = False
        self._closed = False

    @classmethod
    def create(
        cls,
        directory: str | os.PathLike[str],
        base_offset: int,
        config: LogConfig | None = None,
        *,
        state: str = "",
        now_ms: int | None = None,
    ) -> Self:
        """Create an empty segment. Existing files of the same names are removed.

        With a `state` nothing is preallocated, and the indexes have room for any number of entries: they get
        no more entries than the indexes of the segments that will be replaced.
        """
        config = config or LogConfig()
        directory = os.fspath(directory)
        names = [f"{directory}/{file_name(base_offset, kind, state)}" for kind in _KINDS]
        for name in names:
            remove_file(name)
        try:
            files = _open_files(directory, base_offset, config, state, (0, 0, 0))
        except BaseException:
            for name in names:
                with contextlib.suppress(OSError):
                    remove_file(name)
            raise
        return cls(directory, base_offset, config, state, files, current_ms() if now_ms is None else now_ms)

    @classmethod
    def open(cls, segment: LogSegment, config: LogConfig | None = None, *, now_ms: int | None = None) -> Self:
        """Open an existing segment to append to it. Its batches must be whole, and its indexes valid."""
        config = config or LogConfig()
        index, times = segment.load_offset_index(), segment.load_time_index()
        entries, time_entries = index.health(segment.size_bytes).entries, times.health().entries
        sizes = (segment.size_bytes, entries * OFFSET_ENTRY.size, time_entries * TIME_ENTRY.size)
        files = _open_files(segment.directory, segment.base_offset, config, "", sizes)
        created_ms = current_ms() if now_ms is None else now_ms
        writer = cls(segment.directory, segment.base_offset, config, "", files, created_ms)
        if time_entries:
            timestamp_ms, offset = times.entry(time_entries - 1)
            writer._indexing = IndexState(timestamp_ms, offset, timestamp_ms)
        if segment.size_bytes:
            writer.rolling_timestamp_ms = _first_max_timestamp(str(segment.path))
        writer.has_transaction_index = segment.transaction_index is not None
        writer._bytes_before = segment.size_bytes - (index.entry(entries - 1)[1] if entries else 0)
        return writer

    @classmethod
    def adopt(
        cls,
        directory: str | os.PathLike[str],
        base_offset: int,
        source: str,
        batches: pa.RecordBatch,
        config: LogConfig,
        *,
        now_ms: int,
    ) -> Self:
        """Create a segment by moving the file `source` to its .log file.

        Args:
            batches: one row of BATCH_SCHEMA for each batch in the file. They must fit into one segment.
        """
        directory = os.fspath(directory)
        for kind in _KINDS:
            if kind != LOG:
                remove_file(f"{directory}/{file_name(base_offset, kind)}")
        size = os.path.getsize(source)  # noqa: PTH202
        os.rename(source, f"{directory}/{file_name(base_offset, LOG)}")  # noqa: PTH104
        files = _open_files(directory, base_offset, config, "", (size, 0, 0))
        writer = cls(directory, base_offset, config, "", files, now_ms)
        try:
            writer._write(size, batches, None)
        except BaseException:
            writer.abandon()
            raise
        return writer

    @property
    def path(self) -> str:
        """Return the path of the file with the batches."""
        return self._log.path

    @property
    def paths(self) -> list[str]:
        """Return the paths of all files."""
        return [file.path for file in self._files()]

    @property
    def size_bytes(self) -> int:
        """Return the size of the batches written."""
        return self._log.size_bytes

    @property
    def is_broken(self) -> bool:
        """Return whether a write failed and could not be undone, so that the log has to be recovered."""
        return self._broken

    @property
    def max_timestamp_ms(self) -> int:
        """Return the maximum timestamp so far; -1 if there is none."""
        return self._indexing.max_timestamp_ms

    @property
    def free_entries(self) -> int:
        """Return for how many more entries the indexes have room. If it is 0, roll the segment."""
        if self.state:
            return sys.maxsize
        used, used_times = self._index.size_bytes, self._time_index.size_bytes
        return max(
            0,
            min(
                self._config.segment_index_bytes // OFFSET_ENTRY.size - used // OFFSET_ENTRY.size,
                self._config.segment_index_bytes // TIME_ENTRY.size - 1 - used_times // TIME_ENTRY.size,
            ),
        )

    def continue_interval(self) -> None:
        """Measure the interval to the next index entry from the last entry of an opened segment.

        Recovery does the same. A broker measures it from where it opened the segment. That way a segment that
        is opened again for each small append would never get an entry.
        """
        self._indexing = replace(self._indexing, bytes_since_entry=self._bytes_before)

    def append(self, data: Buffer, batches: pa.RecordBatch) -> None:
        """Append whole batches and index them.

        Args:
            data: the bytes of the batches.
            batches: their rows of BATCH_SCHEMA, in order. The column `position` is not used.

        Raises:
            OSError: the write failed, and the segment is as it was.
            KafkaLogError: the segment cannot have one of the offsets; or an earlier write failed and could
                not be undone.
        """
        view = memoryview(data).cast("B")
        self._write(len(view), batches, lambda log: log.append(view))

    def append_from(self, source: str, position: int, batches: pa.RecordBatch) -> None:
        """Append batches of the file `source`, which follow one another from byte `position` on.

        The bytes are not read if the system can copy files. Raises as `append`.
        """
        size = sum(int32s(batches, "sizeInBytes"))
        self._write(size, batches, lambda log: log.append_from(source, position, size))

    def append_aborted(self, transactions: Sequence[AbortedTxn]) -> None:
        """Append aborted transactions, whose markers are in this segment, to its `.txnindex`."""
        if not transactions:
            return
        if self._transaction_index is None:
            path = f"{self.directory}/{file_name(self.base_offset, TRANSACTION_INDEX, self.state)}"
            size = os.path.getsize(path) if os.path.exists(path) else 0  # noqa: PTH202, PTH110
            self._transaction_index = AppendFile(path, size - size % ABORTED_ENTRY.size)
            self.has_transaction_index = True
        self._transaction_index.append(transaction_index_bytes(transactions))

    def mark(self) -> SegmentMark:
        """Return the current state, for `reset`."""
        return SegmentMark(
            self._log.size_bytes,
            self._index.size_bytes,
            self._time_index.size_bytes,
            None if self._transaction_index is None else self._transaction_index.size_bytes,
            self.rolling_timestamp_ms,
            self._indexing,
        )

    def reset(self, mark: SegmentMark) -> None:
        """Undo all writes since `mark`. If that fails, set `is_broken` and accept no more writes."""
        self.rolling_timestamp_ms, self._indexing = mark.rolling_timestamp_ms, mark.indexing
        try:
            self._log.truncate(mark.log_bytes)
            self._index.truncate(mark.index_bytes)
            self._time_index.truncate(mark.time_index_bytes)
            if self._transaction_index is not None:
                self._transaction_index.truncate(mark.transaction_index_bytes or 0)
        except (OSError, KafkaLogError):
            self._broken = True

    def flush(self) -> None:
        """Flush all files to disk (fsync)."""
        for file in self._files():
            file.flush()

    def close(self, *, flush: bool = True) -> None:
        """Write the last time index entry, truncate preallocated bytes, and close the files.

        Args:
            flush: flush the files to disk before they are closed.
        """
        if self._closed:
            return
        try:
            if not self._broken:
                self.seal(flush=flush)
        finally:
            self.abandon()

    def seal(self, *, flush: bool = True) -> None:
        """Do what `close` does, but keep the files open. A segment is sealed when the next one begins."""
        entry = self._indexing.last_time_entry(self.base_offset)
        if entry:
            self._time_index.append(entry)
            self._indexing = replace(self._indexing, last_indexed_ms=self.max_timestamp_ms)
        self.trim()
        if flush:
            self.flush()

    def trim(self) -> None:
        """Truncate the preallocated bytes that are not used."""
        for file in self._files():
            file.trim()

    def abandon(self) -> None:
        """Close the files as they are, as a crash does."""
        if not self._closed:
            self._closed = True
            for file in self._files():
                with contextlib.suppress(OSError):
                    file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def _write(
        self, size_bytes: int, batches: pa.RecordBatch, write_log: Callable[[AppendFile], None] | None
    ) -> None:
        """Write and index batches. If `write_log` is None, they are already the content of the .log file."""
        if self._broken:
            raise KafkaLogError(
                "an earlier write to this segment failed and could not be undone; run kafkalog recover on "
                "the log directory",
                path=self.path,
            )
        if sum(int32s(batches, "sizeInBytes")) != size_bytes:
            raise ValueError(f"expected rows of batches with {size_bytes} bytes in total, found others")
        before = self.mark()
        position = before.log_bytes if write_log is not None else 0
        self._check_offsets(batches)
        entries, time_entries, self._indexing = index_entries(
            batches,
            before.indexing,
            base_offset=self.base_offset,
            position=position,
            interval_bytes=self._config.index_interval_bytes,
            room=self.free_entries,
        )
        if position == 0 and batches.num_rows:
            self.rolling_timestamp_ms = int64s(batches, "maxTimestamp")[0]
        try:
            if write_log is not None:
                write_log(self._log)
            # Another writer would have changed the .log file, too.
            if entries:
                self._index.append(entries, check_length=False)
            if time_entries:
                self._time_index.append(time_entries, check_length=False)
        except BaseException:
            self.reset(before)
            raise

    def _check_offsets(self, batches: pa.RecordBatch) -> None:
        base, last_offsets = self.base_offset, int64s(batches, "lastOffset")
        if batches.num_rows and not (
            base <= min(last_offsets) and max(last_offsets) - base <= MAX_RELATIVE_OFFSET
        ):
            raise KafkaLogError(
                f"expected offsets from {base} to {base + MAX_RELATIVE_OFFSET}, which a segment of this "
                f"base offset can have, found {min(last_offsets)} to {max(last_offsets)}. A broker splits a "
                "segment whose offsets are further apart when it loads the log",
                path=self.path,
                offset=max(last_offsets),
            )

    def _files(self) -> list[AppendFile]:
        files = [self._log, self._index, self._time_index]
        return files if self._transaction_index is None else [*files, self._transaction_index]


def _open_files(
    directory: str, base_offset: int, config: LogConfig, state: str, sizes: tuple[int, int, int]
) -> tuple[AppendFile, AppendFile, AppendFile]:
    """Open .log, offset index and time index.

    As in a broker, indexes are preallocated to a multiple of the size of an entry. Files of a segment that
    will replace others are not, and their writeback starts with the flush, while the next one is written.
    """
    index_bytes = 0 if state else config.segment_index_bytes
    allocated = (
        config.segment_bytes if config.preallocate and not state else 0,
        index_bytes - index_bytes % OFFSET_ENTRY.size,
        index_bytes - index_bytes % TIME_ENTRY.size,
    )
    files: list[AppendFile] = []
    try:
        for kind, size, allocated_bytes in zip((LOG, INDEX, TIME_INDEX), sizes, allocated, strict=True):
            path = f"{directory}/{file_name(base_offset, kind, state)}"
            files.append(
                AppendFile(
                    path, size, allocated_bytes=allocated_bytes, writeback_from=sys.maxsize if state else 0
                )
            )
    except BaseException:
        for file in files:
            with contextlib.suppress(OSError):
                file.trim()
            file.close()
        raise
    return files[0], files[1], files[2]


def _first_max_timestamp(path: str) -> int:
    with DataFile(path) as file:
        for scanned in scan_file(file, 0, file.size_bytes, Window()):
            return int64s(scanned.batches, "maxTimestamp")[0] if scanned.batches.num_rows else -1
    return -1
