"""The state of one log directory, read from the files in its root."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from native_log.checkpoints.lock import lock_holder
from native_log.checkpoints.meta_properties import MetaProperties, read_meta_properties
from native_log.checkpoints.names import METADATA_TOPIC, PartitionKind
from native_log.checkpoints.offset_checkpoints import REPLICATION_OFFSET_CHECKPOINT, OffsetCheckpoints
from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
from native_log.checkpoints.write_intent import WriteIntent
from native_log.checkpoints.write_session import CLEAN_SHUTDOWN_FILE
from native_log.logdir.remote_starts import RemoteStarts
from native_log.prefetch import map_together
from native_log.storage import LOCAL, Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from native_log.arguments import HighWatermark
    from native_log.checkpoints.partition_checkpoints import EndBeforeWrite
    from native_log.logdir.discovery import PartitionDir
    from native_log.storage import Storage


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
        remote_starts: where logs begin in remote storage.
        storage: has the log directory.
        broker_high_watermarks: the newest high watermarks in all log directories of its broker. Empty if the
            broker has no others.
    """

    path: Path
    meta_properties: MetaProperties | None
    checkpoints: OffsetCheckpoints
    has_high_watermarks: bool
    clean_shutdown: bool
    lock_holder: int | None
    unfinished: WriteIntent | None = None
    remote_starts: RemoteStarts = field(default_factory=lambda: RemoteStarts(()))
    storage: Storage = LOCAL
    broker_high_watermarks: Mapping[tuple[str, int], int] = field(default_factory=dict)

    @property
    def folder(self) -> Folder:
        """The log directory, to read it."""
        return Folder(str(self.path), self.storage)

    @classmethod
    def read(
        cls, path: Path, remote_starts: RemoteStarts | None = None, storage: Storage = LOCAL
    ) -> DirectoryState:
        """Read the state of the log directory `path`.

        Args:
            path: the log directory.
            remote_starts: where logs begin in remote storage, if other log directories of the broker may
                contain metadata of remote storage; by default only this one.
            storage: has the log directory.

        Raises KafkaLogError, OSError.
        """
        # Call this before any log is opened: a checkpointed high watermark must not be newer than the log end
        # offset that is determined later.
        folder, is_local = Folder(str(path), storage), storage is LOCAL
        readers: dict[str, Callable[[Folder], Any]] = {
            "meta_properties": read_meta_properties,
            "checkpoints": OffsetCheckpoints.read,
            "has_high_watermarks": lambda folder: folder.has(REPLICATION_OFFSET_CHECKPOINT),
            "clean_shutdown": lambda folder: folder.has(CLEAN_SHUTDOWN_FILE),
            # Brokers run on local directories only.
            "lock_holder": lambda _: lock_holder(path) if is_local else None,
            "unfinished": WriteIntent.read,
        }
        state = map_together(lambda read: read(folder), readers.values(), are_local=is_local)
        starts = RemoteStarts([folder]) if remote_starts is None else remote_starts
        return cls(path, remote_starts=starts, storage=storage, **dict(zip(readers, state, strict=True)))

    def with_writers(self) -> DirectoryState:
        """Return this state with the present writers: the holder of the lock, and an unfinished write.

        A holder that was known before is kept, because the logs may contain what it was writing.
        """
        if self.storage is not LOCAL:
            return self
        holder = lock_holder(self.path) if self.lock_holder is None else self.lock_holder
        return replace(self, lock_holder=holder, unfinished=WriteIntent.read(self.folder))

    def partition_checkpoints(
        self, directory: PartitionDir, high_watermark: HighWatermark, *, is_merged: bool = False
    ) -> PartitionCheckpoints:
        """Return the checkpoints of a partition in this log directory.

        No file is opened, unless the log may begin in remote storage.

        Args:
            directory: the partition.
            high_watermark: where its log ends: see LogDir.
            is_merged: it is merged with other copies. An unfinished write limits this copy, but not the
                merged log.
        """
        if directory.kind in (PartitionKind.DELETE, PartitionKind.STRAY):
            # Checkpoint entries of the same topic and partition belong to a topic that was created later.
            return PartitionCheckpoints(clean_shutdown=self.clean_shutdown)
        key, saved = directory.key, self.checkpoints
        is_locked = self.lock_holder is not None
        is_live = high_watermark == "checkpoint" or (high_watermark == "auto" and is_locked)
        limit = saved.high_watermarks.get(key)
        if self.has_high_watermarks:
            # If a broker has just moved the partition here, the newest entry is where it was.
            limit = self.broker_high_watermarks.get(key, limit)
        checkpointed = limit
        if limit is None:
            limit = self.unsaved_high_watermark(directory.topic)
        before_write = self.end_before_write(directory)
        if before_write is not None and not is_merged:
            end = before_write.offset
            limit = end if not is_live or limit is None else min(end, limit)
            is_live = True
        start = saved.log_start_offsets.get(key)
        return PartitionCheckpoints(
            log_start_offset=start,
            high_watermark=limit,
            checkpointed_high_watermark=checkpointed,
            before_write=before_write,
            recovery_point=saved.recovery_points.get(key),
            first_dirty_offset=saved.first_dirty_offsets.get(key),
            live=is_live,
            clean_shutdown=self.clean_shutdown,
            remote_start_offset=self.remote_starts.start_offset(directory) if start is None else None,
        )

    @property
    def has_interrupted_write(self) -> bool:
        """Whether a write was interrupted during its commit. A running writer holds the lock."""
        return self.unfinished is not None and self.lock_holder is None

    def end_before_write(self, directory: PartitionDir) -> EndBeforeWrite | None:
        """Return where a log ended before an unfinished write appended to it; None: there is none."""
        return None if self.unfinished is None else self.unfinished.end_before(directory.path.name)

    def is_uncommitted(self, directory: PartitionDir) -> bool:
        """Return whether an unfinished write creates the partition, so that it is not read."""
        return self.unfinished is not None and self.unfinished.creates(directory.path.name)

    def unsaved_high_watermark(self, topic: str) -> int | None:
        """Return the high watermark of a partition that has no entry in the checkpoint.

        It is 0, as in a broker, which adds an entry for each partition within five seconds. It is None
        (unknown) if there is no checkpoint file, and for the metadata log, whose high watermark is only known
        to the Raft quorum.
        """
        return 0 if self.has_high_watermarks and topic != METADATA_TOPIC else None


def group_by_broker(states: Iterable[DirectoryState]) -> list[list[DirectoryState]]:
    """Group the log directories that are parts of one broker. Snapshots of one directory are not."""
    groups: dict[object, list[DirectoryState]] = {}
    for number, state in enumerate(states):
        properties = state.meta_properties
        key: object = number
        if properties is not None and properties.directory_id is not None:
            key = properties.cluster_id, properties.node_id
            known = [each.meta_properties for each in groups.get(key, ())]
            if any(each is not None and each.directory_id == properties.directory_id for each in known):
                key = number
        groups.setdefault(key, []).append(state)
    return list(groups.values())
