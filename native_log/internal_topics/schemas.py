"""The columns of the tables."""

from __future__ import annotations

import pyarrow as pa

from native_log.records import RECORD_SCHEMA

TIMESTAMP: pa.DataType = RECORD_SCHEMA.field("timestamp").type

RECORD_COLUMNS = (
    pa.field("recordPartition", pa.int32()),
    pa.field("recordOffset", pa.int64()),
    pa.field("recordTimestamp", TIMESTAMP),
    pa.field("error", pa.string()),
    pa.field("recordKey", pa.binary()),
    pa.field("recordValue", pa.binary()),
)
"""The last columns of each table: where the record of the row is, and, if it cannot be decoded, the reason
and its bytes. They are null otherwise."""

CONSUMER_OFFSETS_SCHEMA = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("leaderEpoch", pa.int32()),
        ("metadata", pa.string()),
        ("commitTimestamp", TIMESTAMP),
        ("expireTimestamp", TIMESTAMP),
        ("state", pa.string()),
        ("topicId", pa.string()),
        *RECORD_COLUMNS,
    ]
)
"""One row for each committed offset. `leaderEpoch`, `expireTimestamp` and `topicId` are null where the record
has none. `state` is

- "committed";
- "expired": the offset is the latest one of its group and partition, and a broker would delete it now;
- with `history` also "tombstone" (the offset was deleted), "aborted" and "open" (a commit in a transaction
  that was aborted, or has not ended);
- null: the record cannot be decoded.

`recordPartition`, `recordOffset` and `recordTimestamp` are those of the record in __consumer_offsets. `error`
says why a record cannot be decoded; `recordKey` and `recordValue` are its bytes."""

_STATE = CONSUMER_OFFSETS_SCHEMA.get_field_index("state")

LAG_SCHEMA = pa.schema(
    [
        *list(CONSUMER_OFFSETS_SCHEMA)[:_STATE],
        pa.field("logEndOffset", pa.int64()),
        pa.field("lag", pa.int64()),
        *list(CONSUMER_OFFSETS_SCHEMA)[_STATE:],
    ]
)
"""The columns of CONSUMER_OFFSETS_SCHEMA, and

- `logEndOffset`: the high watermark of the partition, as kafka-consumer-groups shows it; null if the log
  directories do not contain the partition;
- `lag`: `logEndOffset` - `offset`. It is negative if the log was truncated or replaced since the commit, or
  if a broker has not yet checkpointed the high watermark."""
