"""Records of Kafka's coordinators: the key tells of what type they are, the value in which version (Kafka:
CoordinatorRecordSerde)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from native_log.cli.java_text import json_text
from native_log.cli.messages.reading import Buffer, MessageError, read_message
from native_log.cli.messages.schema import ALL, NONE, Message, Notation
from native_log.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
    topic: str,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    opened: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[str, str | None]:
    """Key and payload as kafka-dump-log prints them (Kafka: DumpLogSegments.CoordinatorRecordMessageParser).

    Args:
        topic: how the tool names the decoder.
        opened: turns what is bytes in a value into what it means.

    Raises:
        CorruptRecordError: a record without a key.
    """
    if key is None:
        raise CorruptRecordError(
            f"expected a key, found none: this is no log for the {topic} decoder", offset=offset
        )
    try:
        kind, message = _key(records, Buffer(key))
        if message is None:
            return f"Unknown record type {kind} at offset {offset}, skipping.", None
        key_text = json_text({"type": str(kind), "data": message})
        return key_text, TOMBSTONE if value is None else _value(records[kind].value, Buffer(value), opened)
    except MessageError as error:
        return f"Error at offset {offset}, skipping. {error}", None


def _key(records: Mapping[int, CoordinatorRecord], buffer: Buffer) -> tuple[int, dict[str, Any] | None]:
    kind = _version(buffer, "key")
    record = records.get(kind)
    return kind, None if record is None else _message(record.key, 0, buffer, "key")


def _value(message: Message, buffer: Buffer, opened: Callable[[dict[str, Any]], None] | None) -> str:
    version = _version(buffer, "value")
    data = _message(message, version, buffer, "value")
    if opened is not None:
        opened(data)
    return json_text({"version": str(version), "data": data})


def _version(buffer: Buffer, of: str) -> int:
    try:
        version: int = buffer.number("int16")
    except MessageError as error:
        raise MessageError(f"Could not read version from {of}'s buffer.") from error
    return version


def _message(message: Message, version: int, buffer: Buffer, of: str) -> dict[str, Any]:
    try:
        return read_message(message, version, buffer)
    except MessageError as error:
        raise MessageError(
            f"Could not read record with version {version} from {of}'s buffer due to: {error}."
        ) from error
