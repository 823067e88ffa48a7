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


class UnknownRecordTypeError(MessageError):
    """The key has a type that is not among the known ones, as a newer Kafka may write.

    Attributes:
        kind: the type.
    """

    def __init__(self, kind: int) -> None:
        super().__init__(f"unknown record type {kind}")
        self.kind = kind


def read_key(records: Mapping[int, CoordinatorRecord], key: bytes | None) -> tuple[int, dict[str, Any]]:
    """Return the type of a record and the fields of its key.

    Raises:
        UnknownRecordTypeError: the type is not in `records`.
        MessageError: there is no key, or the bytes are invalid.
    """
    if key is None:
        raise MessageError("Expected a key, found none")
    with _describe_errors("Could not read the key"):
        buffer = Buffer(key)
        kind: int = buffer.number("int16")
        if kind not in records:
            raise UnknownRecordTypeError(kind)
        return kind, read_message(records[kind].key, 0, buffer)


def read_value(
    records: Mapping[int, CoordinatorRecord], kind: int, value: bytes
) -> tuple[int, dict[str, Any]]:
    """Return the version and the fields of a value.

    Raises:
        MessageError: the bytes are invalid, or the version is unknown.
    """
    with _describe_errors("Could not read the value"):
        return read_versioned(records[kind].value, Buffer(value))


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
        kind, fields = read_key(records, key)
        key_text = json_text({"type": str(kind), "data": fields})
        return key_text, TOMBSTONE if value is None else _format_value(records, kind, value, expand)
    except UnknownRecordTypeError as error:
        return f"Unknown record type {error.kind} at offset {offset}, skipping.", None
    except MessageError as error:
        return f"Error at offset {offset}, skipping. {error}", None


def _format_value(
    records: Mapping[int, CoordinatorRecord],
    kind: int,
    value: bytes,
    expand: Callable[[dict[str, Any]], None] | None,
) -> str:
    version, data = read_value(records, kind, value)
    if expand is not None:
        expand(data)
    return json_text({"version": str(version), "data": data})


@contextmanager
def _describe_errors(what: str) -> Iterator[None]:
    try:
        yield
    except UnknownRecordTypeError:
        raise
    except MessageError as error:
        raise MessageError(f"{what}: {error}") from error
