"""The columns of the metadata views."""

from __future__ import annotations

import pyarrow as pa

from native_log.log.producers.transactions import TRANSACTION_SCHEMA
from native_log.records import BATCH_SCHEMA

TIMESTAMP = pa.timestamp("us", tz="UTC")
LOCATION = (pa.field("topic", pa.string()), pa.field("partition", pa.int32()))
"""The first columns of each view."""
_BATCH_TIMES = ("baseTimestamp", "maxTimestamp")

BATCHES = pa.schema(
    [
        *LOCATION,
        pa.field("segment", pa.string()),
        *(pa.field(f.name, TIMESTAMP) if f.name in _BATCH_TIMES else f for f in BATCH_SCHEMA),
    ]
)
"""The header fields of a batch (native_log.records.BATCH_SCHEMA) and its location. `isValid` is
whether the CRC is correct. CRCs are checked, which reads whole batches, only if this column is selected and
kafka.check.crcs is true; otherwise the column is null."""

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
        ("tier", pa.string()),
    ]
)
"""`baseOffset` comes from the file name. Offsets, counts and `maxTimestamp` come from the batch headers:
`firstOffset` and `recordCount` are null where a compressed v0/v1 wrapper hides them. `recordCount` includes
control records and the records of aborted transactions. `validBytes` is where reading stops: the size of the
file, or in the last segment the position where its valid batches end. `invalidBytes` counts the bytes after
the last batch of the log, which are not read (0 while a broker has the directory open). The state of an index
is "ok", "missing", "unreadable", "empty", "zero-filled", "torn" or "corrupt". `tier` is "local", or "remote"
for a segment in remote storage."""

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
        ("remoteSegmentCount", pa.int32()),
    ]
)
"""`segmentCount` includes the segments in remote storage, which `remoteSegmentCount` counts.
`highWatermark` is the checkpointed one, or null if the checkpoint has no entry for the partition.
`config` is the topic's configuration in the cluster metadata, or null if the metadata does not have the
topic or is not there. `cleanupPolicy` comes from that configuration or from another source. `policySource`
names the source: topic, broker, default, cleaner or internal (see native_log.policies.CleanupPolicy)."""

POLICY_COLUMNS = {"cleanupPolicy", "policySource", "config"}
"""The columns of PARTITIONS that require the cluster metadata."""

COUNTS = pa.schema([*LOCATION, ("count", pa.int64())])
"""The number of records of each partition within the requested offsets."""

TRANSACTIONS = pa.schema([*LOCATION, *TRANSACTION_SCHEMA])
"""`state` is committed, aborted or open; see native_log.log.producers.transactions."""
