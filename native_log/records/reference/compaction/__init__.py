"""What compaction does to bytes, in plain Python. The interface is that of native_log.records.compaction.

- `keys`: the records of a buffer that have keys, fed to what collects them;
- `headers`: headers, gathered;
- `offset_map`: OffsetMap, the greatest offset of each key;
- `buckets`: KeyBuckets, which collects into packs by key;
- `packs`: their format, and what survives of them: `merge`;
- `survivors`, `roaring`: a set of offsets, and the format it is stored in;
- `filtering`, `rewrite`: batches without the records that do not survive.
"""

from __future__ import annotations

from native_log.records.reference.compaction.buckets import KeyBuckets
from native_log.records.reference.compaction.headers import BatchHeaders
from native_log.records.reference.compaction.offset_map import OffsetMap
from native_log.records.reference.compaction.packs import merge
from native_log.records.reference.compaction.rewrite import rewrite, rewrite_file
from native_log.records.reference.compaction.survivors import Survivors

__all__ = ["BatchHeaders", "KeyBuckets", "OffsetMap", "Survivors", "merge", "rewrite", "rewrite_file"]
