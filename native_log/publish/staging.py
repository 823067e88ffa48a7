"""Encode a task's records into staged files: files of whole batches that get their offsets at the commit."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.log.writing.roll import ActiveSegment, count_fitting_batches
from native_log.log.writing.validation import check_records
from native_log.segment.entries import OFFSET_ENTRY, TIME_ENTRY
from native_log.segment.scan import int32s, int64s
from native_log.storage import read_file
from native_log.storage.opening import make_folder
from native_log.storage.writing import AppendFile, write_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from native_log.config import LogConfig
    from native_log.log.writing.record_encoding import RecordEncoder
    from native_log.publish.job import WriteJob
    from native_log.records.encoding import Part

ENCODE_BYTES = 2 << 20
"""Encode the records of a partition when this many bytes are buffered: they still fit into the CPU cache."""
MAX_BUFFERED_BYTES = 64 << 20
"""Encode the records of all partitions each time this many bytes were appended: a few buffered rows keep the
whole Arrow batch they belong to in memory. Also the limit for records that do not fill a batch yet."""
MAX_REMAINDER_BYTES = 4 << 20
"""Write an incomplete batch of a partition when its records have this many bytes before compression."""
MAX_PENDING_BYTES = 16 << 20
"""Wait for the encoding thread when it has more than this many bytes of records to encode."""
OWN_SEGMENT_BYTES = 16 << 20
"""A staged file of at least this size becomes a segment. A smaller one is appended to the last segment if
it fits."""
_EARLY_WRITEBACK_BATCH_BYTES = 48 << 10
"""If batches have at least this average size, start writing a file that becomes a segment to the disk while
the task runs. With smaller batches that is a waste: the commit changes a page of each batch, and writing all
these pages again takes longer than writing the file once."""
STAGED_LEADER_EPOCH = 0
"""The leader epoch of staged batches, which is that of a new log."""
HEADERS_SUFFIX = ".headers"
_HEADER_COLUMNS = ["sizeInBytes", "baseOffset", "lastOffset", "maxTimestamp"]


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file of batches of one partition. Contains plain values only.

    The file `<path>.headers` next to it has one row for each batch.

    Attributes:
        topic, partition: the partition of the records.
        partition_dir: name of the directory, within the log directory, that contains the staging folder.
        path: path of the file.
        size_bytes: size of the file.
        records: number of records. Their offsets have no gaps and may start anywhere.
    """

    topic: str
    partition: int
    partition_dir: str
    path: str
    size_bytes: int
    records: int

    def headers(self) -> pa.RecordBatch:
        """Read one row for each batch: some columns of BATCH_SCHEMA."""
        data = pa.py_buffer(read_file(self.path + HEADERS_SUFFIX))
        return pa.ipc.open_file(data).read_all().combine_chunks().to_batches()[0]


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """One attempt at a task of a job.

    Attributes:
        job: the job.
        name: part of the file names; unique among all attempts at all tasks of the job.
        encoding: how to encode records into batches.
        config: the settings of topics.
        now_ms: the timestamp of records without one, and the append time.
        topics: encoding and settings of those topics that have their own.
    """

    job: WriteJob
    name: str
    encoding: RecordEncoder
    config: LogConfig
    now_ms: int
    topics: Mapping[str, tuple[RecordEncoder, LogConfig]] = field(default_factory=dict)

    def topic_settings(self, topic: str) -> tuple[RecordEncoder, LogConfig]:
        """Return the encoding and settings of a topic."""
        return self.topics.get(topic, (self.encoding, self.config))


