"""Calls of the record functions with the fields of their options as keywords of the call."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from native_log.records import InputOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from native_log.records import MapProgress


def with_keywords(function: Callable[..., Any], options: type) -> Callable[..., Any]:
    """Return `function` with the fields of `options`, its last positional argument, as keywords."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        return function(*arguments, **_split(keywords, options))

    return call


def put_batches(offsets: Any, data: Any, **keywords: Any) -> MapProgress:
    """Call `put_batches` of an OffsetMap or KeyBuckets with the fields of InputOptions as keywords."""
    return offsets.put_batches(data, **_split(keywords, InputOptions))


def mark(offsets: Any, data: Any, survivors: Any, **keywords: Any) -> MapProgress:
    """Call `mark` of an OffsetMap with the fields of InputOptions as keywords."""
    return offsets.mark(data, survivors, **_split(keywords, InputOptions))


def _split(keywords: dict[str, Any], options: type) -> dict[str, Any]:
    names = {field.name for field in fields(options)}
    others = {name: value for name, value in keywords.items() if name not in names}
    return others | {"options": options(**{name: keywords[name] for name in names & keywords.keys()})}
