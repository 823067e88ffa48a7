"""The state of one log directory, read from the files in its root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.checkpoints.lock import lock_holder
from native_log.checkpoints.meta_properties import MetaProperties, read_meta_properties
from native_log.checkpoints.names import METADATA_TOPIC
from native_log.checkpoints.offset_checkpoints import REPLICATION_OFFSET_CHECKPOINT, OffsetCheckpoints
from native_log.checkpoints.write_intent import WriteIntent
from native_log.checkpoints.write_session import CLEAN_SHUTDOWN_FILE

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """The state of one log directory when it was read.

    Attributes:
        path: the log directory.
        meta_properties: the content of meta.properties; None if it is missing, as in a copy of partitions.
        checkpoints: the four offset checkpoints.
        has_high_watermarks: whether replication-offset-checkpoint exists, even if it is empty.
        clean_shutdown: whether the broker shut down cleanly (`.kafka_cleanshutdown` exists).
        lock_holder: the pid of the process that holds the lock, most likely a broker; 0 if the pid is not
            visible from here; None if no process holds it.
        unfinished: a write to several partitions that is being committed, or was interrupted during its
            commit; None if there is none.
    """

    path: Path
    meta_properties: MetaProperties | None
    checkpoints: OffsetCheckpoints
    has_high_watermarks: bool
    clean_shutdown: bool
    lock_holder: int | None
    unfinished: WriteIntent | None = None

    @classmethod
    def read(cls, path: Path) -> DirectoryState:
        """Read the state of the log directory `path`. Raises KafkaLogError, OSError."""
        # Call this before any log is opened: a checkpointed high watermark must not be newer than the log end
        # offset that is determined later.
        return cls(
            path,
            read_meta_properties(path),
            OffsetCheckpoints.read(path),
            (path / REPLICATION_OFFSET_CHECKPOINT).exists(),
            (path / CLEAN_SHUTDOWN_FILE).exists(),
            lock_holder(path),
            WriteIntent.read(path),
        )

    def unsaved_high_watermark(self, topic: str) -> int | None:
        """Return the high watermark of a partition that has no entry in the checkpoint.

        It is 0, as in a broker, which adds an entry for each partition within five seconds. It is None
        (unknown) if there is no checkpoint file, and for the metadata log, whose high watermark is only known
        to the Raft quorum.
        """
        return 0 if self.has_high_watermarks and topic != METADATA_TOPIC else None
