"""The logs that a stream follows, and the records in them that were replaced after the stream read them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from kafkalog_spark.errors import session_settings_note
from kafkalog_spark.options.offset_json import TopicPartition
from kafkalog_spark.read.offset_state import LogIdentity
from kafkalog_spark.read.offsets import OffsetRange
from kafkalog_spark.read.plan import partitions_to_read
from native_log.errors import UnknownTopicOrPartitionError
from native_log.log.live.divergence import diverged
from native_log.logdir.live_logdir import LiveLogDir
from native_log.logdir.options import LogDirOptions
from native_log.logdir.remote_storage import RemoteStorage
from native_log.prefetch import look_up_together
from native_log.storage import Storages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalog_spark.options.read import ReadOptions
    from kafkalog_spark.read.offset_state import Identities
    from kafkalog_spark.read.stream_offsets import Offsets
    from native_log.log.live.any_live_log import AnyLiveLog

R = TypeVar("R")

logger = logging.getLogger("kafkalog")


@dataclass(frozen=True, slots=True)
class Replacement:
    """The log now has different records from this offset on.

    Attributes:
        partition: the partition.
        offset: the first offset whose record is another one.
        reason: what happened, in words.
    """

    partition: TopicPartition
    offset: int
    reason: str


class StreamLogs:
    """The selected logs, kept up to date by `refresh`.

    Attributes:
        logs: by topic and partition, as of the last refresh.
        replacements: for each partition with replaced records where they begin. `forget` removes an entry.
        identities: what was read of each partition, as `begin` and `record` got it.
    """

    def __init__(self, options: ReadOptions, identities: Identities) -> None:
        """Open the log directories.

        Args:
            identities: what an earlier run of the query has read.

        Raises: as LogDir.
        """
        self._options = options
        with session_settings_note(options.paths, options.storage_options):
            log_dir_options = LogDirOptions(
                include_deleted=options.include_deleted,
                high_watermark=options.high_watermark,
                max_batch_bytes=options.max_batch_bytes,
                replicas=options.replicas,
                storages=Storages(options.storage_options),
                remote=RemoteStorage.of(**options.remote),
            )
            self._log_dir = LiveLogDir(options.paths, log_dir_options)
        self.logs: dict[TopicPartition, AnyLiveLog] = {}
        self.replacements: dict[TopicPartition, Replacement] = {}
        self.identities = dict(identities)
        self.refresh()

    def refresh(self) -> None:
        """Bring the logs up to date, and find new and removed partitions.

        Raises UnknownTopicOrPartitionError if a topic that is named in the options does not exist.
        """
        changes = self._log_dir.refresh()
        if changes.added or changes.removed or not self.logs:
            self._select()
        for key, change in changes.logs.items():
            tp = TopicPartition(*key)
            if change.is_recreated:
                self._replace(tp, 0, "the topic was deleted and created again")
            elif change.truncated_to is not None:
                self._replace(tp, change.truncated_to, "the log was truncated")

    def _select(self) -> None:
        before, self.logs = self.logs, {}
        selected = partitions_to_read(self._options, self._log_dir)
        self._log_dir.open_logs(selected)
        for tp in selected:
            try:
                log = self.logs[tp] = self._log_dir.partition(*tp)
            except (FileNotFoundError, UnknownTopicOrPartitionError):
                continue  # it was removed just now; the next refresh reports that
            if before.get(tp) is log:
                continue
            if log.log.missing_end is not None:
                logger.warning("%s: %s; run kafkalog verify for details", log.path, log.log.missing_end)
            if log.log.missing_segments is not None:
                missing = log.log.missing_segments
                logger.warning("%s/%s; run kafkalog verify for details", log.path, missing)
            if tp in self.identities:
                self._compare(tp, log, self.identities[tp])

    @property
    def are_local(self) -> bool:
        """Whether all logs are on local disks."""
        return self._log_dir.is_local

    def end_offsets(self) -> Offsets:
        """Return the first offset of each partition that cannot be read yet."""
        return self.find_together(self.end_offset, self.logs)

    def end_offset(self, tp: TopicPartition) -> int:
        """Return the first offset of a partition that cannot be read yet."""
        return self.logs[tp].log.end_offset(self._options.isolation_level)

    def find_together(
        self, function: Callable[[TopicPartition], R], tps: Iterable[TopicPartition]
    ) -> dict[TopicPartition, R]:
        """Return the result of `function`, which reads from the log of a partition, for each of several."""
        return look_up_together(function, tps, are_local=self.are_local)

    def available(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetRange]:
        """Return the offsets that can be read of those of the partitions that exist."""
        ends = self.find_together(self.end_offset, (tp for tp in tps if tp in self.logs))
        starts = {tp: self.logs[tp].log.local_log_start_offset for tp in ends}
        return {tp: OffsetRange(*tp, starts[tp], end) for tp, end in ends.items()}

    def raise_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Show at least the records before these offsets, which the stream has read or planned before."""
        for tp, offset in offsets.items():
            log = self.logs.get(tp)
            if log is not None:
                log.raise_high_watermark(offset)

    def record(
        self, ends: Mapping[TopicPartition, int], available: Mapping[TopicPartition, OffsetRange]
    ) -> None:
        """Remember that partitions are read up to these offsets, as far as they are available."""
        for tp, end in ends.items():
            if tp in available:
                self.identities[tp] = self._identity(tp, min(end, available[tp].end), position=end)

    def begin(
        self, starts: Mapping[TopicPartition, int], available: Mapping[TopicPartition, OffsetRange]
    ) -> None:
        """Remember where the stream starts. An offset beyond the end of a log counts as the end."""
        for tp, start in starts.items():
            offset = min(start, available[tp].end)
            self.identities[tp] = self._identity(tp, offset, position=offset)

    def _identity(self, tp: TopicPartition, offset: int, position: int) -> LogIdentity:
        log = self.logs[tp]
        epoch = log.epoch_of(offset - 1) if offset else None
        return LogIdentity(log.topic_id, offset, epoch, position)

    def forget(self, tp: TopicPartition) -> None:
        """Remove the replacement of a partition."""
        self.replacements.pop(tp, None)

    def forget_read(self, tps: Iterable[TopicPartition]) -> None:
        """Remove the replacements of partitions that were read again, as far as their logs went."""
        for tp in tps:
            self.forget(tp)
            if tp in self.identities:
                self._check_read_to_end(tp, self.identities[tp])

    def _check_read_to_end(self, tp: TopicPartition, identity: LogIdentity) -> None:
        if identity.offset < identity.position:
            self._replace(tp, identity.offset, f"the log ended at offset {identity.offset} when it was read")

    def _compare(self, tp: TopicPartition, log: AnyLiveLog, identity: LogIdentity) -> None:
        """Compare a log that was opened with what was read of it before."""
        if identity.topic_id is not None and log.topic_id not in (None, identity.topic_id):
            reason = f"the topic was deleted and created again: its id was {identity.topic_id}"
            self._replace(tp, 0, f"{reason} and is now {log.topic_id}")
            return
        self._check_read_to_end(tp, identity)
        end_offset = max(log.log.log_end_offset, identity.offset)
        offset = diverged(identity.offset, identity.leader_epoch, log.leader_epochs, end_offset)
        if offset is not None:
            self._replace(tp, offset, "the log was truncated")

    def _replace(self, tp: TopicPartition, offset: int, reason: str) -> None:
        known = self.replacements.get(tp)
        if known is None or offset < known.offset:
            self.replacements[tp] = Replacement(tp, offset, reason)
