"""A log to copy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from native_log.config import LogConfig
from native_log.policies import Gaps

if TYPE_CHECKING:
    from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
    from native_log.logdir import PartitionDir


@dataclass(frozen=True, slots=True)
class SourceLog:
    """A log to copy, and what its log directory says about it.

    Attributes:
        directory: the partition directory.
        checkpoints: its entries in the checkpoint files. What an unfinished write has appended is not copied.
        gaps: whether compaction explains gaps.
        is_remote: the topic has remote storage.
        is_live: a broker has the directory open, and may be writing to the last segment.
        topic_id: the topic id; None if it is unknown.
        needs_topic_id: a broker needs the topic id, unlike a broker of a ZooKeeper cluster.
        config: the topic's settings, as far as they are known.
    """

    directory: PartitionDir
    checkpoints: PartitionCheckpoints
    gaps: Gaps = Gaps.UNKNOWN
    is_remote: bool = False
    is_live: bool = False
    topic_id: str | None = None
    needs_topic_id: bool = True
    config: LogConfig = field(default_factory=LogConfig)

    def ends_before_start(self, end_offset: int) -> bool:
        """Return whether a log that ends at `end_offset` ends before its checkpointed start offset."""
        return (self.checkpoints.log_start_offset or 0) > end_offset
