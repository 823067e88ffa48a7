"""The rows of a salvage report."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

SALVAGE_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "status": pa.string(),
        "kind": pa.string(),
        "path": pa.string(),
        "position": pa.int64(),
        "sizeInBytes": pa.int64(),
        "firstOffset": pa.int64(),
        "lastOffset": pa.int64(),
        "producerId": pa.int64(),
        "reason": pa.string(),
    }
)
"""One row for each partition, followed by a row for each range it has lost and each doubt about it.

- `status`: "copied": what was copied of the partition, or in a dry run would be; "lost": a range that could
  not be copied; "transaction": a transaction whose outcome is unknown; "gap": offsets without records, which
  compaction may explain; "skipped": something that was left out on purpose; "warning": anything else;
- `kind`: null if `status` is "copied". Of lost ranges: "size", "magic", "crc", "codec", "compression",
  "records", "order" or "too-large" (bytes that are not a valid batch, as `verify` calls them); "unreadable"
  (the system cannot read the file, or a part of it); "malformed-file" (a snapshot or the quorum state of the
  controllers, with which a broker would not start); "missing-segment" (only the index of a segment is left);
  "missing" (a gap that compaction cannot explain); "missing-start" (offsets in tiered storage, or lost);
  "missing-end" (the log ends before its high watermark or a producer state snapshot). Of transactions: "open"
  or "doubtful". Of others: "directory", "uncommitted", "file", "crc"
  (a wrong checksum that the copy corrects), "leader-epochs" (a wrong epoch in a batch), "topic-id" or
  "log-start-offset";
- `path`: the file, or the directory if no single file is concerned;
- `position`, `sizeInBytes`: the range of bytes in the file; of a copied partition, the bytes of its batches;
- `firstOffset`, `lastOffset`: the offsets concerned, both inclusive. Of lost ranges, these are bounds from
  the batches around the range; null if they are unknown, or if no offset is missing;
- `producerId`: the producer of a transaction;
- `reason`: what was found, and what it means.
"""


class Finding(NamedTuple):
    """A row of the report, except for its topic and partition: the other columns of SALVAGE_SCHEMA, in order.

    A tuple, because each MiB of a damaged log can have thousands of them.
    """

    status: str
    kind: str | None
    path: str
    position: int | None = None
    size_bytes: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    producer_id: int | None = None
    reason: str | None = None


def report_table(findings: Iterable[tuple[str | None, int | None, Finding]]) -> pa.Table:
    """Return findings, each with topic and partition, as a table of SALVAGE_SCHEMA."""
    rows = [(topic, partition, *finding) for topic, partition, finding in findings]
    columns = zip(*rows, strict=True) if rows else [()] * len(SALVAGE_SCHEMA)
    return pa.Table.from_arrays(list(map(pa.array, columns, SALVAGE_SCHEMA.types)), schema=SALVAGE_SCHEMA)
