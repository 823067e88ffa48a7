"""Python's own Kafka consumers."""

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
    """All records of partition 0 below `end` that were committed."""
    import kafka  # it warns when it is imported

    partition = kafka.TopicPartition(topic, 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, **SETTINGS)
    try:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        found: list[Row] = []
        while consumer.position(partition) < end:
            found += _rows(consumer.poll(timeout_ms=200).get(partition, []))
        return found
    finally:
        consumer.close()


def read_by_aiokafka(bootstrap: str, topic: str, end: int) -> list[Row]:
    """The same."""

    import aiokafka

    async def read() -> list[Row]:
        partition = aiokafka.TopicPartition(topic, 0)
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, **SETTINGS)
        await consumer.start()
        try:
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            found: list[Row] = []
            while await consumer.position(partition) < end:
                found += _rows((await consumer.getmany(timeout_ms=200)).get(partition, []))
            return found
        finally:
            await consumer.stop()

    return asyncio.run(read())


def _rows(records: Iterable[Any]) -> list[Row]:
    return [
        Row(one.offset, one.key, one.value, one.timestamp, one.timestamp_type, list(one.headers) or None)
        for one in records
    ]
