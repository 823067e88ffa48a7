"""Compare the copies of partitions in several log directories."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log.errors import KafkaLogError, error_message
from native_log.log.replicas.comparison import different_ranges
from native_log.log.replicas.copies import inspect_copy
from native_log.log.replicas.plan import plan_merge
from native_log.log.replicas.state import without_doubtful_batches
from native_log.logdir.directory_state import group_by_broker
from native_log.logdir.logdir import LogDir
from native_log.logdir.selected_partitions import select_partitions
from native_log.logdir.selection import PartitionSelection
from native_log.policies import Gaps
from native_log.segment.files import MAX_OFFSET
from native_log.system import available_cores
from native_log.workers import map_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from native_log.arguments import PathLike
    from native_log.log.log_state import LogState
    from native_log.log.replicas.copies import InspectedCopy
    from native_log.logdir.discovery import PartitionDir
    from native_log.storage import StorageOptionsLike

DIFFERENCE_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "kind": pa.string(),
        "path": pa.string(),
        "otherPath": pa.string(),
        "position": pa.int64(),
        "firstOffset": pa.int64(),
        "lastOffset": pa.int64(),
        "difference": pa.string(),
    }
)
"""One row for each difference, sorted by topic and partition.

A copy is compared with the leading copy: the one with the highest leader epoch, or among several the longest.

- `kind`: "missing" (a broker does not have the partition); "unreadable" (a copy cannot be opened);
  "topic-id"; "log-start-offset", "log-end-offset"; "high-watermark" (of the checkpoints);
  "leader-epochs" (the copy diverges from the leading one: a follower would truncate it); "damaged" (bytes
  that are not a valid batch); "missing-offsets" (of a missing segment; of any batch if the topic is not
  compacted); "records" (offsets with different records); "batches" (offsets with equal records
  in different batches);
- `path`: the partition directory; of "damaged" the file, of "missing" the log directory;
- `otherPath`: the leading copy, if that is compared;
- `position`: of "damaged", the first byte in the file;
- `firstOffset`, `lastOffset`: the offsets concerned, both inclusive; null if there are none,
  or if they are unknown;
