"""Conditions on records, by which a decoder drops records before it builds columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PatternKind = Literal["contains", "prefix", "regex"]
PatternField = Literal["key", "value", "headers"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Bytes that a field must contain.

    Attributes:
        kind: "contains": `text` occurs in the field; "prefix": the field begins with `text`; "regex": the
            regular expression `text`, in UTF-8, matches somewhere in the field. The kernel has the syntax of
            Rust's regex crate, which is that of Python's `re` without look-around and backreferences.
        text: the bytes, or the expression.
        fields: one of these must match: "key", "value", "headers" (names and values). Null never matches.
    """

    kind: PatternKind
    text: bytes
    fields: tuple[PatternField, ...]


@dataclass(frozen=True, slots=True)
class RecordConditions:
    """Conditions that a record must meet, all of them. None: no condition. They do not apply to markers.

    A batch is skipped before it is decompressed if its header shows that none of its records meets them. The
    header's largest timestamp is trusted, as a broker trusts it (Kafka: LogSegment.findOffsetByTimestamp).
    The checksum of such a batch is still checked if checksums are checked at all.

    Attributes:
        min_timestamp_ms, max_timestamp_ms: epoch ms, both inclusive. A record without a timestamp has -1.
        producer_ids: the producers; records of formats v0 and v1 have the producer -1.
        keys: the keys; None among them is the null key.
        patterns: all of them must match.
    """

    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None
    producer_ids: tuple[int, ...] | None = None
    keys: tuple[bytes | None, ...] | None = None
    patterns: tuple[Pattern, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether every record meets the conditions."""
        return self == RecordConditions()
