"""Kafka's record formats in plain Python: the specification of the compiled kernel, and its fallback.

Read it in this order:

- `entry`: the batch header, what all formats share, and the checks of a header;
- `record_batch` (magic 2) and `legacy` (magic 0 and 1): the records in a batch;
- `codec`: the framing of compressed records;
- `scan`, `check`, `ranges`, `decode`, `find`: the functions that read;
- `format`: batches and records as lines of text;
- `encode`, `patch`, `partitioner`: the functions that write;
- `compaction`: the record-level part of compaction.

The formats are those of Kafka's clients (`org.apache.kafka.common.record`). Where Kafka's reader is laxer or
stricter than the format, a comment says which of them this reader follows.
"""

from __future__ import annotations

from native_log.records.reference.check import check_file
from native_log.records.reference.compaction import (
    BatchHeaders,
    KeyBuckets,
    OffsetMap,
    Survivors,
    merge,
    rewrite,
    rewrite_file,
)
from native_log.records.reference.conditions import Conditions
from native_log.records.reference.damage import DamageSkipper
from native_log.records.reference.decode import decode, decode_file
from native_log.records.reference.encode import encode
from native_log.records.reference.encode.builder import BatchBuilder, encode_builders
from native_log.records.reference.encode.open_batches import AppendedRecord, OpenBatches
from native_log.records.reference.find import find_batch
from native_log.records.reference.format import format_batches
from native_log.records.reference.listing import list_logs
from native_log.records.reference.partitioner import (
    murmur2,
    partition_of_key,
    partition_of_keys,
    rows_by_partition,
)
from native_log.records.reference.patch import patch, write_prefixes
from native_log.records.reference.ranges import divide_file
from native_log.records.reference.scan import scan, scan_headers

__all__ = [
    "AppendedRecord",
    "BatchBuilder",
    "BatchHeaders",
    "Conditions",
    "DamageSkipper",
    "KeyBuckets",
    "OffsetMap",
    "OpenBatches",
    "Survivors",
    "check_file",
    "decode",
    "decode_file",
    "divide_file",
    "encode",
    "encode_builders",
    "find_batch",
    "format_batches",
    "list_logs",
    "merge",
    "murmur2",
    "partition_of_key",
    "partition_of_keys",
    "patch",
    "rewrite",
    "rewrite_file",
    "rows_by_partition",
    "scan",
    "scan_headers",
    "write_prefixes",
]
