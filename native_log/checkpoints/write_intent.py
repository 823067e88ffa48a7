"""A write to several partitions that is being published: how to take it back, and what readers see meanwhile.

The file is there from before the first visible change until the last one is on the disk. Its removal is the
commit: a reader that finds it takes each partition as it was before; whoever next holds the log directory's
lock takes the changes back. A plain file beside the partitions, which brokers pass over.

A broker that is started before that knows nothing of it: it serves what it finds, and its clients go on
behind it. What a broker has taken over is not taken back any more.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import shutil
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from native_log.checkpoints.leader_epochs import LEADER_EPOCH_CHECKPOINT, read_leader_epochs
from native_log.checkpoints.names import parse_partition_name
from native_log.checkpoints.offset_checkpoints import REPLICATION_OFFSET_CHECKPOINT, read_offset_checkpoint
from native_log.errors import KafkaLogError
from native_log.segment.files import INDEX, LOG, SNAPSHOT, TIME_INDEX, file_name, parse_file_name
from native_log.storage import read_file
from native_log.storage.writing import AppendFile, fsync_directory, remove_file, replace_file

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

logger = logging.getLogger(__name__)

WRITE_INTENT = ".kafkalog-unfinished"
"""Its name in the log directory."""


@dataclass(frozen=True, slots=True)
class PartitionBackup:
    """A partition as it was, as far as appending changes it.

    Attributes:
        name: of its directory.
        log_end_offset: its end before, and (`planned_end_offset`) with all that is published.
        sizes: of the last segment's files, bytes by name.
        contents: of the small files that are written anew or removed, base64 by name.
        leader_epoch: of the batches that are published.
        high_watermark: the checkpointed one.
    """

    name: str
    log_end_offset: int
    planned_end_offset: int
    sizes: dict[str, int]
    contents: dict[str, str]
    leader_epoch: int
    high_watermark: int | None

    @classmethod
    def of(
        cls, directory: Path, base_offset: int, sizes: tuple[int, int, int], ends: tuple[int, int]
    ) -> Self:
        """Take down how a partition is.

        Args:
            base_offset: of its last segment. `sizes`: of that one's .log, .index and .timeindex.
            ends: log end offset before and after.
        """
        names = (file_name(base_offset, kind) for kind in (LOG, INDEX, TIME_INDEX))
        contents = {
            name: base64.b64encode(read_file(f"{directory}/{name}")).decode()
            for name in sorted(os.listdir(directory))  # noqa: PTH208
            if name == LEADER_EPOCH_CHECKPOINT or name.endswith(f".{SNAPSHOT}")
        }
        return cls(
            directory.name,
            *ends,
            dict(zip(names, sizes, strict=True)),
            contents,
            _latest_epoch(directory),
            _high_watermark(directory),
        )

    def is_taken_over(self, log_dir: Path) -> bool:
        """Whether a broker has loaded the log since: it leads in an epoch of its own, which it notes at once,
        or it has checkpointed a high watermark among what was published."""
        directory = log_dir / self.name
        now = _high_watermark(directory)
        is_served = now is not None and now != self.high_watermark and now > self.log_end_offset
        return is_served or _latest_epoch(directory) > self.leader_epoch

    def restore(self, log_dir: Path) -> None:
        """Have it as it was. Whatever stops this, doing it again comes to the same."""
        directory = log_dir / self.name
        for name in os.listdir(directory):  # noqa: PTH208
            file = parse_file_name(name)
            is_new = file is not None and file.offset >= self.log_end_offset
            if is_new and name not in self.sizes and name not in self.contents:
                remove_file(directory / name)
        for name, size in self.sizes.items():
            file_ = AppendFile(f"{directory}/{name}", size)
            try:
                file_.flush()
            finally:
                file_.close()
        if LEADER_EPOCH_CHECKPOINT not in self.contents:
            remove_file(directory / LEADER_EPOCH_CHECKPOINT)
        for name, text in self.contents.items():
            data = base64.b64decode(text)
            path = directory / name
            if not path.exists() or read_file(str(path)) != data:
                replace_file(path, data)
        fsync_directory(directory)


@dataclass(frozen=True, slots=True)
class WriteIntent:
    """What a publishing changes.

    Attributes:
        job: id of the write.
        partitions: those there were before.
        created: directories of new partitions, by the names under which they were made.
        stream: query id and batch id, where a stream writes.
    """

    job: str
    partitions: tuple[PartitionBackup, ...]
    created: dict[str, str]
    stream: tuple[str, int] | None = None
    _by_name: dict[str, PartitionBackup] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        self._by_name.update({one.name: one for one in self.partitions})

    @classmethod
    def read(cls, log_dir: Path) -> Self | None:
        """The one that a log directory holds, if any, without partitions that a broker has taken over.

        Raises KafkaLogError if it cannot be understood.
        """
        found = cls.read_file(log_dir / WRITE_INTENT)
        if found is None:
            return None
        ours = []
        for one in found.partitions:
            if one.is_taken_over(log_dir):
                logger.warning(
                    "%s: a write was cut short while it was published, and a broker went on with it: what "
                    "it found from offset %d on stays",
                    *(log_dir / one.name, one.log_end_offset),
                )
            else:
                ours.append(one)
        created = {made: name for made, name in found.created.items() if not _high_watermark(log_dir / name)}
        return cls(found.job, tuple(ours), created, found.stream)

    @classmethod
    def read_file(cls, path: Path) -> Self | None:
        try:
            found: dict[str, Any] = json.loads(read_file(str(path)))
            stream = found["stream"]
            return cls(
                found["job"],
                tuple(PartitionBackup(**one) for one in found["partitions"]),
                found["created"],
                None if stream is None else (stream[0], stream[1]),
            )
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, LookupError) as error:
            raise KafkaLogError(
                f"expected what an unfinished write changes, found something else ({error}); was the file "
                "edited, or written by a newer version?",
                path=path,
            ) from None

    def write(self, log_dir: Path) -> None:
        """From here on readers see the log directory as it is now, until `commit` or `undo`."""
        told = {
            "job": self.job,
            "partitions": [asdict(one) for one in self.partitions],
            "created": self.created,
            "stream": self.stream,
        }
        replace_file(log_dir / WRITE_INTENT, json.dumps(told, indent=1).encode())

    def log_end_offset(self, name: str) -> int | None:
        """Where readers see the log in the directory `name` end; None: where it does."""
        before = self._by_name.get(name)
        return None if before is None else before.log_end_offset

    def commit(self, log_dir: Path) -> None:
        """The one step that makes all of it visible. A stream's batch is taken down by the same step."""
        path = log_dir / WRITE_INTENT
        if self.stream is None:
            path.unlink()
        else:
            path.rename(stream_record(log_dir, self.stream[0]))
        try:
            fsync_directory(log_dir)
        except OSError as error:  # readers may have seen it: it stays
            logger.warning("%s: cannot tell whether the last write is on the disk: %s", log_dir, error)

    def undo(self, log_dir: Path) -> None:
        """Have all partitions as they were. Hold the log directory's lock."""
        for made, name in self.created.items():
            path = log_dir / name
            if path.exists():
                shutil.rmtree(log_dir / made, ignore_errors=True)
                path.rename(log_dir / made)
        for before in self.partitions:
            before.restore(log_dir)
        fsync_directory(log_dir)
        remove_file(log_dir / WRITE_INTENT)
        fsync_directory(log_dir)


def undo_write_intent(log_dir: Path) -> None:
    """Take back what a write that was cut short has changed. Hold the log directory's lock."""
    unfinished = WriteIntent.read(log_dir)
    if unfinished is not None:
        logger.warning("%s: a write was cut short while it was published; it is taken back", log_dir)
        unfinished.undo(log_dir)


def stream_record(log_dir: Path, query_id: str) -> Path:
    """The file that says which batch of a stream was written last."""
    return log_dir / f".kafkalog-stream-{query_id}"


def last_stream_batch(log_dir: Path, query_id: str) -> int | None:
    """The last batch of a stream that was written to the log directory; None: none yet."""
    found = WriteIntent.read_file(stream_record(log_dir, query_id))
    return None if found is None or found.stream is None else found.stream[1]


def _latest_epoch(partition: Path) -> int:
    epochs = read_leader_epochs(partition)
    return epochs[-1].epoch if epochs else 0


def _high_watermark(partition: Path) -> int | None:
    found = parse_partition_name(partition.name)
    saved = read_offset_checkpoint(partition.parent / REPLICATION_OFFSET_CHECKPOINT)
    return None if found is None else saved.get((found.topic, found.partition))
