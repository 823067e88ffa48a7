"""A file system of Hadoop, through hdfs-native."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError
from native_log.storage.remote.buckets import RemoteFile, replaced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hdfs_native import FileStatus
    from typing_extensions import Buffer

    from native_log.storage.remote.buckets import FolderContent


_DEFAULT_PORT = 8020
"""The port of a name node, if the URL does not say it."""
_ONE_NAME_NODE = {"dfs.client.failover.max.attempts": "4"}
"""A single name node is tried for up to 20 s. The default of 15 attempts takes minutes. A name service may
need them to fail over."""


class HdfsBucket:
    """A file system of Hadoop. See Bucket for the methods.

    The configuration is read from HADOOP_CONF_DIR, or from HADOOP_HOME.
    """

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        """Open a file system. Nothing is requested yet.

        Args:
            url: `hdfs://` and the name node or name service.
            options: Hadoop's settings, such as `dfs.client.use.datanode.hostname`.

        Raises KafkaLogError if hdfs-native is missing, or a setting is invalid.
        """
        try:
            from hdfs_native import Client
        except ImportError:
            raise KafkaLogError(
                "expected the package hdfs-native, found none; install kafkalog-spark[hdfs]", path=url
            ) from None
        self._url = url
        for_one_name_node = {**_ONE_NAME_NODE, **options}
        try:
            if re.search(r":[0-9]+$", url):
                self._client = Client(url, for_one_name_node)
            else:
                try:
                    self._client = Client(url, dict(options))
                except Exception:  # it is not a name service, and the port is missing
                    self._client = Client(f"{url}:{_DEFAULT_PORT}", for_one_name_node)
        except Exception as error:
            raise KafkaLogError(f"the file system cannot be opened: {error}", path=url) from None

    def list(self, folder: str) -> FolderContent:
        """See Bucket."""
        path = f"/{folder}"
        try:
            found = [each for each in self._client.list_status(path) if each.path.rstrip("/") != path]
        except FileNotFoundError:
            return {}, ()
        except Exception as error:
            raise self._translated(error, folder) from None
        files = {_name(each): _remote_file(each) for each in found if not each.isdir}
        return files, [_name(each) for each in found if each.isdir]

    def list_together(self, folder: str, names: Sequence[str]) -> Mapping[str, FolderContent]:
        """See Bucket. A name node lists one folder at a time."""
        del folder, names
        return {}

    def find(self, key: str) -> RemoteFile | None:
        """See Bucket."""
        try:
            status = self._client.get_file_info(f"/{key}")
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._translated(error, key) from None
        return None if status.isdir else _remote_file(status)

    def read(self, key: str, file: RemoteFile, position: int, end: int) -> Buffer:
        """See Bucket."""
        try:
            # HDFS has no versions to ask for. A replaced file has other blocks, which an open reader keeps.
            reader = self._client.read(f"/{key}")
            if self.find(key) != file:
                raise replaced(f"{self._url}/{key}")
            return reader.read_range(position, end - position)
        except OSError as error:
            raise self._translated(error, key) from None

    def _translated(self, error: Exception, key: str) -> Exception:
        path = f"{self._url}/{key}"
        if isinstance(error, FileNotFoundError):
            return FileNotFoundError(errno.ENOENT, "no such file", path)
        if re.search("AccessControlException|Permission denied", str(error)):
            return PermissionError(errno.EACCES, "access was denied; check user and permissions", path)
        if kerberos := re.search('GSSAPIError.*"(.+)"', str(error)):
            advice = "run kinit, or name a keytab in KRB5_CLIENT_KTNAME"
            return PermissionError(errno.EACCES, f"Kerberos: {kerberos[1]}; {advice}", path)
        reason = (str(error).strip().splitlines() or [repr(error)])[0]
        if "RPC listener disconnected" in reason:
            reason += "; name nodes do this to clients without the Kerberos settings: check HADOOP_CONF_DIR"
        return OSError(errno.EIO, f"the file system cannot be read: {reason}", path)


def _name(status: FileStatus) -> str:
    return status.path.rstrip("/").rpartition("/")[2]


def _remote_file(status: FileStatus) -> RemoteFile:
    mtime_ns = status.modification_time * 1_000_000
    return RemoteFile(status.length, f"{status.length}-{mtime_ns}", mtime_ns)
