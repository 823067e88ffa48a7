"""Find records by their keys, and by bytes of keys, values and headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.filters import FilterError, RecordFilter, to_filter
from native_log.filters.values import keys_filter
from native_log.records import Conditions, Pattern, RecordConditions
from native_log.scanning.scans import scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from native_log.arguments import PathLike
    from native_log.filters.forms import FilterLike
    from native_log.log.reading.log_scan import LogScan
    from native_log.logdir import LogDir
    from native_log.records.conditions import PatternField

FIELDS: tuple[PatternField, ...] = ("key", "value", "headers")


def search(
    paths: PathLike | Iterable[PathLike] | LogDir,
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
        FilterError: an expression is invalid, or no condition is given. Other errors are those of
            native_log.scan.
    """
    places = tuple(fields)
    for place in places:
        if place not in FIELDS:
            raise FilterError(f"fields: expected some of {', '.join(FIELDS)}, found {place!r}")
    patterns = []
    if contains is not None:
        patterns.append(Pattern("contains", _bytes(contains), places))
    if regex is not None:
        patterns.append(Pattern("regex", regex.encode(), places))
    try:
        Conditions(RecordConditions(patterns=tuple(patterns)))
    except ValueError as error:
        raise FilterError(str(error)) from None
    selected = keys_filter(_several(key), _several(key_prefix))
    conditions = [each for each in (selected, to_filter(filter)) if each is not None]
    found = RecordFilter(None, patterns=patterns)
    for condition in conditions:
        found = found.combined_with(condition)
    if found.is_empty:
        raise FilterError("expected a key, bytes, a regular expression or a filter to search for, found none")
    return scan(paths, topics, columns, filter=found, **arguments)


def _several(values: bytes | str | Iterable[bytes | str] | None) -> list[bytes]:
    """Return keys as a list; a single one need not be in one."""
    if values is None:
        return []
    listed = [values] if isinstance(values, bytes | str) else values
    return [_bytes(value) for value in listed]


def _bytes(text: bytes | str) -> bytes:
    return text.encode() if isinstance(text, str) else text
