"""Copy logs from anywhere into a log directory that a broker loads."""

from __future__ import annotations

import errno
import logging
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log.arguments import optional_count
from native_log.checkpoints.names import BROKER_TOPICS, METADATA_TOPIC
from native_log.config import LogConfig
from native_log.errors import InvalidTopicError
from native_log.log import PartitionLog
from native_log.logdir import LogDir
from native_log.logdir.create import random_uuid
from native_log.logdir.discovery import local_path
from native_log.logdir.position import check_position
from native_log.logdir.selected_partitions import select_partitions
from native_log.logdir.selection import PartitionSelection
from native_log.outcomes import as_planned
from native_log.prefetch import look_up_together
from native_log.progress import Progress
from native_log.restoring.copying import CopiedLog, copy_log
from native_log.restoring.destination import Destination
from native_log.restoring.requested_range import requested_span
from native_log.system import available_cores
from native_log.workers import waiting_readers, worker_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import Unpack

    from native_log.arguments import PathLike
    from native_log.log import LogRange
    from native_log.logdir.options import LogDirArguments
    from native_log.logdir.position import Position

logger = logging.getLogger(__name__)

RESTORE_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "status": pa.string(),
        "logStartOffset": pa.int64(),
        "logEndOffset": pa.int64(),
        "sizeInBytes": pa.int64(),
        "topicId": pa.string(),
    }
)
"""The report of `restore`: one row for each partition. `status` is "restored", in a dry run "would be
restored". `logEndOffset` is exclusive. `sizeInBytes` is that of .log files, in a dry run of what is read."""

_SPARE_BYTES = 64 << 20


def restore(
    source: PathLike | Iterable[PathLike] | None,
    dest: PathLike,
    topics: str | Iterable[str] | None = None,
    start: Position = None,
    end: Position = None,
    *,
    exclude_topics: str | Iterable[str] = (),
    dry_run: bool = False,
    threads: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    **log_dir: Unpack[LogDirArguments],
) -> pa.Table:
    """Copy logs into a log directory that a broker loads.

    The source can be whatever LogDir reads: local directories, URLs, remote storage with or without its log
    directory, several replicas. Batches are copied byte for byte, with their offsets. Compression and
    encryption of remote storage are undone. Indexes, producer state and checkpoints are written anew.

    `dest` is a new log directory, or that of a stopped broker. Partitions that the broker has created and
    that are empty are filled, and keep their topic ids. If one has records, nothing is changed.

    The partitions are built in DEST.unfinished-restore, next to it. If a run is stopped, the next one with
    the same arguments continues there.

    Args:
        source: see LogDir; None: remote storage alone.
        dest: the log directory.
        topics: the topics to restore; None: all except Kafka's internal topics.
        start, end: restore offsets from `start` to before `end`: an offset, or a time (datetime, in UTC if it
            has no time zone), which stands for the first record with at least this timestamp; or one of them
            for each partition, by (topic, partition). A batch with offsets in this range is copied whole.
        exclude_topics: topics to leave out.
        dry_run: change nothing, and report what would be restored.
        threads: the number of partitions to copy at a time; None: one for each CPU, but at least 8 if the
            source is not on local disks, and up to 64 of small ones.
        on_progress: called with (steps done, total steps), from any thread.
        log_dir: the keyword arguments of LogDir for the source. With `include_deleted`, partitions that have
            only a `-delete` or `-stray` directory are restored, too.

    Returns:
        The report (RESTORE_SCHEMA).

    Raises:
        KafkaLogError: a partition in `dest` has records; an unfinished restore had other arguments.
        LogDirInUseError: a broker runs on `dest`.
        CorruptRecordError: a batch is damaged, and no replica has it. Nothing was changed in `dest`; see
            `salvage`.
        LostOffsetsError: offsets in the range are nowhere.
        InvalidTopicError: the log of the cluster's metadata, which a broker writes itself.
        OSError: there is too little free space, or reading or writing failed.
        FileNotFoundError, NotALogDirError, EmptyLogDirError, UnknownTopicOrPartitionError: see LogDir.
        ValueError, TypeError: an invalid argument.
    """
    start, end = check_position("start", start), check_position("end", end)
    threads = optional_count("threads", threads)
    destination = Destination(local_path(dest).resolve())
    with LogDir(source, **log_dir) as logs:
        selection = PartitionSelection.of(topics, exclude_topics, only_by_name=BROKER_TOPICS)
        if METADATA_TOPIC in (selection.topics or ()):
            raise InvalidTopicError(f"{METADATA_TOPIC} cannot be restored: the new cluster writes its own")
        selected = select_partitions(logs, selection, required=True)
        opened = logs.open_logs(directory.key for directory in selected)
        ids = _topic_ids(destination, opened, are_local=logs.is_local)
        ranges = look_up_together(
            lambda key: _range(opened[key], start, end), opened, are_local=logs.is_local
        )
        if dry_run:
            report = _report(ids, {key: _planned(each) for key, each in ranges.items()})
            return as_planned(report, "status", ("restored",))
        _check_space(destination, sum(each.size_bytes for each in ranges.values()))
        with destination.building(_request(source, topics, start, end, log_dir)):
            sizes = [each.size_bytes for each in ranges.values()]
            count = threads or min(
                available_cores() if logs.is_local else waiting_readers(sizes), len(ranges)
            )
            copied = _copy_all(destination, opened, ranges, ids, count, on_progress)
            properties = next((d.meta_properties for d in logs.directories if d.meta_properties), None)
            destination.install(
                copied,
                (properties.cluster_id if properties else None) or random_uuid(),
                properties.node_id if properties is not None and properties.node_id is not None else 1,
                properties.version if properties else 1,
            )
    return _report(ids, copied)


