"""The results of calls, and limits of batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

DEFAULT_MAX_BATCH_BYTES = 256 << 20
"""The default limit for the bytes of one batch, as stored and as decompressed. It is far above the limit of
brokers (`max.message.bytes`, 1 MiB by default): only a false size or a decompression bomb exceeds it.

It also bounds memory. The records of a batch become rows together, even if `max_rows` is smaller. A record
has at least 7 bytes, so there can be 38 million of them. With the usual columns they take about 30 bytes
each, 1.2 GB in addition to the batch itself. Compaction needs memory for the decompressed batch to read its
keys (0.27 GB), as much again to write a batch without some of its records (0.54 GB), and up to 0.75 GB where
a delete horizon makes the timestamp of each such record longer. Lower the limit where that is too much."""

MAX_BATCH_BYTES = 2**31 + 11
"""The largest batch that the size field can express: the limit where only the checksum shall decide."""

CORRUPT_RECORD = "_corrupt_record"
"""Name of the column (string) that says what is wrong with damaged bytes; null in the rows of records."""


ListedSegment = tuple[str, int, int, int, int, str | None, str | None, str | None]
"""Name, base offset, size in bytes, inode number and modification time in ms of a `.log` file; the names of
its offset, time and transaction index."""

ListedLog = tuple[list[ListedSegment], list[tuple[int, str]], tuple[int, int, int, int] | None]
"""The segments of a log by ascending base offset; offset and name of producer snapshots, newest first; and of
a last segment that is small and undamaged: the offset after its last record, position and largest timestamp
of its last batch, and the largest timestamp of all batches."""


class OffsetOrder(NamedTuple):
    """What is known of the offsets of the batches in a part of a segment.

    Offsets increase from batch to batch. No CRC covers the base offset, so only this rule detects a duplicate
    batch or a changed offset. A batch is damaged (kind "order") if

    - its first offset is at or below the last offset before it,
    - its last offset reaches `end_offset`, or
    - it skips the offsets of the next batch: the next batch fits to the batches before, and its offsets do
    not
      fit between this batch and the one after the next.
    """

    next_offset: int
    """Inclusive: no batch starts below it. It is the last offset of the batches before + 1."""
    end_offset: int
    """Exclusive: the base offset of the next segment, 2^63 - 1 if there is none."""
    descriptor: int
    """Of the open file to which the positions of the call refer. A header after the buffer's end is read from
    it."""

    def after(self, next_offset: int | None) -> OffsetOrder:
        """Return what is known after batches that end before `next_offset`. None: there were none."""
        if next_offset is None or next_offset <= self.next_offset:
            return self
        return self._replace(next_offset=next_offset)


@dataclass(frozen=True, slots=True)
class Damage:
    """A batch that cannot be read, and the reason."""

    kind: str
    """"size", "magic", "crc", "codec", "compression", "records", "order" or "too-large"."""
    position: int
    """Its first byte."""
    size_bytes: int
    """12 + the size field of its header, or 0 if the size field itself is invalid."""
    offset: int | None
    """The offset in its header; None if there are too few bytes for one."""
    message: str
    """One line: what was expected, what was found."""


SkippedDamage = tuple[int, int, int, int, int, str, str]
"""The number of rows of the result before the damage; position and end (exclusive) of the damaged bytes; the
offset after the batches before them; the first offset of the batch after them; message and kind of the
damage."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Result of one call of `decode` or `decode_file`."""

    batch: pa.RecordBatch
    """The records, with the requested columns in the requested order."""
    status: str
    """"end": the buffer is used up; "partial": the batch at `position` continues beyond the buffer; "limit":
    max_rows or max_bytes was reached; "zeros": there are only zero bytes from `position` on; "damaged": see
    `damage`."""
    position: int
    """First byte not used, where the next call starts. Beyond the buffer's end if a batch was skipped by its
    header."""
    next_offset: int | None
    """Last offset + 1 of the last batch used or skipped; None if there was none. With an OffsetOrder, the
    greatest one of all batches up to there."""
    needed_bytes: int
    """With "partial": the number of bytes from `position` on that the next call needs. Else 0."""
    damage: Damage | None
    skipped: Sequence[SkippedDamage] = ()
    """The damage after which the call continued, in order (DecodeOptions.skipper)."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """Result of one call of `scan` or `scan_headers`. `batches` has one row for each batch (BATCH_SCHEMA);
    the other fields are those of Decoded."""

    batches: pa.RecordBatch
    status: str
    position: int
    next_offset: int | None
    needed_bytes: int
    damage: Damage | None


@dataclass(frozen=True, slots=True)
class Checked(Scanned):
    """Result of one call of `check_file`: that of a scan with CRCs, and the batches with invalid records."""

    invalid_records: list[int]
    """Positions of the batches with a right CRC whose records are invalid; empty if they were not checked."""
    skipped: Sequence[SkippedDamage] = ()
    """As in Decoded."""


@dataclass(frozen=True, slots=True)
class Divided:
    """Result of one call of `divide_file`. The fields after `ranges` are those of Decoded."""

    ranges: list[tuple[int, int]]
    """First byte and end (exclusive) of ranges of whole batches, one after the other."""
    status: str
    position: int
    next_offset: int | None
    needed_bytes: int
    damage: Damage | None


@dataclass(frozen=True, slots=True)
class Formatted:
    """Result of one call of `format_batches`. The fields after `gaps` are those of Decoded, except that with
    the status "limit" a batch follows that is not printed: of magic 0 or 1, or a control batch."""

    text: memoryview
    """Lines in UTF-8."""
    first_offset: int | None
    """Of the first record; None if no records were printed."""
    last_offset: int | None
    """Of the last record."""
    gaps: list[tuple[int, int]]
    """The offsets of consecutive records between which there is a gap."""
    status: str
    position: int
    next_offset: int | None
    needed_bytes: int
    damage: Damage | None
