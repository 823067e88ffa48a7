"""What Kafka's own messages look like on disk: fields by version, told in a short notation and read with it.

The notation, after Kafka's message definitions (its resources common/message/*.json):

    {offset int64, leaderEpoch int32 3+, metadata string?, topicId uuid 4+ tag 0, members []{memberId string}}

A field has a name, a type (`[]`: an array, `?`: may be null, braces: a struct) and, where it is not in all
versions, those that it is in. One with a `tag` is there only where it differs from its default, that of the
type if none is named.
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
    """As Kafka writes its 16 bytes (Uuid.toString)."""
    return urlsafe_b64encode(data).decode().rstrip("=")


_DEFAULTS = {"string": "", "bytes": b"", "bool": False, "float64": 0.0, "uuid": uuid_text(bytes(16))}


@dataclass(frozen=True, slots=True)
class Versions:
    """`first` to `last`, both included; None: no end."""

    first: int
    last: int | None

    @classmethod
    def parse(cls, text: str) -> Versions:
        """`3+`, `1` or `0-4`."""
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
        kind: `int32`, ...; `struct`: one of `fields`.
        tag: None: always there, in its place.
        named_default: what a tagged field is where it is missing; None: what its kind says.
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
            return {one.name: one.default for one in self.fields}
        return _DEFAULTS.get(self.kind, 0)


@dataclass(frozen=True, slots=True)
class Message:
    """The fields of a message. `flexible`: the versions with compact lengths and tagged fields."""

    name: str
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


class Notation:
    """Reads the notation, token by token."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = _TOKEN.findall(text)
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._tokens)

    def next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def skip(self, token: str) -> bool:
        """Whether it comes next; it then is passed."""
        there = self._tokens[self._at : self._at + 1] == [token]
        self._at += there
        return there

    def message(self, name: str) -> Message:
        """`0-4 flexible 4+ {...}`"""
        versions = Versions.parse(self.next())
        flexible = Versions.parse(self.next()) if self.skip("flexible") else NONE
        return Message(name, versions, flexible, self.fields())

    def fields(self) -> tuple[Field, ...]:
        """`{offset int64, ...}`"""
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
