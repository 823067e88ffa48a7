"""Kafka's record formats: bytes <-> Arrow.

Two implementations have the same functions and the same results: the compiled kernel, used where it was
built, and `native_log.records.reference` in plain Python, which is the readable specification and the
fallback. `IMPLEMENTATION` says which one this process runs; KAFKALOG_KERNEL=reference in the environment
chooses the reference on purpose.

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

import os
import warnings

from native_log.records.cleaning import MapProgress, RewriteStats, Rewritten, Verdict
from native_log.records.control import encode_marker
from native_log.records.encode import Encoded
from native_log.records.schema import (
    BATCH_SCHEMA,
    DEFAULT_MAX_BATCH_BYTES,
    MAX_BATCH_BYTES,
    RECORD_SCHEMA,
    Damage,
    Decoded,
    Scanned,
)

IMPLEMENTATION = "reference"
"""\"kernel\" or \"reference\"."""

if os.environ.get("KAFKALOG_KERNEL") != "reference":
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
        from native_log.records.kernel_cleaning import (
            Headers,
            KeyBuckets,
            OffsetMap,
            Survivors,
            merge,
            rewrite,
            rewrite_file,
        )

        IMPLEMENTATION = "kernel"
    except ImportError as error:
        warnings.warn(
            f"the compiled kernel of native_log is not there ({error}); its plain Python reference is used, "
            "which reads the same and is some hundred times slower. To build the kernel, install Rust's "
            "cargo and install kafkalog-spark again",
            RuntimeWarning,
            stacklevel=2,
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
