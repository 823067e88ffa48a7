"""How one log is joined with remote storage, as a value: tasks join it again if files are gone."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from native_log.log.log_state import LogState
from native_log.log.tail import Tail
from native_log.log.tiers.join import join
from native_log.log.tiers.remote_segment import RemotePartition
from native_log.logdir.remote_starts import read_remote_segments
from native_log.policies import Gaps
from native_log.segment.files import MAX_OFFSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.internal_topics.remote_segments import RemoteSegments
    from native_log.log.sources.directory import DirectorySource
    from native_log.log.sources.joined import JoinedSource
    from native_log.log.tiers.layouts.names import PartitionName
    from native_log.log.tiers.remote_segment import RemoteSegment
    from native_log.log.tiers.tier import StoredSegments, Tier
    from native_log.storage import Folder

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RemoteJoin:
    """A log and its part of remote storage.

    Attributes:
        local: the partition in the log directory, which may have no files; or the merged copies of it.
        is_alone: remote storage is read alone.
        tier: the remote storage, with the folders of this partition only.
        name: the partition there.
        metadata_dirs: log directories that may contain partitions of __remote_log_metadata.
        gaps: whether compaction explains offsets that no batch has.
    """

    local: DirectorySource | JoinedSource
    is_alone: bool
    tier: Tier
    name: PartitionName
    metadata_dirs: tuple[Folder, ...]
    gaps: Gaps

    def __call__(self, metadata: RemoteSegments | None = None) -> JoinedSource:
        """Return the log as it is now.

        Args:
            metadata: the segments that the metadata tells of; None: read it.

        Raises KafkaLogError, OSError.
        """
        log = LogState(self.local, (), (), Tail(0, 0), 0, 0) if self.is_alone else self.local.open()
        named = self._named_segments(metadata)
        stored = self.tier.segments(self.name, named or ())
        if any(segment.key in stored.damaged for segment in named or ()):
            named = self._named_segments(None)  # a broker says so before it deletes objects
        segments = stored.known if named is None else named
        if named is None:
            self._warn_of_damaged_start(stored)
            if self.name.topic_id and self.metadata_dirs and stored.known:
                self._warn_of_missing_metadata()
        gaps, is_of_brokers = self.gaps, self.tier.is_of_brokers
        if is_of_brokers and gaps is Gaps.UNKNOWN:
            gaps = Gaps.UNEXPLAINED
        joined = join(log, stored, segments, gaps, keeps_start=is_of_brokers)
        return replace(joined, join_again=self)

    def _named_segments(self, metadata: RemoteSegments | None) -> Sequence[RemoteSegment] | None:
        """Return the readable segments, in the order in which their copies were finished.

        None if no metadata tells of the partition.
        """
        name = self.name
        if name.topic_id is None:
            return None
        if metadata is None:
            metadata = read_remote_segments(self.metadata_dirs)
        remote = RemotePartition(name.topic, name.partition, name.topic_id)
        return metadata.readable(remote) if metadata.knows(remote) else None

    def _warn_of_damaged_start(self, stored: StoredSegments) -> None:
        first = min((segment.span.start_offset for segment in stored.known), default=MAX_OFFSET)
        before = [start for start, _ in stored.damaged if start < first]
        if before:
            logger.warning(
                "%s-%d: expected all objects of the segment at offset %d, found only some: its records "
                "are left out. They are lost, or retention is deleting them",
                *(self.name.topic, self.name.partition, min(before)),
            )

    def _warn_of_missing_metadata(self) -> None:
        logger.warning(
            "%s-%d: no __remote_log_metadata tells which remote segments can be read, so all objects in "
            "%s are, among which may be some that a broker was deleting",
            *(self.name.topic, self.name.partition, self.tier.folders[self.name][0]),
        )
