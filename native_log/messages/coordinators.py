"""Decode records of Kafka's coordinators (Kafka: CoordinatorRecordSerde).

The key begins with the type of the record, the value with the version of its schema.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from native_log.messages.java_text import json_text
from native_log.messages.reading import Buffer, MessageError, read_message, read_versioned
from native_log.messages.schema import ALL, NONE, Message, Notation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

TOMBSTONE = "<DELETE>"


@dataclass(frozen=True, slots=True)
class CoordinatorRecord:
    """The schemas of key and value of a type of record."""

    key: Message
    value: Message


def coordinator_records(text: str) -> dict[int, CoordinatorRecord]:
    """Parse schemas and return them by type.

    For each type, the text has its number, its name, the fields of the key, and the message of the value.
    """
    notation, records = Notation(text), {}
    while notation:
        kind, name = int(notation.next()), notation.next()
        key = Message(f"{name}Key", ALL, NONE, notation.fields())
        records[kind] = CoordinatorRecord(key, notation.message(f"{name}Value"))
    return records


def decode_record(
    records: Mapping[int, CoordinatorRecord],
    offset: int,
    key: bytes | None,
    value: bytes | None,
    expand: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[str, str | None]:
    """Format key and payload as kafka-dump-log does (Kafka: DumpLogSegments.CoordinatorRecordMessageParser).

    Args:
        expand: replaces bytes in a decoded value by the messages that they contain.
    """
    try:
        kind, message = _decode_key(records, key)
        if message is None:
            return f"Unknown record type {kind} at offset {offset}, skipping.", None
        key_text = json_text({"type": str(kind), "data": message})
        return key_text, TOMBSTONE if value is None else _format_value(
            records[kind].value, Buffer(value), expand
        )
    except MessageError as error:
        return f"Error at offset {offset}, skipping. {error}", None


def _decode_key(
    records: Mapping[int, CoordinatorRecord], key: bytes | None
) -> tuple[int, dict[str, Any] | None]:
    if key is None:
        raise MessageError("Expected a key, found none")
    with _describe_errors("Could not read the key"):
        buffer = Buffer(key)
        kind: int = buffer.number("int16")
        record = records.get(kind)
        return kind, None if record is None else read_message(record.key, 0, buffer)


def _format_value(message: Message, buffer: Buffer, expand: Callable[[dict[str, Any]], None] | None) -> str:
    with _describe_errors("Could not read the value"):
        version, data = read_versioned(message, buffer)
    if expand is not None:
        expand(data)
    return json_text({"version": str(version), "data": data})


@contextmanager
def _describe_errors(what: str) -> Iterator[None]:
    try:
        yield
    except MessageError as error:
        raise MessageError(f"{what}: {error}") from error
