"""Parse lines of input as records: plain text with separators, or JSON."""

from __future__ import annotations

import base64
import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from native_log.cli.times import parse_iso_time
from native_log.producer.record import ProducerRecord
from native_log.records import CORRUPT_RECORD, RECORD_SCHEMA
from native_log.times import EPOCH, MILLISECOND

if TYPE_CHECKING:
    from native_log.producer.record_size import Header

logger = logging.getLogger(__name__)

_MAX_LONG, _MAX_INT = 2**63 - 1, 2**31 - 1
_NO_TIMESTAMP = -1
"""What `kafkalog cat` prints for a record without a timestamp, as magic 0 has it."""


class MalformedLineError(ValueError):
    """A line is not a record."""


@dataclass(frozen=True, slots=True)
class TextLines:
    """Lines of text, split as Kafka's console producer does (Kafka: LineMessageReader).

    A line consists of headers, key and value, as far as there are separators for them. It need not be UTF-8,
    except for the names of headers. (Kafka's producer replaces invalid UTF-8.)

    Attributes:
        topic: the topic of all records.
        partition: the partition of all records; None: the producer chooses it.
        headers: headers of all records, after those of the line.
        key_separator: between key and value; None: the line has no key.
        headers_delimiter: between the headers and the rest; None: the line has no headers.
        headers_separator: between two headers.
        headers_key_separator: between the name and the value of a header.
        null_marker: a key, value, header value or list of headers with these bytes is null; None: none is.
    """

    topic: str
    partition: int | None = None
    headers: tuple[Header, ...] = ()
    key_separator: bytes | None = None
    headers_delimiter: bytes | None = None
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    null_marker: bytes | None = None

    def parse(self, line: bytes) -> ProducerRecord:
        """Return the record of a line. Raises MalformedLineError."""
        headers: list[Header] | None = None
        if self.headers_delimiter is not None:
            text, line = _split(line, self.headers_delimiter, "headers delimiter")
            if text != self.null_marker:
                headers = [self._header(pair) for pair in _split_like_java(text, self.headers_separator)]
        if self.headers:
            headers = [*(headers or ()), *self.headers]
        key = None
        if self.key_separator is not None:
            key, line = _split(line, self.key_separator, "key separator")
            if key == self.null_marker:
                key = None
        value = None if line == self.null_marker else line
        return ProducerRecord(self.topic, value, key, headers, self.partition)

    def _header(self, pair: bytes) -> Header:
        name, value = _split(pair, self.headers_key_separator, "separator of header name and value")
        if name == self.null_marker:
            raise MalformedLineError("expected the name of a header, found the null marker")
        try:
            return name.decode(), None if value == self.null_marker else value
        except UnicodeDecodeError:
            raise MalformedLineError(f"expected a header name in UTF-8, found {name!r:.80}") from None


def _split(text: bytes, separator: bytes, name: str) -> tuple[bytes, bytes]:
    before, matched, after = text.partition(separator)
    if not matched:
        raise MalformedLineError(f"expected a {name} ({separator!r}), found none in {text!r:.80}")
    return before, after


def _split_like_java(text: bytes, separator: bytes) -> list[bytes]:
    """Split as Java's Pattern.split, which drops empty parts at the end, unless there is no separator."""
    parts = text.split(separator)
    if len(parts) > 1:
        while parts and not parts[-1]:
            parts.pop()
    return parts


_SETTABLE = ("topic", "partition", "timestamp", "key", "value", "headers")
_FIELDS = frozenset(RECORD_SCHEMA.names)


@dataclass(slots=True)
class JsonLines:
    """JSON objects, one on each line, with the fields that `kafkalog cat --format json` prints.

    The fields are `key`, `value`, `headers`, `topic`, `partition` and `timestamp`, all of them optional.
    Keys, values and values of headers are strings, null or {"base64": "..."}; other JSON becomes its compact
    text. Headers are a list of {"key", "value"}, or an object of names and values. A timestamp is a number
    (epoch ms) or an ISO 8601 time; -1 is the same as none.

    Fields that only a log determines are ignored; the first `offset` is logged as a warning. Unknown fields
    are errors. Blank lines are ignored.

    Attributes:
        topic: overrides the topic of the line.
        partition: overrides the partition of the line.
        headers: headers of all records, after those of the line.
    """

    topic: str | None = None
    partition: int | None = None
    headers: tuple[Header, ...] = ()
    _had_offset: bool = field(default=False, init=False, repr=False, compare=False)

    def parse(self, line: bytes) -> ProducerRecord | None:
        """Return the record of a line; None: the line is blank. Raises MalformedLineError."""
        if not line.strip():
            return None
        fields = _load_object(line)
        topic, partition, timestamp, key, value, headers = map(fields.get, _SETTABLE)
        if not fields.keys() <= _FIELDS:
            raise _unknown_field(fields)
        if self.topic is not None:
            topic = self.topic
        elif not isinstance(topic, str):
            raise _unexpected("topic", "a string, or the option --topic", topic)
        if self.partition is not None:
            partition = self.partition
        elif partition is not None and not _is_integer(partition, _MAX_INT):
            raise _unexpected("partition", f"an integer from 0 to {_MAX_INT} or null", partition)
        pairs = None if headers is None else _headers(headers)
        if self.headers:
            pairs = [*(pairs or ()), *self.headers]
        record = ProducerRecord(
            topic, _data("value", value), _data("key", key), pairs, partition, _timestamp_ms(timestamp)
        )
        if not self._had_offset and fields.get("offset") is not None:
            self._had_offset = True
            logger.warning("the offsets in the input are not kept: the records get new offsets")
        return record


