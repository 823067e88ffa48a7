"""Find partitions and their segments in remote storage."""

from __future__ import annotations

import stat
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from native_log.errors import KafkaLogError
from native_log.log.tiers.by_name import NamedCopy, segments_by_name
from native_log.log.tiers.layouts import local, pinterest
from native_log.prefetch import map_together
from native_log.segment.segment import LogSegment
from native_log.storage import LOCAL, Folder, is_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from native_log.log.tiers.layouts.names import ObjectName, PartitionName
    from native_log.log.tiers.remote_segment import RemoteSegment
    from native_log.storage import FileEntry

_DEEPEST = 6
"""How many folders deep partitions are looked for."""


@dataclass(frozen=True, slots=True)
class StoredSegments:
    """The segments of a partition that remote storage has.

    Attributes:
        logs: their files, by start offset and segment id.
        damaged: start offset and segment id of those that cannot be read, though some of their objects exist.
        known: what the objects themselves tell of the segments that can be read, in the order in which their
            copies were finished.
    """

    logs: Mapping[tuple[int, str], LogSegment]
    damaged: frozenset[tuple[int, str]]
    known: tuple[RemoteSegment, ...]


class Tier(Protocol):
    """Remote storage of a known layout.

    Attributes:
        root: the folder that was given.
        folders: the folders of its partitions. A partition has several if its topic was created again.
        is_of_brokers: whether brokers write this tier (KIP-405). Then their log start offset is its start,
            too, and its topics are not compacted.
    """

    @property
    def root(self) -> Folder: ...
    @property
    def folders(self) -> Mapping[PartitionName, tuple[Folder, ...]]: ...
    @property
    def is_of_brokers(self) -> bool: ...

    def only(self, partition: PartitionName) -> Tier:
        """Return the tier with the folders of this partition only."""

    def segments(self, partition: PartitionName, named: Sequence[RemoteSegment] = ()) -> StoredSegments:
        """List the segments of a partition. Raises KafkaLogError, OSError.

        Args:
            named: segments that metadata names. It may say that their objects are elsewhere.
        """


@dataclass(frozen=True, slots=True)
class PlainTier:
    """Remote storage with the unchanged files of brokers. See Tier for the other attributes.

    Attributes:
        parse_object: returns the parts of an object's name.
        required: the kinds of objects that a complete copy has.
    """

    root: Folder
    folders: Mapping[PartitionName, tuple[Folder, ...]]
    is_of_brokers: bool
    parse_object: Callable[[str], ObjectName | None]
    required: frozenset[str]

    @classmethod
    def local(cls, root: Folder) -> PlainTier:
        """Return the tier of Apache's LocalTieredStorage; `root` is its `dir`, or the folder in it."""
        entries = root.list()
        if local.ROOT in entries:
            root /= local.ROOT
            entries = root.list()
        folders = {
            name: (root / entry.name,)
            for entry in sorted(entries.values(), key=lambda entry: entry.name)
            if (name := local.parse_partition(entry.name)) is not None and is_directory(entry)
        }
        return cls(root, folders, True, local.parse_object, local.REQUIRED)

    @classmethod
    def empty(cls, root: Folder) -> PlainTier:
        """Return a tier without partitions."""
        return cls(root, {}, True, local.parse_object, local.REQUIRED)

    @classmethod
    def pinterest(cls, root: Folder) -> PlainTier:
        """Return the tier of Pinterest's uploader with the partitions below `root`."""
        folders: dict[PartitionName, tuple[Folder, ...]] = {}
        for folder in sorted(_with_objects(root, pinterest.parse_object), key=str):
            name = pinterest.parse_partition(folder.path.rpartition("/")[2])
            if name is not None:
                folders[name] = (*folders.get(name, ()), folder)
        return cls(root, folders, False, pinterest.parse_object, pinterest.REQUIRED)

    def only(self, partition: PartitionName) -> PlainTier:
        """See Tier."""
        return replace(self, folders={partition: self.folders[partition]})

    def segments(self, partition: PartitionName, named: Sequence[RemoteSegment] = ()) -> StoredSegments:
        """See Tier."""
        del named  # the names of objects are always the same
        folder = only_folder(self, partition)
        objects: dict[tuple[int, str], dict[str, FileEntry]] = {}
        for entry in entries_of(folder):
            name = self.parse_object(entry.name)
            if name is not None:
                objects.setdefault(name.key, {})[name.kind] = entry
        logs = {key: _segment(folder, key[0], kinds) for key, kinds in objects.items() if "log" in kinds}
        copies = [
            NamedCopy(*key, logs[key].size_bytes if key in logs else 0, self.required <= kinds.keys())
            for key, kinds in objects.items()
        ]
        damaged = frozenset(objects.keys() - logs.keys())
        return StoredSegments(logs, damaged, tuple(segments_by_name(copies)))


def entries_of(folder: Folder) -> Iterable[FileEntry]:
    """Return what a folder contains. In an object store, a folder is gone when its last object is deleted."""
    try:
        return folder.list().values()
    except FileNotFoundError:
        return ()


def only_folder(tier: Tier, partition: PartitionName) -> Folder:
    """Return the folder of a partition. Raises KafkaLogError if there are several."""
    folders = tier.folders[partition]
    if len(folders) > 1:
        raise KafkaLogError(
            f"expected one folder of {partition.topic}-{partition.partition}, found {len(folders)}: "
            f"{' and '.join(map(str, folders))}; give a folder that contains only one of them",
            path=tier.root.path,
        )
    return folders[0]


def _segment(folder: Folder, start_offset: int, objects: Mapping[str, FileEntry]) -> LogSegment:
    """Return the segment whose objects, by kind, are the files of a broker."""
    entry = objects["log"]
    state = entry.stat()
    if not stat.S_ISREG(state.st_mode):
        raise KafkaLogError("expected a regular file, found something else; move it away", path=entry.path)

    def name(kind: str) -> str | None:
        return objects[kind].name if kind in objects else None

    return LogSegment(
        folder,
        start_offset,
        entry.name,
        state.st_size,
        state.st_ino,
        state.st_mtime_ns // 1_000_000,
        name("index"),
        name("timeindex"),
        name("txnindex"),
    )


def _with_objects(folder: Folder, parse_object: Callable[[str], ObjectName | None]) -> Iterator[Folder]:
    """Yield the folders that contain objects of segments, level by level."""

    def entries_in(each: Folder) -> Iterable[FileEntry]:
        return each.list().values() if each is folder else entries_of(each)

    folders = [folder]
    for _ in range(_DEEPEST + 1):
        listed = map_together(entries_in, folders, are_local=folder.storage is LOCAL)
        deeper: list[Folder] = []
        for each, entries in zip(folders, listed, strict=True):
            if any(parse_object(entry.name) for entry in entries):
                yield each
            else:
                deeper += [each / entry.name for entry in entries if is_directory(entry)]
        folders = deeper
