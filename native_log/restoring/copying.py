"""Copy the batches of one log into a new partition directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import truncate_from_end, update_leader_epochs
from native_log.checkpoints.partition_metadata import write_topic_id
from native_log.errors import CorruptRecordError, LostOffsetsError
from native_log.log.recovery.log_recovery import recover_log
from native_log.records import scan
from native_log.segment.chunks import BatchCursor
from native_log.segment.damage import before_wrong_crc, damage_in, damaged_range
from native_log.segment.files import LOG, file_name, parse_file_name
from native_log.segment.offset_index import MAX_RELATIVE_OFFSET
from native_log.segment.scan import int64s
from native_log.segment.search import BatchSearch
from native_log.storage import Window
from native_log.storage.ownership import create_directory
from native_log.storage.writing import AppendFile, fsync_directory, remove_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from native_log.checkpoints.leader_epochs import EpochEntry
    from native_log.config import LogConfig
    from native_log.log import LogRange
    from native_log.log.slices import SegmentSlice

_MOST_FILE_BYTES = 2**31 - 1


@dataclass(frozen=True, slots=True)
class CopiedLog:
    """A log in a new partition directory.

    Attributes:
        log_start_offset: its first offset. Its first batch may begin before it.
        log_end_offset: the offset after its last batch.
        size_bytes, segments: the size of its .log files, and their number.
    """

    log_start_offset: int
    log_end_offset: int
    size_bytes: int
    segments: int


def copy_log(
    source: LogRange,
    target: Path,
    topic_id: str | None,
    epochs: tuple[EpochEntry, ...],
    config: LogConfig,
    advance: Callable[[int], None],
) -> CopiedLog:
    """Copy the batches of a range, byte for byte, into the new directory `target`, and complete it.

    Indexes, transaction indexes and producer state are rebuilt from the batches. Everything is flushed to
    disk before this function returns. If a copy of the same range was interrupted, it continues with the file
    that was written last.

    Args:
        source: the range. Batches with offsets in it and outside are copied whole.
        target: the new partition directory, or one that an interrupted copy has left.
        topic_id: the topic id; None: unknown.
        epochs: the leader epochs of the source; empty: they are taken from the batches.
        config: the topic's settings, as far as they are known.
        advance: called with the number of bytes that were copied since the last call.

    Raises:
        CorruptRecordError: a batch is damaged.
        LostOffsetsError: offsets of the range are nowhere.
        OSError, KafkaLogError: reading or writing failed.
    """
    for lost in source.source.lost(source.span):
        raise LostOffsetsError(
            f"{lost.describe_loss()}; give `start` or `end` to restore the others",
            path=source.path,
            offset=lost.start_offset,
        )
    create_directory(target, exist_ok=True)
    files = _LogFiles(target)
    files.keep_finished(source.start_offset, source.end_offset)
    advance(files.size_bytes)
    # The files are cut where the source has batches that follow each other.
    rest = source.split_at([files.next_offset])[-1] if files.segments else source
    try:
        for segment_slice in rest.readable_slices():
            for data, batches in _valid_batches(segment_slice, source.max_batch_bytes):
                files.append(data, batches, segment_slice)
                advance(len(data))
    finally:
        files.close()
    if not files.segments:
        files.begin(source.start_offset)
        files.close()
    if topic_id is not None:
        write_topic_id(target, topic_id, flush=False)
    start = source.start_offset
    recovery = recover_log(target, recovery_point=0, log_start_offset=start, config=config)
    end = max(start, files.next_offset)
    if recovery.loses_data or recovery.log_end_offset != end:
        remove_tree(target)  # the next run must not continue here
        raise CorruptRecordError(
            f"expected a copy of whole, valid batches that ends at offset {end}, found its end at "
            f"{recovery.log_end_offset}: {recovery.reason}. The disk may be failing; restore to another one",
            path=target,
        )
    if epochs:
        update_leader_epochs(target, truncate_from_end(epochs, end))
    return CopiedLog(start, end, files.size_bytes, files.segments)


class _LogFiles:
    """The .log files of the new directory, written one after the other."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: AppendFile | None = None
        self._base_offset = 0
        self.next_offset = 0
        self.size_bytes = 0
        self.segments = 0

    def keep_finished(self, start_offset: int, end_offset: int) -> None:
        """Keep the files of an interrupted copy that were flushed to disk: all but the last one.

        Args:
            start_offset, end_offset: the range that is copied.
        """
        entries = list(os.scandir(self._directory))
        bases = sorted(base for entry in entries if (base := _base_offset(entry)) is not None)
        kept = bases[:-1] if bases and start_offset < bases[-1] < end_offset else []
        for entry in entries:
            if _base_offset(entry) in kept:
                self.size_bytes += entry.stat(follow_symlinks=False).st_size
            else:
                remove_tree(Path(entry.path))
        if kept:
            self._base_offset, self.next_offset, self.segments = kept[-1], bases[-1], len(kept)

    def append(self, data: memoryview, batches: pa.RecordBatch, source: SegmentSlice) -> None:
        """Append batches of a slice. They begin a new file where they begin one in the source.

        Slices of several copies can follow each other in one file. They begin another one where an index
        entry could not hold their offsets or positions.
        """
        last = int64s(batches, "lastOffset")[-1]
        first = batches.column("baseOffset")[0].as_py()
        base = source.segment.base_offset
        if self._file is None and source.start_position > 0:
            # The header of a compressed wrapper (magic 0 and 1) has only the offset of its last record.
            base = max(base, source.next_offset) if first is None else first
        if self._file is None or base >= max(self.next_offset, self._base_offset + 1):
            self.begin(base)
        elif (
            last - self._base_offset > MAX_RELATIVE_OFFSET
            or self._file.size_bytes + len(data) > _MOST_FILE_BYTES
        ):
            self.begin(self.next_offset)
        assert self._file is not None
        self._file.append(data)
        self.size_bytes += len(data)
        self.next_offset = last + 1

    def begin(self, base_offset: int) -> None:
        """Begin a file with this base offset."""
        self.close()
        path = self._directory / file_name(base_offset, LOG)
        self._file = AppendFile(str(path), exclusive=True)
        fsync_directory(self._directory)  # no later file is there without this one
        self._base_offset = base_offset
        self.segments += 1

    def close(self) -> None:
        """Flush the current file to disk, and close it."""
        if self._file is not None:
            self._file.flush()
            self._file.close()
            self._file = None


