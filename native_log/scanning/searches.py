"""Find records by their keys, and by bytes of keys, values and headers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from native_log.arguments import text
from native_log.filters import FilterError, RecordFilter, to_filter
from native_log.filters.values import keys_filter
from native_log.records import Conditions, Pattern, RecordConditions
from native_log.scanning.scans import scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.arguments import PathLike
    from native_log.filters.forms import FilterLike
    from native_log.log.reading.log_scan import LogScan
    from native_log.logdir import LogDir
    from native_log.records.conditions import PatternField

FIELDS: tuple[PatternField, ...] = ("key", "value", "headers")


def search(
    paths: PathLike | Iterable[PathLike] | LogDir | None,
    topics: str | Iterable[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    key: bytes | str | Iterable[bytes | str] | None = None,
    key_prefix: bytes | str | Iterable[bytes | str] | None = None,
    contains: bytes | str | None = None,
    regex: str | None = None,
    fields: Iterable[PatternField] = FIELDS,
    filter: FilterLike = None,
    **arguments: Any,
) -> LogScan:
    """Return the records that meet all given conditions, as a source that can be read more than once.

    The conditions are checked where the bytes lie, by all cores; only records that meet them are copied.

        for batch in native_log.search("/var/kafka-logs", regex=r"(?i)refund.*failed").batches(): ...

    Args:
        paths, topics, columns, arguments: see native_log.scan.
        key: the key, or a list of keys. A record must have one of them. Text means its UTF-8 bytes.
        key_prefix: the first bytes of the key, or a list of such prefixes. With `key`, one of both
            must hold.
        contains: bytes that one of `fields` contains.
        regex: a regular expression that matches in one of `fields`, in the syntax of Rust's regex crate: that
            of Python's `re` without look-around and backreferences.
        fields: where to look for `contains` and `regex`: "key", "value" and "headers" (names and values).
        filter: a further condition: see LogRange.read.

    Raises:
        FilterError: an expression is invalid, no condition is given, or `fields` has none or unknown ones.
        TypeError: a condition has the wrong type.
        Other errors: see native_log.scan.
    """
    places = tuple(fields)
    if not places or not set(places) <= set(FIELDS):
        raise FilterError(f"fields: expected some of {', '.join(FIELDS)}, found {fields!r}")
    patterns = []
    if contains is not None:
        patterns.append(Pattern("contains", _bytes("contains", contains), places))
    if regex is not None:
        patterns.append(Pattern("regex", text("regex", regex).encode(), places))
    try:
        Conditions(RecordConditions(patterns=tuple(patterns)))
    except ValueError as error:
        raise FilterError(str(error)) from None
    selected = keys_filter(_several("key", key), _several("key_prefix", key_prefix))
    conditions = [each for each in (selected, to_filter(filter)) if each is not None]
    found = RecordFilter(None, patterns=patterns)
    for condition in conditions:
        found = found.combined_with(condition)
    if found.is_empty:
        raise FilterError("expected a key, bytes, a regular expression or a filter to search for, found none")
    return scan(paths, topics, columns, filter=found, **arguments)


def _several(name: str, values: bytes | str | Iterable[bytes | str] | None) -> list[bytes]:
    """Return keys as a list; a single one need not be in one."""
    if values is None:
        return []
    listed = values if isinstance(values, Iterable) and not isinstance(values, bytes | str) else [values]
    return [_bytes(name, value) for value in listed]


def _bytes(name: str, value: bytes | str) -> bytes:
    if not isinstance(value, bytes | str):
        raise TypeError(f"{name}: expected bytes or a str, found {value!r}")
    return value.encode() if isinstance(value, str) else value
