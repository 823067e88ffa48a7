"""Records of __transaction_state, up to Kafka 4.4 (Kafka: TransactionCoordinatorRecordSerde)."""

from __future__ import annotations

from native_log.messages.coordinators import coordinator_records, decode_record

RECORDS = coordinator_records("""
    0 TransactionLog {transactionalId string}
        0-1 flexible 1+ {producerId int64, previousProducerId int64 1+ tag 0 default -1,
            nextProducerId int64 1+ tag 1 default -1, producerEpoch int16,
            nextProducerEpoch int16 1+ tag 3 default -1, transactionTimeoutMs int32, transactionStatus int8,
            transactionPartitions []{topic string, partitionIds []int32}?,
            transactionLastUpdateTimestampMs int64, transactionStartTimestampMs int64,
            clientTransactionVersion int16 1+ tag 2}
""")


def decode_transaction_record(offset: int, key: bytes | None, value: bytes | None) -> tuple[str, str | None]:
    """Format key and payload as kafka-dump-log --transaction-log-decoder does."""
    return decode_record(RECORDS, offset, key, value)
