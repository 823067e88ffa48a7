"""The files of a log directory with one partition, held in memory, and the batches in them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPIC, DIRECTORY = "t", "t-0"
RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
INDEXES = ("index", "timeindex", "txnindex")
ENTRY_BYTES = {"index": 8, "timeindex": 12, "txnindex": 34}


class Batch(NamedTuple):
    position: int
    size: int
    magic: int


@dataclass
class LogDirFiles:
    """The files of a log directory with one partition.

    Attributes:
        partition: content by name of the files in the partition's directory.
        checkpoints: content by name of the files in the log directory itself.
        other: the files of another partition, whose content can be mixed with these.
        end: the log end offset of the undamaged log.
    """

    partition: dict[str, bytes]
    checkpoints: dict[str, bytes]
    other: dict[str, bytes]
    end: int

    def base_offsets(self) -> list[int]:
        """Return the base offsets of the segments."""
        return sorted(int(name.split(".")[0]) for name in self.partition if name.endswith(".log"))

    def of_kind(self, *kinds: str) -> list[str]:
        """Return the names of the partition's files with one of these suffixes, such as "log.swap"."""
        return sorted(name for name in self.partition if kind_of(name) in kinds)

    def logs(self) -> list[tuple[int, bytes]]:
        """Return base offset and content of each .log and .log.swap file, by base offset."""
        return sorted(
            (int(name.split(".")[0]), self.partition[name]) for name in self.of_kind("log", "log.swap")
        )

    def checkpointed_offset(self, checkpoint: str) -> int | None:
        """Return the partition's offset in a checkpoint; None if it is missing or cannot be parsed."""
        lines = self.checkpoints.get(checkpoint, b"").decode().split("\n")
        return int(lines[2].split()[2]) if lines[:2] == ["0", "1"] and len(lines[2].split()) == 3 else None

    def write(self, path: Path) -> None:
        """Write the files to the log directory `path`, which must not exist."""
        (path / DIRECTORY).mkdir(parents=True)
        (path / ".lock").touch()  # so that it is a log directory even without any segment
        for name, data in self.checkpoints.items():
            (path / name).write_bytes(data)
        for name, data in self.partition.items():
            (path / DIRECTORY / name).write_bytes(data)


def file_name(base_offset: int, kind: str) -> str:
    return f"{base_offset:020d}.{kind}"


def kind_of(name: str) -> str:
    """Return a file's suffix, for example "log" or "index.swap"."""
    return name.split(".", 1)[-1]


def checkpoint(offset: int) -> bytes:
    """Return the content of a checkpoint file that has only this partition's offset."""
    return f"0\n1\n{TOPIC} 0 {offset}\n".encode()


def batches_of(data: bytes) -> list[Batch]:
    """Return the batches from the start of a .log file to the first with an invalid size."""
    batches, position = [], 0
    while position + 17 <= len(data):
        size = 12 + struct.unpack_from(">i", data, position + 8)[0]
        least = 61 if data[position + 16] >= 2 else 26
        if size < least or position + size > len(data):
            break
        batches.append(Batch(position, size, data[position + 16]))
        position += size
    return batches


def is_control(data: bytes, position: int) -> bool:
    """Return whether the batch at `position` is a control batch of magic 2."""
    return data[position + 16] == 2 and bool(data[position + 22] & 0x20)


def base_offset_of(data: bytes, batch: Batch) -> int:
    """Return the base offset field: before magic 2, the last offset of a compressed batch."""
    offset: int = struct.unpack_from(">q", data, batch.position)[0]
    return offset


def last_offset_of(data: bytes, batch: Batch) -> int:
    """Return the last offset according to the header."""
    delta = struct.unpack_from(">i", data, batch.position + 23)[0] if batch.magic >= 2 else 0
    return base_offset_of(data, batch) + int(delta)


def offsets_go_back(files: LogDirFiles) -> bool:
    """Return whether any batch repeats or precedes earlier offsets, or has offsets outside its segment."""
    logs = files.logs()
    next_bases: Iterator[int | None] = iter([*(base for base, _ in logs[1:]), None])
    previous = -1
    for (base, data), next_base in zip(logs, next_bases, strict=True):
        if base <= previous:
            return True
        for batch in batches_of(data):
            first, last = base_offset_of(data, batch), last_offset_of(data, batch)
            if first <= previous or last < first or first < base:
                return True
            previous = last
        if next_base is not None and previous >= next_base:
            return True
    return False
