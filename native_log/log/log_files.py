"""Which files of a partition directory make up its log (Kafka: LogLoader). Decisions only: nothing is read or
changed.

A crash during compaction leaves files behind which a broker sorts out when it loads the log. A reader has to
come to the same segments without touching any.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.segment.files import (
    CLEANED,
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
    """Names of the files of one segment; None where there is none."""

    base_offset: int
    log: str
    index: str | None
    time_index: str | None
    transaction_index: str | None


@dataclass(frozen=True, slots=True)
class SelectedFiles:
    """What a log consists of: segments by ascending base offset, snapshots of producer state as (offset,
    name), newest first."""

    segments: tuple[SegmentFiles, ...]
    snapshots: tuple[tuple[int, str], ...]


def loadable_files(names: Iterable[str]) -> list[FileName]:
    """The files among `names` that a load looks at: those of segments that are neither `.deleted` nor
    garbage.

    An unfinished series of renames from `.cleaned` to `.swap` is void: it runs from the highest base offset
    down, so every `.swap` at or above the lowest `.cleaned` belongs to it.
    """
    files = [
        file for file in map(parse_file_name, names) if file is not None and file.state in ("", SWAP, CLEANED)
    ]
    void_from = min((file.offset for file in files if file.state == CLEANED), default=None)
    if void_from is None:
        return files
    return [file for file in files if not file.state or (file.state == SWAP and file.offset < void_from)]


def swap_logs(files: Sequence[FileName]) -> list[FileName]:
    """The `.log.swap` files, finished output of compaction.

    What they hold decides which originals they replace.
    """
    return [file for file in files if file.state == SWAP and file.kind == LOG]


def select_files(files: Sequence[FileName], replaced: tuple[int, int] | None) -> SelectedFiles:
    """The log that `files` make.

    Args:
        replaced: from the lowest base offset of the `.log.swap` files to the highest offset after what they
        hold: originals
            with a base offset in [first, second) were replaced by them.
    """
    chosen: dict[str, dict[int, FileName]] = defaultdict(dict)
    for file in files:
        if not file.state and replaced is not None and replaced[0] <= file.offset < replaced[1]:
            continue
        of_kind = chosen[file.kind]
        other = of_kind.get(file.offset)
        if other is None or _rank(file) > _rank(other):
            of_kind[file.offset] = file

    def name(kind: str, base_offset: int) -> str | None:
        file = chosen[kind].get(base_offset)
        return None if file is None else file.name

    return SelectedFiles(
        tuple(
            SegmentFiles(
                base, log.name, name(INDEX, base), name(TIME_INDEX, base), name(TRANSACTION_INDEX, base)
            )
            for base, log in sorted(chosen[LOG].items())
        ),
        tuple((offset, file.name) for offset, file in sorted(chosen[SNAPSHOT].items(), reverse=True)),
    )


def _rank(file: FileName) -> tuple[bool, str]:
    """Which of two files for the same thing counts.

    A `.swap` is put in place of the other; else it is the one that a broker would have named.
    """
    return bool(file.state), file.name
