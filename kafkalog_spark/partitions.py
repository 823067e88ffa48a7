"""Partitions as plain values that the driver sends to tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.log import PartitionCheckpoints, PartitionLog
from native_log.records import DEFAULT_MAX_BATCH_BYTES

if TYPE_CHECKING:
    from native_log.log.replicas.merged_source import MergedSource
    from native_log.policies import TopicFacts


@dataclass(frozen=True)
class OpenablePartition:
    """What a task needs to open the log of a partition.

    Attributes:
        path: path of the partition directory.
        checkpoints: the partition's entries in the checkpoint files of its log directory.
        max_batch_bytes: the size above which a batch is treated as damaged.
        facts: what is known about the topic's configuration; None: not requested.
        merged: the copies from which the log is merged; None: it is in one directory.
    """

    path: str
    topic: str
    partition: int
    checkpoints: PartitionCheckpoints
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    facts: TopicFacts | None = None
    merged: MergedSource | None = None

    @classmethod
    def of(cls, log: PartitionLog, facts: TopicFacts | None = None) -> OpenablePartition:
        return cls(
            str(log.path),
            log.topic,
            log.partition,
            log.checkpoints,
            log.max_batch_bytes,
            facts,
            log.merged,
        )

    def open(self) -> PartitionLog:
        if self.merged is not None:
            from native_log.log.replicas.merged_log import MergedLog

            return MergedLog.of(self.merged, self.topic, self.partition, self.max_batch_bytes)
        return PartitionLog.open(
            self.path,
            topic=self.topic,
            partition=self.partition,
            checkpoints=self.checkpoints,
            max_batch_bytes=self.max_batch_bytes,
        )
