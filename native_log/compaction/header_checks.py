"""Whether headers can be believed: nothing is judged, or thrown away, by one that cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from native_log.errors import CorruptRecordError
from native_log.segment.damage import LEFT_ALONE

if TYPE_CHECKING:
    import pyarrow as pa


def check_crcs(batches: pa.RecordBatch, path: object) -> None:
    """Of batches (BATCH_SCHEMA) scanned with check_crcs. Raises CorruptRecordError."""
    wrong = pc.index(batches.column("isValid"), False).as_py()
    if wrong >= 0:
        raise CorruptRecordError(
            f"expected a batch that fits its CRC, found another. {LEFT_ALONE}",
            path=path,
            position=batches.column("position")[wrong].as_py(),
            offset=batches.column("baseOffset")[wrong].as_py(),
        )