def _base_offset(entry: os.DirEntry[str]) -> int | None:
    """Return the base offset of a .log file; None if it is something else."""
    name = parse_file_name(entry.name)
    is_log = (
        name is not None and (name.kind, name.state) == (LOG, "") and entry.is_file(follow_symlinks=False)
    )
    return name.offset if name is not None and is_log else None


def _valid_batches(
    segment_slice: SegmentSlice, max_batch_bytes: int
) -> Iterator[tuple[memoryview, pa.RecordBatch]]:
    """Yield the batches of a slice, several at a time: their bytes, and their rows of BATCH_SCHEMA.

    The bytes are valid until the next step. Raises CorruptRecordError.
    """
    with segment_slice.open() as file:
        start, end = segment_slice.start_position, segment_slice.end_position
        file.will_read(start, end)
        order = segment_slice.order(file)
        search = BatchSearch(file, end, max_batch_bytes)
        cursor, window = BatchCursor(file, start, end, order, search=search), Window()
        while cursor.has_more:
            view, position = cursor.view(window), cursor.position
            scanned = before_wrong_crc(
                scan(
                    view,
                    base_position=position,
                    check_crcs=True,
                    max_batch_bytes=max_batch_bytes,
                    order=cursor.order,
                )
            )
            chunk = cursor.advance(scanned, len(view))
            if scanned.batches.num_rows:
                yield view[: cursor.position - position], scanned.batches
            damage = damage_in(cursor, chunk, max_batch_bytes)
            if damage is not None:
                order = cursor.order or order
                raise damaged_range(search, damage, order, order.next_offset).error()
