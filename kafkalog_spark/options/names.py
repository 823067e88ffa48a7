"""Names of the read options, what they mean, and the detection of misspelled ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Option(NamedTuple):
    """An option as the documentation shows it; docs/tables.py renders it.

    Attributes:
        default: the value that has the same effect as leaving the option out; empty: there is no such value.
        meaning: what the option does, in Markdown.
    """

    default: str
    meaning: str


KAFKA_SOURCE_OPTIONS = {
    "subscribe": Option(
        "", "the topics to read, separated by commas; set at most one of this and the next two options"
    ),
    "subscribePattern": Option("", "the topics to read, as a Java regular expression"),
    "assign": Option("", 'the partitions to read, such as `{"orders":[0,1]}`'),
    "startingOffsets": Option(
        "earliest",
        "where to start: `earliest`, or an offset for each partition, such as "
        '`{"orders":{"0":23,"1":-2}}`; -2 means earliest; streams also have `latest` or -1, their default',
    ),
    "startingTimestamp": Option(
        "",
        "start at the first record that has at least this timestamp (epoch ms); overrides the next two",
    ),
    "startingOffsetsByTimestamp": Option(
        "",
        'a starting timestamp for each partition, such as `{"orders":{"0":1760000000000}}`; overrides '
        "`startingOffsets`",
    ),
    "startingOffsetsByTimestampStrategy": Option(
        "error",
        "if no record has at least the starting timestamp: `error`, or `latest` to read nothing",
    ),
    "endingOffsets": Option(
        "latest", "where to stop (exclusive): `latest`, or offsets by partition; -1 means latest"
    ),
    "endingTimestamp": Option("", "stop before the first record that has at least this timestamp (epoch ms)"),
    "endingOffsetsByTimestamp": Option("", "an ending timestamp for each partition"),
    "minPartitions": Option("", "the minimum number of Spark partitions"),
    "maxRecordsPerPartition": Option("", "the maximum number of offsets that one Spark partition covers"),
    "failOnDataLoss": Option(
        "true", "whether offsets that are no longer in the log are an error; otherwise a warning"
    ),
    "includeHeaders": Option("false", "whether to add the column `headers`"),
    "kafka.isolation.level": Option(
        "read_uncommitted",
        "`read_committed` leaves out records of aborted transactions, and ends before the first open one",
    ),
    "kafka.check.crcs": Option("true", "whether to check the CRC of each batch"),
}
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

KAFKALOG_OPTIONS = {
    "path": Option("", "a log directory, or one partition directory; `load(path)` sets it"),
    "paths": Option("", "several directories, as a JSON list; `load([...])` sets it"),
    "mode": Option("failFast", "what to do about [damaged bytes](#damaged-bytes)"),
    "maxBytesPerPartition": Option("128m", "about how many bytes of a log one task reads"),
    "columns": Option("", "the [columns](#columns) to read, in this order, separated by commas"),
    "where": Option(
        "",
        "a [condition in SQL](filters.md) on the rows, such as `timestamp >= '2026-11-01' AND key = 'k1'`; "
        "only what may meet it is decompressed",
    ),
    "keyPartitions": Option(
        "",
        "how many partitions a topic has if Kafka's default partitioner has chosen them by key: a condition "
        "on `key` then reads [only the partitions of the keys](filters.md#keys-and-partitions)",
    ),
    "pushFilters": Option(
        "false",
        "whether Spark's own conditions are [pushed down](filters.md#pushdown-by-spark), too (Spark 4.1 and "
        "later)",
    ),
    "mapInArrow": Option(
        "",
        "a function `module:function` that is [applied to record batches](python-in-tasks.md) in the tasks",
    ),
    "view": Option("records", "which [view](#views) to read"),
    "history": Option(
        "false",
        "whether `view=consumer_offsets` and `transaction_state` show all records, instead of the newest",
    ),
    "asOfOffset": Option(
        "", "the offset of the metadata log before which `view=cluster_metadata` shows the state"
    ),
    "offsets.retention.minutes": Option(
        "10080",
        "when committed offsets expire: the broker's setting, for `view=consumer_offsets` and `view=lag`",
    ),
    "includeInternal": Option("false", "whether to read internal topics (`__consumer_offsets`, …), too"),
    "includeDeleted": Option("false", "whether to read `-delete` and `-stray` directories, too"),
    "highWatermark": Option("auto", "how the [end of a log](#where-a-log-ends) is determined"),
    "replicas": Option(
        "longest",
        "what is read if several paths contain the same partition: `longest`, the copy with the greatest end "
        "offset, or `merge`, [all copies as one log](replicas.md)",
    ),
    "remote": Option("", "the folder of [remote storage](tiered.md), with the older part of the logs"),
    "remote.layout": Option(
        "auto",
        "how objects are named there: `local` (Apache's LocalTieredStorage), `aiven`, `pinterest`, or `auto`",
    ),
    "remote.prefix": Option("", "the `key.prefix` of Aiven's plugin"),
    "remote.keys": Option(
        "", "a folder with the private keys of encrypted segments, as `<key id>.private.pem`"
    ),
    "remote.metadata": Option(
        "", "a log directory with `__remote_log_metadata`; by default those that are read"
    ),
    "credentialProvider": Option(
        "", "a function `module:function` that returns [credentials](object-stores.md#credentials) for a URL"
    ),
    "maxBatchBytes": Option(
        "256m", "a batch whose size, as stored or decompressed, exceeds this counts as damaged"
    ),
}
"""Options that Spark's kafka source does not have."""

STREAM_OPTIONS = {
    "maxOffsetsPerTrigger": Option(
        "",
        "about how many offsets a trigger reads, divided among partitions in proportion to backlogs",
    ),
    "maxBytesPerTrigger": Option(
        "", "about how many bytes of the logs a trigger reads: whole batches, at least one"
    ),
    "minOffsetsPerTrigger": Option("", "how many new offsets a trigger waits for"),
    "maxTriggerDelay": Option("15m", "how long a trigger waits for them"),
    "offsetStateLocation": Option(
        "", "a folder that keeps [where the query started](streaming.md#where-a-stream-starts)"
    ),
}
"""Options of streams. In a batch read they have no effect."""

READ_OPTIONS = {
    name.lower(): name
    for name in (*KAFKA_SOURCE_OPTIONS, *BROKER_OPTIONS, *KAFKALOG_OPTIONS, *STREAM_OPTIONS)
}
"""All names by lower-case name."""


def correct_spelling(name: str, more_names: Iterable[str] = ()) -> str | None:
    """Return the option whose name was probably misspelled as `name`, or None.

    A misspelling has one or two letters that are wrong, missing, added or swapped with the next letter. For
    an option of up to eight letters, only one such letter is allowed.

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
