"""The compiled kernel behind the interface of native_log.records: its tuples become Decoded and Scanned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log import _kernel
from native_log.records.schema import DEFAULT_MAX_BATCH_BYTES, Damage, Decoded, Scanned

if TYPE_CHECKING:
    from collections.abc import Buffer, Sequence  # type: ignore[attr-defined]

API_VERSION = 2
if _kernel.API_VERSION != API_VERSION:
    raise ImportError(
        f"native_log._kernel has interface {_kernel.API_VERSION}, this native_log needs {API_VERSION}: "
        "build it again (make kernel)"
    )

find_batch = _kernel.find_batch


def decode(
    buffer: Buffer,
    columns: Sequence[str],
    *,
    base_position: int = 0,
    start_offset: int | None = None,
    end_offset: int | None = None,
    aborted: Buffer = b"",
    max_rows: int | None = None,
    max_bytes: int | None = None,
    check_crcs: bool = True,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    control: bool = False,
    topic: str | None = None,
    partition: int | None = None,
    segment: str | None = None,
) -> Decoded:
    batch, status, position, next_offset, needed, damage = _kernel.decode(
        buffer,
        columns,
        base_position=base_position,
        start_offset=start_offset,
        end_offset=end_offset,
        aborted=aborted,
        max_rows=max_rows,
        max_bytes=max_bytes,
        check_crcs=check_crcs,
        max_batch_bytes=max_batch_bytes,
        control=control,
        topic=topic,
        partition=partition,
        segment=segment,
    )
    return Decoded(pa.record_batch(batch), status, position, next_offset, needed, _damage(damage))


def scan(
    buffer: Buffer,
    *,
    base_position: int = 0,
    check_crcs: bool = False,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Scanned:
    batches, status, position, next_offset, needed, damage = _kernel.scan(
        buffer, base_position=base_position, check_crcs=check_crcs, max_batch_bytes=max_batch_bytes
    )
    return Scanned(pa.record_batch(batches), status, position, next_offset, needed, _damage(damage))


def _damage(found: tuple[Any, ...] | None) -> Damage | None:
    return None if found is None else Damage(*found)
