"""Records of a task as files of whole batches, whose offsets are still to be given."""

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

from native_log.log.writing.roll import ActiveSegment, batches_that_fit
from native_log.log.writing.validation import check_records
from native_log.segment.entries import OFFSET_ENTRY, TIME_ENTRY
from native_log.segment.scan import int32s, int64s
from native_log.storage.writing import AppendFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from native_log.config import LogConfig
    from native_log.log.writing.encoding import Encoding
    from native_log.publish.job import WriteJob
    from native_log.records.encode import Part

FLUSH_BYTES = 2 << 20
"""Records of a partition that are encoded at a time: they are in the CPU's cache then."""
MAX_HELD_BYTES = 64 << 20
"""After so many all records are encoded: a few that are left of each batch that came keep all of it in
memory. As many, of all partitions, may be left over that do not fill a batch."""
MAX_REST_BYTES = 4 << 20
"""A batch with as many bytes before compression is not waited for to be filled."""
MAX_UNDER_WAY_BYTES = 16 << 20
"""Records that may wait to be encoded."""
OWN_SEGMENT_BYTES = 16 << 20
"""Staged files from this size on become segments as they are; smaller ones are copied behind others."""
_SENT_BATCH_BYTES = 48 << 10
"""Of larger batches, what becomes a segment is sent to the disk while the task goes on. Of smaller ones that
would be waste: the commit changes a page of each, and to write all these again takes longer than the file."""
STAGED_EPOCH = 0
"""The leader epoch of staged batches: that of a new log."""
HEADERS = ".headers"
_COLUMNS = ["sizeInBytes", "baseOffset", "lastOffset", "maxTimestamp"]


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
class Attempt:
    """One attempt at a task of a job.

    Attributes:
        job: whose files they are.
        name: part of the files' names that no other attempt at any task of the job has.
        encoding: how its records become batches.
        config: settings of the topics.
        now_ms: the time of records without one, and of appending.
        topics: encoding and settings of topics that have their own.
    """

    job: WriteJob
    name: str
    encoding: Encoding
    config: LogConfig
    now_ms: int
    topics: Mapping[str, tuple[Encoding, LogConfig]] = field(default_factory=dict)

    def of_topic(self, topic: str) -> tuple[Encoding, LogConfig]:
        return self.topics.get(topic, (self.encoding, self.config))


class StagingWriter:
    """What one attempt of a task writes, any number of partitions of any topics.

    Give it records, then `close`; if that is not reached, `abandon`. Encoding and writing go on in a thread
    of its own, while the next records come in.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._logs: dict[tuple[str, int], _StagedLog] = {}
        self._held_bytes = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kafkalog-encode")
        self._under_way: deque[tuple[Future[None], int]] = deque()
        self._under_way_bytes = 0

    def append(
        self,
        topic: str,
        partition: int,
        partition_dir: str,
        records: pa.RecordBatch,
        rows: pa.Array | None = None,
    ) -> None:
        """Take records of one partition.

        Args:
            records: see native_log.records.encode for the columns.
            rows: the numbers of those that are meant (uint32, no nulls); None: all.

        Raises InvalidRecordError, InvalidTimestampError, RecordTooLargeError: records that a broker refuses.
        """
        log = self._logs.get((topic, partition))
        if log is None:
            log = self._logs[topic, partition] = _StagedLog(topic, partition, partition_dir, self._attempt)
        self._held_bytes += log.append(records, rows)
        if log.buffered_bytes >= FLUSH_BYTES:
            self._flush(log)
        if self._held_bytes > MAX_HELD_BYTES:
            self._held_bytes = 0
            many_left = sum(one.rest_bytes for one in self._logs.values()) > MAX_HELD_BYTES
            for one in self._logs.values():
                self._flush(one, finish=many_left)

    def close(self) -> list[StagedFile]:
        """Everything encoded, written, and told.

        Raises as `append`; KafkaLogError if the job was aborted.
        """
        for log in self._logs.values():
            self._flush(log, finish=True)
        while self._under_way:
            self._wait_for_one()
        self._thread.shutdown()
        staged = [file for log in self._logs.values() for file in log.close()]
        self._attempt.job.check()
        return staged

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._thread.shutdown(cancel_futures=True)
        for log in self._logs.values():
            log.abandon()
        if (
            not self._attempt.job.mark.exists()
        ):  # the job has ended, and may have tidied up before these were made
            for log in self._logs.values():
                folder = self._attempt.job.folder(log.partition_dir)
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    if log.partition_dir.endswith("-delete"):
                        folder.parent.rmdir()

    def _flush(self, log: _StagedLog, *, finish: bool = False) -> None:
        """Have a log's records encoded; `finish`: those too that do not fill a batch."""
        size_bytes = log.buffered_bytes
        self._under_way.append((self._thread.submit(log.write, log.take(), finish), size_bytes))
        self._under_way_bytes += size_bytes
        while self._under_way_bytes > MAX_UNDER_WAY_BYTES:
            self._wait_for_one()

    def _wait_for_one(self) -> None:
        written, size_bytes = self._under_way.popleft()
        self._under_way_bytes -= size_bytes
        written.result()


