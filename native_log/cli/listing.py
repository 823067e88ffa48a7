"""`kafkalog ls`: list log directories and partitions as a table or as JSON."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from native_log.checkpoints.lock import describe_holder
from native_log.cli.progress import report_progress, show_progress
from native_log.cli.runner import exit_code_of, print_error
from native_log.cli.tables import columns_that_fit, format_table
from native_log.cli.tail import windows_from_end
from native_log.errors import KafkaLogError
from native_log.log.changing_files import MOVED, retry_changed
from native_log.log.replicas.plan import plan_merge
from native_log.log.replicas.state import read_state
from native_log.log.tiers.tier_of_segments import remote_segments
from native_log.logdir import PartitionKind
from native_log.logdir.selected_partitions import select_partitions
from native_log.logdir.selection import PartitionSelection
from native_log.logdir.verification import verify_partitions
from native_log.policies import describe_policy
from native_log.prefetch import map_together
from native_log.sizes import format_count, format_size
from native_log.times import format_time_ms
from native_log.workers import map_logs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from native_log.log import PartitionLog
    from native_log.log.replicas.plan import CopyState
    from native_log.logdir import DirectoryState, LogDir, PartitionDir
    from native_log.policies import TopicFacts

_MANY_PARTITIONS = 200
"""From this number on, show a progress bar. Fewer partitions are listed too quickly."""
_OFFSETS = ("START", "END", "HW")
_REST = ("SIZE", "SEGMENTS", "FIRST TIME", "LAST TIME", "POLICY")
_HEAD = ("TOPIC", "PARTITION", *_OFFSETS, *_REST)
_COPIES_HEAD = ("TOPIC", "PARTITION", "DIRECTORY", "BEST", *_OFFSETS, "EPOCH", *_REST)
_RECORDS = "RECORDS"
_PROBLEMS = "PROBLEMS"
_BELOW_MINUTES = len(":00.000Z")
_DROPPABLE = ("FIRST TIME", "POLICY", "SEGMENTS", "LAST TIME", "SIZE", "START")
"""The columns that a narrow terminal does not show, the least important first."""


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A directory with the log of a partition.

    Attributes:
        leader_epoch: the last leader epoch; None: unknown.
        is_leading: whether it is the leading copy; None: there is no other copy.
        records: how many records can be read; None: they were not counted.
        problems: what verification found; None: it was not verified.
        high_watermark: the checkpointed one; None: no entry.
        remote_segments: how many of the segments are in remote storage.
        first_timestamp_ms, last_timestamp_ms: of its first and last record, in epoch ms; None: no record.
    """

    directory: PartitionDir
    log_start_offset: int
    local_log_start_offset: int
    log_end_offset: int
    high_watermark: int | None
    size_bytes: int
    segments: int
    remote_segments: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    facts: TopicFacts
    leader_epoch: int | None = None
    is_leading: bool | None = None
    problems: int | None = None
    records: int | None = None

    @classmethod
    def of(
        cls, directory: PartitionDir, log: PartitionLog, facts: TopicFacts, *, counts: bool = False
    ) -> PartitionRow:
        first, last = record_times(log)
        return cls(
            directory,
            log.log_start_offset,
            log.local_log_start_offset,
            log.log_end_offset,
            log.checkpointed_high_watermark,
            sum(segment.size_bytes for segment in log.segments),
            len(log.segments),
            len(remote_segments(log.state.source)),
            first,
            last,
            facts,
            log.leader_epochs[-1].epoch if log.leader_epochs else None,
            records=log.scan(mode="dropMalformed").count_rows() if counts else None,
        )


@dataclass(frozen=True, slots=True)
class Listing:
    """The listed copies of partitions, and the exit code for each one that cannot be opened (`failed`)."""

    directories: tuple[DirectoryState, ...]
    partitions: tuple[PartitionRow, ...]
    failed: tuple[int, ...]


def list_log_dir(
    log_dir: LogDir,
    topics: Collection[str] = (),
    exclude_topics: Collection[str] = (),
    *,
    verify: bool = False,
    counts: bool = False,
) -> Listing:
    """Open all copies of all partitions, or of `topics`. Report those that cannot be opened on stderr.

    Args:
        log_dir: the log directories, from `open_all_copies`.
        topics, exclude_topics: the topics to list, and those to leave out.
        verify: count the problems of each copy, as `kafkalog verify` does.
        counts: count the records of each copy.

    Raises:
        UnknownTopicOrPartitionError: see select_partitions.
    """
    partitions = select_partitions(
        log_dir, PartitionSelection.of(topics or None, exclude_topics), required=True
    )
    rows: list[PartitionRow] = []
    failed: list[int] = []
    list_copies = partial(_list_copies, log_dir, counts=counts)
    if counts:
        listed = map_logs(list_copies, partitions, log_dir.waiting_readers(partitions))
    else:
        listed = map_together(list_copies, partitions, are_local=log_dir.is_local)
    shown = counts or len(partitions) >= _MANY_PARTITIONS
    with show_progress("opening partitions", len(partitions), shown=shown) as advance:
        for found, errors in listed:
            rows += found
            for error in errors:
                print_error(error)
                failed.append(exit_code_of(error))
            advance(1)
    if verify:
        rows = _verified(log_dir, rows)
    return Listing(log_dir.directories, tuple(rows), tuple(failed))


