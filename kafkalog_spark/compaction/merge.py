"""Keys merged bucket by bucket: which offsets survive."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from kafkalog_spark.compaction.exchange import by_bucket
from native_log.records import Survivors, merge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_spark.compaction.exchange import Bundle

UNITED_AT_ONCE = 64


def survivors_of(bundles: Sequence[Bundle]) -> Survivors:
    """Of all packs of one bundle. Raises OSError: they cannot be read."""
    return merge(by_bucket(bundles))


def united(found: Sequence[Survivors]) -> Survivors:
    return found[0].union(*found[1:]) if found else Survivors()


def between(survivors: Survivors, borders: Sequence[int]) -> Iterator[tuple[int, Survivors]]:
    """Those between two borders each, where there are any, numbered."""
    for number, (start, end) in enumerate(pairwise(borders)):
        found = survivors.between(start, end)
        if len(found):
            yield number, found
