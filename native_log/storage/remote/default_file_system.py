"""The file system that URLs without a name node mean, such as `hdfs:///dir`."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

from native_log.errors import NotALogDirError

_NO_NAME_NODE = "hdfs:///"


def with_name_node(url: str) -> str:
    """Return a URL of HDFS with a name node or name service: that of fs.defaultFS if it has none.

    Hadoop's `core-site.xml` is looked for as hdfs-native does: in HADOOP_CONF_DIR, otherwise in
    HADOOP_HOME/etc/hadoop.

    Raises NotALogDirError if fs.defaultFS is not an HDFS, or is not found.
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
        # The file belongs to whoever runs this process.
        settings = ElementTree.parse(Path(folder) / "core-site.xml").iter("property")  # noqa: S314
        values = {each.findtext("name", "").strip(): each.findtext("value", "").strip() for each in settings}
    except (OSError, ElementTree.ParseError):
        return None
    return values.get("fs.defaultFS") or values.get("fs.default.name")