def _load_object(line: bytes) -> dict[str, Any]:
    try:
        content = json.loads(
            line.decode(), object_pairs_hook=_unique, parse_float=_Decimal, parse_constant=_reject_constant
        )
    except UnicodeDecodeError as error:
        raise MalformedLineError(
            f"expected JSON in UTF-8, found the byte 0x{line[error.start]:02x} at {error.start}"
        ) from None
    except RecursionError:
        raise MalformedLineError("expected a JSON object, found one that is nested too deeply") from None
    except MalformedLineError:
        raise
    except ValueError as error:
        raise MalformedLineError(f"expected a JSON object, found {line!r:.80}: {error}") from None
    if not isinstance(content, dict):
        raise MalformedLineError(f"expected a JSON object, found {line!r:.80}")
    return content


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise MalformedLineError(f"expected each field once, found {twice!r} several times")
    return fields


class _Decimal(float):
    """A number with a fraction or an exponent, and its text, which may be more precise."""

    def __init__(self, text: str) -> None:
        self.text = text


def _reject_constant(text: str) -> NoReturn:
    raise MalformedLineError(f"expected a number of JSON, found {text}")


def _unknown_field(fields: dict[str, Any]) -> MalformedLineError:
    if CORRUPT_RECORD in fields:
        return MalformedLineError(
            f"expected a record, found a damaged range of a log: {fields[CORRUPT_RECORD]!r:.200}"
        )
    unknown = next(name for name in fields if name not in _FIELDS)
    return MalformedLineError(f"expected some of the fields {', '.join(_SETTABLE)}, found {unknown!r:.80}")


def _is_integer(value: object, largest: int) -> bool:
    return type(value) is int and 0 <= value <= largest


def _timestamp_ms(timestamp: Any) -> int | None:
    if timestamp is None or timestamp == _NO_TIMESTAMP:
        return None
    time_ms = timestamp
    if isinstance(timestamp, str) and not timestamp.isdecimal():  # "20260101" is a date, and a number.
        try:
            time_ms = (parse_iso_time(timestamp) - EPOCH) // MILLISECOND
        except (ValueError, OverflowError):
            time_ms = None
    if not _is_integer(time_ms, _MAX_LONG):
        expected = "epoch ms from 0 on, an ISO 8601 time from 1970 on, -1 or null"
        raise _unexpected("timestamp", expected, timestamp)
    return int(time_ms)


def _data(field: str, value: object) -> bytes | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, dict) and value.keys() == {"base64"}:
            return base64.b64decode(value["base64"], validate=True)
        return _compact_json(value).encode()
    except (ValueError, TypeError) as error:  # A lone surrogate; text that is not base64.
        raise _unexpected(field, "text or base64", value, f": {error}") from None
    except RecursionError:
        raise MalformedLineError(f"{field}: expected JSON, found some that is nested too deeply") from None


def _compact_json(value: object) -> str:
    """Return JSON without spaces. Decimal numbers keep all of their digits."""
    if isinstance(value, dict):
        pairs = (f"{_compact_json(name)}:{_compact_json(each)}" for name, each in value.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_compact_json, value))}]"
    return value.text if isinstance(value, _Decimal) else json.dumps(value, ensure_ascii=False)


def _headers(headers: object) -> list[Header]:
    if isinstance(headers, dict):
        headers = [{"key": name, "value": value} for name, value in headers.items()]
    if not isinstance(headers, list):
        expected = 'a list of {"key", "value"}, an object of names and values, or null'
        raise _unexpected("headers", expected, headers)
    pairs = []
    for header in headers:
        if not (isinstance(header, dict) and header.keys() <= {"key", "value"}):
            raise _unexpected("headers", 'objects {"key", "value"}', header)
        name = header.get("key")
        if not isinstance(name, str):
            raise _unexpected("headers", "a string as key", name)
        _data("headers", name)
        pairs.append((name, _data("headers", header.get("value"))))
    return pairs


def _unexpected(field: str, expected: str, value: object, reason: str = "") -> MalformedLineError:
    return MalformedLineError(f"{field}: expected {expected}, found {_shorten(value)}{reason}")


def _shorten(value: object) -> str:
    text = "none" if value is None else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
