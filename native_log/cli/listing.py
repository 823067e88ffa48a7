"""`kafkalog ls`: list log directories and partitions as a table or as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from native_log.cli.progress import show_progress
from native_log.cli.runner import exit_code_of, print_error
from native_log.cli.tables import format_table
from native_log.cli.tail import windows_from_end
from native_log.errors import KafkaLogError
from native_log.logdir import PartitionKind
from native_log.logdir.selection import PartitionSelection, select_partitions
from native_log.policies import describe_policy
from native_log.sizes import format_count, format_size
from native_log.times import format_time_ms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from native_log.log import PartitionLog
    from native_log.logdir import DirectoryState, LogDir, PartitionDir
    from native_log.policies import TopicFacts

_MANY_PARTITIONS = 200
"""From this number on, show a progress bar. Fewer partitions are listed too quickly."""
_HEAD = (
    *("TOPIC", "PARTITION", "START", "END", "HW", "SIZE", "SEGMENTS", "FIRST TIME", "LAST TIME"),
    "POLICY",
)


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition.

    Attributes:
        high_watermark: the checkpointed one; None: no entry.
        first_timestamp_ms, last_timestamp_ms: of its first and last record, in epoch ms; None: no record.
    """

    directory: PartitionDir
    log_start_offset: int
    local_log_start_offset: int
    log_end_offset: int
    high_watermark: int | None
    size_bytes: int
    segments: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    facts: TopicFacts

    @classmethod
    def of(cls, directory: PartitionDir, log: PartitionLog, facts: TopicFacts) -> PartitionRow:
        first, last = record_times(log)
        return cls(
            directory,
            log.log_start_offset,
            log.local_log_start_offset,
            log.log_end_offset,
            log.checkpointed_high_watermark,
            sum(segment.size_bytes for segment in log.segments),
            len(log.segments),
            first,
            last,
            facts,
        )


@dataclass(frozen=True, slots=True)
class Listing:
    """The listed partitions, and the exit code for each partition that cannot be opened (`failed`)."""

    directories: tuple[DirectoryState, ...]
    partitions: tuple[PartitionRow, ...]
    failed: tuple[int, ...]


def list_log_dir(
    log_dir: LogDir, topics: Collection[str] = (), exclude_topics: Collection[str] = ()
) -> Listing:
    """Open all partitions, or those of `topics`. Report partitions that cannot be opened on stderr.

    Raises:
        UnknownTopicOrPartitionError: see select_partitions.
    """
    partitions = select_partitions(
        log_dir, PartitionSelection.of(topics or None, exclude_topics), required=True
    )
    rows, failed = [], []
    with show_progress(
        "opening partitions", len(partitions), shown=len(partitions) >= _MANY_PARTITIONS
    ) as advance:
        for partition in partitions:
            try:
                log = log_dir.partition(partition.topic, partition.partition)
                rows.append(PartitionRow.of(partition, log, log_dir.topic_facts(partition)))
            except (KafkaLogError, OSError) as error:
                print_error(error)
                failed.append(exit_code_of(error))
            advance(1)
    return Listing(log_dir.directories, tuple(rows), tuple(failed))


def record_times(log: PartitionLog) -> tuple[int | None, int | None]:
    """Return the timestamps of the first and the last record that can be read, in epoch ms."""
    start, end = log.local_log_start_offset, log.high_watermark
    first = next(_times(log, start, end), None)
    for window in windows_from_end(start, end, 1):
        last = list(_times(log, *window))
        if last:
            return first, last[-1]
    return first, None


def _times(log: PartitionLog, start: int, end: int) -> Iterator[int]:
    for batch in log.read(start, end, ["timestamp"], mode="dropMalformed", max_rows=1):
        for time_us in batch.column(0).cast("int64").to_pylist():
            yield time_us // 1000


def format_text(listing: Listing) -> str:
    """Format a table for each log directory, and the totals."""
    blocks = []
    for directory in listing.directories:
        rows = _rows_in(listing, directory.path)
        blocks.append("\n".join([_headline(directory), *format_table(_HEAD, list(map(_cells, rows)))]))
    return "\n\n".join([*blocks, _totals(listing.partitions)])


def format_json(listing: Listing) -> str:
    """Format one JSON document. Sizes are in bytes, times in epoch ms, unknown values null."""
    return json.dumps(
        {
            "logDirs": [_directory_json(directory) for directory in listing.directories],
            "partitions": [_partition_json(row) for row in listing.partitions],
            "failed": len(listing.failed),
        },
        indent=2,
        ensure_ascii=False,
    )


def _rows_in(listing: Listing, log_dir: Path) -> list[PartitionRow]:
    return [row for row in listing.partitions if row.directory.path.parent == log_dir]


def _headline(directory: DirectoryState) -> str:
    details = []
    properties = directory.meta_properties
    if properties is not None:
        if properties.cluster_id is not None:
            details.append(f"cluster {properties.cluster_id}")
        if properties.node_id is not None:
            details.append(f"broker {properties.node_id}")
    if directory.lock_holder is not None:
        details.append(f"in use by process {directory.lock_holder}" if directory.lock_holder else "in use")
    elif directory.clean_shutdown:
        details.append("cleanly shut down")
    return f"{directory.path}" + (f"  ({', '.join(details)})" if details else "")


def _cells(row: PartitionRow) -> tuple[str | int, ...]:
    kind = row.directory.kind
    return (
        row.directory.topic + ("" if kind is PartitionKind.NORMAL else f" ({kind})"),
        row.directory.partition,
        row.local_log_start_offset,
        row.log_end_offset,
        "–" if row.high_watermark is None else row.high_watermark,
        format_size(row.size_bytes),
        row.segments,
        format_time_ms(row.first_timestamp_ms),
        format_time_ms(row.last_timestamp_ms),
        _policy(row.facts),
    )


def _policy(facts: TopicFacts) -> str:
    """Return a policy such as `compact`, with its source unless that is the topic's own configuration."""
    policy, source = describe_policy(facts)
    if policy is None:
        return ""
    return policy if source == "topic" else f"{policy} ({source})"


def _totals(rows: Sequence[PartitionRow]) -> str:
    topics = len({row.directory.topic for row in rows})
    segments = sum(row.segments for row in rows)
    size = format_size(sum(row.size_bytes for row in rows))
    counts = (topics, "topic"), (len(rows), "partition"), (segments, "segment")
    return ", ".join([*(format_count(number, noun) for number, noun in counts), size])


def _directory_json(directory: DirectoryState) -> dict[str, Any]:
    properties = directory.meta_properties
    return {
        "path": str(directory.path),
        "clusterId": properties and properties.cluster_id,
        "nodeId": properties and properties.node_id,
        "directoryId": properties and properties.directory_id,
        "cleanShutdown": directory.clean_shutdown,
        "lockedBy": directory.lock_holder,
    }


def _partition_json(row: PartitionRow) -> dict[str, Any]:
    policy, source = describe_policy(row.facts)
    return {
        "topic": row.directory.topic,
        "partition": row.directory.partition,
        "path": str(row.directory.path),
        "kind": row.directory.kind.value,
        "logStartOffset": row.log_start_offset,
        "localLogStartOffset": row.local_log_start_offset,
        "logEndOffset": row.log_end_offset,
        "highWatermark": row.high_watermark,
        "sizeInBytes": row.size_bytes,
        "segments": row.segments,
        "firstTimestamp": row.first_timestamp_ms,
        "lastTimestamp": row.last_timestamp_ms,
        "cleanupPolicy": policy,
        "policySource": source,
        "config": None if row.facts.stored is None else dict(row.facts.stored),
    }
