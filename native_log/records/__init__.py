"""Kafka's record formats: conversion between bytes and Arrow.

There are two implementations with the same functions and the same results: the compiled kernel, used where
one can be loaded (see `loading`), and `native_log.records.reference` in plain Python, which is the readable
specification and the fallback. `IMPLEMENTATION` says which of them this process uses. The environment
variable KAFKALOG_KERNEL selects one: `reference` uses the reference; `required` raises an ImportError instead
of falling back.

- `scan(buffer)`: one row for each batch, from its header alone.
- `scan_headers(descriptor, ...)`: the same for an open file; reads only the headers.
- `check_file(descriptor, ...)`: one row for each batch, whether its CRC is right, and which batches have
  invalid records.
- `divide_file(descriptor, ...)`: ranges of whole batches.
- `decode(buffer, columns, options)`: the records, with only the requested columns.
- `decode_file(descriptor, ...)`: the same for a range of an open file.
- `find_batch(buffer, start)`: where the next whole batch begins after damaged bytes.
- `format_batches(buffer, options)`: batches and records as kafka-dump-log prints them.
- `encode(records, options)`: Arrow records, or some of their rows, as batches sized like those of Kafka's
  producer.
- `BatchBuilder`, `encode_builders(builders, options)`: batches built record by record.
- `OpenBatches`, `AppendedRecord`: append the records of a producer to such batches.
- `encode_marker(...)`: the control batch that ends a transaction.
- `patch(data, batches)`: set the offsets and the leader epoch of encoded batches.
- `write_prefixes(descriptor, batches)`: the same in an open file.
- `murmur2(keys)`, `partition_of_keys(keys, partitions)`, `partition_of_key(key, partitions)`: Kafka's default
  partitioner.
- `rows_by_partition(partitions, count)`: the rows of each partition.
- `Conditions(record_conditions)`: what records must meet, compiled for `DecodeOptions.conditions`.
- `BatchHeaders`, `OffsetMap`, `KeyBuckets`, `merge`, `Survivors`, `rewrite`, `rewrite_file`: the record-level
  part of compaction (see `compaction`).

The functions are documented in `native_log.records.reference`, the classes in `compaction`, the options in
`options`.
"""

from __future__ import annotations

import logging
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from native_log.records.loading import KernelNotFoundError
from native_log.records.results import (
    CORRUPT_RECORD,
    DEFAULT_MAX_BATCH_BYTES,
    MAX_BATCH_BYTES,
    Checked,
    Damage,
    Decoded,
    Divided,
    Formatted,
    ListedLog,
    OffsetOrder,
    Scanned,
    SkippedDamage,
)

if TYPE_CHECKING:
    from native_log.records.compaction import MapProgress, RewriteOptions, RewriteStats, Rewritten, Verdict
    from native_log.records.conditions import Pattern, RecordConditions
    from native_log.records.control import encode_marker
    from native_log.records.encoding import Encoded
    from native_log.records.kernel import (
        AppendedRecord,
        BatchBuilder,
        BatchHeaders,
        Conditions,
        DamageSkipper,
        KeyBuckets,
        OffsetMap,
        OpenBatches,
        Survivors,
        check_file,
        decode,
        decode_file,
        divide_file,
        find_batch,
        format_batches,
        list_logs,
        merge,
        partition_of_key,
        rewrite,
        rewrite_file,
        scan,
        scan_headers,
    )
    from native_log.records.kernel_writing import (
        encode,
        encode_builders,
        murmur2,
        partition_of_keys,
        patch,
        rows_by_partition,
        write_prefixes,
    )
    from native_log.records.options import DecodeOptions, EncodeOptions, InputOptions, TextOptions
    from native_log.records.schema import BATCH_SCHEMA, RECORD_SCHEMA

IMPLEMENTATION = "reference"
"""\"kernel\" or \"reference\"."""

_selected = os.environ.get("KAFKALOG_KERNEL", "")
if _selected not in ("", "reference", "required"):
    raise ImportError(f"expected KAFKALOG_KERNEL to be reference or required, found {_selected!r}")
if _selected != "reference":
    try:
        import_module("native_log.records.kernel")
        IMPLEMENTATION = "kernel"
    except KernelNotFoundError as error:
        if _selected == "required":
            raise
        logging.getLogger(__name__).warning(
            "native_log has no compiled kernel and runs in plain Python, about a hundred times slower: %s",
            error,
        )

__all__ = [
    "BATCH_SCHEMA",
    "CORRUPT_RECORD",
    "DEFAULT_MAX_BATCH_BYTES",
    "IMPLEMENTATION",
    "MAX_BATCH_BYTES",
    "RECORD_SCHEMA",
    "AppendedRecord",
    "BatchBuilder",
    "BatchHeaders",
    "Checked",
    "Conditions",
    "Damage",
    "DamageSkipper",
    "DecodeOptions",
    "Decoded",
    "Divided",
    "EncodeOptions",
    "Encoded",
    "Formatted",
    "InputOptions",
    "KeyBuckets",
    "ListedLog",
    "MapProgress",
    "OffsetMap",
    "OffsetOrder",
    "OpenBatches",
    "Pattern",
    "RecordConditions",
    "RewriteOptions",
    "RewriteStats",
    "Rewritten",
    "Scanned",
    "SkippedDamage",
    "Survivors",
    "TextOptions",
    "Verdict",
    "check_file",
    "decode",
    "decode_file",
    "divide_file",
    "encode",
    "encode_builders",
    "encode_marker",
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

# These are imported on first use: Arrow takes longer to import than some commands take.
_MODULES = {
    "BATCH_SCHEMA": "schema",
    "DecodeOptions": "options",
    "EncodeOptions": "options",
    "Encoded": "encoding",
    "InputOptions": "options",
    "MapProgress": "compaction",
    "Pattern": "conditions",
    "RecordConditions": "conditions",
    "RECORD_SCHEMA": "schema",
    "RewriteOptions": "compaction",
    "RewriteStats": "compaction",
    "Rewritten": "compaction",
    "TextOptions": "options",
    "Verdict": "compaction",
    "encode_marker": "control",
}
_WRITING = {
    *("encode", "encode_builders", "murmur2", "partition_of_keys", "patch", "rows_by_partition"),
    "write_prefixes",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    implementation = "kernel_writing" if IMPLEMENTATION == "kernel" and name in _WRITING else IMPLEMENTATION
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, implementation)}"), name)
