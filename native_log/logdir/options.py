"""How log directories are read: arguments of LogDir as one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict, get_args

from native_log.arguments import HighWatermark, Replicas
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.storage import Storages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from native_log.arguments import PathLike
    from native_log.log.tiers.detection import RemoteLayout
    from native_log.logdir.remote_storage import RemoteStorage
    from native_log.storage import Storage, StorageOptionsLike


class LogDirArguments(TypedDict, total=False):
    """The keyword arguments of LogDir."""

    include_deleted: bool
    high_watermark: HighWatermark
    max_batch_bytes: int
    allow_empty: bool
    replicas: Replicas
    storage_options: StorageOptionsLike
    storage: Storage | None
    remote: PathLike | None
    remote_layout: RemoteLayout
    remote_prefix: str
    remote_keys: PathLike | None
    remote_metadata: PathLike | Iterable[PathLike] | None


@dataclass(frozen=True, slots=True)
class LogDirOptions:
    """How log directories are read. The attributes are arguments of LogDir: see there.

    Attributes:
        storages: have the paths; by default URLs are read with the credentials of the environment.
        remote: remote storage with the older part of the logs; None: there is none.

    Raises:
        ValueError: an unknown high_watermark or replicas.
    """

    include_deleted: bool = False
    high_watermark: HighWatermark = "auto"
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    replicas: Replicas = "longest"
    storages: Storages = field(default_factory=lambda: Storages(None))
    remote: RemoteStorage | None = None

    def __post_init__(self) -> None:
        if self.replicas not in get_args(Replicas):
            raise ValueError(f"replicas: expected longest or merge, found {self.replicas!r}")
        if self.high_watermark not in get_args(HighWatermark):
            raise ValueError(
                f"high_watermark: expected auto, ignore or checkpoint, found {self.high_watermark!r}"
            )

    @property
    def is_merging(self) -> bool:
        """Whether several copies of a partition are read as one log."""
        return self.replicas == "merge"
