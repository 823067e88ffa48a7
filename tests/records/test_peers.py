"""kafka-python and aiokafka, both ways: they read what the tests' builder writes, and what their builders
write is read here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.record import default_records as aio_default
from aiokafka.record import legacy_records as aio_legacy
from aiokafka.record.memory_records import MemoryRecords as AioMemoryRecords
from kafka.record import default_records as kp_default
from kafka.record import legacy_records as kp_legacy
from kafka.record.memory_records import MemoryRecords as KpMemoryRecords

from tests.builders.batches import LOG_APPEND_TIME, T0, Rec, marker, v2
from tests.builders.codecs import CODECS, FLAVOURS
from tests.builders.legacy import message, wrapper

from .rows import SEVEN, rows

if TYPE_CHECKING:
    from collections.abc import Callable

BUILDERS = {
    "kafka-python": (kp_default.DefaultRecordBatchBuilder, kp_legacy.LegacyRecordBatchBuilder),
    "aiokafka": (aio_default.DefaultRecordBatchBuilder, aio_legacy.LegacyRecordBatchBuilder),
    "aiokafka, plain Python": (
        aio_default._DefaultRecordBatchBuilderPy,
        aio_legacy._LegacyRecordBatchBuilderPy,
    ),
}
WRAPPERS = [(0, "gzip"), (0, "snappy"), (1, "gzip"), (1, "snappy"), (1, "lz4")]
"""Neither peer knows the lz4 of magic 0 without further packages."""
READERS = {"kafka-python": KpMemoryRecords, "aiokafka": AioMemoryRecords}
RECS = [
    Rec(b"k", b"v"),
    Rec(None, b"v" * 1000),
    Rec(b"", b"", timestamp=T0 + 5),
    Rec(b"k" * 100, None, timestamp=T0 - 7),
    Rec(None, None),
]
WITH_HEADERS = [rec._replace(headers=((b"h", b"w"), (b"h", None), (b"", b""))) for rec in RECS]


def expected(recs: list[Rec], timestamp_type: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "offset": i,
            "timestamp": (-1 if timestamp_type < 0 else rec.timestamp) * 1000,
            "timestampType": timestamp_type,
            "key": rec.key,
            "value": rec.value,
            "headers": [(key.decode(), value) for key, value in rec.headers] or None,
        }
        for i, rec in enumerate(recs)
    ]


def read(impl, data: bytes) -> list[dict[str, Any]]:
    decoded = impl.decode(data, SEVEN)
    assert (decoded.status, decoded.position) == ("end", len(data)), decoded
    assert all(impl.scan(data, check_crcs=True).batches.column("isValid").to_pylist())
    return rows(decoded.batch)


@pytest.mark.parametrize("peer", BUILDERS)
@pytest.mark.parametrize("codec", CODECS)
def test_their_v2(impl, peer: str, codec: str) -> None:
    builder = BUILDERS[peer][0](
        magic=2,
        compression_type=CODECS[codec],
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for i, rec in enumerate(WITH_HEADERS):
        headers = [(key.decode(), value) for key, value in rec.headers]
        assert builder.append(i, rec.timestamp, rec.key, rec.value, headers)
    data = bytes(builder.build())
    assert read(impl, data) == expected(WITH_HEADERS)
    assert impl.scan(data).batches.column("compression").to_pylist() == [codec]


@pytest.mark.parametrize("peer", BUILDERS)
@pytest.mark.parametrize(("magic", "codec"), [(0, "none"), (1, "none"), *WRAPPERS])
def test_their_messages(impl, peer: str, codec: str, magic: int) -> None:
    builder = BUILDERS[peer][1](magic=magic, compression_type=CODECS[codec], batch_size=1 << 20)
    for i, rec in enumerate(RECS):
        assert builder.append(i, rec.timestamp, rec.key, rec.value)
    data = bytes(builder.build())
    if codec != "none":  # the broker gives a wrapper its offset
        data = (len(RECS) - 1).to_bytes(8, "big") + data[8:]
    assert read(impl, data) == expected(RECS, -1 if magic == 0 else 0)


def theirs(reader: Callable[[bytes], Any], data: bytes) -> list[dict[str, Any]]:
    rows, batches = [], reader(data)
    while (batch := batches.next_batch()) is not None:
        for record in batch:
            rows.append(
                {
                    "offset": record.offset,
                    "timestamp": (-1 if record.timestamp is None else record.timestamp) * 1000,
                    "timestampType": -1 if record.timestamp_type is None else record.timestamp_type,
                    "key": None if record.key is None else bytes(record.key),
                    "value": None if record.value is None else bytes(record.value),
                    "headers": [(key, value) for key, value in record.headers] or None,
                }
            )
    return rows


@pytest.mark.parametrize("peer", READERS)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME], ids=["create time", "append time"])
def test_they_read_v2(impl, peer: str, codec: str, attributes: int) -> None:
    data = v2(WITH_HEADERS, 0, codec, attributes=attributes) + v2([Rec()], 5, producer_id=3, base_sequence=0)
    assert theirs(READERS[peer], data) == read(impl, data)


@pytest.mark.parametrize("peer", READERS)
@pytest.mark.parametrize(("magic", "codec"), WRAPPERS)
def test_they_read_wrappers(impl, peer: str, codec: str, magic: int) -> None:
    inner = [
        message(magic, i + (10 if magic == 0 else 0), rec.key, rec.value, timestamp=rec.timestamp)
        for i, rec in enumerate(RECS)
    ]
    data = wrapper(magic, inner, 10 + len(RECS) - 1, codec, compress=FLAVOURS[codec]["plain"])
    by_peer = theirs(READERS[peer], data)
    assert [row["offset"] for row in by_peer] == [10, 11, 12, 13, 14]
    assert by_peer == read(impl, data)


@pytest.mark.parametrize("peer", READERS)
def test_they_read_what_compaction_leaves(impl, peer: str) -> None:
    data = v2([Rec(offset_delta=3), Rec(offset_delta=7)], 100, last_offset_delta=9)
    assert theirs(READERS[peer], data) == read(impl, data)


@pytest.mark.parametrize("peer", READERS)
def test_they_see_control_batches(peer: str) -> None:
    batch = READERS[peer](marker(5, 7)).next_batch()
    assert batch.is_control_batch
    assert batch.is_transactional
    assert (batch.producer_id, batch.base_offset) == (7, 5)
