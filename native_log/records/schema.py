"""Arrow schemas of records and batches."""

from __future__ import annotations

import pyarrow as pa

HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)

RECORD_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
        ("leaderEpoch", pa.int32()),
        ("producerId", pa.int64()),
        ("producerEpoch", pa.int32()),
        ("sequence", pa.int32()),
        ("isTransactional", pa.bool_()),
        ("compression", pa.string()),
        ("magic", pa.int32()),
        ("batchOffset", pa.int64()),
        ("position", pa.int64()),
        ("segment", pa.string()),
    ]
)
"""All columns of a record. The first seven (with `headers`: eight) are those of Spark's kafka source. The
others are the record's location and the fields of its batch's header. `timestampType` is -1 (no timestamp,
magic 0), 0 (CreateTime) or 1 (LogAppendTime); `leaderEpoch`, `producerId`, `producerEpoch` and `sequence` are
-1 if the batch has none; `position` is the byte position of the record's batch in the file `segment`."""

BATCH_SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("sizeInBytes", pa.int32()),
        ("magic", pa.int32()),
        ("baseOffset", pa.int64()),
        ("lastOffset", pa.int64()),
        ("recordCount", pa.int32()),
        ("compression", pa.string()),
        ("timestampType", pa.int32()),
        ("baseTimestamp", pa.int64()),
        ("maxTimestamp", pa.int64()),
        ("deleteHorizonMs", pa.int64()),
        ("leaderEpoch", pa.int32()),
        ("producerId", pa.int64()),
        ("producerEpoch", pa.int32()),
        ("baseSequence", pa.int32()),
        ("lastSequence", pa.int32()),
        ("isTransactional", pa.bool_()),
        ("isControl", pa.bool_()),
        ("controlType", pa.int32()),
        ("attributes", pa.int32()),
        ("crc", pa.int64()),
        ("isValid", pa.bool_()),
    ]
)
"""One row for each batch, from its header alone. `sizeInBytes` includes the 12 bytes of offset and size;
times are epoch ms; `baseOffset` and `recordCount` are null for compressed v0/v1 wrappers, whose headers have
neither; `controlType` is 0 (ABORT), 1 (COMMIT), ... (null: no control batch); `isValid` is null unless CRCs
were checked."""
