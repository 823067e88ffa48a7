"""Send the records of a topic to a running cluster, with their partitions, headers and timestamps.

    pip install confluent-kafka
    python examples/replay.py localhost:9092 orders /backup/kafka-logs

See docs/replay.md.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException, Producer

import native_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    Record = dict[str, Any]

COLUMNS = ["partition", "timestamp", "key", "value", "headers"]
SETTINGS = {
    "enable.idempotence": True,  # a retry neither repeats records nor changes their order
    "partitioner": "murmur2_random",  # as Java's producer chooses partitions
    "compression.type": "lz4",
    "linger.ms": 50,
}


def replay(
    bootstrap_servers: str, topic: str, paths: Any, *, to_topic: str | None = None, **arguments: Any
) -> int:
    """Send the committed records of a topic, and return their number.

    Args:
        bootstrap_servers: of the cluster.
        topic: the topic to read.
        paths: log directories.
        to_topic: the topic to write. It must have all partitions of `topic`. Default: `topic`.
        arguments: more arguments of native_log.scan, such as `start` and `filter`.

    Raises KafkaException if the cluster does not accept a record.
    """
    producer = Producer({"bootstrap.servers": bootstrap_servers, **SETTINGS})
    errors = []

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            errors.append(error)

    scan = native_log.scan(paths, topic, COLUMNS, isolation_level="read_committed", **arguments)
    sent = 0
    for batch in scan.batches():
        for record in records_of(batch):
            while len(producer) >= 100_000:
                producer.poll(1)
            producer.produce(to_topic or topic, on_delivery=delivered, **record)
        producer.poll(0)
        sent += batch.num_rows
        if errors:
            break
    producer.flush()
    if errors:
        raise KafkaException(errors[0])
    return sent


def records_of(batch: pa.RecordBatch) -> Iterator[Record]:
    """Yield the arguments of Producer.produce for each record."""
    # Records of format version 0 have no time, which is -1. For the producer, 0 means now.
    times = pc.max_element_wise(pc.divide(batch.column("timestamp").cast(pa.int64()), 1000), 0)
    columns = [batch.column(name).to_pylist() for name in ("partition", "key", "value", "headers")]
    for partition, key, value, headers, time_ms in zip(*columns, times.to_pylist(), strict=True):
        yield {
            "partition": partition,
            "key": key,
            "value": value,
            "headers": [(header["key"], header["value"]) for header in headers or ()],
            "timestamp": time_ms,
        }


def main() -> None:
    bootstrap_servers, topic, *paths = sys.argv[1:]
    print(f"{replay(bootstrap_servers, topic, paths)} records sent")


if __name__ == "__main__":
    main()