class StagingWriter:
    """Write the staged files of one attempt at a task, for any number of partitions and topics.

    Append records, then call `close`, or `abort` after an error. A thread encodes and writes the records
    while the caller prepares the next ones.
    """

    def __init__(self, attempt: TaskAttempt) -> None:
        self._attempt = attempt
        self._partitions: dict[tuple[str, int], _StagedPartition] = {}
        self._buffered_bytes = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kafkalog-encode")
        self._pending: deque[tuple[Future[None], int]] = deque()
        self._pending_bytes = 0

    def append(
        self,
        topic: str,
        partition: int,
        partition_dir: str,
        records: pa.RecordBatch,
        rows: pa.Array | None = None,
    ) -> None:
        """Append records to one partition.

        Args:
            records: see native_log.records.encoding for the columns.
            rows: indices of the rows to append (uint32, no nulls); None: all.

        Raises InvalidRecordError, InvalidTimestampError, RecordTooLargeError for a record that a broker would
        reject.
        """
        staged = self._partitions.get((topic, partition))
        if staged is None:
            staged = _StagedPartition(topic, partition, partition_dir, self._attempt)
            self._partitions[topic, partition] = staged
        self._buffered_bytes += staged.append(records, rows)
        if staged.buffered_bytes >= ENCODE_BYTES:
            self._encode(staged)
        if self._buffered_bytes > MAX_BUFFERED_BYTES:
            self._buffered_bytes = 0
            remainder_bytes = sum(each.remainder_bytes for each in self._partitions.values())
            for each in self._partitions.values():
                self._encode(each, finish=remainder_bytes > MAX_BUFFERED_BYTES)

    def close(self) -> list[StagedFile]:
        """Encode and write all remaining records. Return the files.

        Raises as `append`; KafkaLogError if the job was aborted.
        """
        for partition in self._partitions.values():
            self._encode(partition, finish=True)
        while self._pending:
            self._wait_for_first()
        self._thread.shutdown()
        staged = [file for partition in self._partitions.values() for file in partition.close()]
        self._attempt.job.check()
        return staged

    def abort(self) -> None:
        """Stop encoding and remove all files of this attempt."""
        self._thread.shutdown(cancel_futures=True)
        for partition in self._partitions.values():
            partition.abort()
        job = self._attempt.job
        # If the job has ended, it may have removed its folders before this attempt created some of them.
        if not job.marker.exists():
            for partition in self._partitions.values():
                folder = job.staging_folder(partition.partition_dir)
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    if partition.partition_dir.endswith("-delete"):
                        folder.parent.rmdir()

    def _encode(self, partition: _StagedPartition, *, finish: bool = False) -> None:
        """Let the thread encode the buffered records; with `finish`, write an incomplete batch as well."""
        size_bytes = partition.buffered_bytes
        future = self._thread.submit(partition.write, partition.take_buffer(), finish)
        self._pending.append((future, size_bytes))
        self._pending_bytes += size_bytes
        while self._pending_bytes > MAX_PENDING_BYTES:
            self._wait_for_first()

    def _wait_for_first(self) -> None:
        future, size_bytes = self._pending.popleft()
        self._pending_bytes -= size_bytes
        future.result()


