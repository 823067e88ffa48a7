"""Conditions on records."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from native_log.records.reference.entry import LOG_APPEND_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.records.conditions import Pattern, PatternField, RecordConditions
    from native_log.records.reference.entry import BatchHeader
    from native_log.records.reference.record import Record

NO_PRODUCER = -1
_MOST_FOUND = 16
_LEAST_FOUND_BYTES = 4
"""Batches are searched for the bytes of up to this many keys, none of them shorter, before their records are
read. The kernel has the same limits."""


class Conditions:
    """Compiled RecordConditions. Raises ValueError for an invalid regular expression."""

    def __init__(self, conditions: RecordConditions) -> None:
        lowest, highest = conditions.min_timestamp_ms, conditions.max_timestamp_ms
        self._min_timestamp_ms = -(2**63) if lowest is None else lowest
        self._max_timestamp_ms = 2**63 - 1 if highest is None else highest
        self._producer_ids = conditions.producer_ids
        self._keys = None if conditions.keys is None else frozenset(conditions.keys)
        self._found_keys = self._keys_to_find()
        self._texts = [pattern.text for pattern in conditions.patterns if pattern.kind == "contains"]
        self._patterns = [(_compile(pattern), pattern.fields) for pattern in conditions.patterns]

    def skips(self, header: BatchHeader) -> bool:
        """Return whether the header shows that no record of the batch meets the conditions."""
        if header.magic < 2 or header.is_control:
            return False
        latest = header.max_timestamp
        return (
            latest < self._min_timestamp_ms
            or (header.timestamp_type == LOG_APPEND_TIME and latest > self._max_timestamp_ms)
            or not self._has_producer(header.producer_id)
        )

    def may_match(self, section: bytes) -> bool:
        """Return whether the records of a batch of magic 2, decompressed, have the bytes to look for."""
        return all(text in section for text in self._texts) and (
            not self._found_keys or any(key in section for key in self._found_keys)
        )

    def matches(self, record: Record, header: BatchHeader) -> bool:
        """Return whether a record of a batch that is not skipped meets the conditions."""
        if header.is_control:
            return True
        return (
            (header.magic == 2 or self._has_producer(NO_PRODUCER))
            and self._min_timestamp_ms <= record.timestamp <= self._max_timestamp_ms
            and (self._keys is None or record.key in self._keys)
            and all(
                any(regex.search(field) for name in fields for field in _fields(record, name))
                for regex, fields in self._patterns
            )
        )

    def _keys_to_find(self) -> list[bytes]:
        """Return keys, one of which a batch must contain; none if they are too many or too short."""
        keys = [key for key in self._keys or () if key is not None and len(key) >= _LEAST_FOUND_BYTES]
        all_found = self._keys is not None and len(keys) == len(self._keys)
        return keys if all_found and len(keys) <= _MOST_FOUND else []

    def _has_producer(self, producer_id: int) -> bool:
        return self._producer_ids is None or producer_id in self._producer_ids


def _compile(pattern: Pattern) -> re.Pattern[bytes]:
    try:
        if pattern.kind == "regex":
            return re.compile(pattern.text)
    except re.error as error:
        raise ValueError(f"cannot use the regular expression {pattern.text!r}: {error}") from None
    literal = re.escape(pattern.text)
    return re.compile(rb"\A" + literal if pattern.kind == "prefix" else literal, re.DOTALL)


def _fields(record: Record, name: PatternField) -> Iterator[bytes]:
    if name == "headers":
        for key, value in record.headers:
            yield key.encode()
            if value is not None:
                yield value
        return
    field = record.key if name == "key" else record.value
    if field is not None:
        yield field
