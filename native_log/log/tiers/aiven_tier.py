"""Find partitions and their segments in remote storage of Aiven's plugin."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError
from native_log.log.tiers.aiven_storage import AivenStorage, read_manifest
from native_log.log.tiers.layouts.aiven import (
    INDEX_FILES,
    LOG,
    MANIFEST,
    object_key,
    parse_custom_metadata,
    parse_object,
    parse_partition,
    parse_topic,
)
from native_log.log.tiers.tier import StoredSegments, entries_of, only_folder
from native_log.messages.reading import MessageError
from native_log.prefetch import look_up_together
from native_log.segment.segment import LogSegment
from native_log.storage import LOCAL, Folder, is_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from native_log.log.tiers.layouts.aiven import Manifest
    from native_log.log.tiers.layouts.names import PartitionName
    from native_log.log.tiers.remote_segment import RemoteSegment
    from native_log.storage import FileEntry

logger = logging.getLogger(__name__)

_Key = tuple[int, str]
"""Start offset and id of a segment."""


@dataclass(frozen=True, slots=True)
class AivenTier:
    """Remote storage of Aiven's plugin. See Tier for the other attributes.

    Attributes:
        prefix: the plugin's `key.prefix`.
        keys: the folder with private keys; None: there is none.
    """

    root: Folder
    folders: Mapping[PartitionName, tuple[Folder, ...]]
    prefix: str
    keys: str | None

    @classmethod
    def find(cls, root: Folder, prefix: str, keys: str | None) -> AivenTier:
        """Return the tier below `root`.

        Args:
            root: the folder, without what `prefix` says.
            prefix: see AivenTier. It may contain slashes, and need not end with one.
            keys: see AivenTier.

        Raises OSError.
        """
        above, _, begin = prefix.rpartition("/")
        parent = root / above if above else root
        try:
            names = sorted(_folders(parent.list().values()))
        except FileNotFoundError:
            if not above:
                raise
            names = []
        topics = [
            topic
            for topic in names
            if topic.startswith(begin) and parse_topic(topic.removeprefix(begin)) is not None
        ]
        listed = look_up_together(
            lambda topic: sorted(_folders(entries_of(parent / topic))),
            topics,
            are_local=root.storage is LOCAL,
        )
        folders: dict[PartitionName, tuple[Folder, ...]] = {}
        for topic, numbers in listed.items():
            for number in numbers:
                partition = parse_partition(topic.removeprefix(begin), number)
                if partition is not None:
                    folders[partition] = (parent / topic / number,)
        return cls(root, folders, prefix, keys)

    @property
    def is_of_brokers(self) -> bool:
        """See Tier."""
        return True

    def only(self, partition: PartitionName) -> AivenTier:
        """See Tier."""
        return replace(self, folders={partition: self.folders[partition]})

    def segments(self, partition: PartitionName, named: Sequence[RemoteSegment] = ()) -> StoredSegments:
        """See Tier. All manifests are read. If one is invalid, its segment counts as missing."""
        folder = only_folder(self, partition)
        objects = {key: (folder, kinds) for key, kinds in _objects(folder).items()}
        objects |= self._objects_elsewhere(partition, [each for each in named if each.key not in objects])
        storage = AivenStorage(folder.storage, self.keys)
        logs: dict[tuple[int, str], LogSegment] = {}
        known: list[tuple[int, RemoteSegment]] = []
        complete = [key for key, (_, kinds) in sorted(objects.items()) if {LOG, MANIFEST} <= kinds.keys()]

        def read(key: _Key) -> Manifest | KafkaLogError | None:
            try:
                return read_manifest(folder.storage, objects[key][1][MANIFEST].path)
            except FileNotFoundError:
                return None  # a broker deletes the segment
            except KafkaLogError as error:
                return error

        manifests = look_up_together(read, complete, are_local=folder.storage is LOCAL)
        for key, manifest in manifests.items():
            place, kinds = objects[key]
            if manifest is None:
                continue
            if isinstance(manifest, KafkaLogError):
                logger.warning("%s; the segment counts as missing", manifest)
                continue
            logs[key] = _segment(Folder(place.path, storage), key, kinds[LOG], manifest)
            if manifest.segment is not None and manifest.segment.key == key:
                known.append((manifest.finished_ms, manifest.segment))
            else:
                logger.warning(
                    "%s: the manifest does not say which offsets the segment has, so it is only read if "
                    "__remote_log_metadata does",
                    kinds[MANIFEST].path,
                )
        known.sort(key=lambda each: each[0])
        damaged = frozenset(objects.keys() - logs.keys())
        return StoredSegments(logs, damaged, tuple(segment for _, segment in known))

    def _objects_elsewhere(
        self, partition: PartitionName, named: Iterable[RemoteSegment]
    ) -> dict[_Key, tuple[Folder, dict[str, FileEntry]]]:
        """Return the objects of segments that were written before `key.prefix` was changed.

        The metadata of a segment can say where they are (ObjectKeyFactory.key).
        """
        listed: dict[str, dict[_Key, dict[str, FileEntry]]] = {}
        found = {}
        for segment in named:
            place = self._recorded_folder(partition, segment)
            if place is None:
                continue
            if place.path not in listed:
                listed[place.path] = _objects(place)
            if segment.key in listed[place.path]:
                found[segment.key] = place, listed[place.path][segment.key]
        return found

    def _recorded_folder(self, partition: PartitionName, segment: RemoteSegment) -> Folder | None:
        """Return the folder in which the metadata of a segment says its objects are; None: it does not."""
        if segment.custom_metadata is None:
            return None
        try:
            recorded = parse_custom_metadata(segment.custom_metadata)
        except MessageError as error:
            logger.warning(
                "%s-%d: segment %s: expected Aiven's custom metadata, found something else: %s",
                *(partition.topic, partition.partition, segment.id, error),
            )
            return None
        prefix = self.prefix if recorded.prefix is None else recorded.prefix
        key = recorded.key or object_key(partition, segment)
        *folders, name = f"{prefix}{key}".split("/")
        parsed = parse_object(f"{name}.{LOG}")
        if parsed is None or parsed.key != segment.key or {"", ".", ".."} & set(folders):
            logger.warning(
                "%s-%d: segment %s: expected the name of its objects in the metadata, found %r",
                *(partition.topic, partition.partition, segment.id, f"{prefix}{key}"),
            )
            return None
        return self.root / "/".join(folders) if folders else self.root


def _objects(folder: Folder) -> dict[_Key, dict[str, FileEntry]]:
    """Return the objects in a folder by segment and kind."""
    objects: dict[_Key, dict[str, FileEntry]] = {}
    for entry in entries_of(folder):
        name = parse_object(entry.name)
        if name is not None:
            objects.setdefault(name.key, {})[name.kind] = entry
    return objects


def _folders(entries: Iterable[FileEntry]) -> Iterable[str]:
    return (entry.name for entry in entries if is_directory(entry))


def _segment(folder: Folder, key: tuple[int, str], entry: FileEntry, manifest: Manifest) -> LogSegment:
    state = entry.stat()
    stem = entry.name.removesuffix(f".{LOG}")

    def index(kind: str) -> str | None:
        return f"{stem}.{kind}" if INDEX_FILES[kind] in manifest.indexes else None

    return LogSegment(
        folder,
        key[0],
        entry.name,
        manifest.chunks.file_bytes,
        state.st_ino,
        state.st_mtime_ns // 1_000_000,
        index("index"),
        index("timeindex"),
        index("txnindex"),
    )
