"""Which folders of an object store are listed together, and how the answer is divided among them.

Listing all keys with a prefix takes one request for each thousand keys. Listing one folder takes at least one
request, and the folder of a partition seldom has a thousand files.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from native_log.storage.remote.buckets import FolderContent, RemoteFile

GROUP = 256
"""How many folders are listed together, and remembered until they are used."""

SHORTEST = 3
"""The least number of adjacent folders that are listed together. The list also reads keys after the last
folder, so it does not pay for fewer."""


def key_order(folder: str) -> bytes:
    """Return the key by which folders are sorted as the keys in them are."""
    return f"{folder}/".encode()


def groups(chosen: Collection[str], existing: Iterable[str]) -> Iterator[tuple[list[str], bool]]:
    """Divide folders into groups of at most GROUP.

    Args:
        chosen: names of folders in one folder.
        existing: the names of all folders there.

    Yields:
        The names of each group, and whether to list its folders together: whether no other folder lies
        between them in the order of keys.
    """
    wanted = set(chosen)
    alone: list[str] = []
    names = sorted(wanted.union(existing), key=key_order)
    for is_chosen, run in groupby(names, key=wanted.__contains__):
        if not is_chosen:
            continue
        members = list(run)
        for start in range(0, len(members), GROUP):
            group = members[start : start + GROUP]
            if len(group) < SHORTEST:
                alone += group
            else:
                yield group, True
    for start in range(0, len(alone), GROUP):
        yield alone[start : start + GROUP], False


def divide(names: Sequence[str], found: Iterable[tuple[str, RemoteFile]]) -> Mapping[str, FolderContent]:
    """Divide the keys of adjacent folders among these folders.

    Args:
        names: the folders, in the order of keys.
        found: all keys from the first folder on, relative to the parent folder, with their files. They are
            consumed up to the first key after the last folder.

    Returns:
        The content of each folder that has any. The result is empty if the keys are not in order, or begin
        before the first folder, as a few stores list them.
    """
    contents: dict[str, tuple[dict[str, RemoteFile], set[str]]] = {}
    last = key_order(names[-1])
    before = key_order(names[0])
    wanted = set(names)
    for key, file in found:
        ordered = key.encode()
        if ordered < before:
            return {}
        before = ordered
        if ordered > last and not ordered.startswith(last):
            break
        name, _, rest = key.partition("/")
        if name not in wanted or not rest:
            continue
        files, folders = contents.setdefault(name, ({}, set()))
        inner, slash, _ = rest.partition("/")
        if slash:
            folders.add(inner)
        else:
            files[inner] = file
    return contents
