"""The compiled kernel (crate kernel/python). native_log.records.kernel turns its tuples into values."""

from collections.abc import Buffer, Iterable, Sequence  # type: ignore[attr-defined]
from typing import Any, TypeAlias

API_VERSION: int

class ArrowBatch:
    """A record batch to be imported through Arrow's PyCapsule interface: `pa.record_batch(batch)`."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[Any, Any]: ...

_Damage: TypeAlias = tuple[str, int, int, int, str]
"""kind, position, size_bytes, offset, message"""
_Result: TypeAlias = tuple[ArrowBatch, str, int, int | None, int, _Damage | None]
"""batch, status, position, next_offset, needed_bytes, damage"""

def scan(
    buffer: Buffer,
    *,
    base_position: int = 0,
    check_crcs: bool = False,
    max_batch_bytes: int = ...,
    order: tuple[int, int, int] | None = None,
) -> _Result: ...
def scan_headers(
    descriptor: int,
    position: int,
    end: int,
    *,
    max_rows: int,
    max_batch_bytes: int = ...,
    order: tuple[int, int, int] | None = None,
) -> _Result: ...
def decode(
    source: Buffer | tuple[int, int, int],
    columns: Sequence[str],
    *,
    base_position: int = 0,
    start_offset: int | None = None,
    end_offset: int | None = None,
    aborted: Buffer | None = None,
    max_rows: int | None = None,
    max_bytes: int | None = None,
    check_crcs: bool = True,
    max_batch_bytes: int = ...,
    control: bool = False,
    topic: str | None = None,
    partition: int | None = None,
    segment: str | None = None,
    order: tuple[int, int, int] | None = None,
) -> _Result: ...
def find_batch(
    buffer: Buffer,
    start: int = 0,
    *,
    base_position: int = 0,
    min_offset: int = 0,
    max_offset: int = ...,
    max_batch_bytes: int = 0,
) -> int | None: ...
def encode(
    parts: Sequence[tuple[object, Buffer | None]],
    *,
    magic: int,
    compression: str,
    level: int | None,
    batch_size: int,
    max_message_bytes: int | None,
    base_offset: int,
    leader_epoch: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    is_transactional: bool,
    append_time_ms: int | None,
    now_ms: int,
    base_position: int,
    estimated_ratio: float,
    finish: bool,
) -> tuple[tuple[Bytes, ArrowBatch, int, float] | None, tuple[str, int, int, int]]:
    """data, batches, rows, estimated ratio, or None; kind of refusal, first and last row, what was found"""

def murmur2(keys: object, partitions: int | None = None) -> ArrowBatch: ...
def deal(partitions: Buffer, count: int) -> tuple[ArrowBatch, list[tuple[int, int]]]: ...
def patch(data: Buffer, positions: Buffer, *, base_offset: int, leader_epoch: int) -> int | None: ...
def write_prefixes(
    descriptor: int, positions: Buffer, base_offsets: Buffer, sizes: Buffer, *, leader_epoch: int
) -> None: ...

_Progress: TypeAlias = tuple[str, int, int | None, int, _Damage | None, int, int]
"""status, position, next_offset, needed_bytes, damage, records, null_keys"""

class Bytes:
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Part:
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Survivors:
    def contains(self, offset: int) -> bool: ...
    def __len__(self) -> int: ...
    def some_from(self, start: int, count: int) -> list[int]: ...
    def add_many(self, offsets: Buffer) -> None: ...
    def add_range(self, start_offset: int, end_offset: int) -> None: ...
    def between(self, start_offset: int, end_offset: int) -> Survivors: ...
    def union(self, others: Sequence[Survivors]) -> Survivors: ...
    def difference(self, other: Survivors) -> Survivors: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(data: Buffer) -> Survivors: ...

class Headers:
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
    def take(self) -> ArrowBatch: ...

class OffsetMap:
    def __init__(self, max_bytes: int) -> None: ...
    def __len__(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    def get(self, key: bytes) -> int | None: ...
    def put_batches(
        self,
        buffer: Buffer,
        *,
        base_position: int = 0,
        start_offset: int | None = None,
        end_offset: int | None = None,
        aborted: Buffer | None = None,
        check_crcs: bool = True,
        max_batch_bytes: int = ...,
        order: tuple[int, int, int] | None = None,
    ) -> _Progress: ...
    def mark(
        self,
        buffer: Buffer,
        survivors: Survivors,
        *,
        base_position: int = 0,
        start_offset: int | None = None,
        end_offset: int | None = None,
        aborted: Buffer | None = None,
        check_crcs: bool = True,
        max_batch_bytes: int = ...,
        order: tuple[int, int, int] | None = None,
    ) -> _Progress: ...
    def survivors(self) -> Survivors: ...

class KeyBuckets:
    def __init__(self, count: int, max_bytes: int, *, dirty: bool) -> None: ...
    def __len__(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    def put_batches(
        self,
        buffer: Buffer,
        *,
        base_position: int = 0,
        start_offset: int | None = None,
        end_offset: int | None = None,
        aborted: Buffer | None = None,
        check_crcs: bool = True,
        max_batch_bytes: int = ...,
        order: tuple[int, int, int] | None = None,
    ) -> _Progress: ...
    def take(self) -> list[Part]: ...

def merge(buckets: Iterable[Iterable[Buffer]]) -> Survivors: ...
def rewrite(
    source: Buffer | tuple[int, int, int],
    *,
    survivors: Survivors,
    survivors_end: int,
    now_ms: int,
    delete_horizon_ms: int | None,
    verdicts: Buffer | None = None,
    legacy_tombstones_kept: bool = True,
    nulled: Survivors | None = None,
    base_position: int = 0,
    output_position: int = 0,
    check_crcs: bool = True,
    max_batch_bytes: int = ...,
    max_bytes: int = ...,
    judged: Sequence[int] | None = None,
) -> tuple[Bytes, ArrowBatch, str, int, int | None, int, _Damage | None, list[int]]:
    """data, batches, status, position, next_offset, needed_bytes, damage, the fields of RewriteStats"""
