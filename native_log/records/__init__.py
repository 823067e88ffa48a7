"""Kafka's record formats: bytes <-> Arrow.

Two implementations have the same functions and the same results: the compiled kernel, used where one can be
loaded (see `loading`), and `native_log.records.reference` in plain Python, which is the readable
specification and the fallback. `IMPLEMENTATION` says which one this process runs. The environment variable
KAFKALOG_KERNEL chooses: `reference` runs the reference on purpose, `required` raises an ImportError instead
of falling back.

- `scan(buffer)`: one row a batch, from the headers alone.
- `scan_headers(descriptor, ...)`: the same of an open file, of which nothing else is read.
- `decode(buffer, columns)`: the records, with just the columns asked for.
- `decode_file(descriptor, ...)`: the same of an open file's bytes.
- `find_batch(buffer, start)`: where the next whole batch begins behind damaged bytes.
- `encode(records)`: Arrow records, or rows of them, as batches sized as Kafka's producer sizes them.
- `encode_marker(...)`: the control batch that ends a transaction.
- `patch(data, batches)`: encoded batches given the offsets they come to have in a log.
- `write_prefixes(descriptor, batches)`: the same, where they lie in an open file.
- `murmur2(keys)`, `partition_of_keys(keys, partitions)`: Kafka's default partitioner.
- `deal(partitions, count)`: the rows of each partition.
- `Headers`, `OffsetMap`, `KeyBuckets`, `merge`, `Survivors`, `rewrite`, `rewrite_file`: what compaction
  needs (see `cleaning`).
"""

from __future__ import annotations

import logging
import os

from native_log.records.compaction import MapProgress, RewriteStats, Rewritten, Verdict
from native_log.records.control import encode_marker
from native_log.records.encode import Encoded
from native_log.records.loading import KernelNotFoundError
from native_log.records.schema import (
    BATCH_SCHEMA,
    DEFAULT_MAX_BATCH_BYTES,
    MAX_BATCH_BYTES,
    RECORD_SCHEMA,
    Damage,
    Decoded,
    OffsetOrder,
    Scanned,
)

IMPLEMENTATION = "reference"
"""\"kernel\" or \"reference\"."""

_wanted = os.environ.get("KAFKALOG_KERNEL", "")
if _wanted not in ("", "reference", "required"):
    raise ImportError(f"expected KAFKALOG_KERNEL to be reference or required, found {_wanted!r}")
if _wanted != "reference":
    try:
        from native_log.records.kernel import (
            deal,
            decode,
            decode_file,
            encode,
            find_batch,
            murmur2,
            partition_of_keys,
            patch,
            scan,
            scan_headers,
            write_prefixes,
        )
        from native_log.records.kernel_compaction import (
            Headers,
            KeyBuckets,
            OffsetMap,
            Survivors,
            merge,
            rewrite,
            rewrite_file,
        )

        IMPLEMENTATION = "kernel"
    except KernelNotFoundError as error:
        if _wanted == "required":
            raise
        logging.getLogger(__name__).warning(
            "native_log has no compiled kernel and runs in plain Python, some hundred times slower: %s", error
        )

if IMPLEMENTATION == "reference":
    from native_log.records.reference import (  # type: ignore[assignment]
        Headers,
        KeyBuckets,
        OffsetMap,
        Survivors,
        deal,
        decode,
        decode_file,
        encode,
        find_batch,
        merge,
        murmur2,
        partition_of_keys,
        patch,
        rewrite,
        rewrite_file,
        scan,
        scan_headers,
        write_prefixes,
    )

__all__ = [
    "BATCH_SCHEMA",
    "DEFAULT_MAX_BATCH_BYTES",
    "IMPLEMENTATION",
    "MAX_BATCH_BYTES",
    "RECORD_SCHEMA",
    "Damage",
    "Decoded",
    "Encoded",
    "Headers",
    "KeyBuckets",
    "MapProgress",
    "OffsetMap",
    "OffsetOrder",
    "RewriteStats",
    "Rewritten",
    "Scanned",
    "Survivors",
    "Verdict",
    "deal",
    "decode",
    "decode_file",
    "encode",
    "encode_marker",
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
