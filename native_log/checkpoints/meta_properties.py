"""meta.properties: which cluster and broker a log directory belongs to (Kafka: MetaProperties)."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.storage import read_file

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

META_PROPERTIES = "meta.properties"

_PROPERTY = re.compile(r"((?:\\.|[^\\=:\s])+)\s*[=:\s]\s*(.*)")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The contents of meta.properties; what the file does not say is None.

    `version` is 0 in a ZooKeeper cluster (`node_id` is then its `broker.id`) and 1 in a KRaft cluster.
    """

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None


def read_meta_properties(log_dir: Path) -> MetaProperties | None:
    """meta.properties of the log directory; None without one, or (with a warning) if it makes no sense."""
    path = log_dir / META_PROPERTIES
    try:
        properties = parse_properties(read_file(str(path)).decode("latin-1"))
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
            "%s: version and node or broker id must be numbers (%s); the file is ignored", path, error
        )
        return None


def parse_properties(text: str) -> dict[str, str]:
    """Java's Properties format, one property a line: comments, `=`, `:` or a space, escapes."""
    properties = {}
    for line in text.splitlines():
        match = _PROPERTY.fullmatch(line.strip())
        if match and line.lstrip()[0] not in "#!":
            properties[_unescaped(match[1])] = _unescaped(match[2])
    return properties


def _unescaped(text: str) -> str:
    def character(escape: re.Match[str]) -> str:
        code = escape[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _CONTROL.get(code, code)

    return _ESCAPE.sub(character, text)
