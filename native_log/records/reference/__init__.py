"""Kafka's record formats in plain Python: the specification the compiled kernel is held to, and its stand-in.

Read it in this order:

- `entry`: the shape all three formats share, and what is checked before a batch is looked at;
- `record_batch` (magic 2) and `legacy` (magic 0 and 1): a batch's bytes to its records;
- `codec`: the framing of the compressed payloads;
- `scan`, `decode`, `find`: the functions that read;
- `encode`, `patch`, `partitioner`: the functions that write;
- `cleaning`: what compaction needs.

Facts are those of Kafka's clients (`org.apache.kafka.common.record`); where their reader is laxer or stricter
than the format, the comments say whom this one follows.
"""

from __future__ import annotations

from native_log.records.reference.compaction import (
    BatchHeaders,
    KeyBuckets,
    OffsetMap,
    Survivors,
    merge,
    rewrite,
    rewrite_file,
)
from native_log.records.reference.decode import decode, decode_file
from native_log.records.reference.encode import encode
from native_log.records.reference.find import find_batch
from native_log.records.reference.partitioner import deal, murmur2, partition_of_keys
from native_log.records.reference.patch import patch, write_prefixes
from native_log.records.reference.scan import scan, scan_headers

__all__ = [
    "BatchHeaders",
    "KeyBuckets",
    "OffsetMap",
    "Survivors",
    "deal",
    "decode",
    "decode_file",
    "encode",
    "find_batch",
    "merge",
    "murmur2",
    "partition_of_keys",
    "patch",
    "rewrite",
    "rewrite_file",
    "scan",
    "scan_headers",
    "write_prefixes",
]
