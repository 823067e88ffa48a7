"""Paths with wildcards."""

from __future__ import annotations

import errno
import glob
import os
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from native_log.logdir.discovery import readable_path
from native_log.storage import UrlPath, is_directory, storage_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from native_log.storage import Storage, StorageOptions


def expand_wildcards(paths: Iterable[str], options: StorageOptions) -> list[str]:
    """Return the directories that match paths with wildcards, as in Spark's file sources.

    Args:
        paths: local paths and URLs.
        options: the storage options of URLs.

    Raises FileNotFoundError if no directory matches a path.
    """
    return [directory for path in paths for directory in _matching_directories(path, options)]


def _matching_directories(path: str, options: StorageOptions) -> list[str]:
    if not glob.has_magic(path):
        return [path]
    pattern = readable_path(path)
    storage = storage_of(pattern, options)
    if storage.exists(str(pattern)):  # a name may contain brackets
        return [path]
    found = _matching_urls(pattern, storage) if isinstance(pattern, UrlPath) else _matching_paths(pattern)
    directories = sorted(found)
    if not directories:
        raise FileNotFoundError(errno.ENOENT, "no directory matches", str(pattern))
    return directories


def _matching_paths(pattern: Path) -> Iterable[str]:
    return (match for match in glob.glob(str(pattern)) if os.path.isdir(match))  # noqa: PTH112, PTH207


def _matching_urls(pattern: UrlPath, storage: Storage) -> Iterable[str]:
    """Return the folders in a bucket that match. Each folder above a wildcard is listed once."""
    scheme, bucket, *names = pattern.parts
    found = [UrlPath(scheme, bucket)]
    for name in names:
        if glob.has_magic(name):
            found = [folder / match for folder in found for match in _matching_names(folder, name, storage)]
        else:
            found = [folder / name for folder in found]
    return (str(folder) for folder in found if storage.exists(str(folder)))


def _matching_names(folder: UrlPath, pattern: str, storage: Storage) -> Iterator[str]:
    with suppress(FileNotFoundError):
        for name, entry in storage.list(str(folder)).items():
            is_hidden = name.startswith(".") and not pattern.startswith(".")
            if not is_hidden and fnmatchcase(name, pattern) and is_directory(entry):
                yield name
