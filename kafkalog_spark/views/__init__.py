"""Metadata views: the batches, segments, partitions and transactions of log directories.

A view is one value in VIEWS. The option `view` takes its names from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_spark.views import rows, schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from kafkalog_spark.views.rows import PartitionScan


@dataclass(frozen=True, slots=True)
class View:
    """A metadata view.

    Attributes:
        schema: all columns.
        rows: returns the rows of one partition, as batches of `schema`.
    """

    schema: pa.Schema
    rows: Callable[[PartitionScan], Iterator[pa.RecordBatch]]


VIEWS = {
    "batches": View(schemas.BATCHES, rows.batch_rows),
    "segments": View(schemas.SEGMENTS, rows.segment_rows),
    "partitions": View(schemas.PARTITIONS, rows.partition_rows),
    "transactions": View(schemas.TRANSACTIONS, rows.transaction_rows),
}
"""The metadata views by name."""
