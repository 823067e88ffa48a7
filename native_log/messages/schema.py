"""Schemas of Kafka's own messages on disk, parsed from a short notation.

The notation, after Kafka's message definitions (its resources common/message/*.json):

    {offset int64, leaderEpoch int32 3+, metadata string?, topicId uuid 4+ tag 0, members []{memberId string}}

A field has a name, a type (`[]`: an array, `?`: nullable, braces: a struct) and, unless all versions have it,
the versions that do. A field with a `tag` is stored only if it differs from its default, which is that of the
type unless the notation names one.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TOKEN = re.compile(r"\[\]|[{},?]|[^\s{},?\[\]]+")


def uuid_text(data: bytes) -> str:
    """Format 16 bytes like Kafka's Uuid.toString."""
    return urlsafe_b64encode(data).decode().rstrip("=")


_DEFAULTS = {"string": "", "bytes": b"", "bool": False, "float64": 0.0, "uuid": uuid_text(bytes(16))}


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends inclusive. `last` None: no end."""

    first: int
    last: int | None

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parse `3+`, `1` or `0-4`."""
        if text.endswith("+"):
            return cls(int(text[:-1]), None)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version and (self.last is None or version <= self.last)


ALL, NONE = Versions(0, None), Versions(0, -1)


@dataclass(frozen=True)
class Field:
    """One field of a message or of a struct within it.

    Attributes:
        kind: `int32`, `string`, ...; `struct` has `fields`.
        tag: None: the field is always stored, in its order.
        named_default: the default of a tagged field; None: the default of its kind.
    """

    name: str
    kind: str
    fields: tuple[Field, ...]
    is_array: bool
    is_nullable: bool
    versions: Versions
    tag: int | None
    named_default: str | None

    @cached_property
    def default(self) -> Any:
        if self.named_default is not None:
            return None if self.named_default == "null" else int(self.named_default)
        if self.is_array:
            return []
        if self.kind == "struct":
            return {field.name: field.default for field in self.fields}
        return _DEFAULTS.get(self.kind, 0)


@dataclass(frozen=True, slots=True)
class Message:
    """The schema of a message.

    Attributes:
        flexible: the versions that have compact lengths and tagged fields.
    """

    name: str
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


class Notation:
    """Parses the notation token by token."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = _TOKEN.findall(text)
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._tokens)

    def next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def skip(self, token: str) -> bool:
        """Skip the token if it is next. Return whether it was."""
        is_next = self._tokens[self._at : self._at + 1] == [token]
        self._at += is_next
        return is_next

    def message(self, name: str) -> Message:
        """Parse `0-4 flexible 4+ {...}`."""
        versions = Versions.parse(self.next())
        flexible = Versions.parse(self.next()) if self.skip("flexible") else NONE
        return Message(name, versions, flexible, self.fields())

    def fields(self) -> tuple[Field, ...]:
        """Parse `{offset int64, ...}`."""
        return tuple(self._in_braces(self._field))

    def _in_braces(self, parse: Callable[[], Field]) -> Iterator[Field]:
        assert self.skip("{")
        while not self.skip("}"):
            yield parse()
            self.skip(",")

    def _field(self) -> Field:
        name = self.next()
        is_array = self.skip("[]")
        is_struct = self._tokens[self._at] == "{"
        kind, fields = ("struct", self.fields()) if is_struct else (self.next(), ())
        is_nullable = self.skip("?")
        versions = Versions.parse(self.next()) if self._tokens[self._at][0].isdigit() else ALL
        tag = int(self.next()) if self.skip("tag") else None
        default = self.next() if self.skip("default") else None
        return Field(name, kind, fields, is_array, is_nullable, versions, tag, default)
