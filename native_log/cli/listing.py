"""`kafkalog ls`: what lies in log directories, as a table or as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from native_log.cli.progress import progress
from native_log.cli.runner import exit_code_of, note_error
from native_log.cli.sizes import human_size
from native_log.cli.tables import lines
from native_log.cli.tail import windows_from_end
from native_log.cli.times import format_time_ms
from native_log.cli.topics import select_partitions
from native_log.errors import KafkaLogError
from native_log.logdir import PartitionKind
from native_log.policies import describe_policy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from native_log.log import PartitionLog
    from native_log.logdir import DirectoryState, LogDir, PartitionDir
    from native_log.policies import TopicFacts

_MANY = 200  # partitions: fewer are listed before a progress bar could be read
_HEAD = (
    *("TOPIC", "PARTITION", "START", "END", "HW", "SIZE", "SEGMENTS", "FIRST TIME", "LAST TIME"),
    "POLICY",
)


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition. Times are epoch ms of its first and its last record, None if it has none."""

    directory: PartitionDir
    log_start_offset: int
    local_log_start_offset: int
    log_end_offset: int
    high_watermark: int
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
            log.high_watermark,
            sum(segment.size_bytes for segment in log.segments),
            len(log.segments),
            first,
            last,
            facts,
        )


@dataclass(frozen=True, slots=True)
class Listing:
    """What `ls` found; `failed` has the exit code of each partition that could not be opened."""

    directories: tuple[DirectoryState, ...]
    partitions: tuple[PartitionRow, ...]
    failed: tuple[int, ...]


def list_log_dir(
    log_dir: LogDir, topics: Collection[str] = (), exclude_topics: Collection[str] = ()
) -> Listing:
    """Open every partition, or those of `topics`; report on stderr those that cannot be opened.

    Raises UnknownTopicOrPartitionError.
    """
    wanted = select_partitions(log_dir, topics, exclude_topics)
    rows, failed = [], []
    with progress("opening partitions", len(wanted), shown=len(wanted) >= _MANY) as advance:
        for one in wanted:
            try:
                rows.append(
                    PartitionRow.of(
                        one, log_dir.partition(one.topic, one.partition), log_dir.topic_facts(one)
                    )
                )
            except (KafkaLogError, OSError) as error:
                note_error(error)
                failed.append(exit_code_of(error))
            advance(1)
    return Listing(log_dir.directories, tuple(rows), tuple(failed))


def record_times(log: PartitionLog) -> tuple[int | None, int | None]:
    """Timestamps (epoch ms) of the first and of the last record that can be read."""
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


def as_text(listing: Listing) -> str:
    """A table for each log directory, and the totals."""
    blocks = []
    for directory in listing.directories:
        rows = _rows_in(listing, directory.path)
        blocks.append("\n".join([_headline(directory), *lines(_HEAD, list(map(_cells, rows)))]))
    return "\n\n".join([*blocks, _totals(listing.partitions)])


def as_json(listing: Listing) -> str:
    """The same as one document; sizes in bytes, times in epoch ms, what is not known null."""
    return json.dumps(
        {
            "logDirs": [_directory_json(one) for one in listing.directories],
            "partitions": [_partition_json(one) for one in listing.partitions],
            "failed": len(listing.failed),
        },
        indent=2,
        ensure_ascii=False,
    )


def _rows_in(listing: Listing, log_dir: Path) -> list[PartitionRow]:
    return [row for row in listing.partitions if row.directory.path.parent == log_dir]


def _headline(directory: DirectoryState) -> str:
    about = []
    properties = directory.meta_properties
    if properties is not None:
        if properties.cluster_id is not None:
            about.append(f"cluster {properties.cluster_id}")
        if properties.node_id is not None:
            about.append(f"broker {properties.node_id}")
    if directory.lock_holder is not None:
        about.append(f"in use by process {directory.lock_holder}" if directory.lock_holder else "in use")
    elif directory.clean_shutdown:
        about.append("cleanly shut down")
    return f"{directory.path}" + (f"  ({', '.join(about)})" if about else "")


def _cells(row: PartitionRow) -> tuple[str | int, ...]:
    kind = row.directory.kind
    return (
        row.directory.topic + ("" if kind is PartitionKind.NORMAL else f" ({kind})"),
        row.directory.partition,
        row.local_log_start_offset,
        row.log_end_offset,
        row.high_watermark,
        human_size(row.size_bytes),
        row.segments,
        format_time_ms(row.first_timestamp_ms),
        format_time_ms(row.last_timestamp_ms),
        _policy(row.facts),
    )


def _policy(facts: TopicFacts) -> str:
    """`compact`; with its source, if the topic's own configuration does not tell it."""
    policy, source = describe_policy(facts)
    if policy is None:
        return ""
    return policy if source == "topic" else f"{policy} ({source})"


def _totals(rows: Sequence[PartitionRow]) -> str:
    topics = len({row.directory.topic for row in rows})
    segments = sum(row.segments for row in rows)
    size = human_size(sum(row.size_bytes for row in rows))
    return (
        f"{_count(topics, 'topic')}, {_count(len(rows), 'partition')}, {_count(segments, 'segment')}, {size}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


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
