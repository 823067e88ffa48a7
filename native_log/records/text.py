"""The lines that kafka-dump-log prints of batches and records, and their parts (Kafka: DumpLogSegments)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


def batch_line(batch: dict[str, Any]) -> str:
    """Format a row of BATCH_SCHEMA whose CRC has been checked."""
    if batch["magic"] >= 2:
        horizon = batch["deleteHorizonMs"]
        text = (
            f"baseOffset: {batch['baseOffset']} lastOffset: {batch['lastOffset']} "
            f"count: {batch['recordCount']} baseSequence: {batch['baseSequence']} "
            f"lastSequence: {batch['lastSequence']} producerId: {batch['producerId']} "
            f"producerEpoch: {batch['producerEpoch']} partitionLeaderEpoch: {batch['leaderEpoch']} "
            f"isTransactional: {bool_text(batch['isTransactional'])} "
            f"isControl: {bool_text(batch['isControl'])} deleteHorizonMs: {_optional_long(horizon)}"
        )
    else:
        text = f"offset: {batch['lastOffset']}"
    return (
        f"{text} position: {batch['position']} {_TYPES[batch['timestampType']]}: {batch['maxTimestamp']} "
        f"size: {batch['sizeInBytes']} magic: {batch['magic']} compresscodec: {batch['compression']} "
        f"crc: {batch['crc']} isvalid: {bool_text(batch['isValid'])}"
    )


def record_line(parts: Iterable[str]) -> str:
    """Join the parts of a record's line. A payload alone has no bar before it, as in kafka-dump-log."""
    text = " ".join(parts)
    if text.startswith("payload: "):
        return f" {text}"
    return f"| {text}" if text else ""


def metadata_text(
    offset: int, timestamp_type: int, timestamp_ms: int, key: bytes | None, value: bytes | None
) -> str:
    """Format the fields that records of all formats have."""
    return (
        f"offset: {offset} {_TYPES[timestamp_type]}: {timestamp_ms} "
        f"keySize: {_size(key)} valueSize: {_size(value)}"
    )


def sequence_text(sequence: int, header_names: Iterable[str]) -> str:
    """Format the fields that only records of magic 2 have."""
    return f"sequence: {sequence} headerKeys: [{','.join(header_names)}]"


def contents_text(key: str | None, payload: str | None) -> list[str]:
    """Format key and payload, those that are not None."""
    return [f"{name}: {text}" for name, text in (("key", key), ("payload", payload)) if text is not None]


def bool_text(value: bool) -> str:
    return "true" if value else "false"


def find_gaps(offsets: list[int]) -> list[tuple[int, int]]:
    """Return the pairs whose second offset is not the first + 1. Sums overflow like Java's long."""
    pairs = pairwise(offsets)
    return [(previous, offset) for previous, offset in pairs if (offset - previous) % 2**64 != 1]


def _optional_long(value: int | None) -> str:
    """Format like Java's OptionalLong.toString."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)
