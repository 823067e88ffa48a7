"""kafkalog dump-log prints the same as kafka-dump-log, for messages of every type and version."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import crc32c
import pyarrow as pa
import pytest
from click.testing import CliRunner

from benchmarks.broker import Broker
from benchmarks.jvm import NEWER_KAFKA
from native_log.cli.app import kafkalog
from native_log.cli.dump_log.control_records import MESSAGES as CONTROL_RECORDS
from native_log.messages import cluster_metadata, groups, remote_log, share_groups, transaction_log
from native_log.records import EncodeOptions, encode
from tests.builders.batches import unsigned_varint
from tests.builders.random_messages import versions_of, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from native_log.messages.coordinators import CoordinatorRecord

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("class_path")]

EACH = 12
Record = tuple[bytes | None, bytes | None]


def of_coordinator(records: dict[int, CoordinatorRecord], some: random.Random) -> Iterator[Record]:
    for kind, record in records.items():
        for version in versions_of(record.value):
            for _ in range(EACH):
                key = struct.pack(">h", kind) + written(record.key, 0, some)
                yield key, struct.pack(">h", version) + written(record.value, version, some)
        yield key, None


def of_consumers(some: random.Random) -> Iterator[Record]:
    """Yield classic groups with the subscriptions of their members, some of them unreadable."""
    for version in versions_of(groups.SUBSCRIPTION):
        for cut in (None, None, None, -1, 1, 0):
            subscription, assignment = (
                (struct.pack(">h", version) + written(message, version, some))[:cut]
                for message in (groups.SUBSCRIPTION, groups.ASSIGNMENT)
            )
            client = some.choice([b"consumer", b"consumer", b"connect"])
            head = struct.pack(">hh", 0, len(client)) + client + struct.pack(">ihhi", 1, -1, -1, 1)
            member = struct.pack(">hhhi", 0, 0, 0, 10)
            members = (struct.pack(">i", len(data)) + data for data in (subscription, assignment))
            yield b"\0\2\0\1g", head + member + b"".join(members)


def of_cluster(some: random.Random) -> Iterator[Record]:
    for kind, message in cluster_metadata.RECORDS.items():
        for version in versions_of(message):
            for _ in range(EACH):
                head = b"\1" + unsigned_varint(kind) + unsigned_varint(version)
                yield None, head + written(message, version, some)


def of_tiered_storage(some: random.Random) -> Iterator[Record]:
    """Yield messages whose fields are valid: for others the tool only reports that they are invalid."""
    for kind, message in remote_log.RECORDS.items():
        states = remote_log.PARTITION_STATES if kind == 2 else remote_log.SEGMENT_STATES
        for _ in range(EACH):
            start, size = some.randrange(1 << 40), some.randrange(1 << 20)
            epochs = b"".join(
                struct.pack(">iqB", epoch, start + epoch, 0) for epoch in some.sample(range(99), size % 3 + 1)
            )
            valid = {
                "startOffset": struct.pack(">q", start),
                "endOffset": struct.pack(">q", start + size),
                "segmentLeaderEpochs": bytes([size % 3 + 2]) + epochs,
                "state": bytes([size % len(states)]),
            }
            yield None, bytes([1, kind, 0]) + written(message, 0, some, valid)


def of_quorum(some: random.Random) -> Iterator[Record]:
    for kind, (_, message) in CONTROL_RECORDS.items():
        # Kafka's tool reads version 0 only: it takes a LeaderChange of version 1 for version 0.
        for _ in range(EACH):
            yield struct.pack(">hh", 0, kind), bytes(2) + written(message, 0, some)[2:]


def log_of(path: Path, records: list[Record], *, control: bool = False) -> Path:
    """Write a .log file and return its path. Control records get a batch each."""
    keys, values = zip(*records, strict=True)
    rows = pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
    data = bytearray()
    for first in range(0, len(rows), 1 if control else len(rows)):
        batch_rows = rows[first : first + 1] if control else rows
        batch = bytearray(encode(batch_rows, EncodeOptions(now_ms=5), base_offset=first).data)
        if control:
            batch[22] |= 0x20
            batch[17:21] = struct.pack(">I", crc32c.crc32c(bytes(batch[21:])))
        data += batch
    file = path / f"{0:020d}.log"
    file.write_bytes(data)
    return file


RECORDS: dict[str, Callable[[random.Random], list[Record]]] = {
    "offsets-decoder": lambda some: [*of_coordinator(groups.RECORDS, some), *of_consumers(some)],
    "transaction-log-decoder": lambda some: [*of_coordinator(transaction_log.RECORDS, some)],
    "share-group-state-decoder": lambda some: [*of_coordinator(share_groups.RECORDS, some)],
    "cluster-metadata-decoder": lambda some: [*of_cluster(some)],
    "remote-log-metadata-decoder": lambda some: [*of_tiered_storage(some)],
    "deep-iteration": lambda some: [*of_quorum(some)],
}


NEWER = {"offsets-decoder", "share-group-state-decoder", "cluster-metadata-decoder"}
"""Options whose records have fields that only a newer Kafka knows."""


@pytest.mark.parametrize("option", RECORDS)
def test_both_print_the_same_lines(tmp_path: Path, option: str) -> None:
    records = RECORDS[option](random.Random(option))
    file = log_of(tmp_path, records, control=option == "deep-iteration")
    if option in NEWER:
        broker, tool = Broker(tmp_path, kafka=NEWER_KAFKA), "org.apache.kafka.tools.DumpLogSegments"
    else:
        broker, tool = Broker(tmp_path), "kafka.tools.DumpLogSegments"
    expected, _ = broker.run_tool(tool, f"--{option}", "--files", str(file))
    result = CliRunner().invoke(kafkalog, ["dump-log", f"--{option}", str(file)])
    assert result.stdout_bytes.decode().split("\n") == expected.split("\n")
    assert expected.count("| offset: ") == len(records)
