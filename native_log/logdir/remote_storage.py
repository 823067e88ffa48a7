"""Where remote storage is, and how it is read: the arguments of LogDir that begin with `remote`."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, get_args

from native_log.arguments import text
from native_log.errors import KafkaLogError
from native_log.log.tiers.detection import RemoteLayout, find_tier
from native_log.log.tiers.tier import PlainTier
from native_log.logdir.discovery import readable_path, readable_paths
from native_log.logdir.remote_logs import RemoteLogs
from native_log.logdir.remote_starts import is_known_empty
from native_log.storage import LOCAL, Folder, UrlPath, storage_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import Unpack

    from native_log.arguments import PathLike
    from native_log.storage import StorageOptions

logger = logging.getLogger(__name__)


class RemoteArguments(TypedDict, total=False):
    """The arguments of LogDir for remote storage. See there."""

    remote: PathLike | None
    remote_layout: RemoteLayout
    remote_prefix: str
    remote_keys: PathLike | None
    remote_metadata: PathLike | Iterable[PathLike] | None


@dataclass(frozen=True, slots=True)
class RemoteStorage:
    """Remote storage of a cluster (KIP-405).

    Attributes:
        path: its folder.
        layout: how objects are named there.
        prefix: Aiven's `key.prefix`.
        keys: a folder with the private keys for Aiven's layout; None: there is none.
        metadata: log directories with __remote_log_metadata; None: those whose logs are read.
    """

    path: Path
    layout: RemoteLayout = "auto"
    prefix: str = ""
    keys: Path | None = None
    metadata: tuple[Path, ...] | None = None

    @classmethod
    def parse(
        cls,
        remote: PathLike | None,
        layout: RemoteLayout,
        prefix: str,
        keys: PathLike | None,
        metadata: PathLike | Iterable[PathLike] | None,
    ) -> RemoteStorage | None:
        """Check the arguments of LogDir, and return them as a value; None if there is no remote storage.

        Raises ValueError, TypeError, NotALogDirError; KafkaLogError if the keys are not in a local folder.
        """
        if layout not in get_args(RemoteLayout):
            expected = ", ".join(get_args(RemoteLayout))
            raise ValueError(f"remote_layout: expected one of {expected}, found {layout!r}")
        if remote is None:
            given = {"prefix": prefix or None, "keys": keys, "metadata": metadata}
            for name, value in given.items():
                if value is not None:
                    raise ValueError(f"remote_{name}: expected remote storage in `remote`, found none")
            return None
        if layout in ("local", "pinterest") and (prefix or keys is not None):
            raise ValueError(f"remote_prefix, remote_keys: expected remote_layout aiven, found {layout}")
        return cls(
            readable_path(remote),
            layout,
            text("remote_prefix", prefix),
            None if keys is None else _key_folder(keys),
            None if metadata is None else readable_paths(metadata),
        )

    @classmethod
    def of(cls, **arguments: Unpack[RemoteArguments]) -> RemoteStorage | None:
        """Return the remote storage of LogDir's arguments. Raises as `parse`."""
        return cls.parse(
            arguments.get("remote"),
            arguments.get("remote_layout", "auto"),
            arguments.get("remote_prefix", ""),
            arguments.get("remote_keys"),
            arguments.get("remote_metadata"),
        )

    def find_logs(self, log_dirs: Iterable[Folder], options: StorageOptions) -> RemoteLogs:
        """List the partitions in it.

        There may be none only if the metadata says so. Otherwise the path may be wrong.

        Args:
            log_dirs: the log directories whose logs are read.
            options: the options of object stores.

        Raises KafkaLogError, OSError.
        """
        metadata = list(log_dirs)
        if self.metadata is not None:
            metadata = [Folder(str(path), storage_of(path, options)) for path in self.metadata]
        keys = None if self.keys is None else str(self.keys)
        root = Folder(str(self.path), storage_of(self.path, options))
        missing: OSError | None = None
        try:
            tier = find_tier(root, self.layout, self.prefix, keys)
        except FileNotFoundError as error:
            if root.storage is LOCAL:
                raise
            tier, missing = None, error  # an object store has no folders without objects
        if tier is None:
            if not is_known_empty(metadata):
                raise missing or KafkaLogError(
                    f"expected partitions in remote storage of layout {self.layout}, found none; check the "
                    "path, remote.layout, and remote.prefix",
                    path=root.path,
                )
            logger.info("%s: remote storage has no segments", root)
            tier = PlainTier.empty(root)
        return RemoteLogs(tier, metadata)


def _key_folder(keys: PathLike) -> Path:
    path = readable_path(keys)
    if isinstance(path, UrlPath):
        raise KafkaLogError(
            "expected a local folder with private keys, found a URL; copy the keys to a disk", path=path
        )
    return path
