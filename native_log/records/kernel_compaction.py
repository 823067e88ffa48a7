"""The compiled kernel behind the interface of native_log.records.compaction: its tuples become values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log.records.compaction import MapProgress, RewriteStats, Rewritten
from native_log.records.loading import load_kernel
from native_log.records.options import DEFAULT_INPUT, InputOptions
from native_log.records.schema import DEFAULT_MAX_BATCH_BYTES, Damage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from typing_extensions import Buffer

    from native_log import _kernel
    from native_log.records import compaction
    from native_log.records.options import RewriteOptions
    from native_log.records.schema import OffsetOrder
else:
    _kernel = load_kernel()

OFFSETS_AT_A_TIME = 1 << 14


def progress(found: tuple[Any, ...]) -> MapProgress:
    status, position, next_offset, needed, damage, records, null_keys = found
    return MapProgress(status, position, next_offset, needed, damaged(damage), records, null_keys)


def damaged(found: tuple[Any, ...] | None) -> Damage | None:
    return None if found is None else Damage(*found)


class Survivors:
    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self.kernel = _kernel.Survivors()
        values = list(offsets)
        if values:
            self.add_many(pa.array(values, pa.int64()).buffers()[1])

    @classmethod
    def of(cls, kernel: _kernel.Survivors) -> Survivors:
        found = cls.__new__(cls)
        found.kernel = kernel
        return found

    def __contains__(self, offset: object) -> bool:
        return isinstance(offset, int) and 0 <= offset < 1 << 63 and self.kernel.contains(offset)

    def __len__(self) -> int:
        return len(self.kernel)

    def __iter__(self) -> Iterator[int]:
        start = 0
        while offsets := self.kernel.some_from(start, OFFSETS_AT_A_TIME):
            yield from offsets
            start = offsets[-1] + 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Survivors) and self.kernel == other.kernel

    __hash__ = None  # type: ignore[assignment]  # mutable

    def add_many(self, offsets: Buffer) -> None:
        self.kernel.add_many(memoryview(offsets).cast("B"))

    def add_range(self, start_offset: int, end_offset: int) -> None:
        if start_offset < 0 or end_offset > 1 << 63:
            raise ValueError(f"offsets from 0 to 2^63 - 1 were expected: [{start_offset}, {end_offset})")
        if start_offset < end_offset:
            self.kernel.add_range(start_offset, end_offset)

    def between(self, start_offset: int, end_offset: int) -> Survivors:
        return Survivors.of(self.kernel.between(max(start_offset, 0), max(end_offset, 0)))

    def union(self, *others: compaction.Survivors) -> Survivors:
        return Survivors.of(self.kernel.union([own(other) for other in others]))

    def difference(self, other: compaction.Survivors) -> Survivors:
        return Survivors.of(self.kernel.difference(own(other)))

    def to_bytes(self) -> bytes:
        return self.kernel.to_bytes()

    @classmethod
    def from_bytes(cls, data: Buffer) -> Survivors:
        return cls.of(_kernel.Survivors.from_bytes(data))


class BatchHeaders:
    def __init__(self) -> None:
        self._headers = _kernel.Headers()

    def __len__(self) -> int:
        return len(self._headers)

    def add(
        self,
        buffer: Buffer,
        *,
        base_position: int = 0,
        end: int | None = None,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    ) -> None:
        self._headers.add(buffer, base_position=base_position, end=end, max_batch_bytes=max_batch_bytes)

    @property
    def has_transactions(self) -> bool:
        return self._headers.has_transactions

    @property
    def last_offsets(self) -> tuple[int, int] | None:
        return self._headers.last_offsets

    def take(self) -> pa.RecordBatch:
        return pa.record_batch(self._headers.take())


class OffsetMap:
    def __init__(self, max_bytes: int) -> None:
        self._map = _kernel.OffsetMap(max_bytes)

    def __len__(self) -> int:
        return len(self._map)

    @property
    def size_bytes(self) -> int:
        return self._map.size_bytes

    def get(self, key: bytes) -> int | None:
        return self._map.get(key)

    def put_batches(
        self,
        buffer: Buffer,
        options: InputOptions = DEFAULT_INPUT,
        *,
        base_position: int = 0,
        order: OffsetOrder | None = None,
    ) -> MapProgress:
        return progress(
            self._map.put_batches(
                buffer,
                **input_fields(options),
                base_position=base_position,
                order=order,
            )
        )

    def mark(
        self,
        buffer: Buffer,
        survivors: compaction.Survivors,
        options: InputOptions = DEFAULT_INPUT,
        *,
        base_position: int = 0,
        order: OffsetOrder | None = None,
    ) -> MapProgress:
        return progress(
            self._map.mark(
                buffer,
                own(survivors),
                **input_fields(options),
                base_position=base_position,
                order=order,
            )
        )

    def survivors(self) -> Survivors:
        return Survivors.of(self._map.survivors())


class KeyBuckets:
    def __init__(self, count: int, max_bytes: int, *, dirty: bool) -> None:
        self._buckets = _kernel.KeyBuckets(count, max_bytes, dirty=dirty)

    def __len__(self) -> int:
        return len(self._buckets)

    @property
    def size_bytes(self) -> int:
        return self._buckets.size_bytes

    def put_batches(
        self,
        buffer: Buffer,
        options: InputOptions = DEFAULT_INPUT,
        *,
        base_position: int = 0,
        order: OffsetOrder | None = None,
    ) -> MapProgress:
        return progress(
            self._buckets.put_batches(
                buffer,
                **input_fields(options),
                base_position=base_position,
                order=order,
            )
        )

    def take(self) -> list[Buffer]:
        return [memoryview(pack) for pack in self._buckets.take()]


def merge(buckets: Iterable[Iterable[Buffer]]) -> Survivors:
    return Survivors.of(_kernel.merge(buckets))


def rewrite(
    buffer: Buffer,
    options: RewriteOptions,
    *,
    verdicts: Buffer | None = None,
    base_position: int = 0,
    output_position: int = 0,
) -> Rewritten:
    return _rewritten(
        _kernel.rewrite(
            buffer,
            **_rewrite_fields(options),
            verdicts=verdicts,
            base_position=base_position,
            output_position=output_position,
        )
    )


def rewrite_file(
    descriptor: int,
    position: int,
    end: int,
    options: RewriteOptions,
    *,
    judged: Sequence[int] | None = None,
    max_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    output_position: int = 0,
) -> Rewritten:
    return _rewritten(
        _kernel.rewrite(
            (descriptor, position, end),
            **_rewrite_fields(options),
            judged=judged,
            max_bytes=max_bytes,
            output_position=output_position,
        )
    )


def _rewrite_fields(options: RewriteOptions) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(options, name) for name in options.__match_args__}
    return fields | {
        "survivors": own(options.survivors),
        "nulled": None if options.nulled is None else own(options.nulled),
    }


def input_fields(options: InputOptions) -> dict[str, Any]:
    return {name: getattr(options, name) for name in InputOptions.__match_args__}


def _rewritten(found: tuple[Any, ...]) -> Rewritten:
    data, batches, status, position, next_offset, needed, damage, stats = found
    return Rewritten(
        memoryview(data),
        pa.record_batch(batches),
        status,
        position,
        next_offset,
        needed,
        damaged(damage),
        RewriteStats(*stats),
    )


def own(survivors: compaction.Survivors) -> _kernel.Survivors:
    if not isinstance(survivors, Survivors):
        raise TypeError(f"survivors of the kernel were expected, found {type(survivors)}")
    return survivors.kernel