@dataclass(slots=True)
class _StagedLog:
    """One partition's part: files that are rolled as segments are, so that each can be one.

    Attributes:
        buffered_bytes: about how large the records are that are kept until they are taken.
        rest_bytes: and those that were written, but for the batch that they do not fill.
    """

    topic: str
    partition: int
    partition_dir: str
    attempt: Attempt
    buffered_bytes: int = 0
    rest_bytes: int = 0
    _buffer: list[Part] = field(default_factory=list)
    _rest: list[Part] = field(default_factory=list)
    _file: _OpenFile | None = None
    _done: list[StagedFile] = field(default_factory=list)
    _taken: int = 0
    _written: int = 0
    _ratio: float = 1.0

    def append(self, records: pa.RecordBatch, rows: pa.Array | None) -> int:
        """Keep records until they are taken; about how many bytes they are."""
        _, config = self.attempt.of_topic(self.topic)
        check_records(records, config, self.attempt.now_ms, self._name, self._taken, rows)
        size_bytes, count = int(records.nbytes), records.num_rows
        if rows is not None:
            size_bytes, count = size_bytes * len(rows) // max(1, count), len(rows)
        self._taken += count
        self._buffer.append((records, rows))
        self.buffered_bytes += size_bytes
        return size_bytes

    def take(self) -> list[Part]:
        """What was kept."""
        taken, self._buffer, self.buffered_bytes = self._buffer, [], 0
        return taken

    def write(self, parts: Sequence[Part], finish: bool) -> None:
        """Encode and write records; those that do not fill a batch with the next ones, or if `finish`."""
        given = [*self._rest, *parts]
        encoding, config = self.attempt.of_topic(self.topic)
        encoded = encoding.encode(
            given,
            config,
            self.attempt.now_ms,
            self._name,
            base_offset=self._written,
            leader_epoch=STAGED_EPOCH,
            first_row=self._written,
            estimated_ratio=self._ratio,
            finish=finish or self.rest_bytes >= MAX_REST_BYTES,
        )
        self._written, self._ratio = self._written + encoded.rows, encoded.estimated_ratio
        self._rest = list(_copied_behind(given, encoded.rows))
        self.rest_bytes = sum(int(records.nbytes) for records, _ in self._rest)
        data, batches = memoryview(encoded.data).cast("B"), encoded.batches
        while batches.num_rows:
            file = self._file = self._file or self._open(batches)
            count = file.room_for(batches, config, self.attempt.now_ms) or (0 if file.records else 1)
            if count == 0:
                self._close_file()
                continue
            size = len(data) if count == batches.num_rows else sum(int32s(batches, "sizeInBytes")[:count])
            file.append(data[:size], batches.slice(0, count))
            data, batches = data[size:], batches.slice(count)

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

    def _open(self, batches: pa.RecordBatch) -> _OpenFile:
        job = self.attempt.job
        job.check()
        folder = job.folder(self.partition_dir)
        folder.mkdir(parents=self.partition_dir.endswith("-delete"), exist_ok=True)
        path = folder / f"{self.attempt.name}-{len(self._done)}.batches"
        are_large = sum(int32s(batches, "sizeInBytes")) >= _SENT_BATCH_BYTES * batches.num_rows
        log = AppendFile(str(path), sent_from=OWN_SEGMENT_BYTES if are_large else sys.maxsize)
        return _OpenFile(log, int64s(batches, "baseOffset")[0])

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
    first_offset: int
    records: int = 0
    first_ms: int = -1
    batches: int = 0
    headers: list[pa.RecordBatch] = field(default_factory=list)

    def room_for(self, batches: pa.RecordBatch, config: LogConfig, now_ms: int) -> int:
        """How many of the batches still go into a segment with those before."""
        size_bytes = self.log.size_bytes
        most_entries = min(
            config.segment_index_bytes // OFFSET_ENTRY.size, config.segment_index_bytes // TIME_ENTRY.size - 1
        )
        entries = min(self.batches, size_bytes // (config.index_interval_bytes + 1))
        segment = ActiveSegment(
            self.first_offset, size_bytes, max(0, most_entries - entries), self.first_ms, now_ms
        )
        return batches_that_fit(
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
        self.headers.append(batches.select(_COLUMNS))
        first, last = int64s(batches, "baseOffset")[0], int64s(batches, "lastOffset")[-1]
        self.records += last - first + 1
        self.batches += batches.num_rows

    def close(self) -> None:
        # Not flushed: offsets are still to come into every batch, and then into most of its pages.
        self.log.close()
        table = pa.Table.from_batches(self.headers).combine_chunks()
        sizes = table.column("sizeInBytes").cast(pa.int64())
        table = table.append_column("position", pc.subtract(pc.cumulative_sum(sizes), sizes))
        with pa.OSFile(self.log.path + HEADERS, "wb") as out, pa.ipc.new_file(out, table.schema) as ipc:
            ipc.write_table(table)

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self.log.close()
        for path in (self.log.path, self.log.path + HEADERS):
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108


def _copied_behind(parts: Sequence[Part], count: int) -> Iterator[Part]:
    """What comes behind the first `count` records: copies, that what they came in need not stay in memory."""
    for records, rows in parts:
        size = records.num_rows if rows is None else len(rows)
        if count < size:
            left = pa.array(range(count, size), pa.uint32()) if rows is None else rows.slice(count)
            yield records.take(left), None
        count = max(0, count - size)
