"""The options' names, and slips of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

KAFKA_SOURCE = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "kafka.isolation.level",
    "kafka.check.crcs",
)
"""Those of Spark's kafka source that mean something without a broker."""

BROKER_ONLY = (
    "kafka.bootstrap.servers",
    "kafka.group.id",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
)
"""Those that do not, like every other kafka.*: accepted and ignored."""

OWN = (
    "path",
    "paths",
    "mode",
    "maxBytesPerPartition",
    "columns",
    "view",
    "includeInternal",
    "includeDeleted",
    "highWatermark",
    "maxBatchBytes",
)

KNOWN = {name.lower(): name for name in (*KAFKA_SOURCE, *BROKER_ONLY, *OWN)}


def slip_of(name: str, more_known: Iterable[str] = ()) -> str | None:
    """The known option that a lower-case name looks like a slip of, or None.

    A slip has one or two letters wrong, missing, too many or swapped; in short names one.
    """
    all_known = {**KNOWN, **{one.lower(): one for one in more_known}}
    if name in all_known:
        return None
    distances = {known: _distance(name, known) for known in all_known if abs(len(known) - len(name)) <= 2}
    nearest = min(distances, key=distances.__getitem__, default="")
    return all_known[nearest] if nearest and distances[nearest] <= (2 if len(nearest) > 8 else 1) else None


def slips(names: Iterable[str], more_known: Iterable[str] = ()) -> dict[str, str]:
    """Of the names given, those that look like slips, with the right ones."""
    return {name: known for name in names if (known := slip_of(name.lower(), more_known))}


def _distance(a: str, b: str) -> int:
    """Edits that make b of a: a letter changed, added, left out, or two neighbours swapped."""
    before: list[int] = []
    above = list(range(len(b) + 1))
    for i, char in enumerate(a, 1):
        row = [i]
        for j, other in enumerate(b, 1):
            edits = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (char != other))
            if i > 1 and j > 1 and char == b[j - 2] and a[i - 2] == other:
                edits = min(edits, before[j - 2] + 1)
            row.append(edits)
        before, above = above, row
    return above[-1]
