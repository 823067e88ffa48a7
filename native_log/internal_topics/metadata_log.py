"""Read the records of the cluster metadata: a snapshot, and the log after it (Kafka: MetadataLoader)."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from native_log.checkpoints.names import BOOTSTRAP_FILE
from native_log.errors import CorruptRecordError, KafkaLogError
from native_log.internal_topics.records import RECORD_FIELDS, records_of
from native_log.records import DecodeOptions, decode_file
from native_log.storage import Folder, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from native_log.arguments import Mode
    from native_log.internal_topics.records import Record
    from native_log.log import PartitionLog

SNAPSHOT_SUFFIX = ".checkpoint"
_SNAPSHOT = re.compile(rf"([0-9]{{20}})-([0-9]{{10}})\{SNAPSHOT_SUFFIX}")
_SNAPSHOT_FOOTER = b"\0\0\0\4"
"""The key of a snapshot's last control record: version and type."""

_OPTIONS = DecodeOptions(max_bytes=4 << 20, control=True)


def metadata_records(
    log: PartitionLog, end_offset: int | None = None, mode: Mode = "failFast"
) -> Iterator[tuple[Path, Record]]:
    """Yield the records of the last snapshot, and those after it, each with the path that it comes from.

    The path is that of the snapshot, or of the partition directory. The offset of a record in a snapshot is
    its place in the snapshot. If nothing has been written to the log yet, the records of `bootstrap_records`
    are yielded, too.

    Args:
        log: the partition of __cluster_metadata.
        end_offset: the offset in the log to stop at, exclusive. None: all records.
        mode: what to do about damaged bytes of the log. A damaged snapshot is always an error.

    Raises:
        CorruptRecordError: a file is damaged.
        OffsetOutOfRangeError: `end_offset` is outside the log.
        KafkaLogError: a part of the log is missing.
    """
    folder, directory = log.state.source.folder, log.path
    start, name = last_snapshot(folder, end_offset)
    path = None if name is None else directory / name
    if path is not None:
        for batch in _snapshot_batches(folder, path.name):
            for record in records_of(batch):
                yield path, record
        if start == end_offset:
            return
    if end_offset is not None:
        log.state.check_offset(end_offset)
    if start < log.log_start_offset:
        raise KafkaLogError(
            f"expected a snapshot up to the log start offset {log.log_start_offset}, found "
            f"{'none' if path is None else f'one up to {start}'}; restore the .checkpoint files",
            path=directory,
        )
    if start < (log.log_end_offset if end_offset is None else end_offset):
        for batch in log.read(start, end_offset, columns=list(RECORD_FIELDS), mode=mode):
            for record in records_of(batch):
                yield directory, record
    elif end_offset is None and log.log_end_offset == 0:
        yield from bootstrap_records(Folder(str(directory.parent), folder.storage))


def last_snapshot(folder: Folder, end_offset: int | None = None) -> tuple[int, str | None]:
    """Return the end offset (exclusive) and the name of the last snapshot up to an offset; (0, None) if none.

    Args:
        folder: the directory of __cluster_metadata.
        end_offset: the greatest end of the snapshot; None: any.
    """
    matches = map(_SNAPSHOT.fullmatch, folder.list())
    snapshots = {(int(match[1]), int(match[2])): match[0] for match in matches if match}
    ends = [key for key in snapshots if end_offset is None or key[0] <= end_offset]
    return (max(ends)[0], snapshots[max(ends)]) if ends else (0, None)


def check_snapshot(folder: Folder, name: str) -> None:
    """Read a snapshot. Raises CorruptRecordError if it is damaged; FileNotFoundError."""
    for _ in _snapshot_batches(folder, name):
        pass


def bootstrap_records(log_dir: Folder) -> Iterator[tuple[Path, Record]]:
    """Yield the records of bootstrap.checkpoint, each with the path; none if there is no such file.

    The first active controller writes them to the log (Kafka: BootstrapDirectory,
    ActivationRecordsGenerator).

    Raises:
        CorruptRecordError: the file is damaged.
    """
    if log_dir.has(BOOTSTRAP_FILE):
        path = path_of(f"{log_dir.path}/{BOOTSTRAP_FILE}")
        for batch in _snapshot_batches(log_dir, BOOTSTRAP_FILE):
            for record in records_of(batch):
                yield path, record


def _snapshot_batches(folder: Folder, name: str) -> Iterator[pa.RecordBatch]:
    """Yield the data records of a snapshot. Raises CorruptRecordError, also if its end is missing."""
    position, last_key = 0, None
    decode = partial(decode_file, columns=list(RECORD_FIELDS), options=_OPTIONS)
    with folder.storage.open(f"{folder}/{name}") as file:
        while position < file.size_bytes:
            decoded = file.read_by(decode, position, file.size_bytes)
            keys = decoded.batch.column("key")
            yield decoded.batch.filter(keys.is_null())  # only control records have keys
            position, last_key = decoded.position, keys[-1].as_py() if len(keys) else last_key
            if decoded.status in ("damaged", "partial", "zeros"):
                break
        if position < file.size_bytes or last_key != _SNAPSHOT_FOOTER:
            raise CorruptRecordError(
                "expected a complete snapshot of the cluster metadata, found a damaged one; restore the file",
                path=f"{folder}/{name}",
                position=position,
            )
