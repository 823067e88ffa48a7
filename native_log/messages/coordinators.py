"""Records of Kafka's coordinators: the key tells of what type they are, the value in which version (Kafka:
CoordinatorRecordSerde)."""

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
    """The two messages of a type of record."""

    key: Message
    value: Message


def coordinator_records(text: str) -> dict[int, CoordinatorRecord]:
    """By type. A line each: the type, its name, the fields of its key, the message of its value."""
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
    opened: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[str, str | None]:
    """Key and payload as kafka-dump-log prints them (Kafka: DumpLogSegments.CoordinatorRecordMessageParser).

    Args:
        opened: turns what is bytes in a value into what it means.
    """
    try:
        kind, message = _key(records, key)
        if message is None:
            return f"Unknown record type {kind} at offset {offset}, skipping.", None
        key_text = json_text({"type": str(kind), "data": message})
        return key_text, TOMBSTONE if value is None else _value(records[kind].value, Buffer(value), opened)
    except MessageError as error:
        return f"Error at offset {offset}, skipping. {error}", None


def _key(records: Mapping[int, CoordinatorRecord], key: bytes | None) -> tuple[int, dict[str, Any] | None]:
    if key is None:
        raise MessageError("Expected a key, found none")
    with _said_of("Could not read the key"):
        buffer = Buffer(key)
        kind: int = buffer.number("int16")
        record = records.get(kind)
        return kind, None if record is None else read_message(record.key, 0, buffer)


def _value(message: Message, buffer: Buffer, opened: Callable[[dict[str, Any]], None] | None) -> str:
    with _said_of("Could not read the value"):
        version, data = read_versioned(message, buffer)
    if opened is not None:
        opened(data)
    return json_text({"version": str(version), "data": data})


@contextmanager
def _said_of(what: str) -> Iterator[None]:
    try:
        yield
    except MessageError as error:
        raise MessageError(f"{what}: {error}") from error
