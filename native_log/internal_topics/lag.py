"""How far groups are behind: the offsets that they committed, and the ends of the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def add_lag(
    commits: Iterable[dict[str, Any]], end_offsets: Mapping[tuple[str, int], int]
) -> Iterator[dict[str, Any]]:
    """Yield a row of LAG_SCHEMA for each row of CONSUMER_OFFSETS_SCHEMA.

    Args:
        commits: the rows.
        end_offsets: the high watermarks of partitions, by topic and partition.
    """
    for row in commits:
        end_offset = end_offsets.get((row.get("topic", ""), row.get("partition", -1)))
        offset = row.get("offset")
        if end_offset is None:
            yield row
        else:
            lag = None if offset is None else end_offset - offset
            yield {**row, "logEndOffset": end_offset, "lag": lag}
