"""Read configurations from the cluster metadata in `__cluster_metadata-0`.

A KRaft broker keeps this log in `metadata.log.dir`, by default the first of its log directories. Older
clusters kept their configurations in ZooKeeper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.checkpoints.names import METADATA_TOPIC
from native_log.errors import CorruptRecordError
from native_log.internal_topics.metadata_log import metadata_records
from native_log.log import PartitionLog
from native_log.log.changing_files import retry_changed
from native_log.log.sources.directory import DirectorySource
from native_log.messages.configs import ConfigsImage
from native_log.messages.reading import MessageError

if TYPE_CHECKING:
    from native_log.storage import Folder


def read_configs(directory: Folder) -> ConfigsImage:
    """Read the configurations in a metadata log: its last snapshot, and the records after it.

    The log is read to its end, because it is not stored up to which offset the quorum has committed it. If a
    controller lost its leadership during a change, the last records may not be committed.

    Args:
        directory: the partition directory of the metadata log.

    Raises:
        KafkaLogError: a file is damaged, or a part of the log is missing.
        OSError: a file cannot be read.
    """
    # A running controller writes snapshots, and removes older ones and the segments before them.
    return retry_changed(lambda: _read(directory))


def _read(directory: Folder) -> ConfigsImage:
    image = ConfigsImage()
    source = DirectorySource(directory.path, METADATA_TOPIC, 0, storage=directory.storage)
    log = PartitionLog(source.open())
    for path, record in metadata_records(log):
        try:
            image.apply(record.value or b"")
        except MessageError as error:
            raise CorruptRecordError(
                f"{error}; was it written by a newer Kafka?", path=path, offset=record.offset
            ) from None
    return image
