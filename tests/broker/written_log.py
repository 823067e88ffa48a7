"""Write logs for a broker to serve, and track the records that a consumer must get."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log.records import scan
from tests.builders.batches import ABORT, COMMIT, marker

from .cluster import Row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

    from native_log.log import PartitionLog

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def row(number: int, time_ms: int, value_bytes: int = 40, *, with_key: bool = False) -> Row:
    """Return record `number`: every 10th has no key, every 7th is a tombstone, every 3rd has headers."""
    key = None if number % 10 == 0 and not with_key else b"k%d" % (number % 97)
    value = None if number % 7 == 0 else b"%d:%s" % (number, random.Random(number).randbytes(value_bytes))
    headers: list[tuple[str, bytes | None]] = [("n", b"%d" % number), ("n", None), ("ünï", b"")]
    return Row(number, key, value, time_ms, 0, headers if number % 3 == 0 else None)


def to_arrow(rows: Iterable[Row]) -> pa.RecordBatch:
    """Return a batch for `PartitionLog.append`."""
    rows = list(rows)
    headers = [r.headers and [{"key": name, "value": value} for name, value in r.headers] for r in rows]
    return pa.record_batch(
        {
            "key": pa.array([r.key for r in rows], pa.binary()),
            "value": pa.array([r.value for r in rows], pa.binary()),
            "timestamp": pa.array([r.timestamp_ms for r in rows], pa.int64()),
            "headers": pa.array(headers, HEADERS),
        }
    )


class WrittenLog:
    """A log being written, and its expected content.

    Attributes:
        rows: the records that a consumer gets.
        committed: the records of committed transactions and without transactions.
        markers: offset and time of control records that a lookup by time may return.
        end: the log end offset.
        last_stable_offset: where a consumer of committed transactions stops.
        stable_up_to: the last stable offset if `append` did not write the transactions, otherwise None.
    """

    def __init__(self, log: PartitionLog, rows: Iterable[Row] = (), committed: Iterable[Row] = ()) -> None:
        self.log = log
        self.rows = list(rows)
        self.committed = list(committed or self.rows)
        self.markers: list[tuple[int, int]] = []
        self.stable_up_to: int | None = None
        self._open: dict[int, list[Row]] = {}

    @property
    def end(self) -> int:
        return self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        if self.stable_up_to is not None:
            return self.stable_up_to
        return min((rows[0].offset for rows in self._open.values()), default=self.end)

    def append(self, rows: Iterable[Row], *, append_time_ms: int | None = None, **options: Any) -> None:
        """Append records with new offsets. With `producer_id`, they belong to its transaction."""
        if append_time_ms is not None:
            options["now_ms"] = append_time_ms
        records = list(rows)
        if "producer_id" in options:
            options["is_transactional"] = True
        first = self.log.append(to_arrow(records), **options)
        records = [record._replace(offset=first + i) for i, record in enumerate(records)]
        if append_time_ms is not None:
            records = [r._replace(timestamp_ms=append_time_ms, timestamp_type=1) for r in records]
        self.rows += records
        if "producer_id" in options:
            self._open.setdefault(options["producer_id"], []).extend(records)
        else:
            self.committed += records

    def append_encoded(self, batches: Buffer, rows: Iterable[Row]) -> None:
        """Append batches that a producer encoded from the rows."""
        first = self.log.append_batches(batches)
        records = [record._replace(offset=first + i) for i, record in enumerate(rows)]
        self.rows += records
        self.committed += records

    def append_replica(self, batches: bytes) -> None:
        """Append batches with their offsets. The caller adds their records to `rows`."""
        self.log.append_batches(batches, origin="replication")
        for batch in scan(batches).batches.to_pylist():
            if batch["isControl"]:
                self.markers.append((batch["lastOffset"], batch["maxTimestamp"]))

    def end_transaction(self, producer_id: int, time_ms: int, *, commit: bool, epoch: int = 0) -> None:
        kind = COMMIT if commit else ABORT
        batch = marker(0, producer_id, kind, epoch, time_ms)
        self.markers.append((self.log.append_batches(batch, origin="coordinator"), time_ms))
        records = self._open.pop(producer_id)
        if commit:
            self.committed = sorted(self.committed + records)

    def stable_rows(self) -> list[Row]:
        """Return the records of `committed` below the last stable offset."""
        return [record for record in self.committed if record.offset < self.last_stable_offset]

    def offset_for_timestamp(self, time_ms: int) -> int | None:
        times = self.markers + [(record.offset, record.timestamp_ms) for record in self.rows]
        return min((offset for offset, at in times if at >= time_ms), default=None)
