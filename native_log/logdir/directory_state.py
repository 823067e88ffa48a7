"""One log directory: what the files in its root say."""

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
    """The root of one log directory, as it was when it was read.

    Attributes:
        path: the directory.
        meta_properties: of its meta.properties; None without one, as in a copy of partitions alone.
        checkpoints: its four offset checkpoints.
        has_high_watermarks: whether the checkpoint of high watermarks is there, were it empty.
        clean_shutdown: the broker stopped in order (`.kafka_cleanshutdown` is there).
        lock_holder: pid of the process, most likely a broker, that holds the directory's lock; 0 if it runs
            where its pid cannot be seen; None if none does.
        unfinished: a write to several partitions that is being published, or was cut short then.
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
        # Before any log is opened: a checkpointed high watermark must not be newer than the log end found
        # later.
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
        """The high watermark of a partition that the checkpoint does not name.

        0, as in a broker, which names each within five seconds. None (unknown) where there is no checkpoint,
        and for the metadata log, whose high watermark the Raft quorum keeps.
        """
        return 0 if self.has_high_watermarks and topic != METADATA_TOPIC else None
