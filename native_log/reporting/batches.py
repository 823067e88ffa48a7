"""Read batch headers: the first and the last batch of a log, or all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.log.producers.open_transactions import OpenTransactions
from native_log.records import scan_headers
from native_log.reporting.figures import CodecFigures
from native_log.segment.scan import first_at_least

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from native_log.log import PartitionLog
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment


_FIRST_TIMES = ("baseTimestamp", "maxTimestamp")


def first_time_ms(log: PartitionLog, index: int = 0) -> int | None:
    """Return the time of the first batch in the segment with this index or a later one; None: unknown."""
    segment = next((segment for segment in log.segments[index:] if segment.size_bytes), None)
    if segment is None:
        return None
    first = _first_header(log, segment)
    if first is not None:
        return _time(*(times[0] for times in first.columns))
    for batches in headers(log, segment.base_offset):
        if batches.num_rows:
            return _time(batches.column("baseTimestamp")[0], batches.column("maxTimestamp")[0])
    return None


def last_time_ms(log: PartitionLog) -> int | None:
    """Return the time of the last batch; None: unknown, or the log is empty."""
    if log.log_end_offset <= log.local_log_start_offset:
        return None
    known = log.state.tail.last_timestamp_ms
    if known is not None:
        return known if known >= 0 else None
    last = None
    for batches in headers(log, log.log_end_offset - 1):
        if batches.num_rows:
            last = batches
    return None if last is None else _time(last.column("maxTimestamp")[last.num_rows - 1])


def _first_header(log: PartitionLog, segment: LogSegment) -> pa.RecordBatch | None:
    """Return the first batch of a segment (_FIRST_TIMES, one row); None if the bytes are damaged."""
    read = partial(scan_headers, max_rows=1, max_batch_bytes=log.max_batch_bytes, columns=_FIRST_TIMES)
    with segment.open() as file:
        end = min(file.size_bytes, log.state.end_position(segment))
        try:
            scanned = file.read_by(read, 0, min(end, file.step_from(0)))
        except EOFError:  # a broker has truncated the file meanwhile
            return None
    return scanned.batches if scanned.batches.num_rows else None


def time_of_offset(log: PartitionLog, offset: int) -> int | None:
    """Return the time of the batch with this offset; None: unknown, or the batch is not in the log."""
    if offset < log.local_log_start_offset:
        return None
    for batches in headers(log, offset):
        index = first_at_least(batches, "lastOffset", offset)
        if index is not None:
            return _time(batches.column("baseTimestamp")[index], batches.column("maxTimestamp")[index])
    return None


def headers(log: PartitionLog, start_offset: int | None) -> Iterator[pa.RecordBatch]:
    """Yield batches (BATCH_SCHEMA) from the one with `start_offset` on. Damage is skipped."""
    for _, scanned in log.state.headers(start_offset, lambda _: None):
        yield scanned.batches


def _time(*candidates: pa.Scalar) -> int | None:
    """Return the first timestamp that there is. Batches of magic 0 have -1."""
    times = (time.as_py() for time in candidates)
    return next((time for time in times if time is not None and time >= 0), None)


@dataclass(slots=True)
class BatchPass:
    """One pass over the headers of all batches of a log.

    Attributes:
        largest_timestamps: the largest timestamp of a segment, by its base offset.
        codecs: by name.
        damaged_ranges: the number of byte ranges without valid headers.
        undecided: the transactions without a marker.
    """

    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None
    largest_timestamps: dict[int, int] = field(default_factory=dict)
    codecs: dict[str, CodecFigures] = field(default_factory=dict)
    damaged_ranges: int = 0
    undecided: OpenTransactions = field(default_factory=OpenTransactions)

    @classmethod
    def over(cls, log: PartitionLog) -> Self:
        """Read the headers of all batches of the log."""
        result = cls()
        for segment, scanned in log.state.headers(None, result._count_damage):
            if scanned.batches.num_rows:
                result._add(segment.base_offset, scanned.batches)
        return result

    def _count_damage(self, _: DamagedRange) -> None:
        self.damaged_ranges += 1

    def _add(self, base_offset: int, batches: pa.RecordBatch) -> None:
        if self.first_timestamp_ms is None:
            self.first_timestamp_ms = _time(
                batches.column("baseTimestamp")[0], batches.column("maxTimestamp")[0]
            )
        largest = pc.max(batches.column("maxTimestamp")).as_py()
        if largest is not None and largest >= 0:
            self.largest_timestamps[base_offset] = max(largest, self.largest_timestamps.get(base_offset, 0))
        last = _time(batches.column("maxTimestamp")[batches.num_rows - 1])
        self.last_timestamp_ms = self.last_timestamp_ms if last is None else last
        for codec, figures in codec_figures(batches).items():
            self.codecs[codec] = self.codecs.get(codec, CodecFigures()) + figures
        self.undecided.apply(batches)


def codec_figures(batches: pa.RecordBatch) -> dict[str, CodecFigures]:
    """Return the number and size of batches (BATCH_SCHEMA) by codec."""
    codecs, sizes = batches.column("compression"), batches.column("sizeInBytes")
    figures = {}
    for codec in codecs.unique():
        sizes_of_codec = sizes.filter(pc.equal(codecs, codec))
        figures[codec.as_py()] = CodecFigures(len(sizes_of_codec), pc.sum(sizes_of_codec).as_py())
    return figures
