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
