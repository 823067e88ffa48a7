"""A producer that writes records to log directories, without a broker (Kafka: KafkaProducer).

from native_log.producer import KafkaLogProducer

with KafkaLogProducer("/var/kafka-logs") as producer:
    producer.send("orders", b"value", key=b"key")

| module | contents |
|---|---|
| producer | KafkaLogProducer |
| record_pipeline | intercept, serialize and partition records, append them to batches |
| settings, record_size | the settings, which the Spark sink shares |
| record, futures | a record, and the future of its metadata |
| interceptors, serializers, partitioners | what happens to a record before it is in a batch |
| batch, block, accumulator, buffer_pool, compression_ratio | batches in memory |
| metadata, log_directories | the topics in the log directories |
| sender, client, open_logs | append batches to logs |
| sequences, producer_ids | idempotence |
| transactions, coordinator, transaction_state | transactions |
| backoff, clock, metrics | delays, time, counters |
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from native_log.producer.block_future import BlockFuture, BlockMetadata
    from native_log.producer.futures import RecordFuture, RecordMetadata
    from native_log.producer.producer import KafkaLogProducer
    from native_log.producer.record import ProducerRecord
    from native_log.producer.settings import ProducerConfig

__all__ = [
    "BlockFuture",
    "BlockMetadata",
    "KafkaLogProducer",
    "ProducerConfig",
    "ProducerRecord",
    "RecordFuture",
    "RecordMetadata",
]

# These are imported on first use: the settings are also those of the Spark sink, which does not need Arrow.
_MODULES = {
    "BlockFuture": "native_log.producer.block_future",
    "BlockMetadata": "native_log.producer.block_future",
    "KafkaLogProducer": "native_log.producer.producer",
    "ProducerConfig": "native_log.producer.settings",
    "ProducerRecord": "native_log.producer.record",
    "RecordFuture": "native_log.producer.futures",
    "RecordMetadata": "native_log.producer.futures",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
