"""Read configurations from the cluster metadata in `__cluster_metadata-0` (Kafka: MetadataLoader).

A KRaft broker keeps this log in `metadata.log.dir`, by default the first of its log directories. Older
clusters kept their configurations in ZooKeeper.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from native_log.checkpoints.names import METADATA_TOPIC
from native_log.errors import CorruptRecordError, KafkaLogError, LogTruncatedError
from native_log.log import PartitionLog
from native_log.messages.configs import ConfigsImage
from native_log.messages.reading import MessageError
from native_log.records import DecodeOptions, decode_file
from native_log.storage import DataFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa

_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_SNAPSHOT_FOOTER = b"\0\0\0\4"
"""The key of a snapshot's last control record: version and type."""

_COLUMNS = ["offset", "key", "value"]
_OPTIONS = DecodeOptions(max_bytes=4 << 20, control=True)


def read_configs(directory: Path) -> ConfigsImage:
    """Read the configurations in a metadata log: its last snapshot, and the records after it.

    The log is read to its end, because it is not stored up to which offset the quorum has committed it. If a
    controller lost its leadership during a change, the last records may not be committed.

    Args:
        directory: the partition directory of the metadata log.

    Raises:
        KafkaLogError: a file is damaged, or a part of the log is missing.
        OSError: a file cannot be read.
    """
    try:
        return _read(directory)
    except (FileNotFoundError, LogTruncatedError):  # a running controller wrote a snapshot meanwhile
        return _read(directory)


def _read(directory: Path) -> ConfigsImage:
    image = ConfigsImage()
    names = (entry.name for entry in directory.iterdir())
    snapshots = [match for name in names if (match := _SNAPSHOT.fullmatch(name))]
    start = 0
    if snapshots:
        last = max(snapshots, key=lambda match: (int(match[1]), int(match[2])))
        start = int(last[1])
        _apply(image, _snapshot_batches(directory / last[0]), directory / last[0])
    log = PartitionLog.open(directory, topic=METADATA_TOPIC, partition=0)
    if start < log.log_start_offset:
        raise KafkaLogError(
            f"expected a snapshot up to the log start offset {log.log_start_offset}, found "
            f"{f'one up to {start}' if snapshots else 'none'}; restore the .checkpoint files",
            path=directory,
        )
    if start < log.log_end_offset:
        _apply(image, log.read(start, columns=["offset", "value"]), directory)
    return image


def _apply(image: ConfigsImage, batches: Iterable[pa.RecordBatch], path: Path) -> None:
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("offset", "value"))
        for offset, value in zip(*columns, strict=True):
            try:
                image.apply(value or b"")
            except MessageError as error:
                raise CorruptRecordError(
                    f"{error}; was it written by a newer Kafka?", path=path, offset=offset
                ) from None


def _snapshot_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the data records of a snapshot. Raises CorruptRecordError, also if its end is missing."""
    position, last_key = 0, None
    with DataFile(str(path)) as file:
        while position < file.size_bytes:
            decoded = decode_file(file.fileno(), position, file.size_bytes, _COLUMNS, _OPTIONS)
            keys = decoded.batch.column("key")
            yield decoded.batch.filter(keys.is_null())  # only control records have keys
            position, last_key = decoded.position, keys[-1].as_py() if len(keys) else last_key
            if decoded.status in ("damaged", "partial", "zeros"):
                break
        if position < file.size_bytes or last_key != _SNAPSHOT_FOOTER:
            raise CorruptRecordError(
                "expected a complete snapshot of the cluster metadata, found a damaged one; restore the file",
                path=path,
                position=position,
            )
