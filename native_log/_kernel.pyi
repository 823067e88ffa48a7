"""The compiled kernel (crate native_log/kernel). native_log.records.kernel turns its tuples into values."""

from collections.abc import Buffer, Sequence  # type: ignore[attr-defined]
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
) -> _Result: ...
def decode(
    buffer: Buffer,
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
) -> _Result: ...
def find_batch(
    buffer: Buffer,
    start: int = 0,
    *,
    base_position: int = 0,
    min_offset: int = 0,
    max_offset: int = ...,
) -> int | None: ...
