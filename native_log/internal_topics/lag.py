"""How far groups are behind: the offsets that they committed, and the ends of the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.internal_topics.schemas import LAG_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def add_lag(
    commits: Iterable[pa.RecordBatch], end_offsets: Mapping[tuple[str, int], int]
) -> Iterator[pa.RecordBatch]:
    """Yield batches with LAG_SCHEMA for batches with CONSUMER_OFFSETS_SCHEMA.

    Args:
        commits: the batches.
        end_offsets: the high watermarks of partitions, by topic and partition.
    """
    for batch in commits:
        names = zip(*(batch.column(name).to_pylist() for name in ("topic", "partition")), strict=True)
        ends = pa.array(map(end_offsets.get, names), pa.int64())
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns |= {"logEndOffset": ends, "lag": pc.subtract(ends, columns["offset"])}
        yield pa.RecordBatch.from_arrays([columns[name] for name in LAG_SCHEMA.names], schema=LAG_SCHEMA)
