"""Encode messages of Kafka by their schemas."""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING, Any

from .batches import unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from native_log.messages.coordinators import CoordinatorRecord
    from native_log.messages.schema import Field, Message

_LAYOUTS = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "int64": ">q", "bool": ">?"}
_LAYOUTS |= {"float64": ">d"}


def encode_key(records: Mapping[int, CoordinatorRecord], kind: int, **fields: Any) -> bytes:
    """Encode the key of a coordinator's record."""
    return struct.pack(">h", kind) + encode(records[kind].key, 0, fields)


def encode_value(records: Mapping[int, CoordinatorRecord], kind: int, version: int, **fields: Any) -> bytes:
    """Encode the value of a coordinator's record. By default a field has the default of its type."""
    return struct.pack(">h", version) + encode(records[kind].value, version, fields)


def encode(message: Message, version: int, values: Mapping[str, Any]) -> bytes:
    """Encode a message without the version that precedes it on disk."""
    return _Encoder(version, version in message.flexible).fields(message.fields, values)


class _Encoder:
    def __init__(self, version: int, is_flexible: bool) -> None:
        self._version = version
        self._is_flexible = is_flexible

    def fields(self, fields: Sequence[Field], values: Mapping[str, Any]) -> bytes:
        present = [field for field in fields if self._version in field.versions]
        assert set(values) <= {field.name for field in fields}, values
        data = b"".join(
            self._value(field, values.get(field.name, field.default))
            for field in present
            if field.tag is None or not self._is_flexible
        )
        if not self._is_flexible:
            return data
        tagged = [field for field in present if field.tag is not None and field.name in values]
        data += unsigned_varint(len(tagged))
        for field in sorted(tagged, key=lambda field: field.tag or 0):
            content = self._value(field, values[field.name])
            data += unsigned_varint(field.tag or 0) + unsigned_varint(len(content)) + content
        return data

    def _value(self, field: Field, value: Any) -> bytes:
        if not field.is_array:
            return self._element(field, value)
        if value is None:
            return self._size(None, ">i")
        return self._size(len(value), ">i") + b"".join(self._element(field, item, True) for item in value)

    def _element(self, field: Field, value: Any, in_array: bool = False) -> bytes:
        if field.kind == "struct":
            if not field.is_nullable or in_array:
                return self.fields(field.fields, value)
            null, present = (b"\xff", b"\x01") if field.tag is None else (b"\0", b"\1")
            return null if value is None else present + self.fields(field.fields, value)
        if field.kind == "uuid":
            return urlsafe_b64decode(f"{value}==")
        if field.kind in _LAYOUTS:
            return struct.pack(_LAYOUTS[field.kind], value)
        layout = ">h" if field.kind == "string" else ">i"
        if value is None:
            return self._size(None, layout)
        data = value.encode() if isinstance(value, str) else value
        return self._size(len(data), layout) + data

    def _size(self, size: int | None, layout: str) -> bytes:
        if self._is_flexible:
            return unsigned_varint(0 if size is None else size + 1)
        return struct.pack(layout, -1 if size is None else size)
