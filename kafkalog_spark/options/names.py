"""Names of the read options, and the detection of misspelled ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

KAFKA_SOURCE_OPTIONS = (
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
"""Options of Spark's kafka source that have a meaning without a broker."""

BROKER_OPTIONS = (
    "kafka.bootstrap.servers",
    "kafka.group.id",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
)
"""Options of Spark's kafka source that only a broker needs. They are ignored, as is every other kafka.*."""

KAFKALOG_OPTIONS = (
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
"""Options that Spark's kafka source does not have."""

READ_OPTIONS = {name.lower(): name for name in (*KAFKA_SOURCE_OPTIONS, *BROKER_OPTIONS, *KAFKALOG_OPTIONS)}
"""All names by lower-case name."""


def correct_spelling(name: str, more_names: Iterable[str] = ()) -> str | None:
    """Return the option of which `name` is probably a misspelling; None if it is an option or resembles none.

    A misspelling has up to two letters that are wrong, missing, added or swapped with the next one; of an
    option of up to eight letters, only one.

    Args:
        name: in lower case.
        more_names: names that are valid in addition to READ_OPTIONS.
    """
    valid = {**READ_OPTIONS, **{other.lower(): other for other in more_names}}
    if name in valid:
        return None
    distances = {other: _distance(name, other) for other in valid if abs(len(other) - len(name)) <= 2}
    nearest = min(distances, key=distances.__getitem__, default="")
    return valid[nearest] if nearest and distances[nearest] <= (2 if len(nearest) > 8 else 1) else None


def misspelled_names(names: Iterable[str], more_names: Iterable[str] = ()) -> dict[str, str]:
    """Return the names that are probably misspelled, with the correct spelling."""
    return {name: correct for name in names if (correct := correct_spelling(name.lower(), more_names))}


def _distance(a: str, b: str) -> int:
    """Return the Damerau-Levenshtein distance (optimal string alignment) of two strings."""
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