- `difference`: what was found, in words.
"""
_ROWS = 1024


@dataclass(frozen=True, slots=True)
class Difference:
    """A row of DIFFERENCE_SCHEMA without its partition."""

    kind: str
    path: str
    other_path: str | None
    difference: str
    first_offset: int | None = None
    last_offset: int | None = None
    position: int | None = None


def diff(
    path: PathLike | Iterable[PathLike],
    *more_paths: PathLike,
    topics: str | Iterable[str] | None = None,
    exclude_topics: str | Iterable[str] = (),
    include_deleted: bool = False,
    storage_options: StorageOptionsLike = None,
) -> pa.RecordBatchReader:
    """Compare the copies of partitions in log directories of several brokers, or snapshots of one.

    All batches of all copies are read, and their checksums checked. Nothing is changed. Log directories of
    one broker (with equal node ids and different directory ids) count as one. Logs are compared up to their
    log end offsets, even while a broker writes to them. But a broker must not remove or compact segments
    before they are compared.

    Args:
        path, more_paths: at least two log directories or partition directories.
        topics: compare only these; None: all, internal ones included.
        exclude_topics: do not compare these.
        include_deleted, storage_options: see LogDir.

    Returns:
        The differences as DIFFERENCE_SCHEMA. They are found while they are read.

    Raises:
        FileNotFoundError, LogTruncatedError: while rows are read, if a broker removes or compacts a segment.
        ValueError: fewer than two paths.
        UnknownTopicOrPartitionError, FileNotFoundError, PermissionError, NotALogDirError.
    """
    log_dir = LogDir(
        path,
        *more_paths,
        include_deleted=include_deleted,
        high_watermark="ignore",
        replicas="merge",
        storage_options=storage_options,
    )
    if len(log_dir.paths) < 2:
        raise ValueError(f"path: expected at least two directories to compare, found {log_dir.paths[0]}")
    selected = select_partitions(log_dir, PartitionSelection.of(topics, exclude_topics))
    rows = chain.from_iterable(_compare_all(log_dir, selected))
    batches = (
        pa.RecordBatch.from_pylist(some, schema=DIFFERENCE_SCHEMA)
        for some in iter(lambda: list(islice(rows, _ROWS)), [])
    )
    return pa.RecordBatchReader.from_batches(DIFFERENCE_SCHEMA, batches)


def _compare_all(log_dir: LogDir, partitions: Sequence[PartitionDir]) -> Iterator[Iterable[dict[str, Any]]]:
    """Yield the differences of each partition. Several partitions at URLs are read at a time."""
    readers = log_dir.waiting_readers(partitions)
    if readers is not None:  # each of them reads all copies of a partition at a time
        readers = max(1, readers // len(log_dir.directories))
    return map_tables(partial(compare_partition, log_dir), partitions, readers)


def compare_partition(log_dir: LogDir, partition: PartitionDir) -> Iterator[dict[str, Any]]:
    """Yield the differences between the copies of one partition, as rows of DIFFERENCE_SCHEMA."""
    for each in _differences(log_dir, partition):
        yield {
            "topic": partition.topic,
            "partition": partition.partition,
            "kind": each.kind,
            "path": each.path,
            "otherPath": each.other_path,
            "position": each.position,
            "firstOffset": each.first_offset,
            "lastOffset": each.last_offset,
            "difference": each.difference,
        }


def _differences(log_dir: LogDir, partition: PartitionDir) -> Iterator[Difference]:
    copies = log_dir.copies(partition.topic, partition.partition)
    yield from _missing(log_dir, copies)
    logs: list[LogState] = []
    for directory in copies:
        try:
            logs.append(log_dir.open_copy(directory).state)
        except (KafkaLogError, OSError) as error:
            yield Difference("unreadable", str(directory.path), None, error_message(error))
    if not logs:
        return
    with ThreadPoolExecutor(min(available_cores(), len(logs)), "log-inspection") as pool:
        gaps = log_dir.explain_gaps(partition.topic, partition.partition)
        inspected = list(pool.map(inspect_copy, logs, repeat(gaps is not Gaps.UNEXPLAINED)))
    states = without_doubtful_batches(logs, [copy.state for copy in inspected])
    inspected = [replace(copy, state=state) for copy, state in zip(inspected, states, strict=True)]
    plan = plan_merge(states)
    leader = inspected[plan.leader]
    for copy, agreed in zip(inspected, plan.agreed_ends, strict=True):
        if copy is not leader:
            yield from _compare(copy, leader, agreed)
        doubtful = copy.state.doubtful
        if doubtful is not None:
            yield Difference(
                *("damaged", doubtful.path, None, str(doubtful), doubtful.expected_offset),
                position=doubtful.position,
            )
        for span in copy.missing:
            if doubtful is not None and span.start_offset >= doubtful.expected_offset:
                continue
            yield Difference(
                "missing-offsets",
                str(copy.log.path),
                None,
                "no batch has these offsets",
                span.start_offset,
                span.end_offset - 1,
            )
        for damage in copy.damaged:
            lost = damage.lost
            yield Difference(
                "damaged",
                damage.range.path,
                None,
                damage.range.reason,
                None if lost.is_empty else lost.start_offset,
                None if lost.is_empty or lost.end_offset == MAX_OFFSET else lost.end_offset - 1,
                damage.range.position,
            )


def _missing(log_dir: LogDir, copies: Sequence[PartitionDir]) -> Iterator[Difference]:
    # Of a directory that was given by two paths, there is one copy.
    present = {directory.storage.identity(str(directory.path.parent)) for directory in copies}
    for broker in group_by_broker(log_dir.directories):
        if present.isdisjoint(state.storage.identity(str(state.path)) for state in broker):
            yield Difference("missing", str(broker[0].path), None, "the partition is missing")


def _compare(copy: InspectedCopy, leader: InspectedCopy, agreed: int) -> Iterator[Difference]:
    ours, theirs = copy.log, leader.log
    path, other = str(ours.path), str(theirs.path)
    if ours.topic_id != theirs.topic_id and None not in (ours.topic_id, theirs.topic_id):
        yield Difference("topic-id", path, other, f"{ours.topic_id}, in the leading copy {theirs.topic_id}")
    for kind, own, expected in (
        ("log-start-offset", ours.log_start_offset, theirs.log_start_offset),
        ("log-end-offset", ours.log_end_offset, theirs.log_end_offset),
        (
            "high-watermark",
            ours.checkpoints.checkpointed_high_watermark,
            theirs.checkpoints.checkpointed_high_watermark,
        ),
    ):
        if own != expected:
            text = f"{_offset_text(own)}, in the leading copy {_offset_text(expected)}"
            first = last = None
            if own is not None and expected is not None:
                first, last = min(own, expected), max(own, expected) - 1
            yield Difference(kind, path, other, text, first, last)
    if agreed < copy.state.end_offset:
        first, last = agreed, copy.state.end_offset - 1
        epochs = (
            f"the last epoch is {copy.state.history.last_epoch}, in the leading copy "
            f"{leader.state.history.last_epoch}"
        )
        yield Difference("leader-epochs", path, other, f"diverges at {agreed}: {epochs}", first, last)
    start = max(copy.state.start_offset, leader.state.start_offset)
    for each in different_ranges(copy, leader, start, min(agreed, leader.state.end_offset)):
        kind, text = "records", "the records differ"
        if each.has_equal_records:
            kind, text = "batches", "equal records in different batches"
        yield Difference(kind, path, other, text, each.first_offset, each.last_offset)


def _offset_text(offset: int | None) -> str:
    return "unknown" if offset is None else str(offset)
