"""Arrow records in the place of a batch that is built record by record."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class RecordBlock:
    """Records of one partition, which are encoded as batches when they are appended.

    It has the attributes of a BatchBuilder that a queue needs, and takes no more records.

    Attributes:
        records: the records.
        record_count: how many there are.
        is_full, is_closed: True.
        plain_bytes, estimated_bytes, limit_bytes: their size in memory.
    """

    is_full = is_closed = True

    __slots__ = ("estimated_bytes", "limit_bytes", "plain_bytes", "record_count", "records")

    def __init__(self, records: pa.RecordBatch, size_bytes: int) -> None:
        self.records = records
        self.record_count: int = records.num_rows
        self.plain_bytes = self.estimated_bytes = self.limit_bytes = size_bytes

    def append(self, *_: object) -> int:
        """Return 0, because a block takes no more records."""
        return 0

    def halve(self) -> list[RecordBlock]:
        """Return two blocks with the records of this one, which has at least two."""
        count = (self.record_count + 1) // 2
        size_bytes = (self.plain_bytes + 1) // 2
        return [RecordBlock(self.records.slice(start, count), size_bytes) for start in (0, count)]

    def close(self) -> None:
        """Do nothing, because a block is always closed."""
