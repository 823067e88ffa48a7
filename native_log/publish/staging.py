"""Records of a task as files of whole batches, whose offsets are still to be given."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.errors import InvalidRecordError
from native_log.log.validation import LOG_APPEND_TIME, check_records, check_sizes
from native_log.records import encode
from native_log.segment.offset_index import MAX_RELATIVE_OFFSET
from native_log.segment.scan import int32s, int64s
from native_log.storage.writing import AppendFile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from native_log.config import LogConfig
    from native_log.publish.job import WriteJob

FLUSH_BYTES = 4 << 20
"""Records of a partition that are encoded at a time."""
MAX_BUFFERED_BYTES = 128 << 20
"""Records of all partitions that a task holds in memory."""
OWN_SEGMENT_BYTES = 16 << 20
"""Staged files from this size on become segments as they are; smaller ones are copied behind others. A copy
has to be written to the disk when all is waiting for it; a segment was, for the most part, long before."""
HEADERS = ".headers"
_MOST_UNDER_WAY = 2
_COLUMNS = ["position", "sizeInBytes", "baseOffset", "lastOffset", "maxTimestamp"]


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file of batches of one partition; beside it, `<name>.headers` has a row of each. Plain values.

    Attributes:
        topic, partition: whose they are.
        partition_dir: name of the directory in the log directory under which it lies.
        path: of the file.
        size_bytes, records: of it. Its offsets have no gaps, wherever they begin.
    """

    topic: str
    partition: int
    partition_dir: str
    path: str
    size_bytes: int
    records: int

    def headers(self) -> pa.RecordBatch:
        """A row of each batch: some columns of BATCH_SCHEMA."""
        with pa.memory_map(self.path + HEADERS) as file:
            table = pa.ipc.open_file(file).read_all().combine_chunks()
        return table.to_batches()[0]


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a producer makes batches of records.

    Attributes:
        compression, level: codec, and its level (None: its default).
        batch_size: about the bytes of a batch before compression.
        config: settings of the topic.
        now_ms: the time of records without one, and of appending.
    """

    compression: str
    level: int | None
    batch_size: int
    config: LogConfig
    now_ms: int


class StagingWriter:
    """What one attempt of a task writes, any number of partitions of any topics.

    Give it records, then `close`; if that is not reached, `abandon`. Encoding and writing go on in a thread
    of its own, while the next records come in.
    """

    def __init__(self, job: WriteJob, attempt: str, encoding: Encoding) -> None:
        """`attempt`: part of the files' names that no other attempt at any task of the job has."""
        self._job = job
        self._attempt = attempt
        self._encoding = encoding
        self._logs: dict[tuple[str, int], _StagedLog] = {}
        self._buffered_bytes = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kafkalog-encode")
        self._under_way: deque[Future[None]] = deque()

    def append(self, topic: str, partition: int, partition_dir: str, records: pa.RecordBatch) -> None:
        """Take records of one partition: see native_log.records.encode for the columns.

        Raises InvalidRecordError, InvalidTimestampError, RecordTooLargeError: records that a broker refuses.
        """
        check_records(records, self._encoding.config, self._encoding.now_ms, f"{topic}-{partition}")
        log = self._logs.get((topic, partition))
        if log is None:
            log = _StagedLog(topic, partition, partition_dir, self._job, self._attempt, self._encoding)
            self._logs[topic, partition] = log
        self._buffered_bytes += log.append(records)
        if log.buffered_bytes >= FLUSH_BYTES:
            self._flush(log)
        if self._buffered_bytes > MAX_BUFFERED_BYTES:
            for one in self._logs.values():
                self._flush(one)

    def close(self) -> list[StagedFile]:
        """Everything encoded, written, and told.

        Raises as `append`; KafkaLogError if the job was aborted.
        """
        for log in self._logs.values():
            self._flush(log)
        self._wait(0)
        self._thread.shutdown()
        staged = [file for log in self._logs.values() for file in log.close()]
        self._job.check()
        return staged

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._thread.shutdown(cancel_futures=True)
        for log in self._logs.values():
            log.abandon()
        if not self._job.mark.exists():  # the job has ended, and may have tidied up before these were made
            for log in self._logs.values():
                folder = self._job.folder(log.partition_dir)
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    if log.partition_dir.endswith("-delete"):
                        folder.parent.rmdir()

    def _flush(self, log: _StagedLog) -> None:
        self._buffered_bytes -= log.buffered_bytes
        records = log.take()
        if records:
            self._under_way.append(self._thread.submit(log.write, records))
        self._wait(_MOST_UNDER_WAY)

    def _wait(self, most: int) -> None:
        while len(self._under_way) > most:
            self._under_way.popleft().result()


