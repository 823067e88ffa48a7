"""Write messages of Kafka by their schemas, with arbitrary values."""

from __future__ import annotations

import struct
from types import MappingProxyType
from typing import TYPE_CHECKING

from .batches import unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from native_log.messages.schema import Field, Message

_LAYOUTS = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "int64": ">q", "float64": ">d"}
_TEXTS = ["", "g", "orders.eu-1", 'a "quoted" \\ text', "\x00\x01\x1f\x7f\t\n", "größe €", "\U0001f600"]
_LARGE, _SMALL = [123456789.0, 1e7, 9999999.0, -2.5e300, 1e22, float("inf")], [1e-3, 0.00099, float("nan")]
_DOUBLES = [0.0, -0.0, 1.0, 0.1, *_LARGE, *_SMALL]


def written(
    message: Message, version: int, random: Random, given: Mapping[str, bytes] = MappingProxyType({})
) -> bytes:
    """Write a message of this version with values of all kinds. `given` overrides values by field name."""
    return _Writer(version, version in message.flexible, random, given).fields(message.fields)


def versions_of(message: Message) -> range:
    assert message.versions.last is not None
    return range(message.versions.first, message.versions.last + 1)


class _Writer:
    def __init__(self, version: int, is_flexible: bool, random: Random, given: Mapping[str, bytes]) -> None:
        self._version = version
        self._is_flexible = is_flexible
        self._random = random
        self._given = given

    def fields(self, fields: Sequence[Field]) -> bytes:
        there = [field for field in fields if self._version in field.versions]
        data = b"".join(self._value(field) for field in there if field.tag is None)
        if not self._is_flexible:
            return data
        tagged = {field.tag: self._value(field) for field in there if field.tag is not None}
        tagged = {tag: value for tag, value in tagged.items() if self._random.random() < 0.6}
        if self._random.random() < 0.2:
            tagged[9999] = b"of a later version"
        data += unsigned_varint(len(tagged))
        for tag, value in sorted(tagged.items()):
            data += unsigned_varint(tag) + unsigned_varint(len(value)) + value
        return data

    def _value(self, field: Field) -> bytes:
        if field.name in self._given:
            return self._given[field.name]
        if not field.is_array:
            return self._one(field, field.is_nullable)
        if field.is_nullable and self._random.random() < 0.3:
            return self._size(None, ">i")
        count = self._random.choice([0, 1, 2, 3])
        return self._size(count, ">i") + b"".join(self._one(field, False) for _ in range(count))

    def _one(self, field: Field, is_nullable: bool) -> bytes:
        random = self._random
        is_null = is_nullable and random.random() < 0.3
        if field.kind == "struct":
            if not is_nullable:
                return self.fields(field.fields)
            null, there = (b"\xff", b"\x01") if field.tag is None else (b"\0", b"\1")
            return null if is_null else there + self.fields(field.fields)
        if field.kind == "uuid":
            return random.choice([bytes(16), random.randbytes(16)])
        if field.kind == "bool":
            return random.choice([b"\0", b"\1"])
        if field.kind == "float64":
            return struct.pack(">d", random.choice([*_DOUBLES, random.uniform(-1e6, 1e6)]))
        if field.kind in _LAYOUTS:
            size = struct.calcsize(_LAYOUTS[field.kind])
            return random.choice([bytes(size), b"\xff" * size, random.randbytes(size)])
        layout = ">h" if field.kind == "string" else ">i"
        if is_null:
            return self._size(None, layout)
        data = self._bytes(field)
        return self._size(len(data), layout) + data

    def _bytes(self, field: Field) -> bytes:
        random = self._random
        if field.kind == "string":
            return random.choice(_TEXTS).encode()
        return random.randbytes(random.choice([0, 2, 3, 40]))

    def _size(self, size: int | None, layout: str) -> bytes:
        if self._is_flexible:
            return unsigned_varint(0 if size is None else size + 1)
        return struct.pack(layout, -1 if size is None else size)
