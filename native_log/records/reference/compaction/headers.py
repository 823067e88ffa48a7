"""Headers of batches, collected over several buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.records.reference.scan import scan
from native_log.records.results import DEFAULT_MAX_BATCH_BYTES
from native_log.records.schema import BATCH_SCHEMA

if TYPE_CHECKING:
    from typing_extensions import Buffer


class BatchHeaders:
    def __init__(self) -> None:
        self._batches: pa.Table = BATCH_SCHEMA.empty_table()

    def __len__(self) -> int:
        return int(self._batches.num_rows)

    def add(
        self,
        buffer: Buffer,
        *,
        base_position: int = 0,
        end: int | None = None,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    ) -> None:
        rows = scan(buffer, base_position=base_position, max_batch_bytes=max_batch_bytes).batches
        if end is not None:
            rows = rows.filter(pc.less(rows.column("position"), end))
        self._batches = pa.concat_tables([self._batches, pa.Table.from_batches([rows])])

    @property
    def has_transactions(self) -> bool:
        columns = (self._batches.column(name) for name in ("isTransactional", "isControl"))
        return any(pc.any(column).as_py() for column in columns)

    @property
    def last_offsets(self) -> tuple[int, int] | None:
        if not len(self):
            return None
        bounds = pc.min_max(self._batches.column("lastOffset")).as_py()
        return bounds["min"], bounds["max"]

    def take(self) -> pa.RecordBatch:
        taken, self._batches = self._batches, BATCH_SCHEMA.empty_table()
        (batch,) = taken.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], BATCH_SCHEMA)]
        return batch
