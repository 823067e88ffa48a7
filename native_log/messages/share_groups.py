"""Records of __share_group_state, up to Kafka 4.4 (Kafka: ShareCoordinatorRecordSerde)."""

from __future__ import annotations

from native_log.messages.coordinators import coordinator_records, decode_record

RECORDS = coordinator_records("""
    0 ShareSnapshot {groupId string, topicId uuid, partition int32}
        0 flexible 0+ {snapshotEpoch int32, stateEpoch int32, leaderEpoch int32, startOffset int64,
            deliveryCompleteCount int32 tag 0 default -1, createTimestamp int64, writeTimestamp int64,
            stateBatches []{firstOffset int64, lastOffset int64, deliveryState int8, deliveryCount int16}}
    1 ShareUpdate {groupId string, topicId uuid, partition int32}
        0 flexible 0+ {snapshotEpoch int32, leaderEpoch int32, startOffset int64,
            deliveryCompleteCount int32 tag 0 default -1,
            stateBatches []{firstOffset int64, lastOffset int64, deliveryState int8, deliveryCount int16}}
""")


def decode_share_record(offset: int, key: bytes | None, value: bytes | None) -> tuple[str, str | None]:
    """Format key and payload as kafka-dump-log --share-group-state-decoder does."""
    return decode_record(RECORDS, offset, key, value)
