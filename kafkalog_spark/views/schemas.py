"""The columns of the views."""

from __future__ import annotations

import pyarrow as pa

from native_log.log.producers.transactions import TRANSACTION_SCHEMA
from native_log.records import BATCH_SCHEMA

TIMESTAMP = pa.timestamp("us", tz="UTC")
LOCATION = (pa.field("topic", pa.string()), pa.field("partition", pa.int32()))
_BATCH_TIMES = ("baseTimestamp", "maxTimestamp")

BATCHES = pa.schema(
    [
        *LOCATION,
        pa.field("segment", pa.string()),
        *(pa.field(f.name, TIMESTAMP) if f.name in _BATCH_TIMES else f for f in BATCH_SCHEMA),
    ]
)
"""All that a batch's header says (native_log.records.BATCH_SCHEMA), and where it lies. `isValid`: its CRC is
right; CRCs are checked, and batches read whole, where that column is picked and kafka.check.crcs is true."""

SEGMENTS = pa.schema(
    [
        *LOCATION,
        ("segment", pa.string()),
        ("path", pa.string()),
        ("baseOffset", pa.int64()),
        ("firstOffset", pa.int64()),
        ("lastOffset", pa.int64()),
        ("sizeInBytes", pa.int64()),
        ("validBytes", pa.int64()),
        ("invalidBytes", pa.int64()),
        ("modified", TIMESTAMP),
        ("batchCount", pa.int64()),
        ("recordCount", pa.int64()),
        ("maxTimestamp", TIMESTAMP),
        ("offsetIndex", pa.string()),
        ("offsetIndexEntries", pa.int64()),
        ("timeIndex", pa.string()),
        ("timeIndexEntries", pa.int64()),
        ("transactionIndex", pa.string()),
        ("transactionIndexEntries", pa.int64()),
    ]
)
"""`baseOffset` is from the file's name; offsets, counts and `maxTimestamp` are from the batches' headers
(`firstOffset` and `recordCount` are null where a compressed v0/v1 wrapper hides them); `validBytes` of the
file are read, `invalidBytes` lie behind the last batch of the log and are left out (0 while a broker has the
directory open). Indexes are "ok", "missing", "unreadable", "empty", "zero-filled", "torn" or "corrupt"."""

PARTITIONS = pa.schema(
    [
        *LOCATION,
        ("path", pa.string()),
        ("topicId", pa.string()),
        ("logStartOffset", pa.int64()),
        ("localLogStartOffset", pa.int64()),
        ("logEndOffset", pa.int64()),
        ("highWatermark", pa.int64()),
        ("lastStableOffset", pa.int64()),
        ("segmentCount", pa.int32()),
        ("sizeInBytes", pa.int64()),
        ("invalidBytes", pa.int64()),
        ("maxTimestamp", TIMESTAMP),
        ("cleanupPolicy", pa.string()),
        ("policySource", pa.string()),
        ("config", pa.map_(pa.string(), pa.string())),
        (
            "leaderEpochs",
            pa.list_(pa.field("element", pa.struct([("epoch", pa.int32()), ("startOffset", pa.int64())]))),
        ),
    ]
)
"""`config` is the topic's configuration in the cluster's metadata (null: the topic is not in it, or there is
no metadata). `cleanupPolicy` is what that, or another source, tells; `policySource` says which: topic,
broker, default, cleaner or internal (see native_log.policies.CleanupPolicy)."""

POLICY_COLUMNS = {"cleanupPolicy", "policySource", "config"}
"""Those of PARTITIONS that take a look into the cluster's metadata."""

TRANSACTIONS = pa.schema([*LOCATION, *TRANSACTION_SCHEMA])
"""`state` is committed, aborted or open; see native_log.log.producers.transactions."""

VIEWS = {"batches": BATCHES, "segments": SEGMENTS, "partitions": PARTITIONS, "transactions": TRANSACTIONS}
