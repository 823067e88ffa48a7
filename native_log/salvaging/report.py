"""The rows of a salvage report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
  "records", "order" or "too-large" (bytes that are no valid batch, as `verify` calls them); "unreadable" (the
  system cannot read the file, or a part of it); "missing-segment" (only the index of a segment is left);
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


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of the report without its partition. The fields are those of SALVAGE_SCHEMA."""

    status: str
    kind: str | None
    path: str
    reason: str | None = None
    position: int | None = None
    size_bytes: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    producer_id: int | None = None

    def row(self, topic: str | None, partition: int | None) -> dict[str, Any]:
        """Return the finding as a row of SALVAGE_SCHEMA."""
        return {
            "topic": topic,
            "partition": partition,
            "status": self.status,
            "kind": self.kind,
            "path": self.path,
            "position": self.position,
            "sizeInBytes": self.size_bytes,
            "firstOffset": self.first_offset,
            "lastOffset": self.last_offset,
            "producerId": self.producer_id,
            "reason": self.reason,
        }


def report_table(rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Return the rows as a table of SALVAGE_SCHEMA."""
    return pa.Table.from_pylist(list(rows), schema=SALVAGE_SCHEMA)