@dataclass(slots=True)
class _StagedPartition:
    """The records of one partition. Its files are rolled like segments, so that each can become a segment.

    Attributes:
        buffered_bytes: approximate size of the records that were appended and not yet taken for encoding.
        remainder_bytes: approximate size of the records that `write` has kept because they do not fill a
            batch.
    """

    topic: str
    partition: int
    partition_dir: str
    attempt: TaskAttempt
    buffered_bytes: int = 0
    remainder_bytes: int = 0
    _buffer: list[Part] = field(default_factory=list)
    _remainder: list[Part] = field(default_factory=list)
    _file: _OpenFile | None = None
    _closed_files: list[StagedFile] = field(default_factory=list)
    _appended_rows: int = 0
    _written_rows: int = 0
    _estimated_ratio: float = 1.0

    def append(self, records: pa.RecordBatch, rows: pa.Array | None) -> int:
        """Check and buffer records. Return their approximate size in bytes."""
        _, config = self.attempt.topic_settings(self.topic)
        check_records(records, config, self.attempt.now_ms, self._name, self._appended_rows, rows)
        size_bytes, count = int(records.nbytes), records.num_rows
        if rows is not None:
            size_bytes, count = size_bytes * len(rows) // max(1, count), len(rows)
        self._appended_rows += count
        self._buffer.append((records, rows))
        self.buffered_bytes += size_bytes
        return size_bytes

    def take_buffer(self) -> list[Part]:
        """Return the buffered records and empty the buffer."""
        taken, self._buffer, self.buffered_bytes = self._buffer, [], 0
        return taken

    def write(self, parts: Sequence[Part], finish: bool) -> None:
        """Encode and write records. Keep those that do not fill a batch, unless `finish` is set."""
        pending = [*self._remainder, *parts]
        encoding, config = self.attempt.topic_settings(self.topic)
        encoded = encoding.encode(
            pending,
            config,
            self.attempt.now_ms,
            self._name,
            base_offset=self._written_rows,
            leader_epoch=STAGED_LEADER_EPOCH,
            first_row=self._written_rows,
            estimated_ratio=self._estimated_ratio,
            finish=finish or self.remainder_bytes >= MAX_REMAINDER_BYTES,
        )
        self._written_rows += encoded.rows
        self._estimated_ratio = encoded.estimated_ratio
        self._remainder = list(_copy_after(pending, encoded.rows))
        self.remainder_bytes = sum(int(records.nbytes) for records, _ in self._remainder)
        data, batches = memoryview(encoded.data).cast("B"), encoded.batches
        while batches.num_rows:
            file = self._file = self._file or self._open(batches)
            count = file.count_fitting(batches, config, self.attempt.now_ms) or (0 if file.records else 1)
            if count == 0:
                self._close_file()
                continue
            size = len(data) if count == batches.num_rows else sum(int32s(batches, "sizeInBytes")[:count])
            file.append(data[:size], batches.slice(0, count))
            data, batches = data[size:], batches.slice(count)

    def close(self) -> list[StagedFile]:
        """Close the last file. Return all files."""
        self._close_file()
        return self._closed_files

    def abort(self) -> None:
        """Remove all files."""
        if self._file is not None:
            self._file.remove()
        for file in self._closed_files:
            for path in (file.path, file.path + HEADERS_SUFFIX):
                with contextlib.suppress(OSError):
                    os.unlink(path)  # noqa: PTH108

    @property
    def _name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def _open(self, batches: pa.RecordBatch) -> _OpenFile:
        job = self.attempt.job
        job.check()
        folder = job.staging_folder(self.partition_dir)
        if self.partition_dir.endswith("-delete"):
            make_folder(folder.parent)
        make_folder(folder)
        path = folder / f"{self.attempt.name}-{len(self._closed_files)}.batches"
        are_large = sum(int32s(batches, "sizeInBytes")) >= _EARLY_WRITEBACK_BATCH_BYTES * batches.num_rows
        log = AppendFile(str(path), writeback_from=OWN_SEGMENT_BYTES if are_large else sys.maxsize)
        return _OpenFile(log, int64s(batches, "baseOffset")[0])

    def _close_file(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()
            self._closed_files.append(
                StagedFile(
                    self.topic,
                    self.partition,
                    self.partition_dir,
                    file.log.path,
                    file.log.size_bytes,
                    file.records,
                )
            )


@dataclass(slots=True)
class _OpenFile:
    log: AppendFile
    first_offset: int
    records: int = 0
    first_ms: int = -1
    batches: int = 0
    headers: list[pa.RecordBatch] = field(default_factory=list)

    def count_fitting(self, batches: pa.RecordBatch, config: LogConfig, now_ms: int) -> int:
        """Return how many of the batches still fit into a segment that has the batches of this file."""
        size_bytes = self.log.size_bytes
        max_entries = min(
            config.segment_index_bytes // OFFSET_ENTRY.size, config.segment_index_bytes // TIME_ENTRY.size - 1
        )
        entries = min(self.batches, size_bytes // (config.index_interval_bytes + 1))
        segment = ActiveSegment(
            self.first_offset, size_bytes, max(0, max_entries - entries), self.first_ms, now_ms
        )
        return count_fitting_batches(
            segment,
            config,
            int32s(batches, "sizeInBytes"),
            int64s(batches, "maxTimestamp"),
            int64s(batches, "lastOffset"),
            now_ms,
        )

    def append(self, data: memoryview, batches: pa.RecordBatch) -> None:
        if self.log.size_bytes == 0:
            self.first_ms = int64s(batches, "maxTimestamp")[0]
        self.log.append(data)
        self.headers.append(batches.select(_HEADER_COLUMNS))
        first, last = int64s(batches, "baseOffset")[0], int64s(batches, "lastOffset")[-1]
        self.records += last - first + 1
        self.batches += batches.num_rows

    def close(self) -> None:
        # Do not flush: the commit writes an offset into every batch, which changes most pages again.
        self.log.close()
        table = pa.Table.from_batches(self.headers).combine_chunks()
        sizes = table.column("sizeInBytes").cast(pa.int64())
        table = table.append_column("position", pc.subtract(pc.cumulative_sum(sizes), sizes))
        content = pa.BufferOutputStream()
        with pa.ipc.new_file(content, table.schema) as ipc:
            ipc.write_table(table)
        write_file(self.log.path + HEADERS_SUFFIX, content.getvalue())

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self.log.close()
        for path in (self.log.path, self.log.path + HEADERS_SUFFIX):
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108


def _copy_after(parts: Sequence[Part], count: int) -> Iterator[Part]:
    """Copy the records after the first `count`, so that the batches they belong to can be freed."""
    for records, rows in parts:
        size = records.num_rows if rows is None else len(rows)
        if count < size:
            rest = pa.array(range(count, size), pa.uint32()) if rows is None else rows.slice(count)
            yield records.take(rest), None
        count = max(0, count - size)
