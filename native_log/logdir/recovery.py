"""Recovery of whole log directories: what a broker does when it starts on one that it did not leave in order
(Kafka: LogManager.loadLogs)."""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.arguments import topic_names
from native_log.config import LogConfig
from native_log.errors import KafkaLogError, UnknownTopicOrPartitionError
from native_log.log.recovery.cut_off import cut_records, save_cut
from native_log.log.recovery.recover import LogRecovery, recover_log
from native_log.logdir.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    OffsetCheckpoints,
    update_offset_checkpoint,
)
from native_log.logdir.discovery import Found, PartitionDir, find_partitions, local_path
from native_log.logdir.lock import lock_holder
from native_log.logdir.names import METADATA_TOPIC, PartitionKind
from native_log.logdir.session import ClosedLog, WriteSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionRecovery:
    """A partition and what its recovery came to (in a dry run: would come to).

    Attributes:
        recovery: None if it failed.
        lost_records: how many of the records that go could still be read: those behind the damage.
        error: why it failed; the log may be changed in part, doing it again goes on.
    """

    partition: PartitionDir
    recovery: LogRecovery | None
    lost_records: int = 0
    error: KafkaLogError | OSError | None = None


def recover(
    path: str | os.PathLike[str],
    topics: str | Iterable[str] | None = None,
    *,
    dry_run: bool = False,
    exclude_topics: str | Iterable[str] = (),
    from_start: bool = False,
    save_to: str | os.PathLike[str] | None = None,
    config: Mapping[str, object] | None = None,
    threads: int | None = None,
    on_partition: Callable[[PartitionRecovery], None] = lambda _: None,
) -> list[PartitionRecovery]:
    """Make the logs in a log directory (or in one partition directory) whole, as a broker's start would.

    Each log is read with checksums from the segment with its recovery point on. The first batch that is not
    whole and right ends the log: what lies behind it is removed. Indexes, producers' state and leader epochs
    of what was read are made anew, a compaction that was interrupted is finished. Where all logs of a
    directory were recovered it is marked as cleanly shut down. Doing it again changes nothing.
    `__cluster_metadata` is left to the controller, which recovers it whenever it starts.

    Args:
        topics: only these.
        dry_run: only say what would be done; nothing is changed and no lock taken.
        exclude_topics: not these. The directory is then not marked as cleanly shut down.
        from_start: read every segment, whatever the recovery points say.
        save_to: a directory that gets a copy of what is cut off, as partition directories that can be read
            with mode "dropMalformed". By default it is gone, as in a broker.
        config: settings by Kafka's names: index.interval.bytes. See LogConfig.
        threads: how many logs at a time; by default one for each CPU.
        on_partition: called after each partition, in their order.

    Returns:
        What became of each partition: a log that could not be recovered (`error`) does not stop the others.

    Raises:
        LogDirInUseError: a broker, or another process, works in the directory, or this very one does.
        UnknownTopicOrPartitionError, FileNotFoundError, PermissionError, NotALogDirError, OSError.
    """
    location = local_path(path)
    found = find_partitions(location)
    how = _How(
        from_start,
        None if save_to is None else Path(save_to).absolute(),
        LogConfig.parse(config or {}),
        threads,
        on_partition,
    )
    if dry_run:
        _warn_of_a_broker(found)
        saved = OffsetCheckpoints.read(found.log_dir)
        return how.recover_all(recoverable([found], topics, exclude_topics), saved, dry_run=True)
    with WriteSession.alone(found.log_dir) as session:
        found = find_partitions(location)
        wanted = recoverable([found], topics, exclude_topics)
        saved = OffsetCheckpoints.read(found.log_dir)
        session.begin()
        try:
            done = how.recover_all(wanted, saved, dry_run=False)
        except BaseException:
            for one in wanted:
                session.release(one.path, one.key, None)
            raise
        _lower_first_dirty_offsets(found.log_dir, saved, done)
        for result in done:
            session.release(result.partition.path, result.partition.key, _closed(result, saved))
        if topics is None and not topic_names(exclude_topics) and not found.is_partition:
            session.found_in_order()
    return done


