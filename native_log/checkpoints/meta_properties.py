"""The file meta.properties: the cluster and broker of a log directory (Kafka: MetaProperties)."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.storage import folder_of

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.storage import Folder

logger = logging.getLogger(__name__)

META_PROPERTIES = "meta.properties"

_PROPERTY = re.compile(r"((?:\\.|[^\\=:\s])+)\s*[=:\s]\s*(.*)")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The content of meta.properties; None for a property that is missing.

    `version` is 0 in a ZooKeeper cluster (`node_id` is then its `broker.id`) and 1 in a KRaft cluster.
    """

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None


def read_meta_properties(log_dir: Path | Folder) -> MetaProperties | None:
    """Read meta.properties of a log directory; None if it is missing, or (with a warning) malformed."""
    folder = folder_of(log_dir)
    try:
        properties = parse_properties(folder.read(META_PROPERTIES).decode("latin-1"))
    except FileNotFoundError:
        return None
    try:
        node_id = properties.get("node.id", properties.get("broker.id"))
        return MetaProperties(
            version=int(properties.get("version", "0")),
            cluster_id=properties.get("cluster.id"),
            node_id=None if node_id is None else int(node_id),
            directory_id=properties.get("directory.id"),
        )
    except ValueError as error:
        logger.warning(
            "%s/%s: ignored: expected numbers as version and node.id or broker.id (%s)",
            folder,
            META_PROPERTIES,
            error,
        )
        return None


def malformed_meta_properties(log_dir: Folder) -> str | None:
    """Return what a broker lacks in the file; None if it lacks nothing, or there is no file.

    Kafka: MetaProperties.Builder.
    """
    try:
        properties = parse_properties(log_dir.read(META_PROPERTIES).decode("latin-1"))
    except FileNotFoundError:
        return None
    version = properties.get("version")
    if version not in ("0", "1"):
        return f"expected version 0 or 1, found {'none' if version is None else version}"
    if version == "0":
        return None
    if "cluster.id" in properties and "node.id" in properties:
        return None
    return f"expected cluster.id and node.id, found only {', '.join(properties)}"


def parse_properties(text: str) -> dict[str, str]:
    """Parse Java's properties format with one property on each line.

    Comments, escapes, and `=`, `:` or a space between name and value are understood.
    """
    properties = {}
    for line in text.splitlines():
        match = _PROPERTY.fullmatch(line.strip())
        if match and line.lstrip()[0] not in "#!":
            properties[_unescape(match[1])] = _unescape(match[2])
    return properties


def _unescape(text: str) -> str:
    def character(escape: re.Match[str]) -> str:
        code = escape[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _CONTROL.get(code, code)

    return _ESCAPE.sub(character, text)
