"""Recover log directories as a broker does when it starts after an unclean shutdown.

Kafka: LogManager.loadLogs.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.arguments import optional_count, path_list, topic_names
from native_log.checkpoints.lock import describe_holder, lock_holder
from native_log.checkpoints.names import METADATA_TOPIC, PartitionKind
from native_log.checkpoints.offset_checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    OffsetCheckpoints,
    check_checkpoints,
    malformed_checkpoints,
    update_offset_checkpoint,
)
from native_log.checkpoints.write_session import ClosedLog, WriteSession
from native_log.config import LogConfig
from native_log.errors import InvalidTopicError, KafkaLogError
from native_log.log.recovery.log_recovery import recover_log
from native_log.log.recovery.truncation import count_removed_records, save_removed
from native_log.logdir.discovery import Discovery, PartitionDir, find_partitions, local_path
from native_log.logdir.known_topics import KnownTopics
from native_log.logdir.recovery_report import RECOVERY_SCHEMA, PartitionRecovery, recovery_row
from native_log.logdir.selection import PartitionSelection, filter_partitions
from native_log.logdir.unfinished_writes import before_unfinished_writes
from native_log.system import available_cores
from native_log.workers import worker_threads

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from native_log.checkpoints.partition_checkpoints import EndBeforeWrite
    from native_log.log.recovery.log_recovery import LogRecovery

logger = logging.getLogger(__name__)


def recover(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    topics: str | Iterable[str] | None = None,
    *,
    dry_run: bool = False,
    exclude_topics: str | Iterable[str] = (),
    from_start: bool = False,
    save_to: str | os.PathLike[str] | None = None,
    config: Mapping[str, object] | None = None,
    threads: int | None = None,
    on_partition: Callable[[PartitionRecovery], None] = lambda _: None,
) -> pa.Table:
    """Recover logs as a broker does when it starts after a crash.

    Each log is read with checksums, starting at the segment that contains its recovery point. The first
    invalid or incomplete batch ends the log: everything from there on is removed. A segment whose offset
    index is missing is read too, wherever it lies; it may be truncated, but the log continues after it.
    Indexes, producer state and leader epochs of the segments read are rebuilt, and an interrupted compaction
    is finished. A log directory whose logs were all recovered is marked as cleanly shut down, and malformed
    checkpoint files, with which a broker does not start, get the suffix `.malformed`. Recovering it again
    changes nothing. `__cluster_metadata` is left to the controller, which recovers it at each start.

    Args:
        path: log directories or partition directories. No broker may run on them.
        topics: recover only these; None: all but `__cluster_metadata`.
        dry_run: only report what would be done. Nothing is changed and no lock is taken.
        exclude_topics: skip these. The log directory is then not marked as cleanly shut down.
        from_start: read every segment, regardless of recovery points.
        save_to: a directory that gets a copy of the removed data, as partition directories that can be read
            with mode "dropMalformed"; None: the data is lost, as with a broker.
        config: settings by Kafka's names. index.interval.bytes is used; by default the one that is stored for
            the topic. See LogConfig.
        threads: the number of logs to recover at a time; None: one for each CPU.
        on_partition: called after each partition, in the order of the rows.

    Returns:
        A table of RECOVERY_SCHEMA with one row for each partition, sorted by topic and partition. If a log
        cannot be recovered, the others still are.

    Raises:
        LogDirInUseError: a broker, another process or this process writes to the directory.
        UnknownTopicOrPartitionError, FileNotFoundError, PermissionError, NotALogDirError, OSError.
    """
    locations = [local_path(location) for location in path_list(path)]
    LogConfig.parse(config or {})  # check it before any lock is taken
    options = _Options(
        from_start,
        None if save_to is None else Path(save_to).absolute(),
        config or {},
        optional_count("threads", threads) or available_cores(),
        on_partition,
    )
    is_complete = topics is None and not topic_names(exclude_topics)
    if dry_run:
        discoveries = [find_partitions(location) for location in locations]
        saved = {discovery.log_dir: OffsetCheckpoints.read(discovery.log_dir) for discovery in discoveries}
        whole = _whole_log_dirs(discoveries, is_complete=is_complete)
        for log_dir in saved:
            _warn_of_a_broker(log_dir)
            if log_dir in whole:
                _set_malformed_checkpoints_aside(log_dir, dry_run=True)
            else:
                check_checkpoints(log_dir)  # as WriteSession does
        partitions = recoverable_partitions(discoveries, topics, exclude_topics)
        results = options.recover_all(before_unfinished_writes(partitions), saved, dry_run=True)
    else:
        results = _recover_locked(locations, topics, exclude_topics, options, is_complete=is_complete)
    return pa.Table.from_pylist(
        [recovery_row(result, dry_run=dry_run) for result in results], schema=RECOVERY_SCHEMA
    )


def _recover_locked(
    locations: Sequence[Path],
    topics: str | Iterable[str] | None,
    exclude_topics: str | Iterable[str],
    options: _Options,
    *,
    is_complete: bool,
) -> list[PartitionRecovery]:
    """Recover while holding the log directories' locks.

    Args:
        locations: paths of log directories or partition directories.
        topics, exclude_topics: see `recover`.
        options: the other arguments of `recover`.
        is_complete: no partition of the directories is left out.
    """
    found = [find_partitions(location) for location in locations]
    whole = _whole_log_dirs(found, is_complete=is_complete)
    with ExitStack() as locks:
        sessions = {
            log_dir: locks.enter_context(
                WriteSession.exclusive(log_dir, sets_malformed_aside=log_dir in whole)
            )
            for log_dir in dict.fromkeys(discovery.log_dir for discovery in found)
        }
        discoveries = [find_partitions(location) for location in locations]
        partitions = recoverable_partitions(discoveries, topics, exclude_topics)
        saved = {log_dir: OffsetCheckpoints.read(log_dir) for log_dir in sessions}
        for session in sessions.values():
            session.begin()
        for log_dir in whole:
            _set_malformed_checkpoints_aside(log_dir, dry_run=False)
        try:
            results = options.recover_all(dict.fromkeys(partitions), saved, dry_run=False)
        except BaseException:
            for partition in partitions:
                sessions[partition.path.parent].release(partition.path, partition.key, None)
            raise
        for log_dir, session in sessions.items():
            here = [result for result in results if result.partition.path.parent == log_dir]
            _lower_first_dirty_offsets(log_dir, saved[log_dir], here)
            for result in here:
                session.release(
                    result.partition.path, result.partition.key, _final_offsets(result, saved[log_dir])
                )
            if log_dir in whole:
                session.mark_recovered()
    return results


@dataclass(frozen=True, slots=True)
class _Options:
    """The arguments of `recover` that apply to each partition."""

    from_start: bool
    save_to: Path | None
    config: Mapping[str, object]
    threads: int
    on_partition: Callable[[PartitionRecovery], None]

    def recover_all(
        self,
        partitions: Mapping[PartitionDir, EndBeforeWrite | None],
        saved: Mapping[Path, OffsetCheckpoints],
        *,
        dry_run: bool,
    ) -> list[PartitionRecovery]:
        """Recover partitions in parallel.

        Args:
            partitions: the partitions, and where their logs ended before unfinished writes.
            saved: the checkpoints of each log directory.
            dry_run: see `recover`.
        """
        done = []
        known = KnownTopics.read(saved)
        configs = [known.valid_settings(partition, self.config) for partition in partitions]
        with worker_threads(self.threads, "log-recovery") as pool:
            recover_one = partial(self._recover, saved=saved, dry_run=dry_run)
            for result in pool.map(recover_one, partitions, partitions.values(), configs):
                self.on_partition(result)
                done.append(result)
        return done

    def _recover(
        self,
        partition: PartitionDir,
        before_write: EndBeforeWrite | None,
        config: LogConfig,
        *,
        saved: Mapping[Path, OffsetCheckpoints],
        dry_run: bool,
    ) -> PartitionRecovery:
        lost: list[int] = []
        checkpoints = saved[partition.path.parent]

        def before_cut(recovery: LogRecovery) -> None:
            lost.append(count_removed_records(recovery))
            if self.save_to is not None and not dry_run:
                save_removed(recovery, self.save_to / f"{partition.topic}-{partition.partition}")

        try:
            recovery = recover_log(
                partition.path,
                recovery_point=0 if self.from_start else checkpoints.recovery_points.get(partition.key, 0),
                log_start_offset=checkpoints.log_start_offsets.get(partition.key, 0),
                config=config,
                before_write=before_write,
                dry_run=dry_run,
                before_cut=before_cut,
            )
        except (KafkaLogError, OSError) as error:
            return PartitionRecovery(partition, None, error=error)
        return PartitionRecovery(partition, recovery, sum(lost))


def recoverable_partitions(
    discoveries: Sequence[Discovery],
    topics: str | Iterable[str] | None,
    exclude_topics: str | Iterable[str] = (),
) -> list[PartitionDir]:
    """Return the partitions whose logs a broker recovers, sorted by topic and partition.

    Args:
        discoveries: the partitions at each path.
        topics: only these topics; None: all but `__cluster_metadata`.
        exclude_topics: topics to leave out.

    Raises UnknownTopicOrPartitionError; InvalidTopicError for `__cluster_metadata`.
    """
    selection = PartitionSelection.of(topics, exclude_topics, only_by_name={METADATA_TOPIC})
    paths = [each.partitions[0].path if each.is_partition else each.log_dir for each in discoveries]
    is_metadata_only = bool(discoveries) and all(
        discovery.is_partition and controller_partitions(discovery) for discovery in discoveries
    )
    if is_metadata_only or METADATA_TOPIC in (selection.topics or ()):
        raise InvalidTopicError(
            f"{METADATA_TOPIC} is left to the controller, which recovers it at each start; name other topics",
            path=", ".join(map(str, paths)),
        )
    partitions = {
        partition.path: partition for discovery in discoveries for partition in discovery.partitions
    }
    selected = filter_partitions(
        partitions.values(), selection, kinds={PartitionKind.NORMAL, PartitionKind.FUTURE}, paths=paths
    )
    return sorted(selected, key=lambda partition: (partition.topic, partition.partition, partition.path))


def controller_partitions(location: Discovery | str | os.PathLike[str]) -> list[str]:
    """Return the directory names of `__cluster_metadata` partitions, which are not recovered here.

    The controller recovers this log itself, from its beginning, at each start (Kafka: KafkaRaftLog).
    """
    discovery = location if isinstance(location, Discovery) else find_partitions(local_path(location))
    return [partition.path.name for partition in discovery.partitions if partition.topic == METADATA_TOPIC]


def _whole_log_dirs(discoveries: Iterable[Discovery], *, is_complete: bool) -> set[Path]:
    """Return the log directories whose partitions are all recovered."""
    return {discovery.log_dir for discovery in discoveries if is_complete and not discovery.is_partition}


def _set_malformed_checkpoints_aside(log_dir: Path, *, dry_run: bool) -> None:
    """Rename malformed checkpoint files. The end of the session writes those whose offsets are then known."""
    for name in malformed_checkpoints(log_dir):
        path, aside = log_dir / name, f"{name}.malformed"
        if not dry_run:
            path.rename(log_dir / aside)
        verb = "would be" if dry_run else "was"
        logger.warning("%s: the malformed file %s renamed to %s", path, verb, aside)


def _final_offsets(result: PartitionRecovery, saved: OffsetCheckpoints) -> ClosedLog | None:
    """Return the offsets to checkpoint, none of which is beyond the log end offset; None for a failed log."""
    if result.recovery is None:
        return None
    end, key = result.recovery.log_end_offset, result.partition.key
    high_watermark, start = saved.high_watermarks.get(key), saved.log_start_offsets.get(key)
    return ClosedLog(
        end,
        None if high_watermark is None else min(high_watermark, end),
        None if start is None else min(start, end),
    )


def _lower_first_dirty_offsets(
    log_dir: Path, saved: OffsetCheckpoints, done: list[PartitionRecovery]
) -> None:
    """Lower first dirty offsets to the last segment's base offset: the last segment is never compacted."""
    lowered = {
        result.partition.key: min(offset, result.recovery.last_base_offset)
        for result in done
        if result.recovery is not None
        if (offset := saved.first_dirty_offsets.get(result.partition.key)) is not None
    }
    update_offset_checkpoint(log_dir / CLEANER_OFFSET_CHECKPOINT, lowered)


def _warn_of_a_broker(log_dir: Path) -> None:
    holder = lock_holder(log_dir)
    if holder is not None:
        logger.warning(
            "%s is %s: batches that are being written may look damaged", log_dir, describe_holder(holder)
        )
