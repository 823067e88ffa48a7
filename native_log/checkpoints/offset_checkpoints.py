"""The four offset checkpoint files of a log directory (Kafka: CheckpointFile, OffsetCheckpointFile)."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError
from native_log.prefetch import map_together
from native_log.storage import LOCAL, folder_of
from native_log.storage.writing import replace_file, replace_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from native_log.storage import Folder

logger = logging.getLogger(__name__)

LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
RECOVERY_POINT_OFFSET_CHECKPOINT = "recovery-point-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"

CHECKPOINT_FILES = (
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    RECOVERY_POINT_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)

_WITHOUT_ENTRIES = {
    LOG_START_OFFSET_CHECKPOINT: "records that were deleted within a segment can then be read again",
    REPLICATION_OFFSET_CHECKPOINT: "no record is lost",
    RECOVERY_POINT_OFFSET_CHECKPOINT: "no record is lost",
    CLEANER_OFFSET_CHECKPOINT: "the next compaction then reads each log from its start",
}
_MIN_LONG, _MAX_LONG = -(2**63), 2**63 - 1
_MAX_INT = 2**31 - 1
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_LINE_END = re.compile(r"\r\n?|\n")

Offsets = dict[tuple[str, int], int]
"""Offset by (topic, partition)."""


@dataclass(frozen=True, slots=True)
class OffsetCheckpoints:
    """The offsets in the checkpoint files of one log directory, by (topic, partition)."""

    log_start_offsets: Mapping[tuple[str, int], int]
    high_watermarks: Mapping[tuple[str, int], int]
    recovery_points: Mapping[tuple[str, int], int]
    first_dirty_offsets: Mapping[tuple[str, int], int]

    @classmethod
    def read(cls, log_dir: Path | Folder) -> OffsetCheckpoints:
        """Read the four files of a log directory. A missing or malformed file counts as empty."""
        folder = folder_of(log_dir)
        read = partial(read_offsets, folder)
        return cls(*map_together(read, CHECKPOINT_FILES, are_local=folder.storage is LOCAL))


class MalformedCheckpointError(ValueError):
    """A checkpoint file is malformed: the message names the line, from 1. A broker does not start with it."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")


def read_offset_checkpoint(path: Path) -> Offsets:
    """Read the offsets in the checkpoint file `path`; empty if the file does not exist.

    A malformed file counts as empty, and is reported by a warning with file and line.
    """
    return read_offsets(folder_of(path.parent), path.name)


def read_offsets(log_dir: Folder, name: str) -> Offsets:
    """Read the offsets in the checkpoint file `name` of a log directory: see read_offset_checkpoint."""
    try:
        return _read(log_dir, name)
    except MalformedCheckpointError as error:
        logger.warning(
            "%s/%s, %s; its entries are ignored, and a broker does not start with it", log_dir, name, error
        )
        return {}


def malformed_checkpoints(log_dir: Path | Folder) -> dict[str, MalformedCheckpointError]:
    """Return what is wrong with the malformed files among CHECKPOINT_FILES, by name."""
    found = {}
    for name in CHECKPOINT_FILES:
        try:
            _read(folder_of(log_dir), name)
        except MalformedCheckpointError as error:
            found[name] = error
    return found


def _read(log_dir: Folder, name: str) -> Offsets:
    try:
        data = log_dir.read(name)
    except FileNotFoundError:
        return {}
    return parse_offset_checkpoint(data.decode(errors="replace"))


def malformed_advice(name: str) -> str:
    """Return what to do about the checkpoint file `name` if it is malformed."""
    return (
        "A broker does not start with it. Restore it, or run kafkalog recover on the log directory, which "
        f"sets it aside; {_WITHOUT_ENTRIES[name]}"
    )


def check_checkpoints(log_dir: Path | Folder) -> None:
    """Raise KafkaLogError if a checkpoint file is malformed: an update of one entry would lose the others."""
    for name, error in malformed_checkpoints(log_dir).items():
        raise KafkaLogError(f"{error}. {malformed_advice(name)}", path=f"{log_dir}/{name}")


def write_offset_checkpoint(path: Path, offsets: Mapping[tuple[str, int], int]) -> None:
    """Replace the file `path` atomically."""
    replace_file(path, _content(offsets))


def update_offset_checkpoint(path: Path, offsets: Mapping[tuple[str, int], int | None]) -> None:
    """Set the offsets of the given partitions (None: remove the entry) and keep the others.

    The caller must hold the lock of the log directory.
    """
    update_offset_checkpoints({path: offsets})


def update_offset_checkpoints(updates: Mapping[Path, Mapping[tuple[str, int], int | None]]) -> None:
    """Do the same for several checkpoint files, by path."""
    contents: dict[str | Path, bytes] = {}
    for path, offsets in updates.items():
        before = read_offset_checkpoint(path)
        after = {key: offset for key, offset in {**before, **offsets}.items() if offset is not None}
        if after != before:
            contents[path] = _content(after)
    replace_files(contents)


def _content(offsets: Mapping[tuple[str, int], int]) -> bytes:
    lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in sorted(offsets.items())]
    return f"0\n{len(lines)}\n{''.join(lines)}".encode()


def update_partition_checkpoints(name: str, offsets: Mapping[Path, tuple[str, int, int]]) -> None:
    """Set the offsets of partitions in the checkpoint file `name` of their log directories.

    Args:
        name: the name of the checkpoint file.
        offsets: (topic, partition, offset), by partition directory.
    """
    by_log_dir: dict[Path, dict[tuple[str, int], int | None]] = {}
    for directory, (topic, partition, offset) in offsets.items():
        by_log_dir.setdefault(directory.parent, {})[topic, partition] = offset
    for log_dir, updates in by_log_dir.items():
        update_offset_checkpoint(log_dir / name, updates)


def parse_offset_checkpoint(text: str) -> Offsets:
    """Parse the content of a checkpoint file.

    The lines are: version 0, the number of entries, and `topic partition offset` for each entry. An empty
    file, or one with a version alone, has no entries. Raises MalformedCheckpointError.
    """
    lines = _LINE_END.split(text)
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return {}
    version = _number(lines[0], 1)
    if version != 0:
        raise MalformedCheckpointError(1, f"expected version 0, found {version}")
    if len(lines) == 1:
        return {}
    count = _number(lines[1], 2)
    offsets: Offsets = {}
    for number, line in enumerate(lines[2:], start=3):
        parts = line.split()
        if len(parts) != 3 or line[0].isspace():
            raise MalformedCheckpointError(
                number, f"expected topic, partition and offset, found {line[:40]!r}"
            )
        offsets[parts[0], _number(parts[1], number, _MAX_INT)] = _number(parts[2], number)
    entries = len(lines) - 2
    if entries != count:
        raise MalformedCheckpointError(2, f"expected {count} entries, found {entries}")
    return offsets


def _number(text: str, line: int, maximum: int = _MAX_LONG) -> int:
    text = text.strip()
    if _NUMBER.fullmatch(text):
        number = int(text)
        if _MIN_LONG <= number <= maximum:
            return number
    raise MalformedCheckpointError(line, f"expected a number, found {text[:40]!r}")
