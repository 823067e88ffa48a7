"""Paths with wildcards."""

from __future__ import annotations

import errno
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from native_log.storage import UrlPath, is_directory, path_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from native_log.storage import FileEntry, Storage, Storages

_WILDCARD = re.compile(r"[*?[{]")
_INNERMOST_BRACES = re.compile(r"\{([^{}]*)\}")


def expand_wildcards(paths: Iterable[Path], storages: Storages) -> tuple[Path, ...]:
    """Replace each path that has wildcards by the directories that match, sorted.

    `*`, `?`, `[a-z]`, `[^a-z]` and `{a,b}` have the meaning that they have in paths of Spark's file sources
    (Hadoop's GlobPattern). Names that begin with a dot match only a pattern that begins with one. A path that
    exists is taken as it is, because names may contain brackets.

    Args:
        paths: absolute paths and URLs.
        storages: have the paths. Each folder above a wildcard is listed once.

    Raises FileNotFoundError if no directory matches a path, and OSError if a folder cannot be listed.
    """
    return tuple(match for path in paths for match in _matches(path, storages.folder(path).storage))


def _matches(path: Path, storage: Storage) -> list[Path]:
    if not _WILDCARD.search(str(path)) or storage.exists(str(path)):
        return [path]
    patterns = _without_braces(str(path))
    found = {match for pattern in patterns for match in _matching_directories(path_of(pattern), storage)}
    if not found:
        raise FileNotFoundError(errno.ENOENT, "no directory matches", str(path))
    return sorted(found)


def _without_braces(pattern: str) -> list[str]:
    """Return the patterns that a pattern with `{a,b}` stands for."""
    braces = _INNERMOST_BRACES.search(pattern)
    if braces is None:
        return [pattern]
    before, after = pattern[: braces.start()], pattern[braces.end() :]
    choices = dict.fromkeys(braces[1].split(","))
    return [each for choice in choices for each in _without_braces(f"{before}{choice}{after}")]


def _matching_directories(pattern: Path, storage: Storage) -> Iterator[Path]:
    root = path_of("//".join(pattern.parts[:2]) if isinstance(pattern, UrlPath) else pattern.anchor)
    found = [root]
    for name in pattern.parts[len(root.parts) :]:
        if _WILDCARD.search(name):
            found = [folder / match for folder in found for match in _matching_names(folder, name, storage)]
        else:
            found = [folder / name for folder in found]
    return (folder for folder in found if _listed(folder, storage) is not None)


def _matching_names(folder: Path, pattern: str, storage: Storage) -> Iterator[str]:
    pattern = pattern.replace("[^", "[!")
    for name, entry in (_listed(folder, storage) or {}).items():
        is_hidden = name.startswith(".") and not pattern.startswith(".")
        if not is_hidden and fnmatchcase(name, pattern) and is_directory(entry):
            yield name


def _listed(folder: Path, storage: Storage) -> Mapping[str, FileEntry] | None:
    """Return the content of a directory; None if there is no such directory."""
    try:
        return storage.list(str(folder))
    except (FileNotFoundError, NotADirectoryError):
        return None
