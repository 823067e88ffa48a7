"""The leader epochs of a partition and the file `leader-epoch-checkpoint` (Kafka: LeaderEpochFileCache)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.storage import folder_of, read_file
from native_log.storage.writing import replace_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from native_log.storage import Folder

logger = logging.getLogger(__name__)

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"


@dataclass(frozen=True, slots=True)
class EpochEntry:
    """The first offset of a leader epoch. The epoch extends to the start offset of the next entry."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class EpochEndOffset:
    """A leader epoch, and the offset at which it ends (exclusive)."""

    epoch: int
    end_offset: int


def parse_leader_epochs(text: str) -> tuple[EpochEntry, ...]:
    """Parse the content of the file. Raises ValueError.

    The lines are: version 0, the number of entries, and epoch and start offset of each entry.
    """
    lines = text.split("\n")
    if lines[0].strip() != "0":
        raise ValueError(f"line 1: expected version 0, found {lines[0]!r}")
    count = int(lines[1]) if len(lines) > 1 else 0
    rows = [line.split() for line in lines[2:] if line.strip()]
    if len(rows) != count:
        raise ValueError(f"line 2: expected {count} entries, found {len(rows)}")
    entries = []
    for number, row in enumerate(rows, 3):
        if len(row) != 2:
            raise ValueError(f"line {number}: expected an epoch and a start offset, found {' '.join(row)!r}")
        entry = EpochEntry(int(row[0]), int(row[1]))
        if entry.epoch < 0 or entry.start_offset < 0:
            raise ValueError(
                f"line {number}: expected an epoch and an offset of at least 0, found {' '.join(row)!r}"
            )
        entries.append(entry)
    return tuple(entries)


def read_leader_epochs(directory: Path | Folder) -> tuple[EpochEntry, ...]:
    """Read the entries of a partition directory.

    They are derived from the log, so a missing or malformed file counts as empty.
    """
    folder = folder_of(directory)
    try:
        return _read(folder)
    except ValueError as error:
        logger.warning("%s/%s: ignored: %s", folder, LEADER_EPOCH_CHECKPOINT, error)
        return ()


def malformed_leader_epochs(directory: Folder) -> ValueError | None:
    """Return what is wrong with the file of a partition directory; None if it is valid or missing."""
    try:
        _read(directory)
    except ValueError as error:
        return error
    return None


def _read(folder: Folder) -> tuple[EpochEntry, ...]:
    try:
        text = folder.read(LEADER_EPOCH_CHECKPOINT).decode()
    except FileNotFoundError:
        return ()
    return parse_leader_epochs(text) if text.strip() else ()


def write_leader_epochs(directory: Path, entries: Sequence[EpochEntry], *, flush: bool = True) -> None:
    """Replace the file atomically. `flush`: see replace_file."""
    replace_file(directory / LEADER_EPOCH_CHECKPOINT, _file_content(entries), flush=flush)


def update_leader_epochs(directory: Path, entries: Sequence[EpochEntry]) -> None:
    """Write the file if its content changes. A missing file is not created for no entries."""
    try:
        current = read_file(str(directory / LEADER_EPOCH_CHECKPOINT))
    except FileNotFoundError:
        current = b""
    if current != _file_content(entries) and (current or entries):
        write_leader_epochs(directory, entries)


def _file_content(entries: Sequence[EpochEntry]) -> bytes:
    lines = "".join(f"{entry.epoch} {entry.start_offset}\n" for entry in entries)
    return f"0\n{len(entries)}\n{lines}".encode()


def drop_contradicted(entries: Sequence[EpochEntry]) -> tuple[EpochEntry, ...]:
    """Remove entries that a later entry contradicts, as a broker does when it loads the file."""
    kept: tuple[EpochEntry, ...] = ()
    for entry in entries:
        kept = assign(kept, entry.epoch, entry.start_offset)
    return kept


def assign(entries: tuple[EpochEntry, ...], epoch: int, start_offset: int) -> tuple[EpochEntry, ...]:
    """Return the entries after a batch of `epoch` was appended at `start_offset`.

    An entry is added if the epoch differs from the latest one, or begins before it. Entries that contradict
    the new one are removed.
    """
    if entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset:
        return entries
    kept = list(entries)
    while kept and (kept[-1].epoch >= epoch or kept[-1].start_offset >= start_offset):
        kept.pop()
    return (*kept, EpochEntry(epoch, start_offset))


def assign_newer(entries: tuple[EpochEntry, ...], epoch: int, start_offset: int) -> tuple[EpochEntry, ...]:
    """Return the entries after recovery read a batch of `epoch` at `start_offset`.

    An entry is added only for a newer epoch than the latest one. For earlier epochs the checkpoint is right,
    and the batches may not be: compaction may have removed the first batches of an epoch. Kafka:
    LogSegment.recover.
    """
    if epoch < 0 or (entries and epoch <= entries[-1].epoch):
        return entries
    return assign(entries, epoch, start_offset)


def truncate_from_end(entries: tuple[EpochEntry, ...], end_offset: int) -> tuple[EpochEntry, ...]:
    """Return the entries after the log was truncated to end at `end_offset` (exclusive)."""
    return tuple(entry for entry in entries if entry.start_offset < end_offset)


def truncate_from_start(entries: tuple[EpochEntry, ...], start_offset: int) -> tuple[EpochEntry, ...]:
    """Return the entries after the log start moved to `start_offset`. The first entry then begins there."""
    dropped = [entry for entry in entries if entry.start_offset <= start_offset]
    kept = entries[len(dropped) :]
    return (EpochEntry(dropped[-1].epoch, start_offset), *kept) if dropped else kept


def epoch_of(entries: Sequence[EpochEntry], offset: int) -> int | None:
    """Return the leader epoch of an offset; None if it lies before the first entry.

    Kafka: LeaderEpochFileCache.epochForOffset.
    """
    return next((entry.epoch for entry in reversed(entries) if entry.start_offset <= offset), None)


def end_offset_for_epoch(
    entries: Sequence[EpochEntry], epoch: int, log_end_offset: int
) -> EpochEndOffset | None:
    """Return where an epoch ends in a log, as a leader answers OffsetsForLeaderEpoch (KIP-101, KIP-279).

    The result has the largest epoch of the log that is not above `epoch`, and the start offset of the next
    epoch. For the latest epoch, that is the log end offset. Kafka: LeaderEpochFileCache.endOffsetFor.

    Args:
        entries: the leader epochs of the log, in order.
        epoch: the epoch.
        log_end_offset: the end of the log.

    Returns:
        None if the epoch is negative or above the latest one, or if no epochs are known.
    """
    if epoch < 0 or not entries or epoch > entries[-1].epoch:
        return None
    if epoch == entries[-1].epoch:
        return EpochEndOffset(epoch, log_end_offset)
    higher = next(entry for entry in entries if entry.epoch > epoch)
    floor = next((entry.epoch for entry in reversed(entries) if entry.epoch <= epoch), epoch)
    return EpochEndOffset(floor, higher.start_offset)
