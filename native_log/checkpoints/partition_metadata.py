"""The file `partition.metadata`, which holds the topic id (Kafka: PartitionMetadataFile, KIP-516)."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from native_log.storage import folder_of
from native_log.storage.writing import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.storage import Folder

logger = logging.getLogger(__name__)

PARTITION_METADATA = "partition.metadata"
_CONTENT = re.compile(r"version:\s+[0-9]+\s+topic_id:\s+([A-Za-z0-9_-]{22})\s*")
_ZERO_UUID = "A" * 22


def read_topic_id(directory: Path | Folder) -> str | None:
    """Read the topic id of a partition directory: 22 characters of base64url.

    Return None if the file is missing, or (with a warning) malformed.
    """
    folder = folder_of(directory)
    text, topic_id = read_partition_metadata(folder)
    if text is not None and topic_id is None:
        logger.warning(
            "%s/%s: ignored: expected a version and a topic_id, found %.100r",
            folder,
            PARTITION_METADATA,
            text,
        )
    return topic_id


def read_partition_metadata(folder: Folder) -> tuple[str | None, str | None]:
    """Return the text of the file, and the topic id in it. None: the file is missing, or has no valid id."""
    try:
        text = folder.read(PARTITION_METADATA).decode(errors="replace")
    except FileNotFoundError:
        return None, None
    match = _CONTENT.fullmatch(text)
    return text, None if match is None or match[1] == _ZERO_UUID else match[1]


def write_topic_id(directory: Path, topic_id: str, *, flush: bool = True) -> None:
    """Write the topic id of a partition directory. `flush`: see replace_file."""
    # As brokers write it: two lines, and no newline after the second one.
    replace_file(directory / PARTITION_METADATA, f"version: 0\ntopic_id: {topic_id}".encode(), flush=flush)
