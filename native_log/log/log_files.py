"""Select the files of a partition directory that make up its log (Kafka: LogLoader).

A crash during compaction leaves files with the suffixes `.cleaned`, `.swap` and `.deleted`. A broker renames
or removes them when it loads the log. A reader must select the same segments without changing any file. The
functions of this module are pure: they decide from file names alone.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.segment.files import (
    CLEANED,
    DELETED,
    INDEX,
    LOG,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
    FileName,
    parse_file_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """The names of one segment's files; None for a file that does not exist."""

    base_offset: int
    log: str
    index: str | None
    time_index: str | None
    transaction_index: str | None


@dataclass(frozen=True, slots=True)
class SelectedFiles:
    """The file names of a log.

    Attributes:
        segments: by ascending base offset.
        snapshots: (offset, file name) of producer state snapshots, newest first.
        has_other_indexes: whether there are offset indexes of no segment.
    """

    segments: tuple[SegmentFiles, ...]
    snapshots: tuple[tuple[int, str], ...]
    has_other_indexes: bool


def loadable_files(names: Iterable[str]) -> list[FileName]:
    """Return the files among `names` that loading a log considers, with parsed names.

    `.deleted` and `.cleaned` files and files of other kinds are left out. A compaction renames `.cleaned`
    files to `.swap` from the highest base offset down. If a `.cleaned` file is left, this series was
    interrupted and does not count: every `.swap` file at or above the lowest `.cleaned` file belongs to it
    and is left out too.
    """
    files = [file for file in map(parse_file_name, names) if file is not None and file.state != DELETED]
    unfinished = [file.offset for file in files if file.state == CLEANED]
    if not unfinished:
        return files
    void_from = min(unfinished)
    return [file for file in files if not file.state or (file.state == SWAP and file.offset < void_from)]


def swap_logs(files: Sequence[FileName]) -> list[FileName]:
    """Return the `.log.swap` files: complete output of a compaction, which replaces other segments."""
    return [file for file in files if file.state == SWAP and file.kind == LOG]


def select_files(files: Sequence[FileName], replaced: tuple[int, int] | None) -> SelectedFiles:
    """Select the files of the log from loadable ones.

    Args:
        files: the result of `loadable_files`.
        replaced: the offsets that the `.log.swap` files cover: from their lowest base offset to the highest
            offset after their records. Other segments with a base offset in [first, second) are replaced by
            the `.swap` files and left out. None: nothing is replaced.
    """
    chosen: dict[str, dict[int, str]] = defaultdict(dict)
    for file in files:
        name, offset, kind, state = file
        if not state and replaced is not None and replaced[0] <= offset < replaced[1]:
            continue
        of_kind = chosen[kind]
        other = of_kind.get(offset)
        if other is None or _rank(name) > _rank(other):
            of_kind[offset] = name
    index, time_index, transaction_index = (
        chosen[kind].get for kind in (INDEX, TIME_INDEX, TRANSACTION_INDEX)
    )
    return SelectedFiles(
        tuple(
            SegmentFiles(base, log, index(base), time_index(base), transaction_index(base))
            for base, log in sorted(chosen[LOG].items())
        ),
        tuple(sorted(chosen[SNAPSHOT].items(), reverse=True)),
        not chosen[INDEX].keys() <= chosen[LOG].keys(),
    )


def indexes_without_log(names: Iterable[str]) -> list[int]:
    """Return the base offsets of the offset indexes among `names` whose .log file is missing, sorted.

    A segment with a `.log.deleted` file is not missing: a broker renames the .log file first when it removes
    a segment, and a crash may have interrupted it.
    """
    files = [file for file in map(parse_file_name, names) if file is not None]
    logs = {file.offset for file in files if file.kind == LOG and file.state in ("", DELETED)}
    return sorted({file.offset for file in files if file.kind == INDEX and not file.state} - logs)


def _rank(name: str) -> tuple[bool, str]:
    """Rank the names of two files of the same kind and offset; the higher one is selected.

    A `.swap` file replaces the other file. Otherwise the names differ only in the number of leading zeros:
    the name with 20 digits, which a broker would give, is ranked higher.
    """
    return name.endswith(SWAP), name
