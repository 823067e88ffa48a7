"""Kafka's own classes write the same bytes as `encode`, without compression, and read what it writes."""

from __future__ import annotations

import base64
import json
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from benchmarks.jvm import Jvm, compile_java
from native_log.records import EncodeOptions, encode
from native_log.records.schema import HEADERS

from .conftest import HERE

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.broker
T0 = 1_600_000_000_000
DEFAULTS: dict[str, Any] = {
    "magic": 2,
    "compression": "none",
    "batch_size": 16384,
    "base_offset": 0,
    "leader_epoch": -1,
    "producer_id": -1,
    "producer_epoch": -1,
    "base_sequence": -1,
    "is_transactional": False,
    "timestamp_type": 0,
    "append_time_ms": -1,
}
PRODUCER = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 2**31 - 5, "is_transactional": True}
CREATE, APPEND = {}, {"timestamp_type": 1, "append_time_ms": T0 + 10**9}
OLD = [(0, CREATE), (1, CREATE), (1, APPEND)]


@pytest.fixture(scope="module")
def java(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    compiled_path = compile_java([HERE / "Batches.java"], tmp_path_factory.mktemp("classes"))
    with Jvm(compiled_path, "Batches", options=["-Xmx512m"]) as jvm:
        yield jvm


def random_records(count: int, *, has_headers: bool, seed: int) -> pa.RecordBatch:
    """Return records of many sizes, similar and random ones, with timestamps in any order."""
    rnd = random.Random(seed)

    def content() -> bytes | None:
        size = rnd.choice([0, 1, 10, 60, 64, 65, 200, 3000])
        return rnd.choice([None, b"ab" * size, rnd.randbytes(size)])

    def headers() -> list[dict[str, Any]]:
        return [{"key": "ä" * rnd.randrange(40), "value": content()} for _ in range(rnd.choice([0, 0, 1, 3]))]

    times = [T0 + rnd.choice([0, i, -i, i * 1000, 2**40]) for i in range(count)]
    return pa.record_batch(
        {
            "key": pa.array([content() for _ in range(count)], pa.binary()),
            "value": pa.array([content() for _ in range(count)], pa.binary()),
            "timestamp": pa.array(times, pa.int64()),
            "headers": pa.array([headers() if has_headers else [] for _ in range(count)], HEADERS),
        }
    )


def base64_of(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def to_json(records: pa.RecordBatch) -> list[list[Any]]:
    return [
        [
            row["timestamp"],
            base64_of(row["key"]),
            base64_of(row["value"]),
            [[header["key"], base64_of(header["value"])] for header in row["headers"]],
        ]
        for row in records.to_pylist()
    ]


def encode_with_java(java: Jvm, records: pa.RecordBatch, **options: Any) -> tuple[bytes, list[int]]:
    """Return the bytes and the number of records of each batch."""
    answer = json.loads(java.ask(json.dumps(DEFAULTS | options | {"records": to_json(records)})))
    return base64.b64decode(answer["data"]), answer["counts"]


def read_with_java(java: Jvm, data: Any) -> list[list[Any]]:
    rows: list[list[Any]] = json.loads(java.ask(json.dumps({"data": base64_of(bytes(data))})))
    return rows


def encode_at(base_offset: int, records: pa.RecordBatch, *, base_sequence: int = -1, **fields: Any) -> bytes:
    options = EncodeOptions(**fields)
    return bytes(encode(records, options, base_offset=base_offset, base_sequence=base_sequence).data)


@pytest.mark.parametrize("batch_size", [0, 100, 1000, 16384, 1 << 20])
@pytest.mark.parametrize("options", [CREATE, APPEND, PRODUCER | {"leader_epoch": 9}])
def test_batches_are_kafka_s_to_the_byte(java: Jvm, batch_size: int, options: dict[str, Any]) -> None:
    records = random_records(500, has_headers=True, seed=batch_size)
    data, _ = encode_with_java(java, records, batch_size=batch_size, base_offset=2**40, **options)
    assert encode_at(2**40, records, batch_size=batch_size, **options) == data


@pytest.mark.parametrize(("magic", "options"), OLD)
def test_messages_are_kafka_s_to_the_byte(java: Jvm, magic: int, options: dict[str, Any]) -> None:
    records = random_records(300, has_headers=False, seed=magic)
    data, _ = encode_with_java(java, records, magic=magic, base_offset=2**40, batch_size=1 << 30, **options)
    assert encode_at(2**40, records, magic=magic, **options) == data


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("level", ["least", None, "most"])
def test_kafka_reads_compressed_batches(java: Jvm, codec: str, level: str | None) -> None:
    levels = {"gzip": (1, 9), "snappy": (None, None), "lz4": (1, 17), "zstd": (-131072, 19)}[codec]
    records = random_records(500, has_headers=True, seed=1)
    chosen = None if level is None else levels[level == "most"]
    encoded = encode(records, EncodeOptions(compression=codec, level=chosen), base_offset=70)
    assert read_with_java(java, encoded.data) == [[70 + i, *row] for i, row in enumerate(to_json(records))]


@pytest.mark.parametrize("codec", ["snappy", "lz4"])
@pytest.mark.parametrize(
    ("magic", "batch_size"), [(2, 4096), (2, 16384), (2, 1 << 20), (1, 65536), (0, 9000)]
)
def test_kafka_reads_similar_records(java: Jvm, codec: str, magic: int, batch_size: int) -> None:
    """The kernel has a compressor of its own for such records."""
    rnd = random.Random(5)
    states = [b"created", b"paid", b"shipped", b"delivered", b"cancelled"]
    records = pa.record_batch(
        {
            "key": [b"key-%08d" % rnd.randrange(10**8) for _ in range(6000)],
            "value": [
                b'{"user":"%s","state":"%s","region":"eu-west-1"}'
                % (base64.b64encode(rnd.randbytes(15)), rnd.choice(states))
                for _ in range(6000)
            ],
            "timestamp": pa.array([T0 + i // 10 for i in range(6000)], pa.int64()),
            "headers": pa.array([[]] * 6000, HEADERS),
        }
    )
    encoded = encode(records, EncodeOptions(magic=magic, compression=codec, batch_size=batch_size))
    expected = [[i, -1 if magic == 0 else time, *rest] for i, (time, *rest) in enumerate(to_json(records))]
    assert read_with_java(java, encoded.data) == expected


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
@pytest.mark.parametrize(("magic", "options"), OLD)
def test_kafka_reads_wrappers(java: Jvm, codec: str, magic: int, options: dict[str, Any]) -> None:
    records = random_records(300, has_headers=False, seed=2)
    encoded = encode(records, EncodeOptions(magic=magic, compression=codec, **options), base_offset=70)
    times = {"timestamp_type": T0 + 10**9}.get(next(iter(options), ""))
    expected = [
        [70 + i, -1 if magic == 0 else times or time, *rest]
        for i, (time, *rest) in enumerate(to_json(records))
    ]
    assert read_with_java(java, encoded.data) == expected


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_end_about_where_those_of_kafka_end(java: Jvm, codec: str) -> None:
    """The first batch ends exactly where Kafka's does.

    The size of later batches is estimated from the compression ratio so far, which depends on the library.
    """
    records = random_records(5000, has_headers=False, seed=3)
    _, counts = encode_with_java(java, records, compression=codec)
    our_counts = encode(records, EncodeOptions(compression=codec)).batches["recordCount"].to_pylist()
    assert our_counts[0] == counts[0]
    assert abs(len(our_counts) - len(counts)) <= len(counts) // 50
