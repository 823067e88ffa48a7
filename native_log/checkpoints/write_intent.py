"""The write intent: a file that makes a write to several partitions atomic.

The file is written before the first visible change, and removed after all changes are flushed to disk. Its
removal is the commit. While it exists, readers see each partition as it was before. If it exists when a
process takes the lock of the log directory, the write was interrupted, and is rolled back. The file lies next
to the partitions, and brokers ignore it.

A broker that is started after an interrupted write does not know the file. It serves the partitions as they
are, and its clients append to them. Partitions that a broker has loaded are not rolled back.
"""

from __future__ import annotations

import base64
import json
import logging
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from native_log.checkpoints.json_fields import identifier, integer, text
from native_log.checkpoints.leader_epochs import LEADER_EPOCH_CHECKPOINT, read_leader_epochs
from native_log.checkpoints.names import deleted_name, parse_partition_name
from native_log.checkpoints.offset_checkpoints import REPLICATION_OFFSET_CHECKPOINT, read_offsets
from native_log.checkpoints.partition_checkpoints import EndBeforeWrite
from native_log.errors import KafkaLogError
from native_log.segment.files import INDEX, LOG, SNAPSHOT, TIME_INDEX, file_name, parse_file_name
from native_log.storage import folder_of, read_file
from native_log.storage.writing import AppendFile, fsync_directory, remove_file, remove_tree, replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Self

    from native_log.storage import Folder

logger = logging.getLogger(__name__)

WRITE_INTENT = ".kafkalog-unfinished"
"""The name of the file in the log directory."""
STREAM_PREFIX = ".kafkalog-stream-"
"""The name of a file that records the last batch of a streaming query, before the id of the query."""