def _list_copies(
    log_dir: LogDir, partition: PartitionDir, *, counts: bool
) -> tuple[list[PartitionRow], list[KafkaLogError | OSError]]:
    """Return a row for each copy that can be opened, and the errors of the others."""
    rows: list[PartitionRow] = []
    errors: list[KafkaLogError | OSError] = []
    states: list[CopyState] = []
    copies = log_dir.copies(partition.topic, partition.partition)

    def read(directory: PartitionDir) -> tuple[PartitionRow, CopyState | None]:
        log = log_dir.open_copy(directory)
        row = PartitionRow.of(directory, log, log_dir.topic_facts(directory), counts=counts)
        return row, read_state(log.state) if len(copies) > 1 else None

    for directory in copies:
        try:
            row, state = retry_changed(partial(read, directory), MOVED)
        except (KafkaLogError, OSError) as error:
            if not directory.folder.was_removed():
                errors.append(error)
            continue
        rows.append(row)
        if state is not None:
            states.append(state)
    if states:
        leader = plan_merge(states).leader
        rows = [
            replace(row, leader_epoch=state.history.last_epoch, is_leading=index == leader)
            for index, (row, state) in enumerate(zip(rows, states, strict=True))
        ]
    return rows, errors


def _verified(log_dir: LogDir, rows: Sequence[PartitionRow]) -> list[PartitionRow]:
    with report_progress("verifying") as report:
        checked = verify_partitions(log_dir, [row.directory for row in rows], report)
        return [
            replace(row, problems=len(problems)) for row, (_, problems) in zip(rows, checked, strict=True)
        ]


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


def format_text(listing: Listing, width: int | None = None) -> str:
    """Format a table for each log directory, or one table if partitions have several copies; and the totals.

    Args:
        width: the width of the terminal. Columns that do not fit are left out, and the last line names them.
            None: show all.
    """
    rows = listing.partitions
    has_copies = any(row.is_leading is not None for row in rows)
    labels = _labels(listing.directories) if has_copies else {}
    is_verified = any(row.problems is not None for row in rows)
    is_counted = any(row.records is not None for row in rows)
    head = [*(_COPIES_HEAD if has_copies else _HEAD), *[_RECORDS] * is_counted, *[_PROBLEMS] * is_verified]
    cells = [_cells(row, labels) for row in rows]
    shown = list(range(len(head)))
    if width is not None and columns_that_fit(head, cells, width, _DROPPABLE) != shown:
        cells = [_cells(row, labels, is_narrow=True) for row in rows]
        shown = columns_that_fit(head, cells, width, _DROPPABLE)
    by_path = {row.directory.path: row_cells for row, row_cells in zip(rows, cells, strict=True)}

    def table(members: Iterable[PartitionRow]) -> str:
        body = [[by_path[row.directory.path][index] for index in shown] for row in members]
        return "\n".join(format_table([head[index] for index in shown], body, width=width))

    if has_copies:
        blocks = ["\n".join(map(_headline, listing.directories)), table(rows)]
    else:
        blocks = [
            f"{_headline(directory)}\n{table(_rows_in(listing, directory.path))}"
            for directory in listing.directories
        ]
    totals = _totals(rows)
    left_out = [name for index, name in enumerate(head) if index not in shown]
    if left_out:
        totals += f"\nnot shown in {width} columns: {', '.join(left_out)}"
    return "\n\n".join([*blocks, totals])


def _labels(directories: Sequence[DirectoryState]) -> dict[Path, str]:
    """Return short names of the log directories: their paths from the directory that contains all of them."""
    paths = [state.path for state in directories]
    common = os.path.commonpath(path.absolute() for path in paths)
    return {path: os.path.relpath(path, common) for path in paths}


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
        details.append(describe_holder(directory.lock_holder))
    elif directory.clean_shutdown:
        details.append("cleanly shut down")
    return f"{directory.path}" + (f"  ({', '.join(details)})" if details else "")


def _cells(
    row: PartitionRow, labels: Mapping[Path, str], *, is_narrow: bool = False
) -> tuple[str | int | None, ...]:
    """Return the cells of a row.

    Args:
        labels: the names of the log directories if copies are shown; otherwise empty.
        is_narrow: show times in minutes only.
    """
    kind = row.directory.kind
    copy = (labels[row.directory.path.parent], "*" if row.is_leading else "") if labels else ()
    times = [format_time_ms(time) for time in (row.first_timestamp_ms, row.last_timestamp_ms)]
    if is_narrow:
        times = [time and f"{time[:-_BELOW_MINUTES]}Z" for time in times]
    return (
        row.directory.topic + ("" if kind is PartitionKind.NORMAL else f" ({kind})"),
        row.directory.partition,
        *copy,
        row.local_log_start_offset,
        row.log_end_offset,
        "–" if row.high_watermark is None else row.high_watermark,
        *([row.leader_epoch] if labels else ()),
        format_size(row.size_bytes),
        f"{row.segments} ({row.remote_segments} remote)" if row.remote_segments else row.segments,
        *times,
        _policy(row.facts),
        *([] if row.records is None else [row.records]),
        *([] if row.problems is None else [row.problems]),
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
    partitions = len({(row.directory.topic, row.directory.partition) for row in rows})
    counts = [(topics, "topic"), (partitions, "partition"), (segments, "segment")]
    if any(row.is_leading is not None for row in rows):
        counts.insert(2, (len(rows), "copy"))
    plurals = {"copy": "copies"}
    return ", ".join([*(format_count(number, noun, plurals.get(noun)) for number, noun in counts), size])


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
        "leaderEpoch": row.leader_epoch,
        "isLeading": row.is_leading,
        "problems": row.problems,
        "records": row.records,
        "sizeInBytes": row.size_bytes,
        "segments": row.segments,
        "remoteSegments": row.remote_segments,
        "firstTimestamp": row.first_timestamp_ms,
        "lastTimestamp": row.last_timestamp_ms,
        "cleanupPolicy": policy,
        "policySource": source,
        "config": None if row.facts.stored is None else dict(row.facts.stored),
    }
