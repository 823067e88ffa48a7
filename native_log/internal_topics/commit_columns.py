"""Decode many commits of __consumer_offsets at once, column by column.

Almost all values have one of three layouts. These are decoded with functions of Arrow, and each distinct key
only once. All other records, such as old or damaged ones, are decoded one by one. The result is the same.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from native_log.internal_topics.commit_records import commit_rows
from native_log.internal_topics.records import LAST_MS, RECORD_FIELDS, records_of, to_batches
from native_log.internal_topics.schemas import CONSUMER_OFFSETS_SCHEMA
from native_log.messages.coordinators import read_key
from native_log.messages.groups import OFFSET_TYPES, RECORDS
from native_log.messages.reading import MessageError
from native_log.messages.schema import uuid_text
from native_log.records.java_utf8 import java_utf8

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMIT_PREFIX = b"\0\1"
"""The type of the record, with which a key begins."""
_MAX_KEY_BYTES = 1 << 15
"""Greater sizes of strings would be negative numbers."""
_CACHED_KEYS = 1 << 16
_VERSION, _OFFSET, _EPOCH, _METADATA_SIZE = 0, 2, 10, 14
"""Positions of the fields that all layouts have in common."""
_TIME_BYTES, _UUID_BYTES = 8, 16
_NO_UUID = bytes(_UUID_BYTES)

_KEY_SCHEMA = pa.schema(
    [("isCommit", pa.bool_()), ("group", pa.string()), ("topic", pa.string()), ("partition", pa.int32())]
)
"""The fields of a key. `isCommit` is false if the record is not about an offset. It is null for keys that are
invalid or from clients before 0.9: their records are decoded one by one."""


class _Layout(NamedTuple):
    """The layout of a value: version, offset, leader epoch, size of the metadata, metadata, time, tags.

    Attributes:
        version: the first two bytes.
        size_type: the type of the size of the metadata.
        size_of_none: the size of empty metadata, as it is stored.
        tag: how the tags begin: with the number of tagged fields, and the tag and the size of the topic id.
        tags_bytes: the size of the tags.
    """

    version: bytes
    size_type: pa.DataType
    size_of_none: int
    tag: bytes
    tags_bytes: int

    @property
    def metadata_at(self) -> int:
        return _METADATA_SIZE + int(self.size_type.bit_width) // 8

    @property
    def time_at(self) -> int:
        """Return the position of the commit time, from the end of the value."""
        return -_TIME_BYTES - self.tags_bytes


_LAYOUTS = (
    _Layout(b"\0\4", pa.int8(), 1, b"\0", 1),
    _Layout(b"\0\4", pa.int8(), 1, b"\1\0\x10", 3 + _UUID_BYTES),
    _Layout(b"\0\3", pa.int16(), 0, b"", 0),
)
"""Version 4 (Kafka 4.1) without and with a topic id, up to 126 bytes of metadata; version 3 (Kafka 2.1)."""


class CommitDecoder:
    """Decodes batches of records of a partition of __consumer_offsets."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._decode_key = lru_cache(_CACHED_KEYS)(_decode_key)

    def decode(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield what `commit_rows` yields for the records of a batch, as one batch if there is any.

        Args:
            batch: records in the order of offsets. It has RECORD_FIELDS and may have more columns.
        """
        table = pa.Table.from_batches(self._parts(batch.select(RECORD_FIELDS)), CONSUMER_OFFSETS_SCHEMA)
        if table.num_rows:
            yield from table.sort_by("recordOffset").combine_chunks().to_batches()

    def _parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows: first those of each layout, then tombstones, then all others."""
        encoded = batch.column("key").dictionary_encode()
        decoded = pa.array(map(self._decode_key, encoded.dictionary.to_pylist()), pa.struct(_KEY_SCHEMA))
        keys = pa.RecordBatch.from_struct_array(decoded).take(encoded.indices)
        rows = pa.RecordBatch.from_arrays(
            [*batch.columns, *keys.columns], [*batch.schema.names, *_KEY_SCHEMA.names]
        )

        is_commit = rows.column("isCommit")
        others = rows.filter(is_commit.is_null())
        rows = rows.filter(is_commit)  # nulls count as false
        is_tombstone = rows.column("value").is_null()
        tombstones, rows = rows.filter(is_tombstone), rows.filter(pc.invert(is_tombstone))
        for layout in _LAYOUTS:
            has_layout = _has_layout(rows.column("value"), layout)
            commits, rows = rows.filter(has_layout), rows.filter(pc.invert(has_layout))
            if commits.num_rows:
                yield self._rows(commits, "committed", _values(commits.column("value"), layout))
        if tombstones.num_rows:
            yield self._rows(tombstones, "tombstone", {})
        for some in (others, rows):
            records = records_of(some.select(RECORD_FIELDS))
            yield from to_batches(commit_rows(records, self._partition), CONSUMER_OFFSETS_SCHEMA)

    def _rows(self, rows: pa.RecordBatch, state: str, columns: dict[str, pa.Array]) -> pa.RecordBatch:
        """Return rows of CONSUMER_OFFSETS_SCHEMA. Columns that are neither in `rows` nor given are null."""
        count = rows.num_rows
        columns |= {name: rows.column(name) for name in ("group", "topic", "partition")}
        columns |= {
            "state": pa.repeat(state, count),
            "recordPartition": pa.repeat(pa.scalar(self._partition, pa.int32()), count),
            "recordOffset": rows.column("offset"),
            "recordTimestamp": rows.column("timestamp"),
        }
        arrays = [
            columns[field.name].cast(field.type) if field.name in columns else pa.nulls(count, field.type)
            for field in CONSUMER_OFFSETS_SCHEMA
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=CONSUMER_OFFSETS_SCHEMA)


def _decode_key(key: bytes) -> tuple[object, ...]:
    """Return the values of _KEY_SCHEMA."""
    if key.startswith(_COMMIT_PREFIX):
        topic_at = 4 + int.from_bytes(key[2:4])
        partition_at = topic_at + 2 + int.from_bytes(key[topic_at : topic_at + 2])
        if partition_at + 4 == len(key) < _MAX_KEY_BYTES:
            group, topic = key[4:topic_at], key[topic_at + 2 : partition_at]
            return True, java_utf8(group), java_utf8(topic), int.from_bytes(key[partition_at:], signed=True)
    try:
        kind, _ = read_key(RECORDS, key)
    except MessageError:
        return None, None, None, None
    return None if kind in OFFSET_TYPES else False, None, None, None


def _has_layout(values: pa.Array, layout: _Layout) -> pa.Array:
    """Return whether each value has a layout, and a commit time that fits into a timestamp."""
    shortest = layout.metadata_at - layout.time_at
    matches = pc.and_(
        pc.equal(pc.binary_slice(values, _VERSION, _OFFSET), layout.version),
        pc.greater_equal(pc.binary_length(values), shortest),
    )
    candidates = values.filter(matches)
    metadata_bytes = pc.subtract(
        _integers(candidates, _METADATA_SIZE, layout.size_type).cast(pa.int32()), layout.size_of_none
    )
    is_exact = pc.and_(
        pc.greater_equal(metadata_bytes, 0),
        pc.equal(pc.binary_length(candidates), pc.add(metadata_bytes, shortest)),
    )
    if layout.tag:
        tag = pc.binary_slice(candidates, -layout.tags_bytes, len(layout.tag) - layout.tags_bytes or None)
        is_exact = pc.and_(is_exact, pc.equal(tag, layout.tag))
    is_exact = pc.and_(is_exact, pc.less_equal(_integers(candidates, layout.time_at, pa.int64()), LAST_MS))
    return pc.replace_with_mask(matches, matches, is_exact)


def _values(values: pa.Array, layout: _Layout) -> dict[str, pa.Array]:
    """Return the columns of values that have a layout."""
    epochs = _integers(values, _EPOCH, pa.int32())
    times_ms = _integers(values, layout.time_at, pa.int64())
    columns = {
        "offset": _integers(values, _OFFSET, pa.int64()),
        "leaderEpoch": _known(epochs, epochs),
        "metadata": _text(pc.binary_slice(values, layout.metadata_at, layout.time_at)),
        "commitTimestamp": _known(times_ms, pc.multiply(times_ms, 1000)),
    }
    if layout.tags_bytes > _UUID_BYTES:
        encoded = pc.binary_slice(values, -_UUID_BYTES).dictionary_encode()
        texts = [None if uuid == _NO_UUID else uuid_text(uuid) for uuid in encoded.dictionary.to_pylist()]
        columns["topicId"] = pa.array(texts, pa.string()).take(encoded.indices)
    return columns


def _integers(values: pa.Array, at: int, kind: pa.DataType) -> pa.Array:
    """Return the big-endian integers at a position of the values. A negative one counts from the end.

    All values must be long enough.
    """
    end = at + kind.bit_width // 8
    little_endian = pc.binary_reverse(pc.binary_slice(values, at, end or None))
    return pa.Array.from_buffers(kind, len(values), [None, little_endian.buffers()[2]])


def _known(numbers: pa.Array, results: pa.Array) -> pa.Array:
    """Return the results, or null where the number is negative: unknown."""
    return pc.if_else(pc.less(numbers, 0), None, results)


def _text(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8
        return pa.array(map(java_utf8, values.to_pylist()), pa.string())
