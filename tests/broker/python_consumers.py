"""Read topics with Python's Kafka consumers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .cluster import Row

if TYPE_CHECKING:
    from collections.abc import Iterable

SETTINGS: dict[str, Any] = {
    "group_id": None,
    "enable_auto_commit": False,
    "isolation_level": "read_committed",
    "check_crcs": True,
}


def read_by_kafka_python(bootstrap: str, topic: str, end: int) -> list[Row]:
    """Return the committed records of partition 0 below `end`."""
    import kafka  # it warns when it is imported

    partition = kafka.TopicPartition(topic, 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, **SETTINGS)
    try:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        records: list[Row] = []
        while consumer.position(partition) < end:
            records += _rows(consumer.poll(timeout_ms=200).get(partition, []))
        return records
    finally:
        consumer.close()


def read_by_aiokafka(bootstrap: str, topic: str, end: int) -> list[Row]:
    """Return the committed records of partition 0 below `end`."""
    import aiokafka

    async def read() -> list[Row]:
        partition = aiokafka.TopicPartition(topic, 0)
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, **SETTINGS)
        await consumer.start()
        try:
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            records: list[Row] = []
            while await consumer.position(partition) < end:
                records += _rows((await consumer.getmany(timeout_ms=200)).get(partition, []))
            return records
        finally:
            await consumer.stop()

    return asyncio.run(read())


def read_by_librdkafka(bootstrap: str, topic: str, end: int) -> list[Row]:
    """Return the committed records of partition 0 below `end`."""
    import confluent_kafka

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "no group",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "check.crcs": True,
    }
    consumer = confluent_kafka.Consumer(settings)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
        records: list[Row] = []
        while True:
            for message in consumer.consume(1000, timeout=0.2):
                error = message.error()
                if error is None:
                    records.append(_row(message))
                elif error.code() != confluent_kafka.KafkaError._PARTITION_EOF:
                    raise confluent_kafka.KafkaException(error)
                elif message.offset() >= end:
                    return records
    finally:
        consumer.close()


def _row(message: Any) -> Row:
    kind, time_ms = message.timestamp()
    return Row(
        message.offset(), message.key(), message.value(), time_ms, int(kind == 2), message.headers() or None
    )


def _rows(records: Iterable[Any]) -> list[Row]:
    return [
        Row(
            record.offset,
            record.key,
            record.value,
            record.timestamp,
            record.timestamp_type,
            list(record.headers) or None,
        )
        for record in records
    ]