@dataclass(frozen=True, slots=True)
class _How:
    """The arguments of `recover`."""

    from_start: bool
    save_to: Path | None
    config: LogConfig
    threads: int | None
    on_partition: Callable[[PartitionRecovery], None]

    def recover_all(
        self, partitions: list[PartitionDir], saved: OffsetCheckpoints, *, dry_run: bool
    ) -> list[PartitionRecovery]:
        done = []
        pool = ThreadPoolExecutor(self.threads or os.cpu_count(), "log-recovery")
        try:
            for result in pool.map(partial(self._recover, saved=saved, dry_run=dry_run), partitions):
                self.on_partition(result)
                done.append(result)
        finally:
            pool.shutdown(cancel_futures=True)
        return done

    def _recover(
        self, partition: PartitionDir, saved: OffsetCheckpoints, *, dry_run: bool
    ) -> PartitionRecovery:
        lost: list[int] = []

        def before_cut(recovery: LogRecovery) -> None:
            lost.append(cut_records(recovery))
            if self.save_to is not None and not dry_run:
                save_cut(recovery, self.save_to / f"{partition.topic}-{partition.partition}")

        try:
            recovery = recover_log(
                partition.path,
                recovery_point=0 if self.from_start else saved.recovery_points.get(partition.key, 0),
                log_start_offset=saved.log_start_offsets.get(partition.key, 0),
                config=self.config,
                dry_run=dry_run,
                before_cut=before_cut,
            )
        except (KafkaLogError, OSError) as error:
            return PartitionRecovery(partition, None, error=error)
        return PartitionRecovery(partition, recovery, sum(lost))


def recoverable(
    found: Sequence[Found], topics: str | Iterable[str] | None, exclude_topics: str | Iterable[str] = ()
) -> list[PartitionDir]:
    """Return the partitions whose logs a broker recovers, sorted: of these topics, None: of all, less those
    excluded.

    Raises UnknownTopicOrPartitionError, also for an excluded topic: it may be misspelt.
    """
    partitions = {
        one.path: one
        for place in found
        for one in place.partitions
        if one.kind in (PartitionKind.NORMAL, PartitionKind.FUTURE) and one.topic != METADATA_TOPIC
    }
    known = {one.topic for one in partitions.values()}
    wanted = known if topics is None else topic_names(topics)
    excluded = topic_names(exclude_topics, "exclude_topics") - {METADATA_TOPIC}
    only_the_controllers = all(place.is_partition and left_to_the_controller(place) for place in found)
    if METADATA_TOPIC in wanted or (found and only_the_controllers):
        raise UnknownTopicOrPartitionError(
            f"{METADATA_TOPIC} is left to the controller, which recovers it whenever it starts",
            path=", ".join(str(place.log_dir) for place in found),
        )
    unknown = sorted((wanted | excluded) - known)
    if unknown:
        there = sorted(known)
        raise UnknownTopicOrPartitionError(
            f"there is no topic {unknown[0]}, but {', '.join(there) or 'none at all'}",
            path=", ".join(str(place.log_dir) for place in found),
        )
    chosen = [one for one in partitions.values() if one.topic in wanted - excluded]
    return sorted(chosen, key=lambda one: (one.topic, one.partition, one.path))


def left_to_the_controller(place: Found | str | os.PathLike[str]) -> list[str]:
    """Names of the partition directories that are not recovered here: the controller recovers its log itself,
    and from its start, whenever it starts (Kafka: KafkaRaftLog)."""
    found = place if isinstance(place, Found) else find_partitions(local_path(place))
    return [one.path.name for one in found.partitions if one.topic == METADATA_TOPIC]


def _closed(result: PartitionRecovery, saved: OffsetCheckpoints) -> ClosedLog | None:
    """Checkpoints that say no more than the log now holds."""
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
    """The cleaner cannot have come further than the log's last segment, which it never cleans."""
    lowered = {
        one.partition.key: min(offset, one.recovery.last_base_offset)
        for one in done
        if one.recovery is not None
        if (offset := saved.first_dirty_offsets.get(one.partition.key)) is not None
    }
    update_offset_checkpoint(log_dir / CLEANER_OFFSET_CHECKPOINT, lowered)


def _warn_of_a_broker(found: Found) -> None:
    holder = lock_holder(found.log_dir)
    if holder is not None:
        logger.warning(
            "%s is in use by process %d: what it is just writing may look torn", found.log_dir, holder
        )
