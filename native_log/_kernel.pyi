"""The compiled kernel (crate kernel/python).

Functions and classes are documented in native_log.records.reference and native_log.records.compaction, and
have the same signatures there.
"""

from collections.abc import Buffer, Callable, Iterable, Iterator, Sequence  # type: ignore[attr-defined]
from typing import Any

import pyarrow as pa

from native_log.records.compaction import MapProgress, RewriteOptions, Rewritten
from native_log.records.conditions import RecordConditions
from native_log.records.options import (
    DecodeOptions,
    EncodeOptions,
    InputOptions,
    TextOptions,
)
from native_log.records.results import Checked, Decoded, Divided, Formatted, ListedLog, OffsetOrder, Scanned

API_VERSION: int

class ArrowBatch:
    """A record batch to be imported through Arrow's PyCapsule interface: `pa.record_batch(batch)`."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[Any, Any]: ...

class Conditions:
    def __init__(self, conditions: RecordConditions) -> None: ...

class DamageSkipper:
    def __init__(self, end: int, has_whole_file: bool) -> None: ...

class Bytes:
    def __buffer__(self, flags: int, /) -> memoryview: ...

def scan(
    buffer: Buffer,
    *,
    base_position: int = 0,
    check_crcs: bool = False,
    max_batch_bytes: int = ...,
    order: OffsetOrder | None = None,
    columns: Sequence[str] | None = None,
) -> Scanned: ...
def scan_headers(
    descriptor: int,
    position: int,
    end: int,
    *,
    max_rows: int,
    max_batch_bytes: int = ...,
    order: OffsetOrder | None = None,
    columns: Sequence[str] | None = None,
) -> Scanned: ...
def check_file(
    descriptor: int,
    position: int,
    end: int,
    *,
    check_records: bool,
    max_rows: int,
    max_bytes: int,
    max_batch_bytes: int = ...,
    order: OffsetOrder | None = None,
    accept_newer: bool = False,
    skipper: DamageSkipper | None = None,
) -> Checked: ...
def divide_file(
    descriptor: int,
    position: int,
    end: int,
    *,
    range_bytes: int,
    max_rows: int,
    max_batch_bytes: int = ...,
) -> Divided: ...
def decode(
    buffer: Buffer,
    columns: Sequence[str],
    options: DecodeOptions,
    *,
    base_position: int = 0,
    order: OffsetOrder | None = None,
) -> Decoded: ...
def decode_file(
    descriptor: int,
    position: int,
    end: int,
    columns: Sequence[str],
    options: DecodeOptions,
    *,
    order: OffsetOrder | None = None,
) -> Decoded: ...
def find_batch(
    buffer: Buffer,
    start: int = 0,
    *,
    base_position: int = 0,
    min_offset: int = 0,
    max_offset: int = ...,
    max_batch_bytes: int = 0,
) -> int | None: ...
def list_logs(paths: Sequence[str], *, max_batch_bytes: int = ...) -> list[ListedLog | None]: ...
def format_batches(buffer: Buffer, options: TextOptions, *, base_position: int = 0) -> Formatted: ...
def encode(
    parts: Sequence[tuple[object, Buffer | None]],
    options: EncodeOptions,
    *,
    base_offset: int,
    base_sequence: int,
    base_position: int,
    estimated_ratio: float,
    finish: bool,
) -> tuple[tuple[Bytes, ArrowBatch, int, float] | None, tuple[str, int, int, int]]:
    """Return data, batches, rows and estimated ratio, or None; and why not: see encoding.raise_rejection."""

class BatchBuilder:
    def __init__(self, limit_bytes: int, estimated_ratio: float | None = None) -> None: ...
    @property
    def limit_bytes(self) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def plain_bytes(self) -> int: ...
    @property
    def estimated_bytes(self) -> int: ...
    @property
    def is_full(self) -> bool: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def min_timestamp(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def first_null_key(self) -> int: ...
    def append(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] | None,
        timestamp_ms: int,
    ) -> int: ...
    def close(self) -> None: ...
    def renew(self, limit_bytes: int, estimated_ratio: float | None) -> BatchBuilder: ...

class AppendedRecord:
    batch: Any
    index: int
    timestamp: int
    key_size: int
    value_size: int
    def __init__(
        self,
        batch: Any = None,
        index: int = 0,
        timestamp: int = -1,
        key_size: int = -1,
        value_size: int = -1,
    ) -> None: ...

class OpenBatches:
    sticky: Any
    on_full: Callable[[], object] | None
    def __init__(
        self,
        record_type: type[AppendedRecord],
        clock_ns: Callable[[], int],
        by_partition: list[Any],
        sticky: Any,
        *,
        ignore_keys: bool = False,
    ) -> None: ...
    def append(
        self,
        value: Any,
        key: Any = None,
        headers: Any = None,
        timestamp_ms: Any = None,
        callback: Callable[..., object] | None = None,
    ) -> Any: ...

def encode_builders(
    builders: Sequence[BatchBuilder], options: EncodeOptions, *, base_offset: int, base_sequence: int
) -> tuple[tuple[Bytes, ArrowBatch, int, float] | None, tuple[str, int, int, int]]:
    """Return the same as `encode`."""

def partition_of_key(key: bytes, partitions: int) -> int: ...
def murmur2(keys: object, partitions: int | None = None) -> ArrowBatch:
    """Return one column: the hashes of one column of keys or, with `partitions`, their partitions."""

def rows_by_partition(partitions: Buffer, count: int) -> tuple[ArrowBatch, list[tuple[int, int]]]:
    """Return one column with the rows of the first partition, of the next, and so on; and of each partition
    that has rows its number and how many they are."""

def patch(data: Buffer, positions: Buffer, *, base_offset: int, leader_epoch: int) -> int | None:
    """Return None, or the first position without a batch of magic 2; then nothing was changed."""

def write_prefixes(
    descriptor: int, positions: Buffer, base_offsets: Buffer, sizes: Buffer, *, leader_epoch: int
) -> None: ...

class Survivors:
    def __init__(self, offsets: Iterable[int] | None = None) -> None: ...
    def __contains__(self, offset: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    def add_many(self, offsets: Buffer) -> None: ...
    def add_range(self, start_offset: int, end_offset: int) -> None: ...
    def between(self, start_offset: int, end_offset: int) -> Survivors: ...
    def union(self, *others: Survivors) -> Survivors: ...
    def difference(self, other: Survivors) -> Survivors: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(data: Buffer) -> Survivors: ...

class BatchHeaders:
    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def add(
        self,
        buffer: Buffer,
        *,
        base_position: int = 0,
        end: int | None = None,
        max_batch_bytes: int = ...,
    ) -> None: ...
    @property
    def has_transactions(self) -> bool: ...
    @property
    def last_offsets(self) -> tuple[int, int] | None: ...
    def take(self) -> pa.RecordBatch: ...

class OffsetMap:
    def __init__(self, max_bytes: int) -> None: ...
    def __len__(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    def get(self, key: bytes) -> int | None: ...
    def put_batches(
        self,
        buffer: Buffer,
        options: InputOptions,
        *,
        base_position: int = 0,
        order: OffsetOrder | None = None,
    ) -> MapProgress: ...
    def mark(
        self,
        buffer: Buffer,
        survivors: Survivors,
        options: InputOptions,
        *,
        base_position: int = 0,
        order: OffsetOrder | None = None,
    ) -> MapProgress: ...
    def survivors(self) -> Survivors: ...

class KeyBuckets:
    def __init__(self, count: int, max_bytes: int, *, dirty: bool) -> None: ...
    def __len__(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    def put_batches(
        self,
        buffer: Buffer,
        options: InputOptions,
        *,
        base_position: int = 0,
        order: OffsetOrder | None = None,
    ) -> MapProgress: ...
    def take(self) -> list[Buffer]: ...

def merge(buckets: Iterable[Iterable[Buffer]]) -> Survivors: ...
def rewrite(
    buffer: Buffer,
    options: RewriteOptions,
    *,
    verdicts: Buffer | None = None,
    base_position: int = 0,
) -> Rewritten: ...
def rewrite_file(
    descriptor: int,
    position: int,
    end: int,
    options: RewriteOptions,
    *,
    judged: Sequence[int] | None = None,
    max_bytes: int = ...,
) -> Rewritten: ...
