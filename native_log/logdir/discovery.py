"""Find partition directories. Each log directory is listed once, and no file is opened."""

from __future__ import annotations

import errno
import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.arguments import path_list
from native_log.checkpoints.lock import LOCK_FILE
from native_log.checkpoints.meta_properties import META_PROPERTIES
from native_log.checkpoints.names import BOOTSTRAP_FILE, PartitionKind, PartitionName, parse_partition_name
from native_log.checkpoints.offset_checkpoints import CHECKPOINT_FILES
from native_log.checkpoints.write_session import CLEAN_SHUTDOWN_FILE
from native_log.errors import NotALogDirError
from native_log.log.changing_files import ATTEMPTS
from native_log.prefetch import map_together
from native_log.storage import (
    LOCAL,
    SCHEMES,
    Folder,
    UrlPath,
    is_directory,
    path_of,
    scheme_of,
    with_name_node,
    without_credentials,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from native_log.arguments import PathLike
    from native_log.storage import Storage, Storages

logger = logging.getLogger(__name__)


ROOT_FILES = {*CHECKPOINT_FILES, META_PROPERTIES, LOCK_FILE, CLEAN_SHUTDOWN_FILE, BOOTSTRAP_FILE}
"""Files in the root of a log directory."""

REMOTE_INDEX_CACHE = "remote-log-index-cache"
"""A directory in the root of a log directory, with indexes of segments in tiered storage (KIP-405)."""

_PARTITION_FILE = re.compile(r"[0-9]+\.log(\.swap)?|partition\.metadata|leader-epoch-checkpoint")
_EXPECTED = "expected a Kafka log directory (a broker's log.dirs) or one partition directory in it"


@dataclass(frozen=True, slots=True)
class PartitionDir:
    """A partition directory: topic and partition, path, role for its broker, and the storage that has it."""

    topic: str
    partition: int
    path: Path
    kind: PartitionKind
    storage: Storage = LOCAL

    @property
    def folder(self) -> Folder:
        """The directory, to read it."""
        return Folder(str(self.path), self.storage)

    @property
    def key(self) -> tuple[str, int]:
        """(topic, partition), the key in checkpoints."""
        return self.topic, self.partition

    @classmethod
    def from_name(cls, path: Path, name: PartitionName, storage: Storage = LOCAL) -> PartitionDir:
        return cls(name.topic, name.partition, path, name.kind, storage)


@dataclass(frozen=True, slots=True)
class Discovery:
    """The partitions at a path that the user gave.

    Attributes:
        log_dir: the log directory.
        partitions: its partition directories, or the single one that was given.
        is_partition: whether the path is a single partition directory.
        skipped: the names of other directories in the log directory.
    """

    log_dir: Path
    partitions: tuple[PartitionDir, ...]
    is_partition: bool
    skipped: tuple[str, ...] = ()


def keys_in(discoveries: Iterable[Discovery]) -> set[tuple[str, int]]:
    """Return topic and partition of the partitions that belong to their brokers now."""
    return {
        partition.key
        for discovery in discoveries
        for partition in discovery.partitions
        if partition.kind is PartitionKind.NORMAL
    }


def local_path(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path. `file:/p` and `file:///p` mean /p, and `~` means the home directory.

    Raises NotALogDirError for other URL schemes and for an empty path; TypeError.
    """
    found = readable_path(path)
    if isinstance(found, UrlPath):
        raise NotALogDirError(
            "expected a local path, found a URL: it can be read, but not changed; copy the directory to a "
            "disk, and change it there",
            path=found,
        )
    return found


def readable_path(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path, as `local_path` does, or the URL as a path.

    Raises NotALogDirError for unknown URL schemes, a URL without a bucket, with `..` or with credentials, and
    an empty path; TypeError.
    """
    (path,) = path_list([path])
    text = os.path.expanduser(os.fspath(path))  # noqa: PTH111  (a Path would change `file:///p`)
    if not text:
        raise NotALogDirError(f"the path is empty; {_EXPECTED}")
    if text.startswith("file:/"):
        text = re.sub("^file:(//(localhost)?(?=/))?", "", text)
    text = with_name_node(text)
    scheme = scheme_of(text)
    if scheme is None and text.lower().startswith(tuple(f"{each}:/" for each in SCHEMES)):
        raise NotALogDirError("expected a URL with a bucket, container or name node, found none", path=text)
    if scheme is None:
        return Path(os.path.abspath(text))  # noqa: PTH100  (resolve() would follow links to another parent)
    if without_credentials(text) != text:
        raise NotALogDirError(
            "expected a URL without credentials, found some; set them in the environment or as options",
            path=without_credentials(text),
        )
    if scheme not in SCHEMES:
        raise NotALogDirError(
            f"expected a local path, or a URL that begins with {', '.join(SCHEMES[:-1])} or {SCHEMES[-1]}, "
            f"found a URL that begins with {scheme}",
            path=text,
        )
    if ".." in text.split("/"):
        raise NotALogDirError("expected a URL without `..`, found one; give the folder itself", path=text)
    return path_of(text)


def local_paths(path: PathLike | Iterable[PathLike], more_paths: Iterable[PathLike] = ()) -> tuple[Path, ...]:
    """Return the absolute paths, as `local_path` does. Raises ValueError if there are none."""
    return tuple(map(local_path, _at_least_one(path, more_paths)))


def readable_paths(
    path: PathLike | Iterable[PathLike], more_paths: Iterable[PathLike] = ()
) -> tuple[Path, ...]:
    """Return the absolute paths and URLs, as `readable_path` does. Raises ValueError if there are none."""
    return tuple(map(readable_path, _at_least_one(path, more_paths)))


def _at_least_one(path: PathLike | Iterable[PathLike], more_paths: Iterable[PathLike]) -> list[PathLike]:
    paths = path_list([*path_list(path), *more_paths])
    if not paths:
        raise ValueError("path: expected at least one log directory or partition directory, found none")
    return paths


def find_partitions(path: Path, before: Discovery | None = None, storage: Storage = LOCAL) -> Discovery:
    """Find the partitions at an absolute path, which is a log directory or a partition directory.

    Directories in a log directory without a partition's name (`lost+found`) are skipped with a warning.

    Args:
        path: the path.
        before: what was found there last; only other directories are then warned of. A log directory may have
            lost all its files since.
        storage: has the path.

    Raises FileNotFoundError; PermissionError; NotALogDirError if `path` is neither kind of directory.
    """
    files, directories = _list(path, storage)
    if before is None and any(map(_PARTITION_FILE.fullmatch, files)):
        return Discovery(path.parent, (_named_partition(path, storage),), is_partition=True)
    known = {} if before is None else {partition.path.name: partition for partition in before.partitions}
    partitions = []
    unknown = []
    for directory in directories:
        if directory in known:
            partitions.append(known[directory])
            continue
        name = parse_partition_name(directory)
        if name is not None:
            partitions.append(PartitionDir.from_name(path / directory, name, storage))
        elif directory != REMOTE_INDEX_CACHE:
            unknown.append(directory)
    unknown.sort()
    if before is not None:
        if not set(unknown) <= set(before.skipped):
            _warn_of_skipped(path, unknown)
        return Discovery(path, tuple(partitions), is_partition=False, skipped=tuple(unknown))
    # Copies of partitions may lie together without the root files of a log directory. Names alone are not
    # enough, because other directories have names such as data-1 too.
    if ROOT_FILES.isdisjoint(files) and not any(
        _holds_segments(partition.folder) for partition in partitions
    ):
        raise NotALogDirError(_not_a_log_dir(Folder(str(path), storage), files, directories), path=path)
    if unknown:
        _warn_of_skipped(path, unknown)
    return Discovery(path, tuple(partitions), is_partition=False, skipped=tuple(unknown))


def find_all_partitions(paths: Sequence[Path], storages: Storages) -> list[Discovery]:
    """Find the partitions at several paths, as `find_partitions` does at one.

    A broker can move a partition to another of its log directories. If that was listed before it had the
    partition, and the other one afterwards, the partition is in neither list. So local directories are listed
    until two lists are equal.
    """

    def find(path: Path, before: Discovery | None = None) -> Discovery:
        return find_partitions(path, before, storages.folder(path).storage)

    are_local = storages.are_local(paths)
    found = list(map_together(find, paths, are_local=are_local))
    log_dirs = [path for path, each in zip(paths, found, strict=True) if not each.is_partition]
    if are_local and len(log_dirs) > 1:
        known = dict(zip(paths, found, strict=True))
        for _ in range(ATTEMPTS):
            again = known | {path: find(path, known[path]) for path in log_dirs}
            if again == known:
                break
            known = again
        found = [known[path] for path in paths]
    return found


def _warn_of_skipped(path: Path, names: Iterable[str]) -> None:
    logger.warning("%s: not partition directories, skipped: %s", path, join_names(names))


def join_names(names: Iterable[object], at_most: int = 10) -> str:
    """Join the names with commas. If there are more than `at_most`, give the number of the others."""
    shown = [str(name) for name in names]
    return ", ".join(shown[:at_most]) + (f" and {len(shown) - at_most} more" if len(shown) > at_most else "")


def _list(path: Path, storage: Storage) -> tuple[list[str], list[str]]:
    """Return the names of the files and of the directories in `path`."""
    files: list[str] = []
    directories: list[str] = []
    try:
        for name, entry in storage.list(str(path)).items():
            (directories if is_directory(entry) else files).append(name)
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, f"no such directory; {_EXPECTED}", str(path)) from None
    except PermissionError:
        if storage is not LOCAL:
            raise  # it says what is denied there
        raise PermissionError(
            errno.EACCES, "no permission to list this directory; run as a user who may read it", str(path)
        ) from None
    except NotADirectoryError:
        remedy = (
            "give its directory, or inspect it with kafkalog dump-log" if path.suffix == ".log" else _EXPECTED
        )
        raise NotALogDirError(f"this is a file; {remedy}", path=path) from None
    return files, directories


def _named_partition(path: Path, storage: Storage) -> PartitionDir:
    name = parse_partition_name(path.name)
    if name is None:
        raise NotALogDirError(
            "the directory contains log segments, but its name is not <topic>-<partition>; "
            "rename it, or read it through a symbolic link with such a name",
            path=path,
        )
    return PartitionDir.from_name(path, name, storage)


def _holds_segments(folder: Folder) -> bool:
    try:
        return any(map(_PARTITION_FILE.fullmatch, folder.list()))
    except OSError:
        return False


def _not_a_log_dir(folder: Folder, files: list[str], directories: list[str]) -> str:
    if not files and not directories:
        return f"the directory is empty; {_EXPECTED}"
    inside = [name for name in sorted(directories) if _looks_like_a_log_dir(folder / name)]
    if inside:
        return (
            "this is not a log directory, but these directories in it are: "
            f"{', '.join(inside)}; give them instead"
        )
    illegal = [name for name in sorted(directories) if _holds_segments(folder / name)]
    if illegal:
        return (
            "these directories contain log segments, but their names are not <topic>-<partition>: "
            f"{join_names(illegal)}; rename them, or create symbolic links with such names"
        )
    names = sorted([*(f"{name}/" for name in directories), *files])
    return f"expected partitions or log segments, found {join_names(names, 5)}; {_EXPECTED}"


def _looks_like_a_log_dir(folder: Folder) -> bool:
    return any(folder.has(name) for name in (META_PROPERTIES, *CHECKPOINT_FILES))