def _topic_ids(
    destination: Destination, opened: dict[tuple[str, int], PartitionLog], *, are_local: bool
) -> dict[tuple[str, int], str | None]:
    """Return the topic id of each partition: that in the destination, or that of the source."""
    existing = {key: destination.check_empty(f"{key[0]}-{key[1]}") for key in opened}
    by_topic = {topic: found for (topic, _), found in existing.items() if found is not None}
    ids = look_up_together(
        lambda key: by_topic.get(key[0]) or opened[key].topic_id, opened, are_local=are_local
    )
    for topic in sorted({topic for (topic, _), found in ids.items() if found is None}):
        logger.warning(
            "%s: the topic id of %s is unknown, and a KRaft broker needs it; create the topic in the new "
            "cluster, stop the broker, and restore into its directory",
            destination.path,
            topic,
        )
    return ids


def _range(log: PartitionLog, start: Position, end: Position) -> LogRange:
    span = requested_span(log, start, end)
    return log.range(span.start_offset, span.end_offset)


def _planned(requested: LogRange) -> CopiedLog:
    segments = len({each.segment.path for each in requested.slices})
    return CopiedLog(requested.start_offset, requested.end_offset, requested.size_bytes, segments)


def _copy_all(
    destination: Destination,
    opened: dict[tuple[str, int], PartitionLog],
    ranges: dict[tuple[str, int], LogRange],
    ids: dict[tuple[str, int], str | None],
    threads: int,
    on_progress: Callable[[int, int], None] | None,
) -> dict[tuple[str, int], CopiedLog]:
    progress = Progress(on_progress, len(ranges))
    copy = partial(_copy, destination, opened, ranges, ids, progress)
    with worker_threads(threads, "restore", progress) as pool:
        return dict(zip(ranges, pool.map(copy, ranges), strict=True))


def _copy(
    destination: Destination,
    opened: dict[tuple[str, int], PartitionLog],
    ranges: dict[tuple[str, int], LogRange],
    ids: dict[tuple[str, int], str | None],
    progress: Progress,
    key: tuple[str, int],
) -> CopiedLog:
    name, own = f"{key[0]}-{key[1]}", progress.partition()
    try:
        target = destination.begin(name)
        if target is None:
            place = destination.finished(name)
            return _existing(place if place.exists() else destination.path / name, ranges[key])
        own.begin(ranges[key].size_bytes)
        copied = copy_log(ranges[key], target, ids[key], opened[key].leader_epochs, LogConfig(), own.add)
        destination.finish(name)
        return copied
    finally:
        own.end()


def _existing(directory: Path, requested: LogRange) -> CopiedLog:
    """Return what an earlier run has copied."""
    log = PartitionLog.open(directory, topic=requested.topic, partition=requested.partition)
    return CopiedLog(requested.start_offset, log.log_end_offset, log.size_bytes, len(log.segments))


def _check_space(destination: Destination, size_bytes: int) -> None:
    existing = next(parent for parent in destination.path.parents if parent.exists())
    free, needed = shutil.disk_usage(existing).free, size_bytes + size_bytes // 100 + _SPARE_BYTES
    if free < needed:
        raise OSError(
            errno.ENOSPC, f"expected {needed} bytes of free space for the copy, found {free}", str(existing)
        )


def _request(
    source: Any, topics: Any, start: Position, end: Position, log_dir: LogDirArguments
) -> dict[str, Any]:
    """Return what tells one restore from another one. Credentials do not count."""
    named = {name: str(value) for name, value in log_dir.items() if name != "storage_options"}
    return {"source": str(source), "topics": str(topics), "start": str(start), "end": str(end), **named}


def _report(ids: dict[tuple[str, int], str | None], copied: dict[tuple[str, int], CopiedLog]) -> pa.Table:
    rows = [
        {
            "topic": topic,
            "partition": number,
            "status": "restored",
            "logStartOffset": log.log_start_offset,
            "logEndOffset": log.log_end_offset,
            "sizeInBytes": log.size_bytes,
            "topicId": ids[topic, number],
        }
        for (topic, number), log in copied.items()
    ]
    return pa.Table.from_pylist(rows, schema=RESTORE_SCHEMA)
