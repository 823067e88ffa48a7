"""Decode a message by its schema (Kafka: the generated `read` of messages, ByteBufferAccessor)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from native_log.errors import KafkaLogError
from native_log.messages.schema import uuid_text
from native_log.records.java_utf8 import java_utf8

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.messages.schema import Field, Message

_NUMBERS = {
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "uint16": struct.Struct(">H"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
    "float64": struct.Struct(">d"),
    "bool": struct.Struct(">?"),
}
_UUID_BYTES = 16
_FRAME_VERSION = 1


class MessageError(KafkaLogError):
    """The bytes are not a valid message."""


def read_message(message: Message, version: int, buffer: Buffer) -> dict[str, Any]:
    """Return the fields of this version by name, in the order of the schema.

    A tagged field is missing if it has its default.

    Raises:
        MessageError: the bytes are too short or invalid.
    """
    return _FieldReader(version, version in message.flexible, buffer).fields(message.fields)


def read_versioned(message: Message, buffer: Buffer) -> tuple[int, dict[str, Any]]:
    """Return the version, which precedes the message, and the fields.

    Raises:
        MessageError: the bytes are invalid, or the version is unknown.
    """
    version: int = buffer.number("int16")
    if version not in message.versions:
        raise MessageError(f"expected a version up to {message.versions.last}, found {version}")
    return version, read_message(message, version, buffer)


def read_frame(buffer: Buffer) -> tuple[int, int]:
    """Return the API key and the version that precede a message (Kafka: AbstractApiMessageSerde).

    Raises:
        MessageError: the version of the frame is unknown.
    """
    frame_version = buffer.unsigned_varint()
    if frame_version != _FRAME_VERSION:
        raise MessageError(f"expected frame version {_FRAME_VERSION}, found {frame_version}")
    return buffer.unsigned_varint(), buffer.unsigned_varint()


class Buffer:
    """Bytes and the position up to which they have been read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise MessageError(f"expected {size} more bytes, found {self.left}")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, kind: str) -> Any:
        layout = _NUMBERS[kind]
        return layout.unpack(self.take(layout.size))[0]

    def unsigned_varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MessageError("expected a varint of 5 bytes at most, found a longer one")


class _FieldReader:
    """Reads one message."""

    def __init__(self, version: int, is_flexible: bool, buffer: Buffer) -> None:
        self._version = version
        self._is_flexible = is_flexible
        self._buffer = buffer

    def fields(self, fields: Sequence[Field]) -> dict[str, Any]:
        present = [field for field in fields if self._version in field.versions]
        values = {field.name: self._value(field) for field in present if field.tag is None}
        tagged = self._tagged({field.tag: field for field in present}) if self._is_flexible else {}
        values |= {name: value for name, (value, default) in tagged.items() if value != default}
        return {field.name: values[field.name] for field in present if field.name in values}

    def _tagged(self, fields: dict[int | None, Field]) -> dict[str, tuple[Any, Any]]:
        """Read the tagged fields. Return values and defaults of the known ones, and skip the others."""
        tagged = {}
        for _ in range(self._buffer.unsigned_varint()):
            field = fields.get(self._buffer.unsigned_varint())
            content = Buffer(self._buffer.take(self._buffer.unsigned_varint()))
            if field is not None:
                value = _FieldReader(self._version, self._is_flexible, content)._value(field)
                tagged[field.name] = (value, field.default)
        return tagged

    def _value(self, field: Field) -> Any:
        if not field.is_array:
            return self._element(field)
        size = self._size(field, "int32")
        if size is None:
            return None
        if size > self._buffer.left:
            raise MessageError(f"expected {size} elements of {field.name}, found {self._buffer.left} bytes")
        return [self._element(field, in_array=True) for _ in range(size)]

    def _element(self, field: Field, *, in_array: bool = False) -> Any:
        if field.kind == "struct":
            if field.is_nullable and not in_array and self._is_null_struct(field):
                return None
            return self.fields(field.fields)
        if field.kind == "uuid":
            return uuid_text(self._buffer.take(_UUID_BYTES))
        if field.kind in _NUMBERS:
            return self._buffer.number(field.kind)
        size = self._size(field, "int16" if field.kind == "string" else "int32", in_array=in_array)
        if size is None:
            return None
        data = self._buffer.take(size)
        return java_utf8(data) if field.kind == "string" else data

    def _is_null_struct(self, field: Field) -> bool:
        """Read whether a struct is null: a byte of -1, or 0 in a tagged field."""
        if field.tag is None:
            return bool(self._buffer.number("int8") < 0)
        return self._buffer.unsigned_varint() == 0

    def _size(self, field: Field, kind: str, *, in_array: bool = False) -> int | None:
        """Read the size of an array, a string or bytes. Return None for null."""
        size: int = self._buffer.unsigned_varint() - 1 if self._is_flexible else self._buffer.number(kind)
        if size >= 0:
            return size
        if not field.is_nullable or in_array:
            raise MessageError(f"expected a value of {field.name}, found null")
        return None
