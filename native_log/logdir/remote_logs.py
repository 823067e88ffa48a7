"""Logs with remote storage (KIP-405): the partitions of a tier, joined with local directories."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from native_log.checkpoints.names import BROKER_TOPICS, PartitionKind
from native_log.errors import KafkaLogError
from native_log.lazy import shared_property
from native_log.log.offset_span import OffsetSpan
from native_log.log.problems import Problem
from native_log.log.sources.directory import DirectorySource
from native_log.log.sources.joined import JoinedSource
from native_log.log.tiers.remote_segment import RemotePartition
from native_log.log.tiers.tier_of_segments import is_remote
from native_log.logdir.discovery import Discovery, PartitionDir
from native_log.logdir.remote_join import RemoteJoin
from native_log.logdir.remote_starts import read_remote_segments
from native_log.storage import path_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from native_log.internal_topics.remote_segments import RemoteSegments
    from native_log.log.log_state import LogState
    from native_log.log.tiers.layouts.names import PartitionName
    from native_log.log.tiers.tier import Tier
    from native_log.policies import Gaps
    from native_log.storage import Folder

logger = logging.getLogger(__name__)


class RemoteLogs:
    """The logs in a tier."""

    def __init__(self, tier: Tier, metadata: Iterable[Folder]) -> None:
        """Take a tier, and log directories that may contain partitions of __remote_log_metadata."""
        self._tier = tier
        self._metadata_dirs = tuple(metadata)
        self._by_key: dict[tuple[str, int], list[PartitionName]] = {}
        for name in tier.folders:
            self._by_key.setdefault((name.topic, name.partition), []).append(name)

    def discover(self) -> list[Discovery]:
        """Return the partitions in the tier, to read it alone."""
        by_parent: dict[Path, dict[tuple[str, int], PartitionDir]] = {}
        for key, names in sorted(self._by_key.items()):
            folder = self._tier.folders[names[0]][0]
            path = path_of(folder.path)
            directory = PartitionDir(*key, path, PartitionKind.NORMAL, folder.storage)
            by_parent.setdefault(path.parent, {}).setdefault(key, directory)
        return [
            Discovery(parent, tuple(directories.values()), is_partition=False)
            for parent, directories in by_parent.items()
        ]

    def has(self, directory: PartitionDir) -> bool:
        """Return whether the tier has the partition of a directory."""
        return is_tiered(directory) and directory.key in self._by_key

    def join(self, log: LogState, gaps: Gaps) -> JoinedSource | None:
        """Join a log with the tier. Return None if the tier has no part of it.

        The log may come from one local directory or from several merged copies.

        Raises KafkaLogError, OSError.
        """
        name = self._name(log.source.topic, log.source.partition, log.topic_id)
        if name is None or not isinstance(log.source, DirectorySource | JoinedSource):
            return None
        joined = self._join(log.source, name, gaps, is_alone=False)
        lost = joined.lost(OffsetSpan(joined.log_start_offset, joined.log_end_offset))
        return joined if lost or any(map(is_remote, (*joined.parts, *joined.spares))) else None

    def join_alone(self, directory: PartitionDir, max_batch_bytes: int, gaps: Gaps) -> JoinedSource:
        """Return the log of a partition of `discover`. Raises as `join`."""
        source = DirectorySource(
            str(directory.path),
            *directory.key,
            max_batch_bytes=max_batch_bytes,
            storage=directory.storage,
        )
        name = self._name(*directory.key, None)
        assert name is not None
        return self._join(source, name, gaps, is_alone=True)

    def problems(self, directory: PartitionDir, topic_id: str | None) -> Iterator[Problem]:
        """Yield where the objects of a partition and the metadata of remote storage contradict each other.

        Nothing is yielded without metadata. Raises as `join`.
        """
        name = self._name(*directory.key, topic_id)
        if name is None or name.topic_id is None:
            return
        metadata, remote = self._metadata, _remote(name)
        if not metadata.knows(remote):
            return
        readable, known = metadata.readable(remote), metadata.keys(remote)
        stored = self._tier.segments(name, readable).logs
        for key in sorted(stored.keys() - known):
            yield Problem(
                "orphan-object",
                str(stored[key].path),
                None,
                key[0],
                "expected a segment that __remote_log_metadata names, found another one: its copy failed, or "
                "it was deleted in part",
                "No broker reads or deletes it; remove it once no broker is copying",
            )
        for segment in readable:
            if segment.key not in stored:
                yield Problem(
                    "missing-object",
                    str(self._tier.folders[name][0]),
                    None,
                    segment.span.start_offset,
                    f"expected the segment {segment.id} with offsets {segment.span.start_offset} to "
                    f"{segment.span.end_offset - 1}, as __remote_log_metadata says, found no complete copy",
                    "Restore its objects from a backup, or from a broker that still has the segment",
                )

    def _join(
        self, local: DirectorySource | JoinedSource, name: PartitionName, gaps: Gaps, *, is_alone: bool
    ) -> JoinedSource:
        tier = self._tier.only(name)
        metadata = None if name.topic_id is None else self._metadata
        return RemoteJoin(local, is_alone, tier, name, self._metadata_dirs, gaps)(metadata)

    def _name(self, topic: str, partition: int, topic_id: str | None) -> PartitionName | None:
        """Return the partition's name in the tier; None if it lacks the topic id.

        Without a topic id, the name is the only one, or the only one with segments that can be read.
        """
        names = self._by_key.get((topic, partition), [])
        if topic_id is not None:
            return next((name for name in names if name.topic_id in (topic_id, None)), None)
        if len(names) > 1:
            names = [name for name in names if self._metadata.readable(_remote(name))] or names
        if len(names) > 1:
            raise KafkaLogError(
                f"expected one topic id of {topic}-{partition} in remote storage, found "
                f"{', '.join(str(name.topic_id) for name in names)}: the topic was created again; give "
                "remote.metadata, or a log directory with the partition",
                path=self._tier.root.path,
            )
        return names[0]

    @shared_property
    def _metadata(self) -> RemoteSegments:
        return read_remote_segments(self._metadata_dirs)


def is_tiered(directory: PartitionDir) -> bool:
    """Return whether a partition can have segments in remote storage."""
    return directory.kind is PartitionKind.NORMAL and directory.topic not in BROKER_TOPICS


def _remote(name: PartitionName) -> RemotePartition:
    return RemotePartition(name.topic, name.partition, name.topic_id or "")
