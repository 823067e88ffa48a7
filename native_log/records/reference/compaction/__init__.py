"""The record-level part of compaction in plain Python, with the interface of native_log.records.compaction.

- `keys`: read the keys of a buffer's records;
- `headers`: BatchHeaders;
- `offset_map`: OffsetMap, the greatest offset of each key;
- `buckets`: KeyBuckets, which writes keys and offsets to packs by bucket;
- `packs`: the format of packs, and `merge`, which computes their survivors;
- `survivors`, `roaring`: Survivors, a set of offsets, and its serialized format;
- `filtering`, `rewrite`, `write`: batches without the records that do not survive.
"""

from __future__ import annotations

from native_log.records.reference.compaction.buckets import KeyBuckets
from native_log.records.reference.compaction.headers import BatchHeaders
from native_log.records.reference.compaction.offset_map import OffsetMap
from native_log.records.reference.compaction.packs import merge
from native_log.records.reference.compaction.rewrite import rewrite, rewrite_file
from native_log.records.reference.compaction.survivors import Survivors

__all__ = ["BatchHeaders", "KeyBuckets", "OffsetMap", "Survivors", "merge", "rewrite", "rewrite_file"]