@dataclass(frozen=True, slots=True)
class PartitionBackup:
    """What is needed to restore a partition to its state before an append.

    Attributes:
        name: the name of the partition directory.
        log_end_offset: the log end offset before the append.
        planned_end_offset: the log end offset after the append.
        sizes: the sizes in bytes of the last segment's files, by name.
        contents: the contents of small files that are replaced or removed, as base64, by name.
        leader_epoch: the leader epoch of the appended batches.
        high_watermark: the checkpointed high watermark before the append; None: no entry.
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
        """Return a backup of a partition.

        Args:
            directory: the partition directory.
            base_offset: the base offset of its last segment.
            sizes: the sizes of that segment's .log, .index and .timeindex files.
            ends: the log end offset before and after the append.
        """
        names = (file_name(base_offset, kind) for kind in (LOG, INDEX, TIME_INDEX))
        contents = {
            name: base64.b64encode(read_file(f"{directory}/{name}", follow_link=False)).decode()
            for name in sorted(os.listdir(directory))  # noqa: PTH208
            if _is_small_file(name)
        }
        return cls(
            directory.name,
            *ends,
            dict(zip(names, sizes, strict=True)),
            contents,
            _latest_epoch(directory),
            _high_watermark(directory.parent, directory.name),
        )

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Self:
        """Return the backup in a write intent. Raises ValueError if it names anything but these files."""
        name, sizes, contents = (fields[key] for key in ("name", "sizes", "contents"))
        for file, size in sizes.items():
            if not _is_segment_file(file):
                raise ValueError(f"expected the name of a segment's file, found {file!r:.80}")
            integer(size)
        if sum(file.endswith(f".{LOG}") for file in sizes) != 1:
            raise ValueError(f"expected the size of one .log file, found {sorted(sizes)!r:.80}")
        for file, content in contents.items():
            if not _is_small_file(file):
                raise ValueError(f"expected the name of a small file of a partition, found {file!r:.80}")
            base64.b64decode(content, validate=True)
        high_watermark = fields["high_watermark"]
        return cls(
            _partition_name(name),
            integer(fields["log_end_offset"]),
            integer(fields["planned_end_offset"]),
            dict(sizes),
            dict(contents),
            integer(fields["leader_epoch"]),
            None if high_watermark is None else integer(high_watermark),
        )

    @property
    def end(self) -> EndBeforeWrite:
        """The end of the log before the append."""
        (log,) = (name for name in self.sizes if name.endswith(f".{LOG}"))
        return EndBeforeWrite(self.log_end_offset, int(log.partition(".")[0]), self.sizes[log])

    def is_taken_over(self, log_dir: Folder) -> bool:
        """Return whether a broker has loaded the log since the append.

        Signs of that are a new leader epoch, which a leader stores at once, and a checkpointed high watermark
        above the old log end offset.
        """
        now = _high_watermark(log_dir, self.name)
        is_served = now is not None and now != self.high_watermark and now > self.log_end_offset
        return is_served or _latest_epoch(log_dir / self.name) > self.leader_epoch

    def restore(self, log_dir: Path) -> None:
        """Restore the partition. Idempotent: safe to repeat after a crash."""
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
        for name, encoded in self.contents.items():
            data = base64.b64decode(encoded)
            path = directory / name
            if not path.exists() or read_file(str(path)) != data:
                replace_file(path, data)
        fsync_directory(directory)


@dataclass(frozen=True, slots=True)
class WriteIntent:
    """The content of the file: what a commit changes.

    Attributes:
        job: the id of the write job.
        partitions: backups of the partitions that existed before.
        created: the directory names of new partitions, by the temporary names under which they were created.
        stream: query id and batch id of a streaming write, or id and version of another write that may be
            repeated; None: neither.
    """

    job: str
    partitions: tuple[PartitionBackup, ...]
    created: dict[str, str]
    stream: tuple[str, int] | None = None
    _by_name: dict[str, PartitionBackup] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        self._by_name.update({backup.name: backup for backup in self.partitions})

    @classmethod
    def read(cls, log_dir: Path | Folder) -> Self | None:
        """Read the write intent of a log directory; None if there is none.

        Partitions that a broker has loaded since are left out. Raises KafkaLogError if the file is invalid.
        """
        folder = folder_of(log_dir)
        intent = cls.read_file(folder, WRITE_INTENT)
        if intent is None:
            return None
        partitions = []
        for backup in intent.partitions:
            if backup.is_taken_over(folder):
                logger.warning(
                    "%s/%s: a write was interrupted during its commit, and a broker has loaded the log "
                    "since: the records from offset %d are kept",
                    folder,
                    backup.name,
                    backup.log_end_offset,
                )
            else:
                partitions.append(backup)
        created = {
            temporary: name for temporary, name in intent.created.items() if not _high_watermark(folder, name)
        }
        return cls(intent.job, tuple(partitions), created, intent.stream)

    @classmethod
    def read_file(cls, folder: Folder, name: str) -> Self | None:
        """Read a write intent; None if there is no such file. Raises KafkaLogError if it is invalid."""
        try:
            return cls.parse(json.loads(folder.read(name, follow_link=False)))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise KafkaLogError(
                f"expected a write intent, found something else ({error}); nothing was changed. If a newer "
                "version of kafkalog wrote the file, use that version. Otherwise remove the file, and run "
                "kafkalog verify",
                path=f"{folder}/{name}",
            ) from None

    @classmethod
    def parse(cls, content: Mapping[str, Any]) -> Self:
        """Return the write intent in a JSON document.

        It names partitions in the log directory and files in these partitions, and nothing else. Raises
        ValueError, TypeError, LookupError, AttributeError for other content.
        """
        job, stream = identifier(content["job"]), content["stream"]
        created = {text(temporary): _partition_name(name) for temporary, name in content["created"].items()}
        for temporary, name in created.items():
            topic, _, number = name.rpartition("-")
            if temporary != deleted_name(topic, int(number), job):
                raise ValueError(f"expected a temporary name of {name}, found {temporary!r:.80}")
        return cls(
            job,
            tuple(map(PartitionBackup.parse, content["partitions"])),
            created,
            None if stream is None else (identifier(stream[0]), integer(stream[1])),
        )

    def write(self, log_dir: Path) -> None:
        """Write the file. Until `commit` or `undo`, readers see the log directory in its current state."""
        content = {
            "job": self.job,
            "partitions": [asdict(backup) for backup in self.partitions],
            "created": self.created,
            "stream": self.stream,
        }
        replace_file(log_dir / WRITE_INTENT, json.dumps(content, indent=1).encode())

    def end_before(self, name: str) -> EndBeforeWrite | None:
        """Return where the log in directory `name` ended before; None: the write does not append to it."""
        backup = self._by_name.get(name)
        return None if backup is None else backup.end

    def creates(self, name: str) -> bool:
        """Return whether the write creates the partition in directory `name`."""
        return name in self.created.values()

    def commit(self, log_dir: Path) -> None:
        """Make all changes visible in one step. For a stream, the same step records the batch id."""
        path = log_dir / WRITE_INTENT
        if self.stream is None:
            path.unlink()
        else:
            path.rename(stream_record(log_dir, self.stream[0]))
        try:
            fsync_directory(log_dir)
        except OSError as error:  # do not roll back: readers may have seen the changes
            logger.warning("%s: the commit of the last write may not be flushed to disk: %s", log_dir, error)

    def undo(self, log_dir: Path) -> None:
        """Restore all partitions. The caller must hold the lock of the log directory."""
        for temporary, name in self.created.items():
            path = log_dir / name
            if path.exists():
                remove_tree(log_dir / temporary)
                path.rename(log_dir / temporary)
        for before in self.partitions:
            before.restore(log_dir)
        fsync_directory(log_dir)
        remove_file(log_dir / WRITE_INTENT)
        fsync_directory(log_dir)


def undo_write_intent(log_dir: Path) -> None:
    """Roll back a write that was interrupted. The caller must hold the lock of the log directory."""
    intent = WriteIntent.read(log_dir)
    if intent is not None:
        logger.warning("%s: a write was interrupted during its commit and is rolled back", log_dir)
        intent.undo(log_dir)


def stream_record(log_dir: Path, query_id: str) -> Path:
    """Return the path of the file that records the last batch written by a stream. Raises ValueError."""
    return log_dir / f"{STREAM_PREFIX}{identifier(query_id)}"


def last_stream_batch(log_dir: Path, query_id: str) -> int | None:
    """Return the id of the last batch that a stream wrote to the log directory; None: none yet."""
    intent = WriteIntent.read_file(folder_of(log_dir), stream_record(log_dir, query_id).name)
    return None if intent is None or intent.stream is None else intent.stream[1]


def _partition_name(name: object) -> str:
    """Return the name of a partition directory. Raises ValueError for anything else."""
    parsed = parse_partition_name(text(name))
    if parsed is None:
        raise ValueError(f"expected the name of a partition directory, found {name!r:.80}")
    return text(name)


def _is_segment_file(name: str) -> bool:
    file = parse_file_name(name)
    return file is not None and not file.state and file.kind in (LOG, INDEX, TIME_INDEX)


def _is_small_file(name: str) -> bool:
    file = parse_file_name(name)
    is_snapshot = file is not None and not file.state and file.kind == SNAPSHOT
    return is_snapshot or name == LEADER_EPOCH_CHECKPOINT


def _latest_epoch(partition: Path | Folder) -> int:
    epochs = read_leader_epochs(partition)
    return epochs[-1].epoch if epochs else 0


def _high_watermark(log_dir: Path | Folder, name: str) -> int | None:
    partition = parse_partition_name(name)
    high_watermarks = read_offsets(folder_of(log_dir), REPLICATION_OFFSET_CHECKPOINT)
    return None if partition is None else high_watermarks.get((partition.topic, partition.partition))
