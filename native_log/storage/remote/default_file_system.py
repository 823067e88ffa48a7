"""The file system that URLs without a name node mean, such as `hdfs:///dir`."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

from native_log.errors import NotALogDirError

_NO_NAME_NODE = "hdfs:///"


def with_name_node(url: str) -> str:
    """Return `hdfs:///dir` with the name node or name service of fs.defaultFS, and any other URL unchanged.

    `core-site.xml` is read from HADOOP_CONF_DIR, otherwise from HADOOP_HOME/etc/hadoop, as hdfs-native does.

    Raises NotALogDirError if fs.defaultFS is not set or does not name an HDFS file system.
    """
    if not url.lower().startswith(_NO_NAME_NODE):
        return url
    default = _default_file_system()
    if default is None or not default.startswith("hdfs://"):
        found = "none" if default is None else default
        raise NotALogDirError(
            "expected a URL with a name node (hdfs://namenode:8020/dir), or one in fs.defaultFS of the "
            f"core-site.xml in HADOOP_CONF_DIR, found {found}",
            path=url,
        )
    return f"{default.rstrip('/')}/{url[len(_NO_NAME_NODE) :].lstrip('/')}"


def _default_file_system() -> str | None:
    """Return fs.defaultFS; None if it is not set."""
    home = os.environ.get("HADOOP_HOME")
    folder = os.environ.get("HADOOP_CONF_DIR") or (home and f"{home}/etc/hadoop")
    if not folder:
        return None
    try:
        # This is the user's own configuration, not untrusted input.
        settings = ElementTree.parse(Path(folder) / "core-site.xml").iter("property")  # noqa: S314
        values = {each.findtext("name", "").strip(): each.findtext("value", "").strip() for each in settings}
    except (OSError, ElementTree.ParseError):
        return None
    return values.get("fs.defaultFS") or values.get("fs.default.name")