@dataclass(slots=True)
class _StagedLog:
    """One partition's part: files that are rolled as segments are, so that each can be one."""

    topic: str
    partition: int
    partition_dir: str
    job: WriteJob
    attempt: str
    encoding: Encoding
    buffered_bytes: int = 0
    _buffer: list[pa.RecordBatch] = field(default_factory=list)
    _file: _OpenFile | None = None
    _done: list[StagedFile] = field(default_factory=list)
    _records: int = 0
    _ratio: float = 1.0

    def append(self, records: pa.RecordBatch) -> int:
        """Keep records until they are taken; how many bytes they are."""
        size_bytes = int(records.nbytes)
        self._buffer.append(records)
        self.buffered_bytes += size_bytes
        return size_bytes

    def take(self) -> list[pa.RecordBatch]:
        """What was kept."""
        taken, self._buffer, self.buffered_bytes = self._buffer, [], 0
        return taken

    def write(self, parts: Sequence[pa.RecordBatch]) -> None:
        """Encode records and write them."""
        records = _as_one(parts)
        how = self.encoding
        is_append_time = how.config.message_timestamp_type == LOG_APPEND_TIME
        try:
            encoded = encode(
                records,
                compression=how.compression,
                level=how.level,
                batch_size=how.batch_size,
                max_message_bytes=how.config.max_message_bytes,
                base_offset=self._records,
                timestamp_type=1 if is_append_time else 0,
                append_time_ms=how.now_ms if is_append_time else -1,
                now_ms=how.now_ms,
                estimated_ratio=self._ratio,
            )
        except InvalidRecordError as error:
            raise type(error)(error.message, path=self._name) from None
        check_sizes(int32s(encoded.batches, "sizeInBytes").tolist(), how.config, self._name)
        self._records, self._ratio = self._records + records.num_rows, encoded.estimated_ratio
        data, batches = memoryview(encoded.data).cast("B"), encoded.batches
        while batches.num_rows:
            file = self._file = self._file or self._open()
            count = file.room_for(batches, how.config) or (0 if file.records else 1)
            if count:
                size = sum(int32s(batches.slice(0, count), "sizeInBytes"))
                file.append(data[:size], batches.slice(0, count))
                data, batches = data[size:], batches.slice(count)
            if batches.num_rows:
                self._close_file()

    def close(self) -> list[StagedFile]:
        self._close_file()
        return self._done

    def abandon(self) -> None:
        if self._file is not None:
            self._file.remove()
        for one in self._done:
            for path in (one.path, one.path + HEADERS):
                with contextlib.suppress(OSError):
                    os.unlink(path)  # noqa: PTH108

    @property
    def _name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def _open(self) -> _OpenFile:
        self.job.check()
        folder = self.job.folder(self.partition_dir)
        folder.mkdir(parents=self.partition_dir.endswith("-delete"), exist_ok=True)
        return _OpenFile.create(folder / f"{self.attempt}-{len(self._done)}.batches")

    def _close_file(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()
            self._done.append(
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
    records: int = 0
    first_ms: int = -1
    first_offset: int = 0
    batches: int = 0
    headers: list[pa.RecordBatch] = field(default_factory=list)

    @classmethod
    def create(cls, path: Path) -> _OpenFile:
        return cls(AppendFile(str(path), sent_from=OWN_SEGMENT_BYTES))

    def room_for(self, batches: pa.RecordBatch, config: LogConfig) -> int:
        """How many of the batches still go into a segment with those before."""
        most_entries = min(config.segment_index_bytes // 8, config.segment_index_bytes // 12 - 1)
        sizes, times = int32s(batches, "sizeInBytes"), int64s(batches, "maxTimestamp")
        lasts = int64s(batches, "lastOffset")
        size, first_ms = self.log.size_bytes, self.first_ms
        room = 0
        for size_bytes, time_ms, last in zip(sizes, times, lasts, strict=True):
            if size:
                entries = min(self.batches + room, size // (config.index_interval_bytes + 1))
                too_long = first_ms >= 0 and time_ms - first_ms > config.max_segment_ms
                if size + size_bytes > config.segment_bytes or too_long or entries >= most_entries:
                    break
                if last - self.first_offset > MAX_RELATIVE_OFFSET:
                    break
            else:
                first_ms = time_ms
            size += size_bytes
            room += 1
        return room

    def append(self, data: memoryview, batches: pa.RecordBatch) -> None:
        position, first = self.log.size_bytes, int64s(batches, "baseOffset")[0]
        if position == 0:
            self.first_ms = int64s(batches, "maxTimestamp")[0]
            self.first_offset = first
        self.log.append(data)
        rows = batches.select(_COLUMNS)
        in_file = pc.add(rows.column("position"), position - int64s(rows, "position")[0])
        self.headers.append(rows.set_column(0, "position", in_file))
        self.records += int64s(batches, "lastOffset")[batches.num_rows - 1] - first + 1
        self.batches += batches.num_rows

    def close(self) -> None:
        # Not flushed: offsets are still to come into every batch, and then into most of its pages.
        self.log.close()
        table = pa.Table.from_batches(self.headers).combine_chunks()
        with pa.OSFile(self.log.path + HEADERS, "wb") as out, pa.ipc.new_file(out, table.schema) as ipc:
            ipc.write_table(table)

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self.log.close()
        for path in (self.log.path, self.log.path + HEADERS):
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108


def _as_one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
