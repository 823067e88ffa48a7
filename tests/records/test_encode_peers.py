"""What is encoded here is read by kafka-python and aiokafka, and is what they write, as far as they can."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.batches import T0, Rec
from tests.builders.codecs import CODECS

from .test_encode import batch
from .test_peers import BUILDERS, READERS, RECS, WITH_HEADERS

OLD_CODECS = [("none", 0), ("none", 1), ("gzip", 0), ("gzip", 1), ("snappy", 0), ("snappy", 1), ("lz4", 1)]


def read_by(peer: Any, data: Any) -> list[tuple[Any, ...]]:
    rows = []
    batches = peer(bytes(data))
    while (records := batches.next_batch()) is not None:
        assert records.validate_crc()
        rows += [
            (record.offset, record.timestamp, record.key, record.value, list(record.headers))
            for record in records
        ]
    return rows


def expected(recs: list[Rec], base_offset: int = 0, magic: int = 2) -> list[tuple[Any, ...]]:
    return [
        (
            base_offset + i,
            rec.timestamp if magic else None,
            rec.key,
            rec.value,
            [(name.decode(), value) for name, value in rec.headers],
        )
        for i, rec in enumerate(recs)
    ]


@pytest.mark.parametrize("peer", READERS)
@pytest.mark.parametrize("codec", CODECS)
def test_peers_read_batches(impl, peer: str, codec: str) -> None:
    recs = WITH_HEADERS + [Rec(b"k%d" % i, b"some value" * 9, timestamp=T0 + i) for i in range(2000)]
    encoded = impl.encode(batch(*recs), compression=codec, base_offset=70)
    assert encoded.batches.num_rows > 1
    assert read_by(READERS[peer], encoded.data) == expected(recs, 70)


@pytest.mark.parametrize("peer", READERS)
@pytest.mark.parametrize(("codec", "magic"), OLD_CODECS)
def test_peers_read_messages(impl, peer: str, codec: str, magic: int) -> None:
    recs = RECS + [Rec(b"k%d" % i, b"some value" * 9, timestamp=T0 + i) for i in range(500)]
    encoded = impl.encode(batch(*recs), magic=magic, compression=codec, base_offset=70)
    assert read_by(READERS[peer], encoded.data) == expected(recs, 70, magic)


@pytest.mark.parametrize("peer", BUILDERS)
def test_batches_are_those_of_peers(impl, peer: str) -> None:
    builder = BUILDERS[peer][0](
        magic=2,
        compression_type=0,
        is_transactional=True,
        producer_id=7,
        producer_epoch=3,
        base_sequence=20,
        batch_size=1 << 20,
    )
    for i, rec in enumerate(WITH_HEADERS):
        headers = [(name.decode(), value) for name, value in rec.headers]
        builder.append(i, timestamp=rec.timestamp, key=rec.key, value=rec.value, headers=headers)
    producer = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 20}
    # The leader epoch, which brokers set, is 0 from kafka-python, and -1 from aiokafka and Java's client.
    epoch = 0 if peer == "kafka-python" else -1
    ours = impl.encode(batch(*WITH_HEADERS), is_transactional=True, leader_epoch=epoch, **producer)
    assert bytes(ours.data) == bytes(builder.build())


@pytest.mark.parametrize("peer", BUILDERS)
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_are_those_of_peers(impl, peer: str, magic: int) -> None:
    builder = BUILDERS[peer][1](magic=magic, compression_type=0, batch_size=1 << 20)
    for i, rec in enumerate(RECS):
        builder.append(i, timestamp=rec.timestamp, key=rec.key, value=rec.value)
    assert bytes(impl.encode(batch(*RECS), magic=magic).data) == bytes(builder.build())


@pytest.mark.parametrize("peer", ["aiokafka", "aiokafka, plain Python"])
@pytest.mark.parametrize("batch_size", [300, 1000, 16384])
def test_a_batch_is_full_where_a_peer_s_is(impl, peer: str, batch_size: int) -> None:
    recs = [Rec(b"k", b"v" * (i * 37 % 200), timestamp=T0 + i * 1000) for i in range(1000)]
    builder = BUILDERS[peer][0](
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=batch_size,
    )
    count = 0
    for i, rec in enumerate(recs):
        if builder.append(i, timestamp=rec.timestamp, key=rec.key, value=rec.value, headers=[]) is None:
            break
        count += 1
    encoded = impl.encode(batch(*recs), batch_size=batch_size)
    assert encoded.batches["recordCount"][0].as_py() == count
    assert bytes(encoded.data).startswith(bytes(builder.build()))
